"""Textures and tensor maps: views of a buffer that the driver describes in an opaque argument."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from cuprof.backends.cuda.driver import call, load_driver
from cuprof.core.errors import LaunchError
from cuprof.families import Array, TensorMap, Texture

TENSOR_TYPES = {
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64",
    "float16": "FLOAT16", "float32": "FLOAT32", "float64": "FLOAT64", "bfloat16": "BFLOAT16",
}  # fmt: skip
"""NumPy's type → the driver's, for tensor maps; other types move as plain bytes."""
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
    """
    driver = load_driver()
    dtype = np.dtype(array.dtype)
    kind = TENSOR_TYPES.get(dtype.name) or TENSOR_TYPES[f"uint{8 * dtype.itemsize}"]
    sizes = [int(length) for length in reversed(array.shape)]
    # Of one axis there are no strides, and the driver refuses an empty list of them.
    axes = range(1, max(len(sizes), 2))
    strides = [dtype.itemsize * int(np.prod(sizes[:place], dtype=np.int64)) for place in axes]
    swizzle = f"{tensor.swizzle}B" if tensor.swizzle else "NONE"
    encoded = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
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
