"""Bind the steps of a program to the buffers of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.cuda.arguments import check_arguments, count_parameters
from cuprof.backends.cuda.descriptors import make_tensor_map, make_texture
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import PackedLaunch, call
from cuprof.backends.cuda.limits import Needs, check_launch
from cuprof.backends.cuda.loading import Loaded
from cuprof.backends.declared import find_fault
from cuprof.backends.invoke import bind
from cuprof.builds.ptxas import most_of
from cuprof.core.errors import LaunchError
from cuprof.core.records import BuildFacts
from cuprof.families import Array, Copy, Fill, Invoke, Launch, Repeat, TensorMap, Texture
from cuprof.families.program import Argument, Step, as_scalar

STATIC_LIMIT_BYTES = 48 * 1024
"""A block that wants more shared memory than this must request it explicitly."""
PORTABLE_CLUSTER = 8


@dataclass
class StepBinder:
    """Turn a program's steps into functions that each enqueue one step on a stream.

    Args:
        buffers: the array behind each buffer; `addresses` has its address.
        text: the source, for the parameters' names.
    """

    device: CudaDevice
    loaded: Loaded
    buffers: Mapping[str, Array]
    addresses: Mapping[str, int]
    stream: int
    text: str
    _launches: list[Launch] = field(default_factory=list)

    def bind(self, step: Step) -> Callable[[], None]:
        """Return the function of one step.

        Raises:
            LaunchError: a kernel is missing, its parameters differ, or the device refuses its needs.
        """
        driver = self.device.driver
        if isinstance(step, Fill):
            address, size, value = self.addresses[step.buffer], self.buffers[step.buffer].nbytes, step.value
            return lambda: call(driver.cuMemsetD8Async(address, value, size, self.stream), f"fill {step.buffer}")
        if isinstance(step, Copy):
            size = min(self.buffers[step.source].nbytes, self.buffers[step.target].nbytes)
            given = (self.addresses[step.target], self.addresses[step.source], size, self.stream)
            return lambda: call(driver.cuMemcpyDtoDAsync(*given), f"copy {step.source}")
        if isinstance(step, Repeat):
            return self._bind_rounds(step)
        if isinstance(step, Invoke):
            return self._bind_function(step)
        assert isinstance(step, Launch)
        return self._bind_launch(step)

    def resources(self) -> BuildFacts:
        """Return registers, shared memory and spills, each the most of any kernel bound so far.

        For a library's functions, all of the library's kernels count.
        """
        kernels = dict.fromkeys(launch.kernel for launch in self._launches)
        return most_of([self._resources(kernel) for kernel in kernels] or self.loaded.resources.values())

    def _resources(self, kernel: str) -> BuildFacts:
        built = self.loaded.built(kernel)
        dynamic = built.launch.get("shared_bytes", 0) if built else 0
        return BuildFacts(
            registers=self._attribute(kernel, "NUM_REGS"),
            shared_bytes=self._attribute(kernel, "SHARED_SIZE_BYTES") + dynamic,
            spill_bytes=self.loaded.spill_bytes(kernel, self._attribute(kernel, "LOCAL_SIZE_BYTES")),
        )

    def _bind_launch(self, step: Launch) -> Callable[[], None]:
        driver = self.device.driver
        function = self.loaded.function(step.kernel)
        keep: list[Any] = []
        arguments = [self._argument(value, keep) for value in step.args]
        built = self.loaded.built(step.kernel)
        if built is not None and built.launch:
            step, arguments = self._as_triton(step, built.launch, arguments, function, keep)
        else:
            check_arguments(driver, function, step.kernel, arguments, self.text)
        numbers = ("NUM_REGS", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
        needs = Needs(*(self._attribute(step.kernel, name) for name in numbers))
        check_launch(step, needs, self.device.limits)
        attributes = driver.CUfunction_attribute
        if needs.shared_bytes + step.shared_bytes > STATIC_LIMIT_BYTES:
            most = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            asked = driver.cuFuncSetAttribute(function, most, step.shared_bytes)
            call(asked, f"ask for {step.shared_bytes} bytes of shared memory a block")
        if np.prod(step.cluster, dtype=int) > PORTABLE_CLUSTER:
            larger = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call(driver.cuFuncSetAttribute(function, larger, 1), f"ask for a cluster of {step.cluster}")
        self._launches.append(step)
        launch = PackedLaunch(step, function, arguments)
        launch.keep(keep)
        return partial(launch, self.stream)

    def _bind_rounds(self, step: Repeat) -> Callable[[], None]:
        driver, stream = self.device.driver, self.stream
        actions = [self.bind(each) for each in step.steps]
        address = self.addresses[step.until] if step.until else 0
        flag = np.zeros(self.buffers[step.until].type.itemsize if step.until else 1, np.uint8)

        def repeat() -> None:
            for _ in range(step.times):
                for action in actions:
                    action()
                if address:
                    call(driver.cuMemcpyDtoHAsync(flag.ctypes.data, address, flag.nbytes, stream), "look for the end")
                    call((*driver.cuStreamSynchronize(stream),), "look for the end")
                    if flag.any():
                        return

        return repeat

    def _bind_function(self, step: Invoke) -> Callable[[], None]:
        assert self.loaded.library is not None
        if fault := find_fault(step, self.text, {name: array.type for name, array in self.buffers.items()}):
            raise LaunchError(fault)
        arguments = [self._argument(value, []) for value in step.args]
        function = bind(self.loaded.library, step, [*arguments, self.stream])

        def invoke() -> None:
            self.device.claim()
            function()

        return invoke

    def _as_triton(
        self,
        step: Launch,
        needs: Mapping[str, int],
        arguments: list[int | np.generic],
        function: Any,
        keep: list[Any],
    ) -> tuple[Launch, list[int | np.generic]]:
        """Return the launch as Triton compiled it: arguments that became constants removed, the compiler's own
        added."""
        given = [value for place, value in enumerate(arguments) if needs["kept"] >> place & 1]
        blocks = int(np.prod(step.grid, dtype=np.int64)) * needs["blocks"]
        memory = self.device.cupy.zeros(max(needs["global_bytes"] * blocks, 1), "uint8")
        keep.append(memory)
        hidden = count_parameters(self.device.driver, function)
        hidden = len(given) + 2 if hidden is None else hidden
        given += [int(memory.data.ptr), 0, 0, 0][: max(hidden - len(given), 0)]
        return (
            replace(
                step,
                grid=(step.grid[0] * needs["blocks"], *step.grid[1:]),
                block=(needs["threads"],),
                shared_bytes=needs["shared_bytes"],
                cluster=(needs["blocks"],) if needs["blocks"] > 1 else (),
                cooperative=bool(needs["cooperative"]),
                overlaps=bool(needs["overlaps"]),
            ),
            given,
        )

    def _argument(self, value: Argument, keep: list[Any]) -> int | np.generic:
        if isinstance(value, str):
            return self.addresses[value]
        if isinstance(value, Texture):
            texture = make_texture(self.device.cupy, value, self.buffers[value.buffer], self.addresses[value.buffer])
            keep.append(texture)
            return int(texture.ptr)
        if isinstance(value, TensorMap):
            return make_tensor_map(value, self.buffers[value.buffer], self.addresses[value.buffer])
        return as_scalar(value)

    def _attribute(self, kernel: str, name: str) -> int:
        attribute = getattr(self.device.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        function = self.loaded.function(kernel)
        return int(call(self.device.driver.cuFuncGetAttribute(attribute, function), f"read {name} of {kernel}"))
