"""Convolution of a three-channel image to one channel: valid, stride 1, one K×K filter a channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuprof import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

Buffers = Mapping[str, Any]

CHANNELS = 3
FP32_UNIT = 2.0**-24
STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of static shared memory a block (CUDA C++ Programming Guide, "Technical Specifications")."""

REFERENCE_ROWS = 64
"""Output rows that the reference works on at a time, so that its intermediates stay in the processor's caches."""

BLOCK = Tunable("block", (32, 64, 128, 256, 512, 1024), 256, "threads a block, an output pixel each")
PARTITION = Tunable(
    "partition",
    ("tile", "row", "column"),
    "tile",
    "what a block covers: a tile, a stretch of a row, or a stretch of a column",
)
TILE_X = Tunable("tile_x", (8, 16, 32), 16, "width of a tile; its height is block / tile_x")
FILTER_MEMORY = Tunable("filter_memory", ("constant", "global"), "constant", "where the filter lives")
WINDOW = (BLOCK, PARTITION, TILE_X)

FILTER_SPACES = {"global": "__device__", "constant": "__constant__"}


def count_outputs(problem: Point) -> int:
    """Return the side of the output."""
    return problem.N - problem.K + 1


def constraint(problem: Point) -> str | None:
    """Refuse an image in which no window fits."""
    if problem.N < problem.K:
        return f"N={problem.N} is smaller than the filter, K={problem.K}: a valid convolution has no output"
    return None


def signature(problem: Point) -> Signature:
    """Return image 3×N×N (a plane a channel), filters 3×K×K and one output plane of side N-K+1."""
    outputs = count_outputs(problem)
    return Signature(
        inputs={
            "image": Array((CHANNELS, problem.N, problem.N), "float32"),
            "filters": Array((CHANNELS, problem.K, problem.K), "float32"),
        },
        outputs={"output": Array((outputs, outputs), "float32")},
    )


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return pixels uniform in [0, 1) and weights uniform in [-1, 1)."""
    shapes = signature(problem).inputs
    return {
        "image": rng.random(shapes["image"].shape, dtype=np.float32),
        "filters": 2 * rng.random(shapes["filters"].shape, dtype=np.float32) - 1,
    }


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the convolution in float64: the sum of the shifted planes, each times its weight."""
    outputs, side = count_outputs(problem), problem.K
    image, filters = inputs["image"], inputs["filters"].astype(np.float64)
    output = np.zeros((outputs, outputs))
    for top in range(0, outputs, REFERENCE_ROWS):
        rows = output[top : top + REFERENCE_ROWS]
        for channel in range(CHANNELS):
            part = image[channel, top : top + len(rows) + side - 1].astype(np.float64)
            for fy in range(side):
                for fx in range(side):
                    rows += part[fy : fy + len(rows), fx : fx + outputs] * filters[channel, fy, fx]
    return {"output": output}


def tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Allow n·u·Σ|w|·max|x|, u = 2^-24, the worst case of n = 3·K² products added in float32 in any order.

    (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1.) Algorithms that transform their
    operands, which cuDNN may choose, have larger constants but stay far below the worst case of the plain sum.
    """
    terms = CHANNELS * problem.K**2
    weights = float(np.abs(inputs["filters"], dtype=np.float64).sum())
    largest = float(np.abs(inputs["image"]).max())
    return Tolerance(
        absolute=terms * FP32_UNIT * weights * largest,
        reason="n·2^-24·Σ|w|·max|x|: worst case of n=3·K² products added in float32 in any order",
    )


def useful_bytes(problem: Point) -> int:
    """Return image, filters and output, each once."""
    return 4 * (CHANNELS * (problem.N**2 + problem.K**2) + count_outputs(problem) ** 2)


def flops(problem: Point) -> int:
    """Return one multiplication and one addition a channel, filter element and output."""
    return 2 * CHANNELS * problem.K**2 * count_outputs(problem) ** 2


family = Family(
    name="convlab",
    title="Image convolution, three channels to one",
    axes=(
        Axis("N", default=1024, low=1, high=8192, description="side of the image"),
        Axis("K", default=3, choices=(1, 3, 5, 7), description="side of the filters"),
    ),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=useful_bytes,
    flops=flops,
    constraint=constraint,
    baseline="direct_global",
)


def get_block_shape(tune: Point) -> tuple[int, int]:
    """Return a block's threads in x and y."""
    if tune.partition == "row":
        return tune.block, 1
    if tune.partition == "column":
        return 1, tune.block
    return tune.tile_x, tune.block // tune.tile_x


def check_window(problem: Point, tune: Point) -> str | None:
    """Refuse a tile of one row, which is the partition by row, and tile widths that a partition does not have."""
    if tune.partition != "tile":
        if tune.tile_x != TILE_X.default:
            return f"partition={tune.partition} has no tile: tile_x={tune.tile_x} would repeat tile_x={TILE_X.default}"
    elif tune.block <= tune.tile_x:
        return f"block={tune.block} leaves one row of tile_x={tune.tile_x}: that is partition=row"
    return None


def check_shared_window(problem: Point, tune: Point) -> str | None:
    """Refuse, beside what `check_window` refuses, a tile that static shared memory does not hold."""
    block_x, block_y = get_block_shape(tune)
    rim = problem.K - 1
    size = 4 * CHANNELS * (block_x + rim) * (block_y + rim)
    if size > STATIC_SHARED_LIMIT:
        return (
            f"block={tune.block} by {tune.partition} with K={problem.K} needs {size} bytes of shared memory, "
            f"a block has {STATIC_SHARED_LIMIT}"
        )
    return check_window(problem, tune)


