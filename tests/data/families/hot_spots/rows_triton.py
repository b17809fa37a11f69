"""A row a program: the products of a row and the weights, added up."""

import triton
import triton.language as tl


@triton.jit
def rows(a, w, y, columns, BLOCK: tl.constexpr):  # noqa: N803
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    values = tl.load(a + row * columns + place, mask=inside, other=0.0)
    weights = tl.load(w + place, mask=inside, other=0.0)
    tl.store(y + row, tl.sum(values * weights, axis=0))
