"""y = factor · x, on the host alone."""

import numpy as np

from cuprof import Array, Axis, Family, Signature, Tolerance, Tunable

FACTOR = 2


def signature(problem):
    return Signature({"x": Array((problem.n,), problem.dtype)}, {"y": Array((problem.n,), problem.dtype)})


def generate(problem, rng):
    return {"x": rng.integers(-100, 100, problem.n).astype(problem.dtype)}


def reference(problem, inputs):
    return {"y": FACTOR * inputs["x"].astype(np.float64)}


def tolerance(problem, inputs, reference):
    return Tolerance()


def even_only(problem):
    return "n must not be 13" if problem.n == 13 else None


def chunk_fits(problem, tune):
    return f"chunk {tune.chunk} is larger than n" if tune.chunk > problem.n else None


family = Family(
    name="vector",
    title="y = 2x",
    axes=(
        Axis("n", default=1000, low=1, high=2**40),
        Axis("dtype", default="float32", choices=("float32", "int32")),
    ),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 8 * problem.n,
    flops=lambda problem: problem.n,
    constraint=even_only,
    presets={"small": {"n": 16}, "whole": {"n": 64, "dtype": "int32"}},
    baseline="cpu_whole",
)


@family.cpu("cpu_whole", origin="kernel 1")
def cpu_whole(problem, tune, inputs, outputs):
    """One call for the whole array."""
    return lambda: np.multiply(inputs["x"], FACTOR, out=outputs["y"])


@family.cpu(
    "cpu_chunks",
    tunables=(Tunable("chunk", (16, 64, 256), default=64), Tunable("reverse", (False, True), default=False)),
    constraint=chunk_fits,
)
def cpu_chunks(problem, tune, inputs, outputs):
    """One call a chunk."""
    x, y = inputs["x"], outputs["y"]
    starts = range(0, problem.n, tune.chunk)
    ordered = list(reversed(starts) if tune.reverse else starts)

    def run():
        for start in ordered:
            multiply(x, y, start, tune.chunk)

    return run


def multiply(x, y, start, count):
    np.multiply(x[start : start + count], FACTOR, out=y[start : start + count])


@family.cpu("wide", requires=("module_that_does_not_exist",), tunables=(Tunable("chunk", (256, 512), default=256),))
def wide(problem, tune, inputs, outputs):
    """Needs what is not installed."""
    raise AssertionError("never called")


@family.cpu("cpu_wrong", expected="wrong")
def cpu_wrong(problem, tune, inputs, outputs):
    """Leaves the first element out, on purpose."""
    return lambda: np.multiply(inputs["x"][1:], FACTOR, out=outputs["y"][1:])
