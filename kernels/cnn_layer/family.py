"""A VGG-style CNN layer in OpenCL: 3×3 convolution with zero padding over many channels, bias, ReLU.

Arrays are float32: input D1 × N × N, filters D2 × D1 × 3 × 3, bias D2, output D2 × N × N.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuprof import Array, Arrays, Axis, Family, Fill, Launch, Point, Program, Signature, Tolerance, Tunable

Buffers = Mapping[str, Any]

UNIT_ROUNDOFF = 2.0**-24  # of float32, round to nearest
TRANSFORM_TERMS = 64  # extra rounding errors granted to libraries that transform tiles (Winograd) before they multiply
LOCAL_BYTES = 48 * 1024  # local memory that a group can count on
GROUP_ITEMS = 1024  # work-items that a group can count on
HIDING_OUTPUTS = 64


def get_signature(problem: Point) -> Signature:
    """Return input, filters and bias in, the layer's output out."""
    side, channels, features = problem.N, problem.D1, problem.D2
    return Signature(
        {
            "input": Array((channels, side, side), "float32"),
            "filters": Array((features, channels, 3, 3), "float32"),
            "bias": Array((features,), "float32"),
        },
        {"output": Array((features, side, side), "float32")},
    )


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return uniform numbers: input in [-1, 1), filters so that outputs are of size one, bias in [-0.5, 0.5)."""
    shapes = {name: spec.shape for name, spec in get_signature(problem).inputs.items()}
    scale = np.float32(1 / np.sqrt(problem.D1))
    return {
        "input": 2 * rng.random(shapes["input"], np.float32) - 1,
        "filters": scale * (2 * rng.random(shapes["filters"], np.float32) - 1),
        "bias": rng.random(shapes["bias"], np.float32) - np.float32(0.5),
    }


def convolve(inputs: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Return the padded 3×3 convolution in float64, one matrix product a tap."""
    side = inputs.shape[-1]
    padded = np.pad(inputs.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    wide = filters.astype(np.float64)
    total = np.zeros((filters.shape[0], side, side))
    for dy in range(3):
        for dx in range(3):
            total += np.tensordot(wide[:, :, dy, dx], padded[:, dy : dy + side, dx : dx + side], axes=1)
    return total


def get_reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the layer in float64."""
    total = convolve(inputs["input"], inputs["filters"]) + inputs["bias"][:, None, None]
    return {"output": np.maximum(total, 0.0)}


def get_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Return the rounding error that no order of summation exceeds, element by element.

    A sum of k products in float32 differs from the exact one by at most k·u/(1 - k·u) · Σ|products|, in any order
    (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §3.1). Here k is 9·D1 products and the bias,
    and 64 more for libraries that transform. ReLU brings no two numbers further apart. At D1 = 512 that is 3·10⁻⁴ of
    Σ|products|; a lost channel is missed by 1/D1 of it, several times as much.
    """
    terms = 9 * problem.D1 + 1 + TRANSFORM_TERMS
    magnitude = convolve(np.abs(inputs["input"]), np.abs(inputs["filters"])) + np.abs(inputs["bias"])[:, None, None]
    share = terms * UNIT_ROUNDOFF / (1 - terms * UNIT_ROUNDOFF)
    return Tolerance(absolute=share * magnitude, reason=f"{terms} rounding errors of float32 in any order of summation")


def count_operations(problem: Point) -> int:
    """Return the multiplications and additions of the convolution, two for each of 9·D1·D2·N² products."""
    return int(2 * 9 * problem.D1 * problem.D2 * problem.N**2)


def count_bytes(problem: Point) -> int:
    """Return the size of everything read once and written once."""
    signature = get_signature(problem)
    return sum(spec.nbytes for spec in (*signature.inputs.values(), *signature.outputs.values()))


family = Family(
    name="cnn_layer",
    title="CNN layer: 3×3 convolution, bias, ReLU",
    axes=(
        Axis("N", default=32, low=1, high=512, description="side of the square input and output planes"),
        Axis("D1", default=64, low=1, high=2048, description="input channels"),
        Axis("D2", default=64, low=1, high=2048, description="output channels"),
    ),
    signature=get_signature,
    generate=generate,
    reference=get_reference,
    tolerance=get_tolerance,
    useful_bytes=count_bytes,
    flops=count_operations,
    presets={
        "conv1_1": {"N": 32, "D1": 3, "D2": 64},
        "conv1_2": {"N": 32, "D1": 64, "D2": 64},
        "conv2_1": {"N": 16, "D1": 64, "D2": 128},
        "conv2_2": {"N": 16, "D1": 128, "D2": 128},
        "conv3_1": {"N": 8, "D1": 128, "D2": 256},
        "conv3_2": {"N": 8, "D1": 256, "D2": 256},
        "conv4_1": {"N": 4, "D1": 256, "D2": 512},
        "conv4_2": {"N": 4, "D1": 512, "D2": 512},
        "conv5": {"N": 2, "D1": 512, "D2": 512},
    },
    baseline="parallel_d2",
)

GROUP = Tunable("group", (32, 64, 128, 256), default=64, description="work-items a group")


def cover(counts: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many groups of the shape `block` cover the work-items."""
    return tuple(-(-count // items) for count, items in zip(counts, block, strict=True))


def shape_group(items: int, first: int) -> tuple[int, int]:
    """Return a group of that many work-items that is no longer than needed in its first dimension."""
    along = min(items, 1 << (first - 1).bit_length())
    return along, items // along


def shows_a_race(problem: Point, tune: Point) -> str | None:
    """Refuse problems at which the race has nothing to spoil, or too little to be seen for certain."""
    if problem.D1 < 2:
        return "a single input channel (D1 = 1) leaves nothing to race"
    if problem.N**2 * problem.D2 < HIDING_OUTPUTS:
        return f"with fewer than {HIDING_OUTPUTS} outputs (N²·D2) the ReLU may hide the race"
    return None


@family.opencl("racy", source="racy.cl", tunables=(GROUP,), constraint=shows_a_race, expected="wrong")
def racy(problem: Point, tune: Point) -> Program:
    """All input channels added to the same output at once, without synchronisation: wrong."""
    side, channels, features = problem.N, problem.D1, problem.D2
    pixels = side**2
    along, across = shape_group(tune.group, channels)
    block = (along, across, 1)
    finish_block = (*shape_group(tune.group, pixels),)
    return Program(
        steps=(
            Fill("output", 0),
            Launch(
                "add_channel",
                cover((channels, pixels, features), block),
                block,
                ("input", "filters", "output", side, channels, features),
            ),
            Launch(
                "finish", cover((pixels, features), finish_block), finish_block, ("bias", "output", pixels, features)
            ),
        )
    )


@family.cuda("racy_cuda", source="racy.cu", tunables=(GROUP,), constraint=shows_a_race, expected="wrong")
def racy_cuda(problem: Point, tune: Point) -> Program:
    """All input channels added to one sum in shared memory at once, without synchronisation: wrong."""
    arguments = ("input", "filters", "bias", "output", problem.N, problem.D1)
    return Program(steps=(Launch("add_channels", (problem.N**2, problem.D2), (tune.group,), arguments),))


@family.opencl("parallel_d2", source="parallel_d2.cl", tunables=(GROUP,))
def parallel_d2(problem: Point, tune: Point) -> Program:
    """One work-item an output, which adds up the input channels; padding by tests."""
    pixels = problem.N**2
    block = shape_group(tune.group, pixels)
    arguments = ("input", "filters", "bias", "output", problem.N, problem.D1, problem.D2)
    return Program(steps=(Launch("parallel_d2", cover((pixels, problem.D2), block), block, arguments),))


def get_tile(problem: Point, tune: Point) -> int:
    """Return the tile's side: the tunable, but no larger than the plane."""
    return int(min(tune.tile, problem.N))


def fits_a_group(problem: Point, tune: Point) -> str | None:
    """Refuse choices that need more work-items than a group has; local memory suffices for all that are left."""
    items = get_tile(problem, tune) ** 2 * tune.features
    if items > GROUP_ITEMS:
        return f"tile² · features = {items} work-items a group, more than {GROUP_ITEMS}"
    return None


@family.opencl(
    "local_memory",
    source="local_memory.cl",
    tunables=(
        Tunable("tile", (2, 4, 8, 16), default=8, description="side of a group's square of outputs, at most N"),
        Tunable("features", (1, 2, 4, 8, 16, 32), default=4, description="output channels a group computes"),
        Tunable("channels", (1, 2, 4, 8, 16), default=8, description="input channels staged at a time"),
    ),
    constraint=fits_a_group,
)
def local_memory(problem: Point, tune: Point) -> Program:
    """Inputs and filters staged in local memory, a few channels at a time."""
    tile = get_tile(problem, tune)
    grid = (-(-problem.N // tile)) ** 2, -(-problem.D2 // tune.features)
    arguments = ("input", "filters", "bias", "output", problem.N, problem.D1, problem.D2)
    return Program(
        steps=(Launch("local_memory", grid, (tile**2, tune.features), arguments),),
        defines={"TILE": tile, "FEATURES": tune.features, "CHANNELS": tune.channels},
    )


def fits_a_window(problem: Point, tune: Point) -> str | None:
    """Refuse layers whose window and weights exceed a group's local memory."""
    staged = 2 * 4 * 9 * problem.D1
    if staged > LOCAL_BYTES:
        return f"a window and its weights take {staged} bytes of local memory, more than {LOCAL_BYTES}"
    return None


def plan_window(problem: Point, block: tuple[int, int]) -> Program:
    """Return the published use of local memory in groups of this shape: pixels × output channels."""
    arguments = ("input", "filters", "bias", "output", problem.N, problem.D2)
    return Program(
        steps=(Launch("local_memory_window", cover((problem.N**2, problem.D2), block), block, arguments),),
        defines={"CHANNELS": problem.D1},
    )


@family.opencl(
    "local_memory_window",
    source="local_memory_window.cl",
    constraint=fits_a_window,
    origin="local memory, as published",
)
def local_memory_window(problem: Point, tune: Point) -> Program:
    """A work-item stages its own window and weights in local memory; groups of one work-item."""
    return plan_window(problem, (1, 1))


def shows_overwritten_windows(problem: Point, tune: Point) -> str | None:
    """Refuse what `fits_a_window` refuses, and planes so small that ReLU may hide wrong outputs."""
    if problem.N**2 * problem.D2 < HIDING_OUTPUTS:
        return f"with fewer than {HIDING_OUTPUTS} outputs (N²·D2) the ReLU may hide the overwritten windows"
    return fits_a_window(problem, tune)


@family.opencl(
    "local_memory_window_shared",
    source="local_memory_window.cl",
    tunables=(GROUP,),
    constraint=shows_overwritten_windows,
    expected="wrong",
)
def local_memory_window_shared(problem: Point, tune: Point) -> Program:
    """As local_memory_window in larger groups, whose work-items overwrite each other's windows: wrong."""
    return plan_window(problem, shape_group(tune.group, problem.N**2))


def fits_at_once(problem: Point, tune: Point) -> str | None:
    """Refuse layers that are too large for a group's local memory."""
    staged = 4 * problem.D1 * (problem.N**2 + 9)
    if staged > LOCAL_BYTES:
        return f"input and one output channel's weights take {staged} bytes of local memory, more than {LOCAL_BYTES}"
    return None


@family.opencl("local_memory_at_once", source="local_memory_at_once.cl", tunables=(GROUP,), constraint=fits_at_once)
def local_memory_at_once(problem: Point, tune: Point) -> Program:
    """The whole input and an output channel's weights staged in local memory by every group."""
    arguments = ("input", "filters", "bias", "output")
    return Program(
        steps=(Launch("local_memory_at_once", (problem.D2,), (tune.group,), arguments),),
        defines={"SIDE": problem.N, "CHANNELS": problem.D1, "GROUP": tune.group},
    )


@family.opencl("unrolled", source="unrolled.cl", tunables=(GROUP,))
def unrolled(problem: Point, tune: Point) -> Program:
    """Nine taps written out, after a kernel that copies the input into padded planes."""
    side, channels, features = problem.N, problem.D1, problem.D2
    pixels, framed = side**2, (side + 2) ** 2
    pad_block, block = shape_group(tune.group, framed), shape_group(tune.group, pixels)
    return Program(
        steps=(
            Launch("pad", cover((framed, channels), pad_block), pad_block, ("input", "padded", side, channels)),
            Launch(
                "unrolled",
                cover((pixels, features), block),
                block,
                ("padded", "filters", "bias", "output", side, channels, features),
            ),
        ),
        scratch={"padded": Array((channels, side + 2, side + 2), "float32")},
    )


@family.opencl(
    "unrolled_interior",
    source="unrolled_interior.cl",
    tunables=(GROUP,),
    expected="wrong",
    origin="unrolled, as published",
)
def unrolled_interior(problem: Point, tune: Point) -> Program:
    """Nine taps written out for the interior alone, the border never written: wrong."""
    pixels = problem.N**2
    block = shape_group(tune.group, pixels)
    arguments = ("input", "filters", "bias", "output", problem.N, problem.D1, problem.D2)
    return Program(steps=(Launch("unrolled_interior", cover((pixels, problem.D2), block), block, arguments),))


@family.cpu("sequential", requires=("numba",))
def sequential(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Plain loops on the CPU, one core (Numba)."""
    from numba import njit

    @njit(nogil=True)
    def run_layer(image, filters, bias, output):
        features, side, _ = output.shape
        for feature in range(features):
            for y in range(side):
                for x in range(side):
                    total = bias[feature]
                    for channel in range(image.shape[0]):
                        for dy in range(max(0, 1 - y), min(3, side + 1 - y)):
                            for dx in range(max(0, 1 - x), min(3, side + 1 - x)):
                                total += image[channel, y + dy - 1, x + dx - 1] * filters[feature, channel, dy, dx]
                    output[feature, y, x] = max(total, np.float32(0))

    return compile_for(run_layer, inputs, outputs)


@family.cpu("cpu_parallel", requires=("numba",))
def cpu_parallel(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Output channels shared by all cores (Numba), a row at a time so that the inner loop vectorises."""
    from numba import njit, prange

    @njit(parallel=True, nogil=True)
    def run_layer(image, filters, bias, output):
        features, side, _ = output.shape
        for feature in prange(features):
            plane = output[feature]
            plane[:, :] = bias[feature]
            for channel in range(image.shape[0]):
                for dy in range(3):
                    for dx in range(3):
                        weight = filters[feature, channel, dy, dx]
                        left, right = max(0, 1 - dx), min(side, side + 1 - dx)
                        for y in range(max(0, 1 - dy), min(side, side + 1 - dy)):
                            for x in range(left, right):
                                plane[y, x] += weight * image[channel, y + dy - 1, x + dx - 1]
            for y in range(side):
                for x in range(side):
                    plane[y, x] = max(plane[y, x], np.float32(0))

    return compile_for(run_layer, inputs, outputs)


def compile_for(run_layer: Callable[..., object], inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Return the call on these arrays, compiled already: Numba compiles at the first one."""
    image, filters, bias, output = inputs["input"], inputs["filters"], inputs["bias"], outputs["output"]
    run_layer(image[:1], filters[:1, :1], bias[:1], output[:1])
    return lambda: run_layer(image, filters, bias, output)


@family.library("cudnn", requires=("cupy", "torch"))
def cudnn(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """cuDNN's fused convolution, bias and ReLU in fp32, algorithm searched (PyTorch), then a copy to the output."""
    from cuprof.backends.torch_bridge import as_tensor, get_torch, on_current_stream

    torch = get_torch()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    image, output = as_tensor(inputs["input"])[None], as_tensor(outputs["output"])[None]
    filters, bias = as_tensor(inputs["filters"]), as_tensor(inputs["bias"])

    def run() -> None:
        with on_current_stream():
            output.copy_(torch.cudnn_convolution_relu(image, filters, bias, (1, 1), (1, 1), (1, 1), 1))

    run()  # searches the algorithm
    return run


@family.library("torch_cpu", backend="cpu", requires=("torch",))
def torch_cpu(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """PyTorch's convolution and ReLU on the CPU, all cores."""
    import torch

    image = torch.from_numpy(inputs["input"])[None]
    filters, bias = torch.from_numpy(inputs["filters"]), torch.from_numpy(inputs["bias"])
    output = torch.from_numpy(outputs["output"])[None]

    def run() -> None:
        with torch.inference_mode():
            result = torch.nn.functional.conv2d(image, filters, bias, padding=1)
            torch.clamp_min(result, 0.0, out=output)

    return run
