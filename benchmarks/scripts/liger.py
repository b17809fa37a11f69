"""Four ways to normalize rows: Liger-Kernel's, PyTorch's, one written out, and one compiled by nothing."""

from __future__ import annotations

import torch

import cuprof
from benchmarks.scripts.rows import by_torch, make_rows

try:
    from liger_kernel.transformers.functional import liger_rms_norm as library
except ImportError:
    from benchmarks.scripts.rows import rms_norm as library


def inputs(rows=4096, columns=4096):
    """Return rows and weights."""
    return make_rows(rows, columns)


def by_library(x, weight):
    """Call the library's."""
    return library(x, weight, 1e-6)


def written_out(x, weight):
    """Write it as the formula."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def by_norm(x, weight):
    """Divide by the norm of each row."""
    return x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) / x.shape[-1] ** 0.5 + 1e-6) * weight


cuprof.compare(by_torch, by_library, written_out, by_norm, inputs=inputs, tolerance=1e-3)