def _sliding_window(kernel: str, problem: Point, tune: Point, filter_memory: str) -> Program:
    outputs = count_outputs(problem)
    block_x, block_y = get_block_shape(tune)
    grid = (-(-outputs // block_x), -(-outputs // block_y))
    return Program(
        steps=(Launch(kernel, grid, (block_x, block_y), ("image", "output", problem.N)),),
        defines={**_define_filter(problem, filter_memory), "BLOCK_X": block_x, "BLOCK_Y": block_y},
        constants={"taps": "filters"},
    )


def _columns(problem: Point, tune: Point, filter_memory: str, *, launches: int = 1) -> Program:
    rows, count = CHANNELS * problem.K**2, count_outputs(problem) ** 2
    blocks = -(-count // tune.block)
    steps: tuple[Launch, ...] = (Launch("im2col", (blocks,), (tune.block,), ("image", "columns", "output", problem.N)),)
    if launches == 2:
        steps = (
            Launch("im2col", (blocks, rows), (tune.block,), ("image", "columns", problem.N)),
            Launch("multiply", (blocks,), (tune.block,), ("columns", "output", count)),
        )
    return Program(
        steps=steps,
        defines={**_define_filter(problem, filter_memory), "BLOCK": tune.block},
        scratch={"columns": Array((rows, count), "float32")},
        constants={"taps": "filters"},
    )


def _define_filter(problem: Point, memory: str) -> dict[str, str | int]:
    return {"FILTER": problem.K, "FILTER_SPACE": FILTER_SPACES[memory], "FILTER_IS_GLOBAL": int(memory == "global")}


@family.cuda("direct_global", source="direct.cu", tunables=WINDOW, constraint=check_window)
def direct_global(problem: Point, tune: Point) -> Program:
    """Sliding window, the filter in global memory (`__device__`)."""
    return _sliding_window("direct", problem, tune, "global")


@family.cuda("direct_constant", source="direct.cu", tunables=WINDOW, constraint=check_window)
def direct_constant(problem: Point, tune: Point) -> Program:
    """Sliding window, the filter in constant memory (`__constant__`)."""
    return _sliding_window("direct", problem, tune, "constant")


@family.cuda(
    "direct_shared", source="direct_shared.cu", tunables=(*WINDOW, FILTER_MEMORY), constraint=check_shared_window
)
def direct_shared(problem: Point, tune: Point) -> Program:
    """Sliding window over an image tile in shared memory."""
    return _sliding_window("direct_shared", problem, tune, tune.filter_memory)


@family.cuda("direct_ldg", source="direct_ldg.cu", tunables=(*WINDOW, FILTER_MEMORY), constraint=check_window)
def direct_ldg(problem: Point, tune: Point) -> Program:
    """Sliding window, the image (and a filter in global memory) through the read-only cache."""
    return _sliding_window("direct_ldg", problem, tune, tune.filter_memory)


@family.cuda("im2col_global", source="im2col.cu", tunables=(BLOCK,))
def im2col_global(problem: Point, tune: Point) -> Program:
    """Each thread lays out its window as a matrix column and multiplies it, the filter in global memory."""
    return _columns(problem, tune, "global")


@family.cuda("im2col_constant", source="im2col.cu", tunables=(BLOCK,))
def im2col_constant(problem: Point, tune: Point) -> Program:
    """Each thread lays out its window as a matrix column and multiplies it, the filter in constant memory."""
    return _columns(problem, tune, "constant")


@family.cuda("im2col_two_global", source="im2col_two_launches.cu", tunables=(BLOCK,))
def im2col_two_global(problem: Point, tune: Point) -> Program:
    """One kernel lays out all columns, a second one multiplies them, the filter in global memory."""
    return _columns(problem, tune, "global", launches=2)


@family.cuda("im2col_two_constant", source="im2col_two_launches.cu", tunables=(BLOCK,))
def im2col_two_constant(problem: Point, tune: Point) -> Program:
    """One kernel lays out all columns, a second one multiplies them, the filter in constant memory."""
    return _columns(problem, tune, "constant", launches=2)


@family.library("cudnn", requires=("torch",))
def cudnn(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuDNN in float32, the fastest of its algorithms for the problem (through PyTorch)."""
    from .cudnn_search import prepare

    return prepare(inputs["image"], inputs["filters"], outputs["output"])


@family.library("cudnn_implicit_gemm", requires=("nvidia.cudnn",))
def cudnn_implicit_gemm(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuDNN in float32 with the published algorithm, IMPLICIT_GEMM (the library itself, through ctypes)."""
    from .cudnn_implicit_gemm import prepare

    return prepare(inputs["image"], inputs["filters"], outputs["output"])


@family.cpu("cpu", requires=("numba",))
def cpu_serial(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Four nested loops on one core, the channels unrolled (Numba)."""
    from . import cpu

    arguments = (inputs["image"], inputs["filters"], outputs["output"])
    cpu.compile_for(cpu.convolve, *arguments)
    return lambda: cpu.convolve(*arguments)


@family.cpu("cpu_parallel", requires=("numba",))
def cpu_parallel(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """The same loops on all cores, a row a task (Numba)."""
    from . import cpu

    arguments = (inputs["image"], inputs["filters"], outputs["output"])
    cpu.compile_for(cpu.convolve_parallel, *arguments)
    return lambda: cpu.convolve_parallel(*arguments)
