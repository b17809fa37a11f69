"""Filter functions of GPU libraries on CuPy arrays; each prepares and returns a callable that enqueues the call.

Every one works on CuPy's current stream and raises `MissingDependencyError` where its library cannot be used here.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from cuprof.errors import LaunchError, MissingDependencyError

BORDER_REPLICATE = 2  # NPP_BORDER_REPLICATE, nppdefs.h
BINOMIAL_SIGMA = (2 * math.log(2)) ** -0.5
"""Standard deviation at which a Gaussian's three weights are 1/4, 1/2, 1/4: exp(-1/(2σ²)) = 1/2."""


class NppiSize(ctypes.Structure):
    """Mirror NPP's width and height in pixels."""

    _fields_ = (("width", ctypes.c_int), ("height", ctypes.c_int))


class NppiPoint(ctypes.Structure):
    """Mirror NPP's point in pixels."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


class NppStreamContext(ctypes.Structure):
    """Mirror NppStreamContext of nppdefs.h, the same in CUDA 12 and 13."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("threads_per_multiprocessor", ctypes.c_int),
        ("threads_per_block", ctypes.c_int),
        ("shared_bytes_per_block", ctypes.c_size_t),
        ("capability_major", ctypes.c_int),
        ("capability_minor", ctypes.c_int),
        ("stream_flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint),
    )


def npp_filter(image: Any, weights: Any, divisor: int, output: Any, border: str) -> Callable[[], object]:
    """Prepare NPP's general 3×3 filter with integer weights.

    Args:
        image, output: square uint8 arrays on the device.
        weights: 3×3 int32 on the device.
        border: "interior" leaves the output's border, "replicate" computes it too.
    """
    import cupy

    size, context = image.shape[0], _stream_context()
    taps = cupy.ascontiguousarray(weights[::-1, ::-1])  # NPP wants them in reverse order
    arguments = [ctypes.c_void_p(taps.data.ptr), NppiSize(3, 3), NppiPoint(1, 1), ctypes.c_int(divisor)]
    if border == "interior":
        call = _npp_call("nppiFilter_8u_C1R_Ctx", [*_interior(image, output, size), *arguments, context])
    else:
        replicate = ctypes.c_int(BORDER_REPLICATE)
        call = _npp_call("nppiFilterBorder_8u_C1R_Ctx", [*_whole(image, output, size), *arguments, replicate, context])
    call.keep = taps  # type: ignore[attr-defined]  # the weights live as long as the call
    return call


def opencv_cuda(image: Any, output: Any) -> Callable[[], object]:
    """Prepare OpenCV's 3×3 Gaussian filter on the GPU."""
    import cupy
    import cv2

    wrap = getattr(getattr(cv2, "cuda", None), "createGpuMatFromCudaMemory", None)
    if wrap is None or not cv2.cuda.getCudaEnabledDeviceCount():
        raise MissingDependencyError(
            "OpenCV with CUDA",
            "build OpenCV 4.8 or later with -DWITH_CUDA=ON and opencv_contrib; the wheels on PyPI have no CUDA",
        )
    size = image.shape[0]
    source = wrap(size, size, cv2.CV_8UC1, image.data.ptr, size)
    target = wrap(size, size, cv2.CV_8UC1, output.data.ptr, size)
    # With a side of 3 and sigma 0 the weights are 1/4, 1/2, 1/4 in each direction.
    gauss = cv2.cuda.createGaussianFilter(
        cv2.CV_8UC1, cv2.CV_8UC1, (3, 3), 0, rowBorderMode=cv2.BORDER_REPLICATE, columnBorderMode=cv2.BORDER_REPLICATE
    )
    stream = cv2.cuda.wrapStream(cupy.cuda.get_current_stream().ptr)
    return lambda: gauss.apply(source, target, stream)


def cucim_gaussian(image: Any, output: Any) -> Callable[[], object]:
    """Prepare cuCIM's Gaussian filter; it gives floats, which are rounded and copied to the output."""
    import cupy
    from cucim.skimage.filters import gaussian

    def run() -> None:
        # A radius of truncate · sigma, rounded, is 1: three weights in each direction.
        blurred = gaussian(image, sigma=BINOMIAL_SIGMA, mode="nearest", preserve_range=True, truncate=1.0)
        output[...] = cupy.rint(blurred, out=blurred)

    run()  # compiles its kernels
    return run


