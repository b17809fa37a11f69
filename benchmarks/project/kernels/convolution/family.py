"""A two-dimensional convolution with eight tunables: a space of some two thousand configurations to search."""

from __future__ import annotations

import numpy as np

from cuprof.families import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

F = 9
SHARED_BYTES = 48 * 1024


def signature(problem: Point) -> Signature:
    """Return the buffers."""
    side = problem.n + F - 1
    return Signature(
        inputs={"image": Array((side, side), "float32"), "filter": Array((F, F), "float32")},
        outputs={"out": Array((problem.n, problem.n), "float32")},
    )


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return fresh random inputs."""
    side = problem.n + F - 1
    return {"image": rng.random((side, side), np.float32), "filter": rng.random((F, F), np.float32)}


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return what is right, in float64."""
    image = inputs["image"].astype(np.float64)
    out = np.zeros((problem.n, problem.n))
    for j in range(F):
        for i in range(F):
            out += float(inputs["filter"][j, i]) * image[j : j + problem.n, i : i + problem.n]
    return {"out": out}


def tolerance(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
    """Return how far a right result may lie from the reference."""
    return Tolerance(relative=2 * F * F * 2.0**-24, reason="a sum of F² products of positive float32 numbers")


family = Family(
    name="convolution",
    title="Two-dimensional convolution, 9 × 9",
    axes=(Axis("n", default=2048, choices=(512, 1024, 2048, 4096), description="side of the output"),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 4 * ((problem.n + F - 1) ** 2 + problem.n**2 + F * F),
    flops=lambda problem: 2 * F * F * problem.n**2,
)


def explain_unfit(problem: Point, tune: Point) -> str | None:
    """Return why tunables do not go together."""
    threads = tune.block_x * tune.block_y
    width, height = tune.block_x * tune.tile_x, tune.block_y * tune.tile_y
    if not 32 <= threads <= 1024:
        return "a block has 32 to 1024 threads"
    if problem.n % width or problem.n % height:
        return "tiles cover the output evenly"
    if not tune.shared:
        return "only shared memory is padded" if tune.padding else None
    if 4 * ((height + F - 1) * (width + F - 1 + tune.padding) + F * F) > SHARED_BYTES:
        return "a tile fits into 48 KiB of shared memory"
    return None


@family.cuda(
    "tiled",
    source="convolution.cu",
    tunables=(
        Tunable("block_x", (8, 16, 32, 64, 128), default=32),
        Tunable("block_y", (1, 2, 4, 8, 16), default=8),
        Tunable("tile_x", (1, 2, 4), default=1),
        Tunable("tile_y", (1, 2, 4), default=1),
        Tunable("shared", (0, 1), default=1, description="stage a block's input in shared memory"),
        Tunable("padding", (0, 1), default=0, description="columns more in shared memory"),
        Tunable("read_only", (0, 1), default=1, description="load through the read-only cache"),
        Tunable("unroll", (1, 9), default=9, description="of the loop over a filter's row"),
    ),
    constraint=explain_unfit,
)
def tiled(problem: Point, tune: Point) -> Program:
    """Some outputs a thread, a block apart."""
    grid = (problem.n // (tune.block_x * tune.tile_x), problem.n // (tune.block_y * tune.tile_y))
    return Program(
        steps=(Launch("convolution", grid, (tune.block_x, tune.block_y), ("image", "filter", "out")),),
        defines={
            "WIDTH": problem.n, "HEIGHT": problem.n, "F": F, "BX": tune.block_x, "BY": tune.block_y,
            "TX": tune.tile_x, "TY": tune.tile_y, "SHARED": tune.shared, "PAD": tune.padding,
            "READ_ONLY": tune.read_only, "UNROLL": tune.unroll,
        },
    )  # fmt: skip
