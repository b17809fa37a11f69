"""y = 2 x by Triton, tuned over a list of configurations."""

import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps, num_stages=2) for block in (256, 1024) for warps in (2, 4)
    ],
    key=["n"],
)
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):  # noqa: N803
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.store(y + place, 2.0 * tl.load(x + place, mask=inside), mask=inside)
