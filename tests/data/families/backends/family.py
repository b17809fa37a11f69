"""What the contract of back ends speaks of, on each of them: a variant BEHAVIOUR_BACKEND for every behaviour.

A back end of kernels needs a source beside this file and a line in SOURCES; one of functions registers FUNCTIONS.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuprof import Array, Axis, Family, Launch, Program, Signature, Tolerance, Tunable

SOURCES = {"cuda": "behaviours.cu", "opencl": "behaviours.cl"}
GROUP = 64
PLACE = Tunable("place", (0, *(sign * (1 << bit) for bit in range(13) for sign in (-1, 1))), default=0)
"""Byte of an array that is written to, counted from its first one."""

family = Family(
    name="backends",
    title="Twice x",
    axes=(Axis("n", 1000),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.integers(1, 100, problem.n).astype(np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"]},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)


def launch(kernel: str, count: int, *arguments: Any) -> Launch:
    return Launch(kernel, (-(-count // GROUP),), (GROUP,), (*arguments, count))


def touch(array: str, place: int) -> Launch:
    return Launch("touches", (1,), (1,), (array, place))


def scratch(problem: Any) -> dict[str, Array]:
    return {"s": Array((problem.n,), "float32")}


PROGRAMS = {
    "doubles": lambda problem, tune: Program((launch("doubles", problem.n, "x", "y"),)),
    "begins": lambda problem, tune: Program((launch("doubles", problem.n // 2, "x", "y"),)),
    "adds": lambda problem, tune: Program((launch("adds", problem.n, "x", "y"),)),
    "adds_twice": lambda problem, tune: Program((launch("adds", problem.n, "x", "y"),) * 2),
    "spoils": lambda problem, tune: Program((launch("adds", problem.n, "x", "x"),)),
    "touches_x": lambda problem, tune: Program((touch("x", tune.place),)),
    "touches_y": lambda problem, tune: Program((touch("y", tune.place),)),
    "reads_scratch": lambda problem, tune: Program((launch("doubles", problem.n, "s", "y"),), scratch=scratch(problem)),
    "ends_in_scratch": lambda problem, tune: Program(
        (launch("doubles", problem.n, "x", "s"),), scratch=scratch(problem), results={"y": "s"}
    ),
    "lacks_its_kernel": lambda problem, tune: Program((launch("nowhere", problem.n, "x", "y"),)),
    "does_not_compile": lambda problem, tune: Program((launch("doubles", problem.n, "x", "y"),), {"BROKEN": 1}),
}
"""Of a back end that compiles sources."""


def touch_byte(array: np.ndarray, place: int) -> None:
    import ctypes

    ctypes.c_ubyte.from_address(array.ctypes.data + place).value ^= 1


FUNCTIONS = {
    "doubles": lambda x, y, place: np.multiply(x, 2, out=y),
    "begins": lambda x, y, place: np.multiply(x[: x.size // 2], 2, out=y[: x.size // 2]),
    "adds": lambda x, y, place: np.add(y, x, out=y),
    "adds_twice": lambda x, y, place: np.add(y, x + x, out=y),
    "spoils": lambda x, y, place: np.add(x, x, out=x),
    "touches_x": lambda x, y, place: touch_byte(x, place),
    "touches_y": lambda x, y, place: touch_byte(y, place),
}
"""Of a back end that runs functions on arrays of the host."""


def prepare(function: Any) -> Any:
    return lambda problem, tune, inputs, outputs: lambda: function(inputs["x"], outputs["y"], tune.place)


for behaviour, program in PROGRAMS.items():
    for backend, source in SOURCES.items():
        family.kernel(f"{behaviour}_{backend}", backend=backend, source=source, tunables=(PLACE,))(program)
for behaviour, function in FUNCTIONS.items():
    family.cpu(f"{behaviour}_cpu", tunables=(PLACE,))(prepare(function))
