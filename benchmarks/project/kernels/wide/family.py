"""A space as wide as an autotuner's: many configurations, each of which takes no time."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="wide",
    title="y = x",
    axes=(Axis("n", default=64, low=1, high=2**20),),
    signature=lambda problem: Signature(
        inputs={"x": Array((problem.n,), "float32")}, outputs={"y": Array((problem.n,), "float32")}
    ),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": inputs["x"]},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
    flops=lambda problem: problem.n,
)

TUNABLES = (
    Tunable("block", tuple(range(32, 1025, 32)), default=32),
    Tunable("unroll", tuple(range(1, 101)), default=1),
)


def copy(problem, tune, inputs, outputs):
    """Copy."""
    return lambda: np.copyto(outputs["y"], inputs["x"])


for name in ("plain", "tiled", "staged", "vectorised", "persistent"):
    family.cpu(name, tunables=TUNABLES)(copy)
