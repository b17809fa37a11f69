"""The computation that all variants claim to do: z = y + p(x), p a polynomial of degree 7, over n numbers.

On a GPU it is bound by memory, so whoever moves fewer bytes gains; with NumPy it takes fifteen passes, so whoever
skips or copies gains a lot.
"""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Arrays, Axis, Family, Point, Signature, Tolerance

COEFFICIENTS = (0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5)
"""From the highest power down; exact in every binary format. With x and y in [0, 1) results lie in [0.5, 3.25)."""
LEAST, MOST = 0.5, 3.25
ROUNDINGS = 16


def polynomial(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    """Write y + p(x) into z, in its own precision, one pass a step."""
    np.multiply(x, z.dtype.type(COEFFICIENTS[0]), out=z)
    for coefficient in COEFFICIENTS[1:-1]:
        z += z.dtype.type(coefficient)
        z *= x
    z += z.dtype.type(COEFFICIENTS[-1])
    z += y


def looks_poisoned(z: np.ndarray) -> bool:
    """Return whether an output holds what no result can be, as before a check."""
    return not LEAST <= z[0] < MOST


def signature(problem: Point) -> Signature:
    """Return the buffers."""
    numbers = Array((problem.n,), "float32")
    return Signature(inputs={"x": numbers, "y": numbers}, outputs={"z": numbers})


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return fresh random inputs."""
    return {name: rng.random(problem.n, np.float32) for name in ("x", "y")}


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return what is right, in float64."""
    z = np.empty(problem.n)
    polynomial(inputs["x"].astype(np.float64), inputs["y"].astype(np.float64), z)
    return {"z": z}


def tolerance(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
    """Return how far a right result may lie from the reference."""
    reason = f"{ROUNDINGS} sums and products of positive float32 numbers, each rounded once"
    return Tolerance(relative=ROUNDINGS * 2.0**-24, reason=reason)


family = Family(
    name="tricks",
    title="y + p(x), in ways that fool a judge and in ways that only look so",
    axes=(Axis("n", default=2**24, low=2**10, high=2**27, description="how many numbers"),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 12 * problem.n,
    flops=lambda problem: 2 * len(COEFFICIENTS) * problem.n,
    presets={"small": {"n": 2**16}},
    baseline="polynomial",
)
