"""cuDNN's forward convolution with one given algorithm: NCHW, float, cross-correlation, IMPLICIT_GEMM.

PyTorch offers no choice of the algorithm, the library's own function does (cudnnConvolutionForward, kept in cuDNN 9 for
compatibility). The library is the one in NVIDIA's wheel, which PyTorch uses as well.
"""

from __future__ import annotations

import ctypes
import importlib.util
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from cuprof.errors import LaunchError, MissingDependencyError

# Values of the enumerations in cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h
TENSOR_NCHW = 0
DATA_FLOAT = 0
CROSS_CORRELATION = 1
FMA_MATH = 3
ALGO_IMPLICIT_GEMM = 0


def prepare(image: Any, filters: Any, output: Any) -> Callable[[], object]:
    """Describe the convolution to cuDNN and return it, bound to these CuPy arrays and run on CuPy's current stream."""
    import cupy

    channels, side, _ = image.shape
    descriptors = _Descriptors()
    x = descriptors.make("Tensor", "Tensor4d", TENSOR_NCHW, DATA_FLOAT, 1, channels, side, side)
    w = descriptors.make("Filter", "Filter4d", DATA_FLOAT, TENSOR_NCHW, 1, *filters.shape)
    y = descriptors.make("Tensor", "Tensor4d", TENSOR_NCHW, DATA_FLOAT, 1, 1, *output.shape)
    shape = (0, 0, 1, 1, 1, 1)  # padding, stride, dilation
    convolution = descriptors.make("Convolution", "Convolution2d", *shape, CROSS_CORRELATION, DATA_FLOAT)
    call("cudnnSetConvolutionMathType", convolution, FMA_MATH)

    handle = _get_handle(cupy.cuda.Device().id)
    size = ctypes.c_size_t()
    call(
        "cudnnGetConvolutionForwardWorkspaceSize",
        *(handle, x, w, convolution, y, ALGO_IMPLICIT_GEMM, ctypes.byref(size)),
    )
    workspace = cupy.empty(max(size.value, 1), cupy.uint8)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    arguments = (
        *(handle, ctypes.byref(one), x, _address(image), w, _address(filters), convolution, ALGO_IMPLICIT_GEMM),
        *(_address(workspace), size, ctypes.byref(zero), y, _address(output)),
    )

    def run() -> None:
        call("cudnnSetStream", handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
        call("cudnnConvolutionForward", *arguments)

    run.keep = (descriptors, workspace)  # type: ignore[attr-defined]
    return run


class _Descriptors:
    """Hold cuDNN descriptors and destroy them together."""

    def __init__(self) -> None:
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        weakref.finalize(self, _destroy, self._made).atexit = False

    def make(self, kind: str, setter: str, *values: int) -> ctypes.c_void_p:
        """Return a new descriptor of this kind, set to these values."""
        descriptor = ctypes.c_void_p()
        call(f"cudnnCreate{kind}Descriptor", ctypes.byref(descriptor))
        self._made.append((kind, descriptor))
        call(f"cudnnSet{setter}Descriptor", descriptor, *values)
        return descriptor


def _destroy(made: list[tuple[str, ctypes.c_void_p]]) -> None:
    for kind, descriptor in made:
        call(f"cudnnDestroy{kind}Descriptor", descriptor)


def call(function: str, *arguments: Any) -> None:
    """Call one function of cuDNN.

    Raises:
        LaunchError: it returned anything but success.
    """
    library = _load()
    status = getattr(library, function)(*arguments)
    if status:
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        raise LaunchError(f"{function}: {library.cudnnGetErrorString(status).decode()}")


@cache
def _load() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia.cudnn")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        for file in sorted(Path(folder, "lib").glob("libcudnn.so.*")):
            return ctypes.CDLL(str(file))
    raise MissingDependencyError(
        "cuDNN's library", "pip install nvidia-cudnn-cu13 (or nvidia-cudnn-cu12, as the driver allows)"
    )


@cache
def _get_handle(device: int) -> ctypes.c_void_p:
    """Return this process's handle for a device; the device must be current."""
    handle = ctypes.c_void_p()
    call("cudnnCreate", ctypes.byref(handle))
    return handle


def _address(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.data.ptr)
