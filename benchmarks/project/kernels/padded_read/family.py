"""Reading memory, then waiting for a given time: two variants of one source that differ in nothing but the wait."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

GRID = 256
"""Blocks; few enough that all of them run at the same time on any GPU of 64 multiprocessors or more."""
THREADS = 512
SHARE = GRID * THREADS * 4
"""Numbers that the whole grid reads in one step, 16 bytes a thread."""


def signature(problem: Point) -> Signature:
    """Return the buffers."""
    numbers = Array((problem.steps * SHARE,), "uint32")
    return Signature(inputs={"x": numbers}, outputs={"folded": Array((GRID,), "uint32")})


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return fresh random inputs."""
    return {"x": rng.integers(0, 2**32, problem.steps * SHARE, np.uint32)}


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return what is right: the exclusive or of each block's share."""
    shares = inputs["x"].reshape(problem.steps, GRID, THREADS * 4)
    return {"folded": np.bitwise_xor.reduce(np.bitwise_xor.reduce(shares, axis=0), axis=1)}


def tolerance(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
    """Return how far a right result may lie from the reference."""
    return Tolerance(reason="the exclusive or of whole numbers is exact")


family = Family(
    name="padded_read",
    title="Reading memory, then waiting",
    axes=(Axis("steps", default=72, low=1, high=512, description="times 2 MiB that are read"),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 4 * problem.steps * SHARE,
)

SPIN = Tunable("spin_ns", tuple(range(0, 10_001, 10)), default=0, description="nanoseconds waited at the end")


def make_program(problem: Point, tune: Point) -> Program:
    """Return the program of either variant."""
    words = np.uint32(problem.steps * SHARE // 4)
    arguments = ("x", words, "folded", np.uint64(tune.spin_ns))
    return Program(steps=(Launch("padded_read", (GRID,), (THREADS,), arguments),))


@family.cuda("base", source="padded_read.cu", tunables=(SPIN,))
def base(problem: Point, tune: Point) -> Program:
    """The one that is compared with."""
    return make_program(problem, tune)


@family.cuda("other", source="padded_read.cu", tunables=(SPIN,))
def other(problem: Point, tune: Point) -> Program:
    """The same under another name."""
    return make_program(problem, tune)