def cvcuda_gaussian(image: Any, output: Any) -> Callable[[], object]:
    """Prepare CV-CUDA's 3×3 Gaussian filter, which writes into the output."""
    import cupy
    import cvcuda

    source, target = (cvcuda.as_tensor(array[:, :, None], "HWC") for array in (image, output))
    stream = cvcuda.as_stream(cupy.cuda.get_current_stream())
    sigmas = (BINOMIAL_SIGMA, BINOMIAL_SIGMA)

    def run() -> None:
        cvcuda.gaussian_into(target, source, (3, 3), sigmas, cvcuda.Border.REPLICATE, stream=stream)

    run()  # makes its table of weights
    return run


def arrayfire_convolve(image: Any, weights: Any, divisor: int, output: Any) -> Callable[[], object]:
    """Prepare ArrayFire's convolution; ArrayFire owns its arrays, so each call ends with a copy of the result.

    ArrayFire runs on a stream of its own, so each call waits for it before the copy.
    """
    import cupy

    try:
        import arrayfire as af

        if af.get_active_backend() != "cuda":
            af.set_backend("cuda")
    except RuntimeError as error:
        raise MissingDependencyError(
            f"ArrayFire with CUDA ({str(error).splitlines()[0]})", "install the ArrayFire library from arrayfire.com"
        ) from error
    # ArrayFire stores columns: the transposed views lie in memory as it wants them, and its result as we want it.
    source = af.np_to_af_array(cupy.asnumpy(image).T)
    taps = af.np_to_af_array((cupy.asnumpy(weights).astype("float32") / divisor)[::-1, ::-1].copy().T)
    stream = cupy.cuda.get_current_stream()

    def run() -> None:
        result = af.convolve2(source, taps)
        if result.dtype() != source.dtype():
            result = result.as_type(source.dtype())
        af.eval(result)
        af.sync()
        cupy.cuda.runtime.memcpyAsync(
            output.data.ptr, result.raw_ptr(), output.nbytes, cupy.cuda.runtime.memcpyDeviceToDevice, stream.ptr
        )
        stream.synchronize()  # ArrayFire may give the result's memory to the next call

    run()
    return run


@cache
def _load_npp() -> ctypes.CDLL:
    """Return NPP's filter library, from NVIDIA's wheel or a CUDA toolkit."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        found = load_nvidia_dynamic_lib("nppif")
    except DynamicLibNotFoundError:
        raise MissingDependencyError(
            "NPP's filter library (libnppif)",
            "pip install nvidia-npp (CUDA 12: nvidia-npp-cu12), or install the CUDA toolkit",
        ) from None
    return ctypes.CDLL(found.abs_path)


def _npp_call(function: str, arguments: list[Any]) -> Callable[[], object]:
    """Return a call that raises where NPP reports an error; its warnings have positive codes."""
    entry = getattr(_load_npp(), function)
    entry.restype = ctypes.c_int

    def run() -> None:
        status = entry(*arguments)
        if status < 0:
            raise LaunchError(f"{function} failed with NppStatus {status}")

    return run


def _interior(image: Any, output: Any, size: int) -> list[Any]:
    """Return source, destination and region without the border."""
    first = size + 1  # the second pixel of the second row
    region = NppiSize(size - 2, size - 2)
    return [ctypes.c_void_p(image.data.ptr + first), size, ctypes.c_void_p(output.data.ptr + first), size, region]


def _whole(image: Any, output: Any, size: int) -> list[Any]:
    """Return source with its size and the region's offset in it, destination and region, of the whole image."""
    whole, source, target = NppiSize(size, size), ctypes.c_void_p(image.data.ptr), ctypes.c_void_p(output.data.ptr)
    return [source, size, whole, NppiPoint(0, 0), target, size, whole]


def _stream_context() -> NppStreamContext:
    """Return what NPP is to know of the current device and CuPy's current stream."""
    import cupy

    device = cupy.cuda.runtime.getDevice()
    facts = cupy.cuda.runtime.getDeviceProperties(device)
    non_blocking = 1  # cudaStreamNonBlocking
    return NppStreamContext(
        stream=cupy.cuda.get_current_stream().ptr,
        device=device,
        multiprocessors=facts["multiProcessorCount"],
        threads_per_multiprocessor=facts["maxThreadsPerMultiProcessor"],
        threads_per_block=facts["maxThreadsPerBlock"],
        shared_bytes_per_block=facts["sharedMemPerBlock"],
        capability_major=facts["major"],
        capability_minor=facts["minor"],
        stream_flags=non_blocking,
    )
