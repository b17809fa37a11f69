"""Right variants, one of which starts processes that nothing but a guardian finds again."""

import os
import time

import numpy as np

from cuprof import Array, Axis, Family, Signature, Tolerance

family = Family(
    name="restless",
    title="y = 2x",
    axes=(Axis("n", default=128, low=1, high=2**20),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
    baseline="plain",
)


@family.cpu("plain")
def plain(problem, tune, inputs, outputs):
    """Keeps to itself."""
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])


@family.cpu("leaves_daemons")
def leaves_daemons(problem, tune, inputs, outputs):
    """Leaves a child in its own process group and a grandchild in a session of its own, whose parent has gone."""
    if os.fork() == 0:
        time.sleep(1e6)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1e6)
        os._exit(0)
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
