"""C = A B in float16 by Triton, over a list of configurations of which one does not fit the device."""

import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=warps, num_stages=stages)
    for m in (64, 128)
    for n in (64, 128, 256)
    for k in (32, 64)
    for warps in (4, 8)
    for stages in (3, 4)
]
CONFIGS.append(triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128}, num_warps=8, num_stages=5))


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def matmul(a, b, c, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # noqa: N803
    group = 8 * tl.cdiv(n, BLOCK_N)
    first = tl.program_id(0) // group * 8
    rows = min(tl.cdiv(n, BLOCK_M) - first, 8)
    tile_m = first + tl.program_id(0) % group % rows
    tile_n = tl.program_id(0) % group // rows
    m = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % n
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    k = tl.arange(0, BLOCK_K)
    left = a + (m[:, None] * n + k[None, :])
    right = b + (k[:, None] * n + columns[None, :])
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(n, BLOCK_K)):
        x = tl.load(left, mask=k[None, :] < n - step * BLOCK_K, other=0.0)
        y = tl.load(right, mask=k[:, None] < n - step * BLOCK_K, other=0.0)
        total = tl.dot(x, y, total)
        left += BLOCK_K
        right += BLOCK_K * n
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    place = c + n * m[:, None] + columns[None, :]
    tl.store(place, total.to(tl.float16), mask=(m[:, None] < n) & (columns[None, :] < n))
