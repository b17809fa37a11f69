"""The CUDA driver's calls that cuprof makes: errors raised, kernel arguments packed once, launches checked before.

Arguments are also textures and tensor maps: views of a buffer that the driver describes in an opaque argument. Built on
NVIDIA's cuda-bindings; it shares the device's primary context with CuPy, so CuPy's arrays and streams
are used side by side with it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from cuprof.backends.contract import DeviceLostError
from cuprof.core.errors import DeviceMemoryError, ImpossibleError, LaunchError, needing
from cuprof.core.text import compare
from cuprof.families import Array, Launch, TensorMap, Texture

CONTEXT_LOST = frozenset({214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, *range(900, 908), 999})
"""CUresult codes that leave the context unusable ("the process must be terminated", CUDA Driver API, CUresult), and
those of a stream capture that a variant has left open: every later operation on the default stream would meet it."""

TOO_MANY = frozenset({701, 720, 912})
"""CUresult codes for a launch too large for the device: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
_COOPERATIVE_LAUNCH_TOO_LARGE and _INVALID_CLUSTER_SIZE."""
NO_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY, and cudaErrorMemoryAllocation."""


@cache
def load_driver() -> Any:
    """Return the module `cuda.bindings.driver`, or raise `MissingDependencyError`."""
    with needing("cuda-bindings", "pip install 'cuprof[cuda13]' (or [cuda12])"):
        from cuda.bindings import driver
    return driver


def call(answer: tuple[Any, ...], what: str) -> Any:
    """Return a driver call's result, or raise.

    Args:
        answer: the return value of cuda-bindings: (status, result …).
        what: the action, for the message ("launch reduce").

    Raises:
        DeviceLostError: the context is no longer usable.
        LaunchError: any other refusal.
    """
    status = answer[0]
    if int(status) == 0:
        return answer[1] if len(answer) == 2 else answer[1:]
    raise error_for(int(status), what)


def error_for(status: int, what: str) -> LaunchError:
    """Return the exception that stands for a CUresult (or the equal cudaError_t) of this value."""
    driver = load_driver()
    try:
        name = driver.CUresult(status).name
        _, text = driver.cuGetErrorString(driver.CUresult(status))
        explained = f"{name}: {text.decode()}" if text else name
    except ValueError:
        explained = f"CUDA error {status}"
    if status == NO_MEMORY:
        return DeviceMemoryError(what, explained)
    kind = DeviceLostError if status in CONTEXT_LOST else ImpossibleError if status in TOO_MANY else LaunchError
    return kind(f"{what}: {explained}")


def read_attribute(index: int, name: str) -> int:
    """Return the device attribute CU_DEVICE_ATTRIBUTE_NAME from the driver; it needs no context."""
    attribute = getattr(load_driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call(load_driver().cuDeviceGetAttribute(attribute, index), f"read device attribute {name}"))


class PackedLaunch:
    """One kernel launch with its arguments laid out in memory, ready to be repeated at the cost of one driver call."""

    def __init__(
        self, launch: Launch, function: Any, arguments: Sequence[int | np.generic], owners: Sequence[Any] = ()
    ) -> None:
        """Pack.

        Args:
            launch: the launch, without its arguments.
            arguments: device addresses as Python ints, scalars as NumPy scalars, in the kernel's order.
            owners: what the arguments point into, kept alive as long as this.
        """
        driver = load_driver()
        has_attributes = launch.cluster or launch.overlaps or launch.cooperative
        self._enqueue = _with_attributes(driver, launch) if has_attributes else driver.cuLaunchKernel
        self.name, self.function, self.shared_bytes = launch.kernel, function, launch.shared_bytes
        self.grid = (*launch.grid, 1, 1)[:3]
        self.block = (*launch.block, 1, 1)[:3]
        cells = [
            ctypes.create_string_buffer((np.uint64(value) if isinstance(value, int) else value).tobytes())
            for value in arguments
        ]
        table = (ctypes.c_void_p * max(len(cells), 1))(*[ctypes.addressof(cell) for cell in cells])
        self._keep = cells, table, owners
        self.params = ctypes.addressof(table)

    def __call__(self, stream: int) -> None:
        """Enqueue on a stream."""
        status = self._enqueue(self.function, *self.grid, *self.block, self.shared_bytes, stream, self.params, 0)[0]
        if status:
            raise error_for(int(status), f"launch {self.name}")

    def set_argument(self, index: int, value: np.generic) -> None:
        """Replace one scalar argument."""
        content = value.tobytes()
        ctypes.memmove(self._keep[0][index], content, len(content))


