"""A variant built and bound to the arrays of a session: its program, or the call that it makes of itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cuprof.backends.call import prepare_call
from cuprof.backends.contract import SCRATCH_ALIGNMENT, own_views
from cuprof.backends.cuda.captured import read_resources
from cuprof.backends.cuda.comparison import DeviceVerification
from cuprof.backends.cuda.device import CudaDevice
from cuprof.backends.cuda.driver import call, release_with
from cuprof.backends.cuda.loading import load_program
from cuprof.backends.cuda.refill import copying
from cuprof.backends.cuda.steps import StepBinder
from cuprof.backends.cuda.timing import LAUNCH_PHASES
from cuprof.core.errors import LaunchError
from cuprof.core.records import BuildFacts
from cuprof.families import Launch, Point, Program, Reduced, Repeat, Signature, Variant

STEPS_OF_A_CALL = 8
"""Assume that a call enqueues this many operations, since the number is unknown."""


@dataclass
class CudaRunnable:
    """A variant ready to run: `enqueue()` puts one execution on the session's stream."""

    enqueue: Callable[[], object]
    results: Mapping[str, tuple[int, Any]]
    facts: BuildFacts = field(default_factory=BuildFacts)
    inspect: Callable[[], BuildFacts | None] | None = None
    """Reads the resources that a call's kernels use; called once, after all measurements."""
    steps: int = 1
    """The largest number of operations that one execution enqueues."""
    launches: int | None = 1
    """The number of launches among them; None if unknown."""
    holds_back: bool = True
    """Whether the stream may be held while this is enqueued; False if the call was found to synchronise by itself."""
    always_waits: bool = False
    expired_in_a_row: int = 0
    before: tuple[Callable[[int], object], ...] = ()
    """Untimed work on the stream, after the inputs are written: copies into `__constant__` memory."""
    verification: DeviceVerification | None = None
    reduced: Mapping[str, Reduced] = field(default_factory=dict)
    """Outputs left as partial results."""
    deliver: Callable[[], object] | None = None
    """Enqueues the copy of returned results into the outputs on the current stream; see `cuprof.families.Call`."""

    @property
    def build(self) -> BuildFacts:
        """Return the compiler's facts, and for a call the resources of its kernels."""
        if self.inspect is not None:
            with suppress(Exception):  # a variant's own code runs; its errors leave facts unknown
                found = self.inspect()
                self.facts = replace(found, build_ns=self.facts.build_ns) if found else self.facts
            self.inspect = None
        return self.facts

    @property
    def launch_phases(self) -> int:
        """Return over how many phases of the launch queue a cold sample has to be taken; one launch has no gaps."""
        return 1 if self.steps == 1 else LAUNCH_PHASES


@dataclass(frozen=True)
class Binder:
    """Build variants and bind them to a session's arrays.

    Args:
        inputs, outputs: device arrays by name.
        scratch: the arena in which programs' scratch buffers are laid out.
        graph: replay several steps as one CUDA graph.
    """

    device: CudaDevice
    signature: Signature
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    scratch: Any
    graph: bool

    def bind_program(self, variant: Variant, program: Program, text: str) -> CudaRunnable:
        """Build a program, load it and bind its steps; `text` is the source with its includes expanded."""
        started = time.monotonic_ns()
        loaded = load_program(self.device, variant, program, text, self.signature)
        build_ns = time.monotonic_ns() - started
        addresses = self._addresses(program)
        copies = []
        for symbol, source in program.constants.items():
            address, size = loaded.constant(symbol)
            array = self.inputs[source]
            if array.nbytes > size:
                raise LaunchError(f"__constant__ {symbol} holds {size} bytes, input {source} has {array.nbytes}")
            copies.append((address, array.data.ptr, array.nbytes))
        before: tuple[Callable[[int], object], ...] = (copying(self.device, copies),) if copies else ()
        for put in before:
            put(self.device.stream.ptr)
        rounds = [step for step in program.steps if isinstance(step, Repeat)]
        waits = any(step.until for step in rounds)
        captured = self.graph and len(program.steps) > 1 and not waits
        stream = self.device.capturing_stream if captured else self.device.stream.ptr
        buffers = {**self.signature.inputs, **self.signature.outputs, **program.scratch}
        binder = StepBinder(self.device, loaded, buffers, addresses, stream, text)
        actions = [binder.bind(step) for step in program.steps]
        ahead = StepBinder(self.device, loaded, buffers, addresses, self.device.stream.ptr, text)
        before += tuple(_on_any(ahead.bind(step)) for step in program.setup)
        facts = replace(binder.resources(), cached=loaded.cached, build_ns=build_ns, log=loaded.log)
        reduced = {name: each for name, each in program.results.items() if isinstance(each, Reduced)}
        results = {
            name: (addresses[program.find_result(name)], buffers[reduced[name].buffer] if name in reduced else spec)
            for name, spec in self.signature.outputs.items()
        }
        # A fill may be a launch; a function may make many.
        plain = all(isinstance(step, Launch) for step in (*program.steps, *program.setup))
        launches = len(program.steps) if plain else None
        enqueue = actions[0] if len(actions) == 1 else _in_sequence(actions)
        steps = STEPS_OF_A_CALL if program.calls_host else len(actions)
        steps += sum(step.times * len(step.steps) for step in rounds)
        runnable = CudaRunnable(enqueue, results, facts, None, steps, launches, before=before, reduced=reduced)
        runnable.holds_back, runnable.always_waits = not waits, waits
        release_with(runnable, loaded.unload)
        if captured:
            self._replay_as_graph(runnable, stream)
        return runnable

    def bind_call(self, variant: Variant, problem: Point, tunables: Point) -> CudaRunnable:
        """Let a variant prepare itself on views of the arrays that are its own."""
        started = time.monotonic_ns()
        self.device.claim()
        with self.device.errors(f"prepare {variant.name}"):
            function, deliver = prepare_call(
                variant, problem, tunables, own_views(self.inputs), own_views(self.outputs)
            )
        self.device.runtimes.look()
        results = {name: (array.data.ptr, self.signature.outputs[name]) for name, array in self.outputs.items()}
        facts = BuildFacts(build_ns=time.monotonic_ns() - started)

        def enqueue() -> None:
            self.device.claim()
            function()

        inspect = partial(read_resources, self.device, function)
        return CudaRunnable(enqueue, results, facts, inspect, steps=STEPS_OF_A_CALL, launches=None, deliver=deliver)

    def _replay_as_graph(self, runnable: CudaRunnable, capturing: int) -> None:
        """Make the runnable replay its work on the capturing stream as one CUDA graph."""
        driver, stream = self.device.driver, self.device.stream.ptr
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

    def _addresses(self, program: Program) -> dict[str, int]:
        addresses = {name: array.data.ptr for name, array in (*self.inputs.items(), *self.outputs.items())}
        offset = 0
        for name, spec in program.scratch.items():
            addresses[name] = self.scratch.data.ptr + offset
            offset += -(-spec.nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        if offset > self.scratch.nbytes:
            raise LaunchError(f"scratch of {offset} bytes asked for, {self.scratch.nbytes} set aside")
        return addresses


def _on_any(action: Callable[[], object]) -> Callable[[int], object]:
    """Adapt a step to take a stream, which it ignores: it is bound to its own."""
    return lambda _: action()


def _in_sequence(actions: list[Callable[[], None]]) -> Callable[[], None]:
    def enqueue() -> None:
        for action in actions:
            action()

    return enqueue
