"""Convolution for CNN inference: batch 1, stride 1, dilation 1, one group, symmetric padding of (R-1)/2.

After the cuConv paper (arXiv 2103.16234): a version split over two kernels, and the fused one that its profile led to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

Buffers = Mapping[str, Any]

FP32_UNIT = 2.0**-24
TF32_UNIT = 2.0**-10
"""Relative spacing of numbers with TF32's 10 explicit mantissa bits; operands may be truncated to them."""

BLOCK = Tunable("block", (32, 64, 128, 256, 512, 1024), 256, "threads a block, a pixel each")


def constraint(problem: Point) -> str | None:
    """Refuse filters without a middle: the padding (R-1)/2 keeps the output as large as the input for odd R alone."""
    if problem.R % 2 == 0:
        return f"R={problem.R} is even: the padding (R-1)/2 is defined for odd filter sides only"
    return None


def signature(problem: Point) -> Signature:
    """Return input C×H×W, filters M×R×S×C (channels innermost) and output M×Ho×Wo, with W=H, S=R, Ho=Wo=H."""
    side, filter_side = problem.H, problem.R
    return Signature(
        inputs={
            "input": Array((problem.C, side, side), "float32"),
            "filters": Array((problem.M, filter_side, filter_side, problem.C), "float32"),
        },
        outputs={"output": Array((problem.M, side, side), "float32")},
    )


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return input and filters, uniform in [-1, 1)."""
    shapes = signature(problem).inputs
    return {name: (2 * rng.random(spec.shape, dtype=np.float32) - 1) for name, spec in shapes.items()}


def reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the convolution in float64: for each tap, its M×C weights times the input shifted by the tap."""
    side, filter_side, reach = problem.H, problem.R, (problem.R - 1) // 2
    padded = np.pad(inputs["input"].astype(np.float64), ((0, 0), (reach, reach), (reach, reach)))
    output = np.zeros((problem.M, side * side))
    for fy in range(filter_side):
        for fx in range(filter_side):
            shifted = padded[:, fy : fy + side, fx : fx + side].reshape(problem.C, -1)
            output += inputs["filters"][:, fy, fx, :].astype(np.float64) @ shifted
    return {"output": output.reshape(problem.M, side, side)}


def tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Allow 8·u·√K·‖w‖·max|x|, u = 2^-24, for the K = R·S·C products that filter w adds up in float32."""
    return Tolerance(
        absolute=_summation_bound(problem, inputs, 8),
        reason="8·2^-24·√K·‖w‖·max|x|: rounding errors of K=R·S·C float32 additions grow as a random walk",
    )


def cudnn_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Allow eight times the family's bound, for an algorithm that transforms its operands.

    The search may choose Winograd's F(4×4, 3×3), whose error is about ten times that of the direct sum (A. Lavin and
    S. Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016), which itself uses a quarter of its bound.
    """
    return Tolerance(
        absolute=_summation_bound(problem, inputs, 64),
        reason="64·2^-24·√K·‖w‖·max|x|: float32 sums of K=R·S·C products, after a transform perhaps",
    )


