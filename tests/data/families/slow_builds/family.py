"""A program some of whose configurations the compiler works on for long."""

from __future__ import annotations

import numpy as np

from cuprof import Array, Axis, Execute, Family, File, Program, Signature, Tolerance, Tunable

family = Family(
    name="slow_builds",
    title="2 x, compiled for long",
    axes=(Axis("n", default=64, low=1, high=4096),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"]},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)


@family.program(
    "doubles",
    source="doubles.cpp",
    compiler="g++",
    tunables=(Tunable("slow", (0, 1), default=0), Tunable("part", tuple(range(12)), default=0)),
)
def doubles(problem, tune):
    """Every second one is compiled for long."""
    spin = (200 if tune.slow else 1) + tune.part  # each source is another one
    return Program((Execute((File("x"), File("y"))),), {"N": problem.n, "SPIN": spin})
