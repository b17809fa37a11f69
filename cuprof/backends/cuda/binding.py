"""A variant bound to the arrays of a session: the steps of its program, or the call that it makes of itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cuprof.backends.call import prepare_call
from cuprof.backends.contract import SCRATCH_ALIGNMENT, own_views
from cuprof.backends.cuda.comparison import DeviceVerification
from cuprof.backends.cuda.descriptors import make_tensor_map, make_texture
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import PackedLaunch, call, release_with
from cuprof.backends.cuda.launches import Needs, check_arguments, check_launch, read_parameter_sizes
from cuprof.backends.cuda.loading import Loaded, load_program
from cuprof.backends.cuda.timing import LAUNCH_PHASES
from cuprof.backends.declared import find_fault
from cuprof.backends.invoke import bind
from cuprof.builds.machine_code import hash_program
from cuprof.builds.ptxas import most_of
from cuprof.core.errors import LaunchError
from cuprof.core.records import BuildFacts
from cuprof.families import (
    Array,
    Copy,
    Fill,
    Invoke,
    Launch,
    Point,
    Program,
    Reduced,
    Repeat,
    Signature,
    TensorMap,
    Texture,
    Variant,
)
from cuprof.families.program import Argument, Step, as_scalar

STEPS_OF_A_CALL = 8
"""Assume that a call enqueues this many operations, since the number is unknown."""
STATIC_LIMIT_BYTES = 48 * 1024
"""A block that wants more shared memory than this must request it explicitly."""
PORTABLE_CLUSTER = 8
MOST_EXPIRED = 2
"""After this many readings in a row that did not wait for the host, a runnable is no longer held back."""

Action = Callable[[], object]


@dataclass
class CudaRunnable:
    """A variant ready to run: `enqueue()` puts one execution on the session's stream.

    Args:
        results: output name → device address and array.
        steps: the largest number of operations that one execution enqueues.
        launches: the number of launches among them; None if unknown.
        calls_host: code of others enqueues it: a library or a function of the host.
        waits: enqueuing waits for the device.
        expired: readings in a row for which the device did not wait for the host.
        before: untimed work after the inputs are written: copies into `__constant__` memory, the program's set-up.
        reduced: outputs left as partial results.
        deliver: enqueues the copy of returned results into the outputs; see `cuprof.families.Call`.
    """

    enqueue: Action
    results: Mapping[str, tuple[int, Any]]
    build: BuildFacts = field(default_factory=BuildFacts)
    steps: int = 1
    launches: int | None = 1
    calls_host: bool = False
    waits: bool = False
    expired: int = 0
    before: tuple[Callable[[int], object], ...] = ()
    reduced: Mapping[str, Reduced] = field(default_factory=dict)
    deliver: Action | None = None
    verification: DeviceVerification | None = None

    @property
    def holds_back(self) -> bool:
        """Return whether the stream may be held while this is enqueued: not if it synchronises by itself."""
        return not self.waits and self.expired < MOST_EXPIRED

    @property
    def launch_phases(self) -> int:
        """Return over how many phases of the launch queue a cold sample has to be taken; one launch has no gaps."""
        return 1 if self.steps == 1 else LAUNCH_PHASES


def bind_call(
    device: CudaDevice,
    signature: Signature,
    variant: Variant,
    point: tuple[Point, Point],
    arrays: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> CudaRunnable:
    """Let a variant prepare itself on views of the arrays that are its own.

    Args:
        point: the problem and the tunables.
        arrays: inputs and outputs by name.
    """
    started = time.monotonic_ns()
    device.claim()
    with device.errors(f"prepare {variant.name}"):
        function, deliver = prepare_call(variant, *point, *map(own_views, arrays))
    device.runtimes.look()
    results = {name: (array.data.ptr, signature.outputs[name]) for name, array in arrays[1].items()}
    facts = BuildFacts(build_ns=time.monotonic_ns() - started)
    return CudaRunnable(
        _claiming(device, function), results, facts, STEPS_OF_A_CALL, None, calls_host=True, deliver=deliver
    )


class ProgramBinder:
    """Turn a program's steps into functions that each enqueue one step on a stream.

    Args:
        arrays: inputs and outputs by name.
        scratch: the arena in which the program's scratch buffers are laid out.
        text: the source with its includes expanded.
    """

    def __init__(
        self, device: CudaDevice, signature: Signature, arrays: Mapping[str, Any], scratch: Any, text: str
    ) -> None:
        self.device, self.driver, self.signature, self.text = device, device.driver, signature, text
        self._arrays, self._scratch = arrays, scratch
        self._kernels: dict[str, BuildFacts] = {}

    def bind(self, variant: Variant, program: Program, *, graph: bool) -> CudaRunnable:
        """Build and load the program, and bind its steps.

        Args:
            graph: replay several steps as one CUDA graph.

        Raises:
            LaunchError: a kernel is missing, its parameters differ, or the device refuses its needs.
        """
        started = time.monotonic_ns()
        self.loaded = loaded = load_program(self.device, variant, program, self.text, self.signature)
        build_ns = time.monotonic_ns() - started
        self.buffers = {**self.signature.inputs, **self.signature.outputs, **program.scratch}
        self.addresses = self._lay_out(program)
        rounds = [step for step in program.steps if isinstance(step, Repeat)]
        waits = any(step.until for step in rounds)
        captured = graph and len(program.steps) > 1 and not waits
        stream = self.device.capturing_stream if captured else self.device.stream.ptr
        actions = [self._bind(step, stream) for step in program.steps]
        facts = most_of([*self._kernels.values()] or loaded.resources.values())
        before = tuple(self._list_before(program))
        # A fill may be a launch; a function may make many.
        plain = all(isinstance(step, Launch) for step in (*program.steps, *program.setup))
        steps = STEPS_OF_A_CALL if program.calls_host else len(actions)
        runnable = CudaRunnable(
            actions[0] if len(actions) == 1 else partial(_run_all, actions),
            dict(self._list_results(program)),
            replace(
                facts,
                cached=loaded.cached,
                build_ns=build_ns,
                log=loaded.log,
                sass_hash=hash_program(loaded.sass_hash, program),
            ),
            steps + sum(step.times * len(step.steps) for step in rounds),
            len(program.steps) if plain else None,
            calls_host=program.calls_host,
            waits=waits,
            before=before,
            reduced={name: each for name, each in program.results.items() if isinstance(each, Reduced)},
        )
        release_with(runnable, loaded.unload)
        if captured:
            self._replay_as_graph(runnable, stream)
        return runnable

    loaded: Loaded
    buffers: Mapping[str, Array]
    addresses: Mapping[str, int]

    def _lay_out(self, program: Program) -> dict[str, int]:
        """Return the address of each buffer."""
        addresses = {name: int(array.data.ptr) for name, array in self._arrays.items()}
        offset = 0
        for name, spec in program.scratch.items():
            addresses[name] = int(self._scratch.data.ptr) + offset
            offset += -(-spec.nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        if offset > self._scratch.nbytes:
            raise LaunchError(f"scratch of {offset} bytes asked for, {self._scratch.nbytes} set aside")
        return addresses

    def _list_results(self, program: Program) -> Iterable[tuple[str, tuple[int, Array]]]:
        for name, spec in self.signature.outputs.items():
            buffer, given = program.find_result(name), program.results.get(name)
            held = self.buffers[given.buffer] if isinstance(given, Reduced) else spec
            yield name, (self.addresses[buffer], held)

    def _list_before(self, program: Program) -> Iterable[Callable[[int], object]]:
        """Yield what each execution needs before it: `__constant__` memory filled (now too), and the set-up."""
        stream = self.device.stream.ptr
        for symbol, source in program.constants.items():
            address, size = self.loaded.constant(symbol)
            given = self.buffers[source].nbytes
            if given > size:
                raise LaunchError(f"__constant__ {symbol} holds {size} bytes, input {source} has {given}")
            fill = self._copy(address, self.addresses[source], given, stream)
            fill()
            yield _on_any(fill)
        for step in program.setup:
            yield _on_any(self._bind(step, stream))

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
            return self._bind_function(step, stream)
        assert isinstance(step, Launch)
        return self._bind_launch(step, stream)

    def _copy(self, target: int, source: int, size: int, stream: int) -> Action:
        return lambda: call(self.driver.cuMemcpyDtoDAsync(target, source, size, stream), "copy a buffer")

    def _bind_launch(self, step: Launch, stream: int) -> Action:
        function = self.loaded.function(step.kernel)
        keep: list[Any] = []
        arguments = [self._argument(value, keep) for value in step.args]
        built, sizes = self.loaded.built(step.kernel), read_parameter_sizes(self.driver, function)
        if built is not None and built.launch:
            step, arguments = self._as_triton(step, built.launch, arguments, sizes, keep)
        else:
            check_arguments(sizes, step.kernel, arguments, self.text)
        registers, static, most, local = (
            self._attribute(function, name)
            for name in ("NUM_REGS", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK", "LOCAL_SIZE_BYTES")
        )
        check_launch(step, Needs(registers, static, most), self.device.limits)
        if static + step.shared_bytes > STATIC_LIMIT_BYTES:
            self._set(function, "MAX_DYNAMIC_SHARED_SIZE_BYTES", step.shared_bytes)
        if np.prod(step.cluster, dtype=int) > PORTABLE_CLUSTER:
            self._set(function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        dynamic = built.launch.get("shared_bytes", 0) if built else 0
        spills = self.loaded.spill_bytes(step.kernel, local)
        self._kernels[step.kernel] = BuildFacts(registers, static + dynamic, spills)
        launch = PackedLaunch(step, function, arguments)
        launch.keep(keep)
        return partial(launch, stream)

    def _bind_rounds(self, step: Repeat, stream: int) -> Action:
        driver = self.driver
        actions = [self._bind(each, stream) for each in step.steps]
        address = self.addresses[step.until] if step.until else 0
        flag = np.zeros(self.buffers[step.until].type.itemsize if step.until else 1, np.uint8)

        def repeat() -> None:
            for _ in range(step.times):
                _run_all(actions)
                if address:
                    call(driver.cuMemcpyDtoHAsync(flag.ctypes.data, address, flag.nbytes, stream), "look for the end")
                    call((*driver.cuStreamSynchronize(stream),), "look for the end")
                    if flag.any():
                        return

        return repeat

    def _bind_function(self, step: Invoke, stream: int) -> Action:
        assert self.loaded.library is not None
        if fault := find_fault(step, self.text, {name: array.type for name, array in self.buffers.items()}):
            raise LaunchError(fault)
        arguments = [self._argument(value, []) for value in step.args]
        return _claiming(self.device, bind(self.loaded.library, step, [*arguments, stream]))

    def _as_triton(
        self,
        step: Launch,
        needs: Mapping[str, int],
        arguments: list[int | np.generic],
        sizes: Sequence[int] | None,
        keep: list[Any],
    ) -> tuple[Launch, list[int | np.generic]]:
        """Return the launch as Triton compiled it: without arguments that became constants, with the compiler's own."""
        given = [value for place, value in enumerate(arguments) if needs["kept"] >> place & 1]
        blocks = int(np.prod(step.grid, dtype=np.int64)) * needs["blocks"]
        memory = self.device.cupy.zeros(max(needs["global_bytes"] * blocks, 1), "uint8")
        keep.append(memory)
        hidden = 2 if sizes is None else max(len(sizes) - len(given), 0)
        given += [int(memory.data.ptr), 0, 0, 0][:hidden]
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

    def _attribute(self, function: Any, name: str) -> int:
        attribute = getattr(self.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call(self.driver.cuFuncGetAttribute(attribute, function), f"read a kernel's {name}"))

    def _set(self, function: Any, name: str, value: int) -> None:
        attribute = getattr(self.driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        call(self.driver.cuFuncSetAttribute(function, attribute, value), f"ask for {name} of {value}")

    def _replay_as_graph(self, runnable: CudaRunnable, capturing: int) -> None:
        """Make the runnable replay its work on the capturing stream as one CUDA graph."""
        driver, stream = self.driver, self.device.stream.ptr
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        call(driver.cuStreamBeginCapture(capturing, mode), "begin a graph")
        runnable.enqueue()
        graph = call(driver.cuStreamEndCapture(capturing), "end a graph")
        try:
            executable = call(driver.cuGraphInstantiate(graph, 0), "make a graph executable")
        finally:
            driver.cuGraphDestroy(graph)
        release_with(runnable, partial(driver.cuGraphExecDestroy, executable))
        runnable.enqueue, runnable.steps = lambda: call(driver.cuGraphLaunch(executable, stream), "launch a graph"), 1


def _run_all(actions: Sequence[Action]) -> None:
    for action in actions:
        action()


def _on_any(action: Action) -> Callable[[int], object]:
    """Adapt a step to take a stream, which it ignores: it is bound to its own."""
    return lambda _: action()


def _claiming(device: CudaDevice, function: Action) -> Action:
    """Return a function that makes the device and its stream current before it runs code of others."""

    def enqueue() -> None:
        device.claim()
        function()

    return enqueue
