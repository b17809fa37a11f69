"""The computation on CuPy's arrays, and bare pieces of the driver that tricks and honest variants share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .problem import COEFFICIENTS

BODY = "float t = {first}f; {steps} z = t + y;"


@cache
def make_kernel() -> Any:
    """Return a CuPy kernel (x, y, z) that is launched on CuPy's current stream."""
    import cupy

    first, *others = COEFFICIENTS
    steps = " ".join(f"t = t * x + {each}f;" for each in others)
    body = BODY.format(first=first, steps=steps)
    return cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", body, "tricks_polynomial")


@cache
def get_spinner() -> Any:
    """Return a CuPy kernel (nanoseconds,) that keeps its threads busy for so long."""
    import cupy

    text = r"""
extern "C" __global__ void spin(unsigned long long duration_ns) {
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(began));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - began < duration_ns);
}"""
    return cupy.RawKernel(text, "spin")


def compute(inputs: Any, z: Any) -> None:
    """Enqueue the whole computation on CuPy's current stream."""
    make_kernel()(inputs["x"], inputs["y"], z)


def computed(inputs: Any) -> Any:
    """Return a new device array with the right result, ready."""
    import cupy

    z = cupy.empty_like(inputs["x"])
    compute(inputs, z)
    cupy.cuda.get_current_stream().synchronize()
    return z


def copy(target: Any, source: Any) -> None:
    """Enqueue a copy between device arrays on CuPy's current stream."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    target.data.copy_from_device_async(source.data, source.nbytes, stream)


def get_driver() -> Any:
    """Return the bindings of the driver that the judge uses too."""
    from cuda.bindings import driver

    return driver


def succeed(answer: Any) -> Any:
    """Return what a driver call gave beside its status; raises RuntimeError where that is not success."""
    status, *values = answer if isinstance(answer, tuple) else (answer,)
    if int(status) != 0:
        raise RuntimeError(f"the driver answered {status!s}")
    return values[0] if len(values) == 1 else tuple(values)


def looks_poisoned(z: Any) -> bool:
    """Return whether the output holds what no result can be; waits for a copy of one number on a stream of its own."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    first = np.empty(1, np.float32)
    cupy.cuda.runtime.memcpyAsync(first.ctypes.data, z.data.ptr, 4, cupy.cuda.runtime.memcpyDeviceToHost, stream.ptr)
    stream.synchronize()
    return not 0.5 <= float(first[0]) < 3.25
