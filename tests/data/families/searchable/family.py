"""A variant whose time is a known function of many tunables: it waits by the clock."""

import time

import numpy as np

from cuprof import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="searchable",
    title="y = x, late",
    axes=(Axis("n", default=64, low=1, high=4096),),
    signature=lambda problem: Signature(
        inputs={"x": Array((problem.n,), "float32")}, outputs={"y": Array((problem.n,), "float32")}
    ),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)


def wait_us(tune):
    """Return how long a configuration waits; the best is width=64, height=2, unroll=4."""
    width, height = np.log2(tune.width / 64), np.log2(tune.height / 2)
    return 100 * float(np.exp(0.5 * abs(width) + 0.3 * abs(height) + 0.2 * abs(np.log2(tune.unroll / 4))))


def too_much(problem, tune):
    """Leave out what has more than 1024 threads."""
    return "more than 1024 threads" if tune.width * tune.height > 1024 else None


@family.cpu(
    "waiting",
    tunables=(
        Tunable("width", (16, 32, 64, 128, 256, 512), default=16),
        Tunable("height", (1, 2, 4, 8, 16), default=1),
        Tunable("unroll", (1, 2, 4, 8), default=1),
    ),
    constraint=too_much,
)
def waiting(problem, tune, inputs, outputs):
    """Copy, then wait; unrolled by 8 it refuses a height of 16."""
    if tune.unroll == 8 and tune.height == 16:
        raise RuntimeError("too many registers")
    due_ns = wait_us(tune) * 1e3

    def run():
        began = time.perf_counter_ns()
        outputs["y"][:] = inputs["x"]
        while time.perf_counter_ns() - began < due_ns:
            pass

    return run
