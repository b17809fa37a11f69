"""The computation in Triton, written and launched as its tutorial does; imported only where Triton is there."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def polynomial_kernel(x_pointer, y_pointer, z_pointer, n, BLOCK: tl.constexpr):  # noqa: N803
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_pointer + offsets, mask=mask)
    y = tl.load(y_pointer + offsets, mask=mask)
    t = 0.0625 * x + 0.125
    t = t * x + 0.1875
    t = t * x + 0.25
    t = t * x + 0.3125
    t = t * x + 0.375
    t = t * x + 0.4375
    t = t * x + 0.5
    tl.store(z_pointer + offsets, t + y, mask=mask)


def launch(x, y, z):
    """Launch over whole tensors on PyTorch's current stream."""
    n = z.numel()
    polynomial_kernel[(triton.cdiv(n, BLOCK),)](x, y, z, n, BLOCK=BLOCK)
