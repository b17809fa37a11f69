"""A program bound to the arrays of a session: its steps as functions that each enqueue one."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.contract import Runnable
from cuprof.backends.cuda.comparison import DeviceVerification
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import (
    PackedLaunch,
    Resources,
    call,
    check_arguments,
    check_launch,
    list_parameter_sizes,
    make_tensor_map,
    make_texture,
)
from cuprof.backends.cuda.loading import Loaded
from cuprof.backends.cuda.timing import LAUNCH_PHASES, Action, run_all
from cuprof.backends.functions import bind
from cuprof.builds.machine_code import hash_program
from cuprof.builds.ptxas import most_of
from cuprof.core.errors import LaunchError
from cuprof.core.records import BuildFacts
from cuprof.families import Copy, Fill, Invoke, Launch, Program, Repeat, Signature, TensorMap, Texture
from cuprof.families.program import Argument, Step, as_scalar

STEPS_OF_A_CALL = 8
"""Assume that a call enqueues this many operations, since the number is unknown."""
STATIC_LIMIT_BYTES = 48 * 1024
"""A block that wants more shared memory than this must request it explicitly."""
PORTABLE_CLUSTER = 8
LIMITS = ("THREADS_PER_BLOCK", "REGISTERS_PER_BLOCK", "SHARED_MEMORY_PER_BLOCK_OPTIN")
"""The device's attributes that limit a block, in the order of `Resources`."""
MOST_EXPIRED = 2
"""After this many readings in a row that did not wait for the host, a runnable is no longer held back."""


@dataclass
class CudaRunnable(Runnable):
    """A variant ready to run: `enqueue()` puts one execution on the session's stream.

    Args:
        launches: how many launches an execution makes; None if unknown.
        calls_host: code of others enqueues it: a library or a function of the host.
        expired: readings in a row for which the device did not wait for the host.
    """

    launches: int | None = 1
    calls_host: bool = False
    expired: int = 0
    verification: DeviceVerification | None = None

    @property
    def holds_back(self) -> bool:
        """Return whether the stream may be held while this is enqueued: not if it synchronises by itself."""
        return self.expired < MOST_EXPIRED


