"""A 3x3 filter over an 8-bit image: where its data live, thread coarsening and vector stores, against libraries.

The result at each pixel is the weighted sum of the 3x3 pixels around it over 16. The one-pixel border of the output is
not part of the result: kernels may write it, libraries may leave it, and it is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof import Array, Arrays, Axis, Family, Launch, Point, Program, Signature, Tolerance, Tunable

from . import libraries

Buffers = Mapping[str, Any]

GAUSSIAN = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], dtype=np.int32)
DIVISOR = 16
BAND = 256  # rows of the reference computed at a time, so that its intermediates stay small


def get_signature(problem: Point) -> Signature:
    """Return the image and the nine weights in, an image of the same size out."""
    image = Array((problem.size, problem.size), "uint8")
    return Signature({"image": image, "weights": Array((3, 3), "int32")}, {"output": image})


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return an image of independent pixels, uniform over 0…255, and the Gaussian weights."""
    image = rng.integers(0, 256, (problem.size, problem.size), dtype=np.uint8)
    return {"image": image, "weights": GAUSSIAN.copy()}


def get_reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the exact quotients, multiples of 1/16 below 256, which float32 holds exactly; zero on the border."""
    image, weights, size = inputs["image"], inputs["weights"], problem.size
    quotients = np.zeros((size, size), np.float32)
    for top in range(1, size - 1, BAND):
        bottom = min(top + BAND, size - 1)
        sums = np.zeros((bottom - top, size - 2), np.int32)
        for dy in range(3):
            for dx in range(3):
                sums += weights[dy, dx] * image[top + dy - 1 : bottom + dy - 1, dx : dx + size - 2]
        quotients[top:bottom, 1:-1] = sums / np.float32(DIVISOR)
    return {"output": quotients}


def get_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Return 15/16 inside: the two whole numbers around the quotient and no other; anything on the border.

    The study does not say how the quotient becomes a whole number, and libraries differ: its kernels truncate, OpenCV
    rounds. Either result is less than 1 away from the quotient, which is a multiple of 1/16; every other one is not.
    """
    allowed = np.full((problem.size, problem.size), (DIVISOR - 1) / DIVISOR, np.float16)
    allowed[[0, -1], :] = np.inf
    allowed[:, [0, -1]] = np.inf
    return Tolerance(absolute=allowed, reason="truncated or rounded; the one-pixel border is not part of the result")


family = Family(
    name="filter3x3",
    title="3×3 filter over an 8-bit image",
    axes=(Axis("size", default=3072, low=3, high=32768, description="rows, and columns, of the square image"),),
    signature=get_signature,
    generate=generate,
    reference=get_reference,
    tolerance=get_tolerance,
    useful_bytes=lambda problem: problem.size**2 + (problem.size - 2) ** 2 + GAUSSIAN.nbytes,
    flops=lambda problem: 18 * (problem.size - 2) ** 2,  # nine products, eight sums, one quotient: integer operations
    presets={"published": {"size": 3072}, "large": {"size": 8192}},
    baseline="gm",
    constants=("weights",),
)

CF = Tunable("cf", (2, 4, 8, 12, 16), default=8, description="adjacent pixels a thread computes: coarsening factor")
BLOCK_VALUES = (8, 16, 32)
BLOCK = Tunable("block", BLOCK_VALUES, default=16, description="threads a block: block × block")
SHARED_BLOCK = Tunable("block", BLOCK_VALUES, default=32, description="threads a block: block × block; the tile's side")


