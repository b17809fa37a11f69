"""QuACK's RMS norm beside PyTorch's and a compiled one."""

from __future__ import annotations

import torch

import cuprof
from benchmarks.scripts.rows import by_torch, make_rows

try:
    from quack import rmsnorm as library
except ImportError:
    from benchmarks.scripts.rows import rms_norm as library


def inputs(rows=8192, columns=4096):
    """Return rows and weights."""
    return make_rows(rows, columns)


def by_library(x, weight):
    """Call the library's."""
    return library(x, weight, eps=1e-6)


cuprof.compare(by_torch, by_library, torch.compile(by_torch), inputs=inputs, tolerance=1e-3)
