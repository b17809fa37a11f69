"""z = a·x + y over n numbers: one kernel with two tunables, the space that the tools are compared on."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

A = 1.5
BLOCKS = (32, 64, 128, 256, 512, 1024)
PER_THREAD = (1, 2, 4, 8, 16, 32, 64, 128)


def signature(problem: Point) -> Signature:
    """Return the buffers."""
    numbers = Array((problem.n,), "float32")
    return Signature(inputs={"x": numbers, "y": numbers}, outputs={"z": numbers})


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return fresh random inputs."""
    return {name: rng.random(problem.n, np.float32) for name in ("x", "y")}


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return what is right, in float64."""
    return {"z": A * inputs["x"].astype(np.float64) + inputs["y"]}


def tolerance(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
    """Return how far a right result may lie from the reference."""
    return Tolerance(relative=2 * 2.0**-24, reason="a product and a sum of positive float32 numbers, each rounded once")


family = Family(
    name="axpy",
    title="z = a·x + y",
    axes=(Axis("n", default=2**24, low=1, high=2**28, description="how many numbers"),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 12 * problem.n,
    flops=lambda problem: 2 * problem.n,
)


@family.cuda(
    "axpy",
    source="axpy.cu",
    tunables=(
        Tunable("block", BLOCKS, default=256, description="threads a block"),
        Tunable("per_thread", PER_THREAD, default=4, description="elements a thread"),
    ),
)
def axpy(problem: Point, tune: Point) -> Program:
    """Some elements a thread, a whole grid apart."""
    blocks = -(-problem.n // (tune.block * tune.per_thread))
    arguments = ("x", "y", "z", np.float32(A), np.uint32(problem.n))
    return Program(
        steps=(Launch("axpy", (blocks,), (tune.block,), arguments),),
        defines={"BLOCK": tune.block, "ITEMS": tune.per_thread},
    )