def _with_attributes(driver: Any, launch: Launch) -> Callable[..., tuple[Any, ...]]:
    """Return the launch with attributes, with the plain one's parameters."""
    attributes: list[Any] = []

    def add(name: str) -> Any:
        attributes.append(driver.CUlaunchAttribute())
        attributes[-1].id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        return attributes[-1].value

    if launch.cluster:
        size = add("CLUSTER_DIMENSION").clusterDim
        size.x, size.y, size.z = (*launch.cluster, 1, 1)[:3]
    if launch.overlaps:
        add("PROGRAMMATIC_STREAM_SERIALIZATION").programmaticStreamSerializationAllowed = 1
    if launch.cooperative:
        add("COOPERATIVE").cooperative = 1
    config = driver.CUlaunchConfig()
    config.attrs, config.numAttrs = attributes, len(attributes)

    def enqueue(function: Any, *given: Any) -> tuple[Any, ...]:
        config.gridDimX, config.gridDimY, config.gridDimZ = given[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ, config.sharedMemBytes, config.hStream = given[3:8]
        answer: tuple[Any, ...] = driver.cuLaunchKernelEx(config, function, *given[8:])
        return answer

    return enqueue


class Resources(NamedTuple):
    """What a device has for one block, or a compiled kernel needs: threads at most, registers, shared memory.

    A kernel's registers are those of a thread, and its shared memory is the static one.
    """

    threads: int
    registers: int
    shared_bytes: int


def check_launch(launch: Launch, needs: Resources, limits: Resources) -> None:
    """Raise `ImpossibleError` if a launch needs more than the device has, naming the resource."""
    threads = math.prod(int(size) for size in launch.block)
    for excess in (
        compare("threads a block", threads, limits.threads),
        compare("shared memory a block", needs.shared_bytes + launch.shared_bytes, limits.shared_bytes, "bytes"),
        compare("registers a block", needs.registers * threads, limits.registers),
        compare("threads a block for its registers or __launch_bounds__", threads, needs.threads),
    ):
        if excess:
            raise ImpossibleError(f"{excess} of kernel {launch.kernel}")


def check_arguments(function: Any, kernel: str, given: Sequence[int | np.generic]) -> None:
    """Raise `LaunchError` if arguments have other sizes than the compiled kernel's parameters.

    The driver says these from CUDA 12.4 on.
    """
    declared, sizes = list_parameter_sizes(function), [8 if isinstance(each, int) else each.nbytes for each in given]
    if declared is not None and declared != sizes:
        raise LaunchError(
            f"kernel {kernel} takes {len(declared)} arguments of {declared} bytes, and is given {len(sizes)} of "
            f"{sizes}; give args= one for each parameter, of the type that the kernel declares"
        )


def list_parameter_sizes(function: Any) -> list[int] | None:
    """Return the size of each of a kernel's parameters; None if the driver cannot say."""
    sizes: list[int] = []
    while True:
        try:
            status, _, size = load_driver().cuFuncGetParamInfo(function, len(sizes))
        except (AttributeError, RuntimeError):
            return None
        if int(status) == 1:  # CUDA_ERROR_INVALID_VALUE: no parameter has this number
            return sizes
        if int(status):
            return None
        sizes.append(int(size))


TENSOR_TYPES = ("uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16")
"""The types of tensor maps, which NumPy and the driver call the same; other types move as plain bytes."""
MAP_BYTES = 128


def make_texture(cupy: Any, texture: Texture, array: Array, address: int) -> Any:
    """Return CuPy's texture object on a buffer; it is passed by its `ptr` and has to be kept as long as that is used.

    Raises:
        LaunchError: the buffer's type or shape makes no texture.
    """
    dtype, module, runtime = np.dtype(array.dtype), cupy.cuda.texture, cupy.cuda.runtime
    kinds = {"f": runtime.cudaChannelFormatKindFloat, "i": runtime.cudaChannelFormatKindSigned}
    kinds["u"] = runtime.cudaChannelFormatKindUnsigned
    if dtype.kind not in kinds or dtype.itemsize > 4 or array.size % (texture.channels * max(texture.width, 1)):
        raise LaunchError(
            f"a texture of {texture.buffer}: {array.size} × {dtype} makes no rows of {texture.width or 'any'} texels "
            f"of {texture.channels} numbers of at most 4 bytes"
        )
    bits = [8 * dtype.itemsize] * texture.channels + [0] * (4 - texture.channels)
    memory = cupy.cuda.UnownedMemory(address, array.nbytes, None)
    view = {
        "arr": cupy.ndarray((array.size,), dtype, memptr=cupy.cuda.MemoryPointer(memory, 0)),
        "chDesc": module.ChannelFormatDescriptor(*bits, kinds[dtype.kind]),
    }
    if texture.width:
        pitch = texture.width * texture.channels * dtype.itemsize
        size = {"width": texture.width, "height": array.nbytes // pitch, "pitchInBytes": pitch}
        resource = module.ResourceDescriptor(runtime.cudaResourceTypePitch2D, **view, **size)
    else:
        resource = module.ResourceDescriptor(runtime.cudaResourceTypeLinear, **view, sizeInBytes=array.nbytes)
    described = module.TextureDescriptor(
        (runtime.cudaAddressModeClamp,) * 2,
        runtime.cudaFilterModeLinear if texture.interpolates else runtime.cudaFilterModePoint,
        runtime.cudaReadModeElementType,
    )
    return module.TextureObject(resource, described)


def make_tensor_map(tensor: TensorMap, array: Array, address: int) -> np.void:
    """Return the 128 bytes of a tiled tensor map on a buffer.

    Raises:
        LaunchError: the driver refused; it needs rows of a multiple of 16 bytes and boxes of at most 256 a side.
            Or the type is wider than 8 bytes.
    """
    driver = load_driver()
    dtype = np.dtype(array.dtype)
    kind = dtype.name if dtype.name in TENSOR_TYPES else f"uint{8 * dtype.itemsize}"
    if kind not in TENSOR_TYPES:
        raise LaunchError(f"a tensor map of {tensor.buffer}: {dtype} has {dtype.itemsize} bytes, and 8 are the most")
    sizes = [int(length) for length in reversed(array.shape)]
    # Of one axis there are no strides, and the driver refuses an empty list of them.
    axes = range(1, max(len(sizes), 2))
    strides = [dtype.itemsize * int(np.prod(sizes[:place], dtype=np.int64)) for place in axes]
    swizzle = f"{tensor.swizzle}B" if tensor.swizzle else "NONE"
    encoded = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind.upper()}"),
        len(sizes),
        address,
        [driver.cuuint64_t(size) for size in sizes],
        [driver.cuuint64_t(stride) for stride in strides],
        [driver.cuuint32_t(length) for length in reversed(tensor.box)],
        [driver.cuuint32_t(1)] * len(sizes),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    found = call(encoded, f"describe boxes of {tensor.box} of {tensor.buffer} {array.shape} {dtype} to the driver")
    content = ctypes.string_at(int(found.getPtr()), MAP_BYTES)
    return np.frombuffer(content, f"V{MAP_BYTES}")[0]  # type: ignore[no-any-return]