class ProgramBinder:
    """Turn a program's steps into functions that each enqueue one step on a stream.

    Args:
        loaded: the program's modules.
        arrays: its inputs, outputs and scratch by name.
    """

    def __init__(
        self, device: CudaDevice, loaded: Loaded, program: Program, signature: Signature, arrays: Mapping[str, Any]
    ) -> None:
        self.device, self.driver, self.loaded, self.program = device, device.driver, loaded, program
        self.buffers = {**signature.inputs, **signature.outputs, **program.scratch}
        self.addresses = {name: int(array.data.ptr) for name, array in arrays.items()}
        self._kernels: dict[str, BuildFacts] = {}

    def bind(self, results: Mapping[str, Any], *, graph: bool) -> CudaRunnable:
        """Bind the steps.

        Args:
            results: the fields of the runnable that say where the results are.
            graph: replay several steps as one CUDA graph.

        Raises:
            LaunchError: a kernel is missing, its parameters differ, or the device refuses its needs.
        """
        program, loaded = self.program, self.loaded
        rounds = [step for step in program.steps if isinstance(step, Repeat)]
        waits = any(step.until for step in rounds)
        captured = graph and len(program.steps) > 1 and not waits
        stream = self.device.cupy.cuda.Stream(non_blocking=True) if captured else self.device.stream
        actions = [self._bind(step, stream.ptr) for step in program.steps]
        setup = tuple(self._list_setup())
        facts = most_of([*self._kernels.values()] or loaded.resources.values())
        code = hash_program(loaded.sass_hash, program)
        # A fill may be a launch; a function may make many.
        plain = all(isinstance(step, Launch) for step in (*program.steps, *program.setup))
        steps = STEPS_OF_A_CALL if program.calls_host else len(actions)
        steps += sum(step.times * len(step.steps) for step in rounds)
        runnable = CudaRunnable(
            actions[0] if len(actions) == 1 else partial(run_all, actions),
            build=replace(facts, cached=loaded.cached, build_ns=loaded.build_ns, log=loaded.log, sass_hash=code),
            steps=1 if captured else steps,
            launch_phases=1 if captured or steps == 1 else LAUNCH_PHASES,
            setup=setup,
            launches=len(program.steps) if plain else None,
            calls_host=program.calls_host,
            expired=MOST_EXPIRED if waits else 0,
            **results,
        )
        weakref.finalize(runnable, loaded.unload).atexit = False  # as the process ends, the context goes with it
        if captured:
            stream.begin_capture()
            runnable.enqueue()
            runnable.enqueue = partial(stream.end_capture().launch, self.device.stream)
        return runnable

    def _list_setup(self) -> Iterable[Action]:
        """Yield what each execution needs before it: `__constant__` memory filled (now too), and the set-up."""
        stream = self.device.stream.ptr
        for symbol, source in self.program.constants.items():
            address, size = self.loaded.constant(symbol)
            given = self.buffers[source].nbytes
            if given > size:
                raise LaunchError(f"__constant__ {symbol} holds {size} bytes, input {source} has {given}")
            fill = self._copy(address, self.addresses[source], given, stream)
            fill()
            yield fill
        for step in self.program.setup:
            yield self._bind(step, stream)

    def _bind(self, step: Step, stream: int) -> Action:
        """Return the function of one step."""
        if isinstance(step, Fill):
            address, size, value = self.addresses[step.buffer], self.buffers[step.buffer].nbytes, step.value
            return lambda: call(self.driver.cuMemsetD8Async(address, value, size, stream), f"fill {step.buffer}")
        if isinstance(step, Copy):
            size = min(self.buffers[step.source].nbytes, self.buffers[step.target].nbytes)
            return self._copy(self.addresses[step.target], self.addresses[step.source], size, stream)
        if isinstance(step, Repeat):
            return self._bind_rounds(step, stream)
        if isinstance(step, Invoke):
            assert self.loaded.library is not None
            arguments = [self._argument(value, []) for value in step.args]
            return claiming(self.device, bind(self.loaded.library, step, [*arguments, stream]))
        assert isinstance(step, Launch)
        return partial(self._bind_launch(step), stream)

    def _copy(self, target: int, source: int, size: int, stream: int) -> Action:
        return lambda: call(self.driver.cuMemcpyDtoDAsync(target, source, size, stream), "copy a buffer")

    def _bind_launch(self, step: Launch) -> PackedLaunch:
        function = self.loaded.function(step.kernel)
        keep: list[Any] = []
        arguments = [self._argument(value, keep) for value in step.args]
        of_triton = self.loaded.built(step.kernel).launch
        if of_triton:
            step, arguments = self._as_triton(step, of_triton, arguments, function, keep)
        else:
            check_arguments(function, step.kernel, arguments)
        most, registers, static, local = (
            self._attribute(function, name)
            for name in ("MAX_THREADS_PER_BLOCK", "NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES")
        )
        limits = Resources(*(self.device.attribute(f"MAX_{each}") for each in LIMITS))
        check_launch(step, Resources(most, registers, static), limits)
        if static + step.shared_bytes > STATIC_LIMIT_BYTES:
            self._set(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", step.shared_bytes)
        if np.prod(step.cluster, dtype=int) > PORTABLE_CLUSTER:
            self._set(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        shared_bytes = static + of_triton.get("shared_bytes", 0)
        spills = self.loaded.spill_bytes(step.kernel, local)
        self._kernels[step.kernel] = BuildFacts(registers, shared_bytes, spills)
        return PackedLaunch(step, function, arguments, keep)

    def _bind_rounds(self, step: Repeat, stream: int) -> Action:
        driver = self.driver
        actions = [self._bind(each, stream) for each in step.steps]
        address = self.addresses[step.until] if step.until else 0
        flag = np.zeros(self.buffers[step.until].type.itemsize if step.until else 1, np.uint8)

        def repeat() -> None:
            for _ in range(step.times):
                run_all(actions)
                if address:
                    call(driver.cuMemcpyDtoHAsync(flag.ctypes.data, address, flag.nbytes, stream), "look for the end")
                    call((*driver.cuStreamSynchronize(stream),), "look for the end")
                    if flag.any():
                        return

        return repeat

    def _as_triton(
        self, step: Launch, needs: Mapping[str, int], arguments: list[int | np.generic], function: Any, keep: list[Any]
    ) -> tuple[Launch, list[int | np.generic]]:
        """Return the launch as Triton compiled it: without arguments that became constants, with the compiler's own."""
        given = [value for place, value in enumerate(arguments) if needs["kept"] >> place & 1]
        blocks = int(np.prod(step.grid, dtype=np.int64)) * needs["blocks"]
        memory = self.device.cupy.zeros(max(needs["global_bytes"] * blocks, 1), np.uint8)
        keep.append(memory)
        sizes = list_parameter_sizes(function)
        hidden = 2 if sizes is None else max(len(sizes) - len(given), 0)
        given += [int(memory.data.ptr), 0, 0, 0][:hidden]
        launch = replace(
            step,
            grid=(step.grid[0] * needs["blocks"], *step.grid[1:]),
            block=(needs["threads"],),
            shared_bytes=needs["shared_bytes"],
            cluster=(needs["blocks"],) if needs["blocks"] > 1 else (),
            cooperative=bool(needs["cooperative"]),
            overlaps=bool(needs["overlaps"]),
        )
        return launch, given

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

    def _attribute(self, function: Any, name: str) -> int:
        attribute = getattr(self.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call(self.driver.cuFuncGetAttribute(attribute, function), f"read a kernel's {name}"))

    def _set(self, function: Any, name: str, value: int) -> None:
        attribute = getattr(self.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        call(self.driver.cuFuncSetAttribute(function, attribute, value), f"ask for {name} of {value}")


def claiming(device: CudaDevice, function: Action) -> Action:
    """Return a function that makes the device and its stream current before it runs code of others."""

    def enqueue() -> None:
        device.claim()
        function()

    return enqueue
