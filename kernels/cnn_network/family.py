"""One layer of a VGG-style network: a convolution, a pooling or a fully connected layer, to see where the time goes.

Arrays are float32. A convolution is that of the family cnn_layer: 3×3, zero padding 1, bias, ReLU. A pooling takes the
largest of each 2×2 pixels. A fully connected layer is a matrix times a vector, bias and ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cuprof import Array, Arrays, Axis, Family, Point, Signature, Tolerance

Buffers = Mapping[str, Any]

UNIT_ROUNDOFF = 2.0**-24  # of float32, round to nearest
TRANSFORM_TERMS = 64  # extra rounding errors granted to libraries that transform tiles (Winograd) before they multiply


def get_signature(problem: Point) -> Signature:
    """Return the layer's input, and weights and bias where it has them, in; its output out."""
    side, channels, features = problem.N, problem.D1, problem.D2
    image = Array((channels, side, side), "float32")
    bias = Array((features,), "float32")
    if problem.layer == "pool":
        return Signature({"input": image}, {"output": Array((channels, side // 2, side // 2), "float32")})
    if problem.layer == "dense":
        vectors = {"input": Array((channels,), "float32"), "weights": Array((features, channels), "float32")}
        return Signature({**vectors, "bias": bias}, {"output": bias})
    filters = Array((features, channels, 3, 3), "float32")
    return Signature(
        {"input": image, "weights": filters, "bias": bias}, {"output": Array((features, side, side), "float32")}
    )


def constraint(problem: Point) -> str | None:
    """Refuse shapes that a layer does not have."""
    if problem.layer == "pool" and (problem.N % 2 or problem.D1 != problem.D2):
        return f"a pooling halves an even side and keeps its channels: N={problem.N}, D1={problem.D1}, D2={problem.D2}"
    if problem.layer == "dense" and problem.N != 1:
        return f"a fully connected layer takes a vector, N=1, not N={problem.N}"
    return None


def generate(problem: Point, rng: np.random.Generator) -> Arrays:
    """Return uniform numbers: input and bias in [-1, 1), weights so that outputs are of size one."""
    arrays = {name: 2 * rng.random(spec.shape, np.float32) - 1 for name, spec in get_signature(problem).inputs.items()}
    if "weights" in arrays:
        arrays["weights"] *= np.float32(1 / np.sqrt(problem.D1))
    return arrays


def multiply(problem: Point, image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the layer's sums of products in float64, without the bias."""
    wide, image = weights.astype(np.float64), image.astype(np.float64)
    if problem.layer == "dense":
        return wide @ image
    side = problem.N
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    taps = [(dy, dx) for dy in range(3) for dx in range(3)]
    parts = [np.tensordot(wide[:, :, dy, dx], padded[:, dy : dy + side, dx : dx + side], axes=1) for dy, dx in taps]
    return np.sum(parts, axis=0)


def add_bias(sums: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the sums with the bias of each output channel added."""
    return sums + bias.reshape(-1, *[1] * (sums.ndim - 1))


def get_reference(problem: Point, inputs: Arrays) -> Arrays:
    """Return the layer in float64; a pooling's numbers are some of its input's."""
    if problem.layer == "pool":
        half = problem.N // 2
        blocks = inputs["input"].reshape(problem.D1, half, 2, half, 2)
        return {"output": blocks.max(axis=(2, 4))}
    return {"output": np.maximum(add_bias(multiply(problem, inputs["input"], inputs["weights"]), inputs["bias"]), 0.0)}


def get_tolerance(problem: Point, inputs: Arrays, reference: Arrays) -> Tolerance:
    """Return the rounding error that no order of summation exceeds; a pooling is exact.

    A sum of k products in float32 differs from the exact one by at most k·u/(1 - k·u) · Σ|products|, in any order
    (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., §3.1).
    """
    if problem.layer == "pool":
        return Tolerance(reason="the largest of four numbers is one of them")
    terms = (9 if problem.layer == "conv" else 1) * problem.D1 + 1 + TRANSFORM_TERMS
    magnitude = add_bias(multiply(problem, np.abs(inputs["input"]), np.abs(inputs["weights"])), np.abs(inputs["bias"]))
    share = terms * UNIT_ROUNDOFF / (1 - terms * UNIT_ROUNDOFF)
    return Tolerance(absolute=share * magnitude, reason=f"{terms} rounding errors of float32 in any order of summation")


def count_operations(problem: Point) -> int:
    """Return multiplications and additions of a layer with weights, comparisons of a pooling."""
    if problem.layer == "pool":
        return int(3 * problem.D1 * (problem.N // 2) ** 2)
    return int(2 * (9 if problem.layer == "conv" else 1) * problem.D1 * problem.D2 * problem.N**2)


def count_bytes(problem: Point) -> int:
    """Return the size of everything read once and written once."""
    signature = get_signature(problem)
    return sum(spec.nbytes for spec in (*signature.inputs.values(), *signature.outputs.values()))


def shape_layer(layer: str, side: int, channels: int, features: int) -> dict[str, str | int]:
    """Return the coordinates of a layer."""
    return {"layer": layer, "N": side, "D1": channels, "D2": features}


family = Family(
    name="cnn_network",
    title="The layers of a CNN: convolutions, poolings, fully connected",
    axes=(
        Axis("layer", default="conv", choices=("conv", "pool", "dense"), description="what the layer does"),
        Axis("N", default=32, low=1, high=512, description="side of the square input planes"),
        Axis("D1", default=64, low=1, high=2048, description="input channels"),
        Axis("D2", default=64, low=1, high=2048, description="output channels"),
    ),
    signature=get_signature,
    generate=generate,
    reference=get_reference,
    tolerance=get_tolerance,
    useful_bytes=count_bytes,
    flops=count_operations,
    constraint=constraint,
    presets={
        "conv1_1": shape_layer("conv", 32, 3, 64),
        "conv1_2": shape_layer("conv", 32, 64, 64),
        "pool1": shape_layer("pool", 32, 64, 64),
        "conv2_1": shape_layer("conv", 16, 64, 128),
        "conv2_2": shape_layer("conv", 16, 128, 128),
        "pool2": shape_layer("pool", 16, 128, 128),
        "conv3_1": shape_layer("conv", 8, 128, 256),
        "conv3_2": shape_layer("conv", 8, 256, 256),
        "pool3": shape_layer("pool", 8, 256, 256),
        "conv4_1": shape_layer("conv", 4, 256, 512),
        "conv4_2": shape_layer("conv", 4, 512, 512),
        "pool4": shape_layer("pool", 4, 512, 512),
        "conv5": shape_layer("conv", 2, 512, 512),
        "pool5": shape_layer("pool", 2, 512, 512),
        "fc1": shape_layer("dense", 1, 512, 512),
        "fc3": shape_layer("dense", 1, 512, 10),
    },
    baseline="sequential",
)


@family.cpu("sequential", requires=("numba",))
def sequential(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """Plain loops on the CPU, one core (Numba)."""
    from . import cpu

    return cpu.prepare(problem.layer, inputs, outputs)


@family.library("cudnn", requires=("cupy", "torch"))
def cudnn(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """PyTorch on the GPU in fp32: cuDNN's convolution and pooling, cuBLAS for fully connected layers."""
    from cuprof.backends.torch_bridge import as_tensor, get_torch, on_current_stream

    torch = get_torch()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    tensors = {name: as_tensor(array) for name, array in {**inputs, **outputs}.items()}
    compute = _choose(problem.layer, torch, tensors)

    def run() -> None:
        with on_current_stream(), torch.inference_mode():
            compute()

    run()  # searches the algorithm
    return run


@family.library("torch_cpu", backend="cpu", requires=("torch",))
def torch_cpu(problem: Point, tune: Point, inputs: Buffers, outputs: Buffers) -> Callable[[], object]:
    """PyTorch on the CPU, all cores."""
    import torch

    compute = _choose(
        problem.layer, torch, {name: torch.from_numpy(array) for name, array in {**inputs, **outputs}.items()}
    )

    def run() -> None:
        with torch.inference_mode():
            compute()

    return run


def _choose(layer: str, torch: Any, tensors: Mapping[str, Any]) -> Callable[[], object]:
    """Return the layer in PyTorch on these tensors."""
    image, output = tensors["input"][None], tensors["output"][None]
    weights, bias = tensors.get("weights"), tensors.get("bias")
    functional = torch.nn.functional

    def pool() -> object:
        return output.copy_(functional.max_pool2d(image, 2))

    def dense() -> object:
        return torch.clamp_min(functional.linear(image, weights, bias), 0.0, out=output)

    def convolve() -> object:
        return torch.clamp_min(functional.conv2d(image, weights, bias, padding=1), 0.0, out=output)

    return {"pool": pool, "dense": dense, "conv": convolve}[layer]
