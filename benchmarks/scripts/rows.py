"""What the scripts about RMS norms share: their inputs, PyTorch's own, and one by Triton that computes a row a program.

The one by Triton stands in for those of Liger-Kernel and QuACK where these are missing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_rows(x, weight, y, columns, eps, BLOCK: tl.constexpr):  # noqa: N803
    """Normalize one row."""
    row = tl.program_id(0).to(tl.int64) * columns
    places = tl.arange(0, BLOCK)
    inside = places < columns
    values = tl.load(x + row + places, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + eps)
    weights = tl.load(weight + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + places, (values * scale * weights).to(y.dtype.element_ty), mask=inside)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Return x over its root mean square, times the weight."""
    y = torch.empty_like(x)
    columns = x.shape[-1]
    rms_norm_rows[(x.numel() // columns,)](
        x, weight, y, columns, eps, BLOCK=triton.next_power_of_2(columns), num_warps=8
    )
    return y


def make_rows(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows and weights."""
    return torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")


def by_torch(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Call PyTorch's own."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-6)
