"""y = 2·x over n numbers: an example to copy. Each variant costs one source file and about ten lines here."""

import numpy as np

from cuprof import Array, Axis, Family, Launch, Program, Signature, Tolerance, Tunable


def signature(problem):
    """Return the buffers that every variant reads and writes."""
    return Signature(inputs={"x": Array((problem.n,), "float32")}, outputs={"y": Array((problem.n,), "float32")})


def generate(problem, rng):
    """Return fresh random inputs."""
    return {"x": rng.uniform(-1, 1, problem.n).astype(np.float32)}


def reference(problem, inputs):
    """Return the right results, in float64."""
    return {"y": 2 * inputs["x"].astype(np.float64)}


def tolerance(problem, inputs, expected):
    """Return how far a right result may lie from the reference."""
    return Tolerance(reason="doubling a binary floating-point number is exact")


def useful_bytes(problem):
    """Return what any implementation must move: x read once, y written once."""
    return 2 * 4 * problem.n


family = Family(
    name="scale",
    title="Doubling n numbers",
    axes=(Axis("n", default=2**20, low=1, high=2**28, description="how many numbers"),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=useful_bytes,
    flops=lambda problem: problem.n,
    baseline="numpy",
)

BLOCK = Tunable("block", (64, 128, 256, 512, 1024), default=256, description="threads a block")


@family.cpu("numpy")
def numpy_variant(problem, tune, inputs, outputs):
    """NumPy on the host."""
    x, y = inputs["x"], outputs["y"]
    return lambda: np.multiply(x, np.float32(2), out=y)


@family.cuda("plain", source="plain.cu", tunables=(BLOCK,))
def plain(problem, tune):
    """One thread an element."""
    blocks = -(-problem.n // tune.block)
    return Program(steps=(Launch("scale", (blocks,), (tune.block,), ("x", "y", problem.n)),))
