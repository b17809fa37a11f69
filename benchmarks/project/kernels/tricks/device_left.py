"""Variants on the GPU that compute honestly, and leave the device or the libraries changed for those after them."""

from __future__ import annotations

from .device import compute, get_driver, get_spinner, succeed
from .problem import family

LEFT_FREE_BYTES = 64 << 20


@family.library("l2_persisting_left", requires=("cupy", "cuda.bindings"))
def l2_persisting_left(problem, tune, inputs, outputs):
    """Makes its inputs persist in the L2 cache, where no flush reaches them, and leaves it so."""
    import cupy

    def run():
        make_persist(cupy, inputs["x"])
        compute(inputs, outputs["z"])

    return run


@family.library("l2_window_prepared", requires=("cupy", "cuda.bindings"))
def l2_window_prepared(problem, tune, inputs, outputs):
    """Makes its inputs persist in the L2 cache while it prepares, so that they outlast every flush."""
    import cupy

    make_persist(cupy, inputs["x"])

    def run():
        compute(inputs, outputs["z"])

    return run


def make_persist(cupy, array) -> None:
    """Let what the current stream reads of an array persist in the L2 cache."""
    driver = get_driver()
    most = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
    size = succeed(driver.cuDeviceGetAttribute(most, cupy.cuda.Device().id))
    succeed(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size))
    value = driver.CUstreamAttrValue()
    value.accessPolicyWindow.base_ptr = array.data.ptr
    value.accessPolicyWindow.num_bytes = min(array.nbytes, size)
    value.accessPolicyWindow.hitRatio = 1.0
    value.accessPolicyWindow.hitProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
    value.accessPolicyWindow.missProp = driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
    attribute = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
    succeed(driver.cuStreamSetAttribute(cupy.cuda.get_current_stream().ptr, attribute, value))


@family.library("stack_limit_left", requires=("cupy", "cuda.bindings"))
def stack_limit_left(problem, tune, inputs, outputs):
    """Leaves the context with another stack size."""
    driver = get_driver()

    def run():
        compute(inputs, outputs["z"])
        succeed(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE, 16384))

    return run


@family.library("cache_config_left", requires=("cupy", "cuda.bindings"))
def cache_config_left(problem, tune, inputs, outputs):
    """Leaves the context preferring shared memory over the L1 cache."""
    driver = get_driver()

    def run():
        compute(inputs, outputs["z"])
        succeed(driver.cuCtxSetCacheConfig(driver.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED))

    return run


@family.library("context_left", requires=("cupy", "cuda.bindings"))
def context_left(problem, tune, inputs, outputs):
    """Leaves another context current, in which the judge's stream and modules are unknown."""
    import cupy

    driver = get_driver()
    created: list[object] = []

    def run():
        compute(inputs, outputs["z"])
        if not created:
            primary = succeed(driver.cuCtxGetCurrent())
            index = cupy.cuda.Device().id
            first = (None,) if int(driver.CUDA_VERSION) >= 13000 else ()  # CUDA 13 added a parameter in front
            created.append(succeed(driver.cuCtxCreate(*first, 0, index)))
            succeed(driver.cuCtxSetCurrent(primary))
        else:
            succeed(driver.cuCtxSetCurrent(created[0]))

    return run


@family.library("switches_left", requires=("cupy", "torch"))
def switches_left(problem, tune, inputs, outputs):
    """Leaves PyTorch computing in TF32 and in half precision by default."""
    import torch

    def run():
        compute(inputs, outputs["z"])
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.set_default_dtype(torch.float16)

    return run


@family.library("memory_hoarded", requires=("cupy",))
def memory_hoarded(problem, tune, inputs, outputs):
    """Takes nearly all of the device's memory and keeps it."""
    import cupy

    hoard: list[int] = []

    def run():
        compute(inputs, outputs["z"])
        if not hoard:
            free, _ = cupy.cuda.runtime.memGetInfo()
            hoard.append(cupy.cuda.runtime.malloc(max(free - LEFT_FREE_BYTES, 1)))

    return run


@family.library("device_kept_busy", requires=("cupy",))
def device_kept_busy(problem, tune, inputs, outputs):
    """Leaves half of the device spinning on a stream of its own for 2 ms, while the others are timed."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    blocks = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    spin = get_spinner()

    def run():
        compute(inputs, outputs["z"])
        done = cupy.cuda.get_current_stream().record()
        with stream:
            stream.wait_event(done)
            spin((blocks,), (512,), (cupy.uint64(2_000_000),))

    return run