def plan_filter(
    kernel: str, problem: Point, tune: Point, *, cf: int = 1, vector: bool = False, weights: str = "weights"
) -> Program:
    """Return one launch of a kernel, a thread for each run of `cf` pixels of a row.

    Args:
        kernel: "filter_gm", "filter_cm", "filter_sm" or "filter_gm_float".
        vector: whether runs are stored as vectors.
        weights: the buffer of the weights.
    """
    size, block = problem.size, tune.block
    runs = -(-size // cf)
    constant = kernel == "filter_cm"
    arguments = ("image", "output", size) if constant else ("image", weights, "output", size)
    return Program(
        steps=(Launch(kernel, (-(-runs // block), -(-size // block)), (block, block), arguments),),
        defines={
            "BLOCK": block,
            "CF": cf,
            "VECTOR": int(vector),
            "PARTIAL": int(size % cf != 0),
            "RAGGED": int(size % (block * cf) != 0),
        },
        constants={"filter_weights": "weights"} if constant else {},
    )


def needs_aligned_rows(problem: Point, tune: Point) -> str | None:
    """Refuse sizes at which rows do not begin at multiples of the vector store's width."""
    width = min(tune.cf, 4)
    if problem.size % width:
        return f"vector stores of {width} bytes need a size that {width} divides"
    return None


@family.cuda("gm", source="gm.cu", tunables=(BLOCK,), origin="GM")
def gm(problem: Point, tune: Point) -> Program:
    """Filter and image in global memory, one thread a pixel."""
    return plan_filter("filter_gm", problem, tune)


@family.cuda("cm", source="cm.cu", tunables=(BLOCK,), origin="CM")
def cm(problem: Point, tune: Point) -> Program:
    """Filter in constant memory, one thread a pixel."""
    return plan_filter("filter_cm", problem, tune)


@family.cuda("sm", source="sm.cu", tunables=(SHARED_BLOCK,), origin="SM")
def sm(problem: Point, tune: Point) -> Program:
    """The block's tile and its frame staged in shared memory, one thread a pixel."""
    return plan_filter("filter_sm", problem, tune)


@family.cuda("gm_cf", source="gm.cu", tunables=(CF, BLOCK), origin="GM CF")
def gm_cf(problem: Point, tune: Point) -> Program:
    """As gm, cf adjacent pixels a thread, the window of pixels kept in registers."""
    return plan_filter("filter_gm", problem, tune, cf=tune.cf)


@family.cuda("cm_cf", source="cm.cu", tunables=(CF, BLOCK), origin="CM CF")
def cm_cf(problem: Point, tune: Point) -> Program:
    """As cm, cf adjacent pixels a thread, the window of pixels kept in registers."""
    return plan_filter("filter_cm", problem, tune, cf=tune.cf)


@family.cuda("sm_cf", source="sm.cu", tunables=(CF, SHARED_BLOCK), origin="SM CF")
def sm_cf(problem: Point, tune: Point) -> Program:
    """As sm, cf adjacent pixels a thread, the window of pixels kept in registers."""
    return plan_filter("filter_sm", problem, tune, cf=tune.cf)


@family.cuda("gm_vec", source="gm.cu", tunables=(CF, BLOCK), constraint=needs_aligned_rows, origin="GM CF Vec")
def gm_vec(problem: Point, tune: Point) -> Program:
    """As gm_cf, the results leaving in vector stores."""
    return plan_filter("filter_gm", problem, tune, cf=tune.cf, vector=True)


@family.cuda("cm_vec", source="cm.cu", tunables=(CF, BLOCK), constraint=needs_aligned_rows, origin="CM CF Vec")
def cm_vec(problem: Point, tune: Point) -> Program:
    """As cm_cf, the results leaving in vector stores."""
    return plan_filter("filter_cm", problem, tune, cf=tune.cf, vector=True)


@family.cuda("sm_vec", source="sm.cu", tunables=(CF, SHARED_BLOCK), constraint=needs_aligned_rows, origin="SM CF Vec")
def sm_vec(problem: Point, tune: Point) -> Program:
    """As sm_cf, pixels entering shared memory and results leaving in vector stores."""
    return plan_filter("filter_sm", problem, tune, cf=tune.cf, vector=True)


@family.cuda("gm_float", source="gm_float.cu", tunables=(BLOCK,), origin="GM, float weights")
def gm_float(problem: Point, tune: Point) -> Program:
    """As gm, the weights in float32 as published; they are converted beforehand, untimed."""
    return replace(
        plan_filter("filter_gm_float", problem, tune, weights="scaled"),
        scratch={"scaled": Array((9,), "float32")},
        setup=(Launch("scale_weights", (1,), (9,), ("weights", "scaled")),),
    )


BORDER = Tunable(
    "border",
    ("interior", "replicate"),
    default="interior",
    description="the function without border handling on the interior, or the one with it on the whole image",
)


@family.library("npp_filter", requires=("cupy", "cuda.pathfinder"), tunables=(BORDER,), origin="NPP")
def npp_filter(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """NPP's general filter with integer weights and a divisor."""
    return libraries.npp_filter(inputs["image"], inputs["weights"], DIVISOR, outputs["output"], tune.border)


@family.library("cupy_convolve", requires=("cupy",), origin="CuPy")
def cupy_convolve(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """CuPy's general N-dimensional convolution."""
    import cupy
    from cupyx.scipy.ndimage import convolve

    weights = inputs["weights"].astype(cupy.float32) / cupy.float32(DIVISOR)
    image, output = inputs["image"], outputs["output"]

    def run() -> None:
        convolve(image, weights, output=output, mode="nearest")

    run()  # compiles its kernel
    return run


@family.library("opencv_cuda", requires=("cupy", "cv2"), origin="OpenCV")
def opencv_cuda(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """OpenCV's Gaussian filter on the GPU, where OpenCV was built with CUDA."""
    return libraries.opencv_cuda(inputs["image"], outputs["output"])


@family.library("cucim", requires=("cupy", "cucim"), origin="cuCIM")
def cucim(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuCIM's Gaussian filter (scikit-image on the GPU), which works on floats."""
    return libraries.cucim_gaussian(inputs["image"], outputs["output"])


@family.library("cvcuda", requires=("cupy", "cvcuda"), origin="CV-CUDA")
def cvcuda(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """CV-CUDA's Gaussian filter."""
    return libraries.cvcuda_gaussian(inputs["image"], outputs["output"])


@family.library("arrayfire", requires=("cupy", "arrayfire"), origin="ArrayFire")
def arrayfire(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """ArrayFire's convolution, its result copied to the output on the device."""
    return libraries.arrayfire_convolve(inputs["image"], inputs["weights"], DIVISOR, outputs["output"])


@family.library("opencv_cpu", backend="cpu", requires=("cv2",), origin="OpenCV, CPU")
def opencv_cpu(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """OpenCV's Gaussian blur on the CPU, all cores, vector instructions."""
    import cv2

    image, output = inputs["image"], outputs["output"]
    # With a side of 3 and sigma 0 the weights are 1/4, 1/2, 1/4 in each direction.
    return lambda: cv2.GaussianBlur(image, (3, 3), 0, dst=output, borderType=cv2.BORDER_REPLICATE)


@family.cpu("cpu_serial", requires=("numba",), origin="CPU")
def cpu_serial(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Plain loops, one core (Numba)."""
    from numba import njit

    @njit(nogil=True)
    def filter_image(image, weights, output):
        for y in range(1, image.shape[0] - 1):
            for x in range(1, image.shape[1] - 1):
                total = np.int32(0)
                for dy in range(3):
                    for dx in range(3):
                        total += weights[dy, dx] * np.int32(image[y + dy - 1, x + dx - 1])
                output[y, x] = np.uint8(total >> 4)  # over 16, truncated

    return compile_for(filter_image, inputs, outputs)


@family.cpu("cpu_parallel", requires=("numba",), origin="CPU, all cores")
def cpu_parallel(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Rows shared by all cores (Numba), the nine products written out."""
    from numba import njit, prange

    @njit(parallel=True, nogil=True)
    def filter_image(image, weights, output):
        for y in prange(1, image.shape[0] - 1):
            above, at, below = image[y - 1], image[y], image[y + 1]
            for x in range(1, image.shape[1] - 1):
                total = (
                    weights[0, 0] * np.int32(above[x - 1])
                    + weights[0, 1] * np.int32(above[x])
                    + weights[0, 2] * np.int32(above[x + 1])
                    + weights[1, 0] * np.int32(at[x - 1])
                    + weights[1, 1] * np.int32(at[x])
                    + weights[1, 2] * np.int32(at[x + 1])
                    + weights[2, 0] * np.int32(below[x - 1])
                    + weights[2, 1] * np.int32(below[x])
                    + weights[2, 2] * np.int32(below[x + 1])
                )
                output[y, x] = np.uint8(total >> 4)  # over 16, truncated

    return compile_for(filter_image, inputs, outputs)


def compile_for(filter_image: Callable[..., object], inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Return the call on these arrays, compiled already: Numba compiles at the first one."""
    image, weights, output = inputs["image"], inputs["weights"], outputs["output"]
    filter_image(image[:3], weights, output[:3])
    return lambda: filter_image(image, weights, output)
