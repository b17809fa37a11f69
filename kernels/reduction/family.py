"""Sum of n numbers: the five steps of the reduction study, five further ones, and what they are measured against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuprof import Array, Axis, Family, Launch, Point, Program, Tunable
from cuprof.errors import LaunchError

from .cpu import compile_sum
from .passes import C_TYPE, chain_passes, list_first_add_passes, list_passes
from .problem import CHAIN, generate, get_reference, get_signature, get_tolerance

family = Family(
    name="reduction",
    title="Sum of n numbers",
    axes=(
        Axis("n", default=2**24, low=1, high=2**30, description="numbers to add"),
        Axis("dtype", default="float32", choices=("float32", "int32"), description="type of input and sum"),
    ),
    signature=get_signature,
    generate=generate,
    reference=get_reference,
    tolerance=get_tolerance,
    useful_bytes=lambda problem: 4 * problem.n + 4,
    flops=lambda problem: problem.n - 1,
    presets={"published": {"n": 2**24, "dtype": "float32"}, "large": {"n": 2**28, "dtype": "float32"}},
    baseline="interleaved_divergent",
)

BLOCKS = (32, 64, 128, 256, 512, 1024)
STUDY_BLOCK = Tunable("block", BLOCKS, default=64, description="threads a block; the study has 64")
BLOCK = Tunable("block", BLOCKS, default=256, description="threads a block")


@family.cuda("interleaved_divergent", source="interleaved_divergent.cu", tunables=(STUDY_BLOCK,), origin="kernel 1")
def interleaved_divergent(problem: Point, tune: Point) -> Program:
    """Tree in shared memory; a thread works when its index is a multiple of 2·stride."""
    return chain_passes(problem, list_passes("interleaved_divergent", problem.n, tune.block, 1), int)


@family.cuda("interleaved_compacted", source="interleaved_compacted.cu", tunables=(STUDY_BLOCK,), origin="kernel 2")
def interleaved_compacted(problem: Point, tune: Point) -> Program:
    """The same tree with neighbouring threads at work: no divergence, but bank conflicts."""
    return chain_passes(problem, list_passes("interleaved_compacted", problem.n, tune.block, 1), int)


@family.cuda("sequential", source="sequential.cu", tunables=(STUDY_BLOCK,), origin="kernel 3")
def sequential(problem: Point, tune: Point) -> Program:
    """Stride from half the block down to 1: no bank conflicts."""
    return chain_passes(problem, list_passes("sequential", problem.n, tune.block, 1), int)


@family.cuda("first_add", source="first_add.cu", tunables=(STUDY_BLOCK,), origin="kernel 4")
def first_add(problem: Point, tune: Point) -> Program:
    """Two elements a thread, added on load: half the blocks."""
    return chain_passes(problem, list_first_add_passes("first_add", problem.n, tune.block), int)


@family.cuda("last_warp", source="last_warp.cu", tunables=(STUDY_BLOCK,), origin="kernel 5")
def last_warp(problem: Point, tune: Point) -> Program:
    """The last 64 elements by one warp, written out, without block barriers."""
    passes = list_first_add_passes("last_warp", problem.n, tune.block)
    return chain_passes(problem, passes, lambda threads: max(threads, 64))


@family.cuda("unrolled", source="unrolled.cu", tunables=(STUDY_BLOCK,), origin="step 6")
def unrolled(problem: Point, tune: Point) -> Program:
    """The whole tree written out by template on the block size."""
    passes = list_first_add_passes("unrolled", problem.n, tune.block, whole_blocks=True)
    return chain_passes(problem, passes, BLOCK=tune.block)


PER_THREAD = Tunable("per_thread", (2, 4, 8, 16, 32, 64, 128), default=32, description="elements a thread adds up")


def chain_strided(kernel: str, problem: Point, tune: Point) -> Program:
    """Return the program of a kernel whose threads add up `per_thread` elements each, up to eight loads in flight."""
    passes = list_passes(kernel, problem.n, tune.block, tune.per_thread)
    return chain_passes(problem, passes, BLOCK=tune.block, LOADS=min(tune.per_thread, 8))


@family.cuda("multi_add", source="multi_add.cu", tunables=(BLOCK, PER_THREAD), origin="step 7")
def multi_add(problem: Point, tune: Point) -> Program:
    """Many elements a thread in a grid-stride loop, then the unrolled tree."""
    return chain_strided("multi_add", problem, tune)


@family.cuda("warp_shuffle", source="warp_shuffle.cu", tunables=(BLOCK, PER_THREAD), origin="step 8")
def warp_shuffle(problem: Point, tune: Point) -> Program:
    """Warp shuffles in the place of the tree in shared memory."""
    return chain_strided("warp_shuffle", problem, tune)


@family.cuda(
    "vector4",
    source="vector4.cu",
    tunables=(BLOCK, Tunable("per_thread", (4, 8, 16, 32), default=16, description="elements a thread, all in flight")),
    origin="step 9",
)
def vector4(problem: Point, tune: Point) -> Program:
    """16-byte loads, all of a thread's in flight at once."""
    passes = list_passes("vector4", problem.n, tune.block, tune.per_thread)
    return chain_passes(problem, passes, BLOCK=tune.block, LOADS=tune.per_thread // 4)


def check_single_pass(problem: Point, tune: Point) -> str | None:
    """Return why a thread's share would be too long to add up in float32, or None."""
    trip = 4 * tune.block * tune.blocks * tune.loads
    additions = -(-problem.n // trip)
    if problem.dtype == "float32" and additions > CHAIN:
        return f"{additions} float32 additions in a row, more than {CHAIN}; raise block, blocks or loads"
    return None


@family.cuda(
    "single_pass",
    source="single_pass.cu",
    tunables=(
        Tunable("block", BLOCKS, default=512, description="threads a block"),
        Tunable("blocks", (132, 264, 396, 528, 1056, 2112), default=264, description="most blocks of the grid"),
        Tunable("loads", (1, 2, 4, 8), default=8, description="16-byte loads in flight a thread"),
    ),
    constraint=check_single_pass,
    origin="step 10",
)
def single_pass(problem: Point, tune: Point) -> Program:
    """One launch: the block that finishes last adds the partial sums, in a fixed order.

    The grid is as wide as the device needs to be full and no wider, whatever n: fewer partial sums, no second wave. The
    default is two blocks for each of a large GPU's 132 multiprocessors; a smaller GPU runs the same grid in waves.
    """
    vectors = -(-problem.n // 4)
    blocks = min(tune.blocks, -(-vectors // tune.block))
    launch = Launch("single_pass", (blocks,), (tune.block,), ("x", "partials", "sum", np.uint32(problem.n)))
    return Program(
        steps=(launch,),
        defines={"ELEMENT": C_TYPE[problem.dtype], "BLOCK": tune.block, "LOADS": tune.loads},
        scratch={"partials": Array((blocks,), problem.dtype)},
    )


Buffers = Mapping[str, Any]


@family.library("cupy_sum", requires=("cupy",), origin="CUB")
def cupy_sum(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """CuPy's sum, which is CUB's DeviceReduce::Sum."""
    import cupy
    from cupy._core import set_routine_accelerators
    from cupy.cuda import cub

    x, total = inputs["x"], outputs["sum"].reshape(())
    set_routine_accelerators(["cub"])  # what CUPY_ACCELERATORS=cub does
    if cub.cub_reduction(x, cub.CUPY_CUB_SUM, None, x.dtype) is None:
        raise LaunchError(f"CuPy {cupy.__version__} does not use CUB for {problem.dtype}; install cupy>=14")
    pool = cupy.get_default_memory_pool()

    def add_up() -> object:
        # With out=, CuPy copies CUB's result into it, one more device operation that CUB itself does not need. So the
        # result, the first allocation of its size, is placed where it belongs; copied only if CuPy put it elsewhere.
        places = [total.data]
        with cupy.cuda.using_allocator(
            lambda size: places.pop() if places and size == total.nbytes else pool.malloc(size)
        ):
            result = cupy.sum(x, dtype=x.dtype)
        if result.data.ptr != total.data.ptr:
            total[...] = result
        return total

    return add_up


@family.cpu("cpu_serial", requires=("numba",), origin="CPU")
def cpu_serial(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """One serial loop on one core (Numba), added up in float64 or int64."""
    add_up = compile_sum(problem.dtype, parallel=False)
    x, total = inputs["x"], outputs["sum"]
    return lambda: add_up(x, total)


@family.cpu("cpu_numpy", origin="NumPy")
def cpu_numpy(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """NumPy's sum in the type of the input (pairwise for float32), one core, vector instructions."""
    x, total = inputs["x"], outputs["sum"].reshape(())
    return lambda: np.sum(x, dtype=x.dtype, out=total)


@family.cpu("cpu_parallel", requires=("numba",), origin="CPU, all cores")
def cpu_parallel(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """One loop shared by all cores (Numba), added up in float64 or int64."""
    add_up = compile_sum(problem.dtype, parallel=True)
    x, total = inputs["x"], outputs["sum"]
    return lambda: add_up(x, total)
