"""A family of one input and one output, y = 2x, without variants."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Axis, Family, Signature, Tolerance


def make_twice(n: int) -> Family:
    """Return a new family whose arrays have n numbers, for a test to add its variants to."""
    return Family(
        name="twice",
        title="Twice x",
        axes=(Axis("n", n),),
        signature=lambda problem: Signature({"x": Array((n,), "float32")}, {"y": Array((n,), "float32")}),
        generate=lambda problem, rng: {"x": rng.uniform(1, 2, n).astype(np.float32)},
        reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
        tolerance=lambda problem, inputs, reference: Tolerance(relative=1e-6),
        useful_bytes=lambda problem: 8 * n,
    )