def tf32_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Add 4·2^-10·‖w‖·max|x|: each product of two operands with 10-bit mantissas is off by up to 2·2^-10 of itself.

    The errors of the products are independent, so their sum grows with the norm of the filter, not with its length.
    """
    rounding = 4 * TF32_UNIT * _filter_norms(inputs) * _largest(inputs)
    return Tolerance(
        absolute=rounding + _summation_bound(problem, inputs, 64),
        reason="4·2^-10·‖w‖·max|x|: TF32 keeps 10 mantissa bits of both operands; and the float32 bound of the sum",
    )


def _summation_bound(problem: Point, inputs: Arrays, factor: float) -> np.ndarray:
    """Return factor·u·√K·‖w_m‖·max|x| for each filter m, shaped to broadcast over the output.

    The errors of n additions of values of spread σ in random order have a spread of about u·n·σ/2, and K·σ ≤
    √K·‖w‖·max|x|: the largest of a million errors lies near factor 2 (N. J. Higham and T. Mary, "A New Approach to
    Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019). Up to K = 8 it is the worst case itself.
    """
    terms = problem.C * problem.R**2
    return factor * FP32_UNIT * np.sqrt(terms) * _filter_norms(inputs) * _largest(inputs)


def _filter_norms(inputs: Arrays) -> np.ndarray:
    return np.sqrt(np.square(inputs["filters"], dtype=np.float64).sum(axis=(1, 2, 3)))[:, None, None]


def _largest(inputs: Arrays) -> float:
    return float(np.abs(inputs["input"]).max())


def useful_bytes(problem: Point) -> int:
    """Return input, filters and output, each once."""
    return 4 * ((problem.C + problem.M) * problem.H**2 + problem.M * problem.R**2 * problem.C)


def flops(problem: Point) -> int:
    """Return two operations a tap, channel, filter and pixel, taps in the padding counted as is usual."""
    return 2 * problem.M * problem.C * problem.R**2 * problem.H**2


family = Family(
    name="cuconv",
    title="Convolution for CNN inference",
    axes=(
        Axis("H", default=32, low=1, high=2048, description="height and width of the input and the output"),
        Axis("R", default=3, low=1, high=15, description="height and width of a filter, odd"),
        Axis("M", default=128, low=1, high=8192, description="filters, the channels of the output"),
        Axis("C", default=128, low=1, high=8192, description="channels of the input"),
    ),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=useful_bytes,
    flops=flops,
    constraint=constraint,
    presets={
        "T3-1x1-A": {"H": 7, "R": 1, "M": 256, "C": 832},
        "T3-1x1-B": {"H": 14, "R": 1, "M": 1024, "C": 256},
        "T3-1x1-C": {"H": 27, "R": 1, "M": 256, "C": 64},
        "T4-3x3-A": {"H": 4, "R": 3, "M": 384, "C": 192},
        "T4-3x3-B": {"H": 13, "R": 3, "M": 384, "C": 384},
        "T5-5x5-A": {"H": 7, "R": 5, "M": 128, "C": 48},
        "E1": {"H": 32, "R": 3, "M": 64, "C": 64},
        "E2": {"H": 32, "R": 3, "M": 128, "C": 128},
        "E3": {"H": 64, "R": 3, "M": 128, "C": 128},
        "E4": {"H": 64, "R": 3, "M": 256, "C": 256},
    },
    baseline="split",
    constants=("filters",),
)


@family.cuda("split", source="split.cu", tunables=(BLOCK,))
def split(problem: Point, tune: Point) -> Program:
    """Two kernels: a partial result a filter tap, then their sum (1×1 filters: the first kernel alone)."""
    pixels, taps = problem.H**2, problem.R**2
    blocks = -(-pixels // tune.block)

    def scalar_prods(result: str) -> Launch:
        arguments = ("input", "filters", result, problem.H, problem.R, problem.C)
        return Launch("scalar_prods", (blocks, problem.M, taps), (tune.block,), arguments)

    defines = {"BLOCK": tune.block}
    if taps == 1:
        return Program(steps=(scalar_prods("output"),), defines=defines)
    add = Launch("sum_taps", (blocks, problem.M, 1), (tune.block,), ("partial", "output", pixels, taps))
    return Program(
        steps=(scalar_prods("partial"), add),
        defines=defines,
        scratch={"partial": Array((problem.M, taps, pixels), "float32")},
    )


@family.cuda("fused", source="fused.cu", tunables=(BLOCK,))
def fused(problem: Point, tune: Point) -> Program:
    """One kernel that walks the taps, a tap's weights in shared memory, the sum in a register."""
    blocks = -(-(problem.H**2) // tune.block)
    arguments = ("input", "filters", "output", problem.H, problem.R, problem.C)
    launch = Launch("fused", (blocks, problem.M, 1), (tune.block,), arguments, shared_bytes=4 * problem.C)
    return Program(steps=(launch,), defines={"BLOCK": tune.block})


SHARED_BYTES = 48 * 1024  # dynamic shared memory that a block can count on
SHARED_BLOCKS = 4096  # blocks of that size that reach every multiprocessor of any device


def leaves_weights_out(problem: Point, tune: Point) -> str | None:
    """Refuse problems at which the threads inside the image stage all weights, and so hide the fault."""
    inside = problem.H**2 % tune.block or tune.block  # threads of the last block that stay
    if inside >= min(problem.C, tune.block):
        return (
            f"the last block's {inside} threads inside the image stage all of C={problem.C} weights: nothing is wrong"
        )
    return None


@family.cuda(
    "fused_as_printed",
    source="fused_as_printed.cu",
    tunables=(BLOCK,),
    constraint=leaves_weights_out,
    expected="wrong",
)
def fused_as_printed(problem: Point, tune: Point) -> Program:
    """The fused kernel as printed: threads outside the image leave before their weights are staged: wrong."""
    spoil = Launch("occupy_shared", (SHARED_BLOCKS,), (tune.block,), (SHARED_BYTES // 4,), shared_bytes=SHARED_BYTES)
    program = fused(problem, tune)
    return replace(program, steps=(replace(program.launches[0], kernel="fused_as_printed"),), setup=(spoil,))


@family.library("cudnn_fp32", requires=("torch",), tolerance=cudnn_tolerance)
def cudnn_fp32(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuDNN in float32, the fastest of its algorithms for the problem (through PyTorch)."""
    from . import cudnn

    return cudnn.prepare(inputs, outputs, (problem.R - 1) // 2, allow_tf32=False)


@family.library("cudnn_tf32", requires=("torch",), tolerance=tf32_tolerance)
def cudnn_tf32(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuDNN with TF32 tensor cores allowed, the fastest of its algorithms for the problem (through PyTorch)."""
    from . import cudnn

    return cudnn.prepare(inputs, outputs, (problem.R - 1) // 2, allow_tf32=True)


@family.cpu("cpu_serial", requires=("numba",))
def cpu_serial(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """The two stages of the split version as plain loops in the published order, on one core (Numba)."""
    from . import cpu

    return cpu.prepare(cpu.scalar_prods, problem.R, inputs, outputs)


@family.cpu("cpu_reordered", requires=("numba",))
def cpu_reordered(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """The same with the channels outside and the pixels of a row innermost, on one core (Numba)."""
    from . import cpu

    return cpu.prepare(cpu.scalar_prods_by_rows, problem.R, inputs, outputs)


@family.cpu("cpu_parallel", requires=("numba",))
def cpu_parallel(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """The fused version on all cores, a filter a task (Numba)."""
    from . import cpu

    arguments = (inputs["input"], inputs["filters"], outputs["output"])
    cpu.compile_for(cpu.convolve, *arguments)
    return lambda: cpu.convolve(*arguments)
