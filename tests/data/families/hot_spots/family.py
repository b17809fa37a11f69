"""A matrix times a vector, ten times with one line that spoils it, marked "planted" in its source.

What `cuprof.report.code_section` says of the counters of these kernels is tested against the marks. `templated` and
`triton` are not spoiled: their lines are of several headers, and of Python.
"""

from __future__ import annotations

import numpy as np

from cuprof import Array, Axis, Family, Launch, Program, Signature, Tolerance

family = Family(
    name="hot_spots",
    title="A matrix times a vector",
    axes=(Axis("rows", 65536), Axis("columns", 1024)),
    signature=lambda problem: Signature(
        {"a": Array((problem.rows, problem.columns), "float32"), "w": Array((problem.columns,), "float32")},
        {"y": Array((problem.rows,), "float32")},
    ),
    generate=lambda problem, rng: {
        "a": rng.integers(-4, 5, (problem.rows, problem.columns)).astype(np.float32),
        "w": rng.integers(-4, 5, problem.columns).astype(np.float32),
    },
    reference=lambda problem, inputs: {"y": inputs["a"] @ inputs["w"]},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 4 * (problem.rows * (problem.columns + 1) + problem.columns),
    flops=lambda problem: 2 * problem.rows * problem.columns,
    baseline="thread_a_row",
)

THREADS = 256
ROWS_A_BLOCK = {
    "thread_a_row": 256,  # uncoalesced loads
    "blocked_columns": 8,
    "swapped_indices": 32,
    "tile_by_rows": 256,  # bank conflicts
    "tile_transposed": 256,
    "strided_sums": 32,
    "weights_by_lane": 8,
    "one_adds_up": 8,  # barriers in loops
    "warps_in_turn": 8,
    "one_warp_loads": 8,
}


def register(name: str, rows: int) -> None:
    @family.cuda(name, source=f"{name}.cu")
    def spoiled(problem, tune):
        launch = Launch(name, (problem.rows // rows,), (THREADS,), ("a", "w", "y", problem.columns))
        return Program((launch,), {"THREADS": THREADS})


for name, rows in ROWS_A_BLOCK.items():
    register(name, rows)


@family.cuda("templated", source="templated.cu")
def templated(problem, tune):
    """A warp a row, of three headers of templates."""
    kernel = f"gemv::kernel<gemv::Warps<{THREADS // 32}>, gemv::Vector4, gemv::Multiply>"
    blocks = problem.rows // (THREADS // 32)
    return Program((Launch(kernel, (blocks,), (THREADS,), ("a", "w", "y", problem.columns)),))


@family.triton("triton", source="rows_triton.py")
def rows_triton(problem, tune):
    """A row a program, by Triton."""
    return Program((Launch("rows", (problem.rows,), args=("a", "w", "y", problem.columns)),), {"BLOCK": 1024})
