"""Read the resources of a call's kernels from a graph that captures the call and never runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call
from cuprof.core.errors import LaunchError
from cuprof.core.records import BuildFacts


def read_resources(device: CudaDevice, function: Callable[[], object]) -> BuildFacts | None:
    """Return registers, shared memory and spills of the kernels that a call launches, each the most of any one.

    None where the call cannot be captured (it waits for the device, or launches on another stream than the current
    one). Spills are known only if there is no local memory at all. The call's own kernels do not run.
    """
    driver = device.driver
    stream = device.cupy.cuda.Stream(non_blocking=True)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    call((*driver.cuStreamBeginCapture(stream.ptr, mode),), "begin a graph")
    try:
        with stream, suppress(Exception):  # if it cannot be captured, nothing is known
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_initialized():
                torch.cuda.set_stream(torch.cuda.ExternalStream(stream.ptr))
            function()
    finally:
        status, graph = driver.cuStreamEndCapture(stream.ptr)
        device.claim()
        device.runtimes.forget_errors()
    if int(status) or not int(graph):
        return _read_numba(function)
    try:
        kernels = list(_kernels(driver, graph))
    except LaunchError:
        return None
    finally:
        driver.cuGraphDestroy(graph)
    if not kernels:
        return _read_numba(function)
    local = max(local_bytes for _, _, local_bytes in kernels)
    return BuildFacts(
        registers=max(registers for registers, _, _ in kernels),
        shared_bytes=max(shared_bytes for _, shared_bytes, _ in kernels),
        spill_bytes=None if local else 0,
    )


def _read_numba(function: Callable[[], object]) -> BuildFacts | None:
    """Return Numba's facts about the kernels that a function refers to. They choose their own stream at launch."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    kernels = [kernel for each in cells if hasattr(kernel := getattr(each, "dispatcher", each), "get_regs_per_thread")]
    if not kernels:
        return None
    return BuildFacts(
        registers=max(most for each in kernels for most in each.get_regs_per_thread().values()),
        shared_bytes=max(most for each in kernels for most in each.get_shared_mem_per_block().values()),
        spill_bytes=None if any(any(each.get_local_mem_per_thread().values()) for each in kernels) else 0,
    )


def _kernels(driver: Any, graph: Any) -> Iterator[tuple[int, int, int]]:
    """Yield registers, shared and local bytes of each kernel of a graph."""
    attributes, kinds = driver.CUfunction_attribute, driver.CUgraphNodeType
    _, count = call(driver.cuGraphGetNodes(graph), "count a graph's nodes")
    nodes, _ = call(driver.cuGraphGetNodes(graph, count), "list a graph's nodes")
    for node in nodes:
        if call(driver.cuGraphNodeGetType(node), "read a node") != kinds.CU_GRAPH_NODE_TYPE_KERNEL:
            continue
        params = call(driver.cuGraphKernelNodeGetParams(node), "read a kernel node")
        function = params.func if int(params.func) else call(driver.cuKernelGetFunction(params.kern), "find a kernel")
        registers, shared, local = (
            int(call(driver.cuFuncGetAttribute(getattr(attributes, f"CU_FUNC_ATTRIBUTE_{name}"), function), name))
            for name in ("NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES")
        )
        yield registers, shared + int(params.sharedMemBytes), local
