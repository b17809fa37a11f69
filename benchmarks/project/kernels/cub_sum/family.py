"""A sum by CUB's block reduction: sources that take a compiler long, for one kernel of a few microseconds."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Axis, Family, Fill, Launch, Point, Program, Signature, Tolerance, Tunable

family = Family(
    name="cub_sum",
    title="Σ x by CUB",
    axes=(Axis("n", default=2**20, low=1, high=2**26, description="how many numbers"),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"sums": Array((1,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, np.float32)},
    reference=lambda problem, inputs: {"sums": inputs["x"].astype(np.float64).sum(keepdims=True)},
    tolerance=lambda problem, inputs, expected: Tolerance(relative=1e-3, reason="float32 sums in any order"),
    useful_bytes=lambda problem: 4 * problem.n,
)


@family.cuda(
    "cub_sum",
    source="cub_sum.cu",
    tunables=(
        Tunable("block", (64, 128, 256, 512), default=256, description="threads a block"),
        Tunable("per_thread", (2, 4, 8, 16), default=4, description="numbers a thread"),
    ),
)
def cub_sum(problem: Point, tune: Point) -> Program:
    """One partial sum a block, added to the result."""
    blocks = -(-problem.n // (tune.block * tune.per_thread))
    return Program(
        steps=(Fill("sums", 0), Launch("cub_sum", (blocks,), (tune.block,), ("x", "sums", np.uint32(problem.n)))),
        defines={"BLOCK": tune.block, "ITEMS": tune.per_thread},
    )
