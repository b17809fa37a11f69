"""PyTorch on CuPy's arrays and CuPy's stream, for variants that call a library through PyTorch.

    torch = get_torch()
    x, y = as_tensor(inputs["x"]), as_tensor(outputs["y"])

    def run():
        with on_current_stream():
            torch.add(x, 1, out=y)

Tensors share the arrays' memory. Whatever is enqueued inside `on_current_stream` is ordered after, and timed with,
what CuPy and the framework put on CuPy's current stream. Like that stream, it belongs to one thread.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from cuprof.core.errors import MissingDependencyError, needing

REMEDY = "pip install torch (a build for CUDA; https://pytorch.org/get-started/locally)"


def get_torch() -> Any:
    """Return the module `torch`.

    Raises:
        MissingDependencyError: PyTorch is absent, or built without CUDA or cuDNN.
    """
    with needing("PyTorch", REMEDY):
        torch: Any = import_module("torch")
    if not torch.backends.cudnn.is_available():
        raise MissingDependencyError(f"cuDNN in PyTorch {torch.__version__}", REMEDY)
    return torch


def as_tensor(array: Any) -> Any:
    """Return a tensor on the memory of a CuPy array (DLPack: no copy)."""
    return get_torch().from_dlpack(array)


def compute_capability() -> tuple[int, int]:
    """Return the compute capability of CuPy's current device."""
    import cupy

    major, minor = get_torch().cuda.get_device_capability(cupy.cuda.Device().id)
    return int(major), int(minor)


def on_current_stream() -> AbstractContextManager[Any]:
    """Return a context in which PyTorch works on CuPy's current stream and device."""
    import cupy

    torch = get_torch()
    stream = stream_of(torch, cupy.cuda.get_current_stream().ptr, cupy.cuda.Device().id)
    return torch.cuda.stream(stream)  # type: ignore[no-any-return]


def stream_of(torch: Any, pointer: int, device: int) -> Any:
    """Return PyTorch's object for a stream of a device; pointer 0 is the default stream."""
    return torch.cuda.ExternalStream(pointer, device) if pointer else torch.cuda.default_stream(device)
