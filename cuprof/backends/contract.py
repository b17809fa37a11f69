"""The interface of a back end: a device, sessions on it, and frames around single executions.

    Backend.open(signature, inputs) ──▶ Session: the buffers of one problem on one device
    Session.prepare(variant, …)     ──▶ Runnable: one variant, built and bound to those buffers
    Session.begin(runnable, measure) ──▶ Frame: one timed execution, enqueued; a call of it waits for the end

All runnables of a session share inputs, outputs and one scratch arena, so they are measured on the same addresses
and the memory needed is that of the largest one. A session belongs to the thread and process that opened it.

A back end brings a `Memory`, a session that prepares and times, and a `Backend`; the rest is here. One with a type of
runnable of its own names it (`Session[CudaRunnable]`). Code for any back end writes `Backend[Runnable]`, and gives a
runnable back only to the session that prepared it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from time import sleep
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from cuprof.backends.buffers import Content, Contents, Memory, make_contents
from cuprof.backends.functions import find_mismatch
from cuprof.backends.spec import BackendSpec
from cuprof.backends.switches import put_back_switches
from cuprof.builds import Build, BuildPool, Built
from cuprof.core.errors import DeviceMemoryError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, Calibration, Check, DeviceFacts, Measure
from cuprof.families import Array, Arrays, Program, Reduced, Signature, Tolerances, Variant

GAPS_MATTER_NS = 200_000.0
"""Gaps between an execution's launches matter only below this duration. They differ by 0.9 µs on H200s, which is less
than half a percent of a longer execution."""
POISON_BYTE = 0xFF
"""Outputs and scratch are filled with this byte before a checked run: NaN as any IEEE float, -1 as any integer."""
SECOND_POISON_BYTE = 0x5A
"""The fill of the second check, since -1 (or 255) may happen to be the right value of an integer never written."""

SCRATCH_ALIGNMENT = 256
"""Bytes; scratch buffers start at multiples of this, like allocations of the CUDA driver."""
NOT_COLD = "the caches were not flushed before it"
"""How the `suspect` of a cold reading begins that was not cold."""
GRACE_S = 0.2
"""Wait this long for a variant's threads to finish."""


def arena_bytes(program: Program | None) -> int:
    """Return the bytes of an arena for a program's scratch buffers, aligned as sessions align them."""
    arrays = program.scratch.values() if program is not None else ()
    return sum(array.nbytes + SCRATCH_ALIGNMENT for array in arrays)


class DeviceLostError(LaunchError):
    """Report an error after which the process can use the device no more (illegal address, trap, lost device)."""


@dataclass(frozen=True)
class Reading:
    """One timed execution.

    Args:
        duration_ns: of one execution, after the back end's documented correction.
        sm_clock_mhz: SM clock measured on the device next to the execution, or None.
        suspect: why the reading should not count ("host slower than the device"), or empty.
    """

    duration_ns: float
    sm_clock_mhz: float | None = None
    suspect: str = ""


Frame = Callable[[], Reading]
"""One timed execution that has been enqueued, and may not have ended: waits, and returns how long it took. Raises
`LaunchError` where the execution failed, `DeviceLostError` where the process must end."""


@dataclass(frozen=True)
class Draw:
    """The inputs and fill of one execution, drawn for each one.

    Args:
        inputs: number of the set of inputs; 0 is the session's first.
        fill: the byte that fills outputs and scratch before it.
        compare: compare its result with the reference for these inputs.
        fresh: write the inputs even if the last execution had the same set. Otherwise they stay as it left them, which
            saves the device a copy of all inputs.
    """

    inputs: int = 0
    fill: int = POISON_BYTE
    compare: bool = False
    fresh: bool = True


Draws = Callable[[], Draw]
"""Draws the inputs of each execution; `Draw` itself draws the first set, and has nothing compared."""


@dataclass(frozen=True)
class Tally:
    """How many executions were compared, and how many of them were wrong."""

    compared: int = 0
    wrong: int = 0


@dataclass(frozen=True)
class ReadingOptions:
    """How executions are timed.

    Args:
        flush: before a cold reading, "clean" reads other data through the caches, "dirty" writes it, "none" neither.
        blocking: hold the device until everything is enqueued, so that launch latency is not measured.
        pinned: total time copies from page-locked host memory.
        graph: replay a variant's steps as a CUDA graph.
    """

    flush: str = "clean"
    blocking: bool = True
    pinned: bool = True
    graph: bool = False
    cupti: bool = False
    """Take kernel durations from CUPTI's records in place of events (cold and hot)."""


@dataclass
class Runnable:
    """One variant at one choice of tunables, built and bound to a session's buffers.

    Args:
        enqueue: executes once, or puts an execution on the device's queue.
        results: output name → the buffer that holds it.
        build: the compiler's facts about the build.
        steps: how many operations one execution enqueues, at most.
        launch_phases: how many executions a cold sample is the mean of, where they are shorter than `GAPS_MATTER_NS`.
        setup: untimed work after the inputs are written.
        reduced: outputs left as partial results, and the arrays that hold those.
        deliver: copies returned results into the outputs; see `cuprof.families.Call`.
    """

    enqueue: Callable[..., Any]
    results: Mapping[str, Any] = field(default_factory=dict)
    build: BuildFacts = field(default_factory=BuildFacts)
    steps: int = 1
    launch_phases: int = 1
    setup: tuple[Callable[[], object], ...] = ()
    reduced: Mapping[str, tuple[Reduced, Array]] = field(default_factory=dict)
    deliver: Callable[[], object] | None = None


R = TypeVar("R", bound=Runnable)


class Session(ABC, Generic[R]):
    """Inputs, outputs and scratch of one problem in a device's memory, and the variants that are bound to them.

    Attributes:
        inputs, outputs: buffers by name.
        restored: buffers that need contents before an execution: the inputs, and outputs that are updated in place.
        scratch: the arena in which programs' scratch buffers are laid out.
        unread: outputs that nothing judges, so that they are not fetched.
    """

    backend: Any
    unread: Collection[str] = ()
    memory: Memory[Any]
    memories: ClassVar[type[Memory[Any]]]
    """The class of its memory, which is made of the back end."""

    def __init__(
        self, backend: Backend[R], signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0
    ) -> None:
        self.backend, self.signature, self.options = backend, signature, options
        self.memory = memory = self.memories(backend)
        read_only = [name for name in inputs if name not in signature.outputs]
        self.inputs = {name: memory.allocate(f"input {name}", signature.inputs[name]) for name in read_only}
        self.outputs = {name: memory.allocate(f"output {name}", spec) for name, spec in signature.outputs.items()}
        self._allocate_scratch(max(scratch_bytes, 1))
        self.restored = {name: self.inputs[name] if name in self.inputs else self.outputs[name] for name in inputs}
        self._sets: list[Contents] = []
        self._landing: dict[tuple[str, Array], np.ndarray] = {}
        self._given = inputs
        self._put(make_contents(inputs))

    @abstractmethod
    def prepare(self, variant: Variant, problem: Point, tunables: Point, program: Program | None, text: str = "") -> R:
        """Build and bind one variant.

        Args:
            program: for kernels, what `variant.make` gave; None for calls.
            text: for kernels, the source with its includes expanded; exactly what is compiled.

        Raises:
            BuildError: the compiler refused.
            LaunchError: the device refused (too many threads, too much shared memory or memory).
        """

    def _lay_out(self, program: Program, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the buffers that a program may name, and the fields of a runnable that say where its results are.

        Raises:
            LaunchError: one of its calls does not match the declaration in its source.
        """
        if fault := find_mismatch(program, text, self.signature):
            raise LaunchError(fault)
        step = max(SCRATCH_ALIGNMENT, self.memory.alignment)
        starts = list(accumulate((-(-spec.nbytes // step) * step for spec in program.scratch.values()), initial=0))
        if starts[-1] > self._scratch_bytes:  # earlier runnables keep the arena that they are bound to
            self._allocate_scratch(starts[-1])
        parts = zip(program.scratch.items(), starts, strict=False)
        scratch = {name: self.memory.part(self.scratch, start, spec) for (name, spec), start in parts}
        buffers = {**self.inputs, **self.outputs, **scratch}
        arrays = {**self.signature.inputs, **self.signature.outputs, **program.scratch}
        return buffers, {
            "results": {name: buffers[program.find_result(name)] for name in self.signature.outputs},
            "reduced": {
                name: (each, arrays[each.buffer]) for name, each in program.results.items() if isinstance(each, Reduced)
            },
        }

    def _allocate_scratch(self, size: int) -> None:
        self.scratch, self._scratch_bytes = self.memory.allocate("scratch", Array((size,), "uint8")), size

    def poison(self, runnable: R, byte: int = POISON_BYTE) -> None:
        """Overwrite outputs and scratch; those that are updated in place get their contents."""
        for name in self.restored.keys() & self.outputs:
            self.memory.write(self.outputs[name], self._in_place[name])
        self._fill(runnable, byte)

    def _fill(self, runnable: R, byte: int) -> None:
        for name, buffer in self.outputs.items():
            if name not in self.restored:
                self.memory.fill(buffer, byte)
        self.memory.fill(self.scratch, byte)
        for put in runnable.setup:
            put()
        self.memory.wait()

    def spoil(self, runnable: R, share: float, byte: int) -> None:
        """Overwrite one element of each result, at this share of its length, with a byte."""
        for name, buffer in runnable.results.items():
            _, held = runnable.reduced.get(name, (None, self.signature.outputs[name]))
            if held.nbytes:
                size = held.type.itemsize
                self.memory.fill(buffer, byte, int(share * held.size) * size, size)
        self.memory.wait()

    def run(self, runnable: R, count: int = 1) -> None:
        """Execute back to back and wait, as a program would: nothing is flushed, held back or timed.

        Raises:
            LaunchError: the execution failed; `DeviceLostError` where the process must end.
        """
        with self.backend.errors("execute"):
            for _ in range(count):
                runnable.enqueue()
        self.memory.wait("execute")

    def damaged_inputs(self) -> tuple[str, ...]:
        """Return the inputs whose bytes are not those that were written last."""
        return tuple(name for name, is_whole in self.memory.holds(self.inputs, self._in_place) if not is_whole)

    def overrun_arrays(self) -> tuple[str, ...]:
        """Return the arrays with damage next to them ("input x", "output y", "scratch")."""
        return self.memory.find_damaged()

    def restore_inputs(self) -> None:
        """Rewrite the first inputs, at the same addresses, and the guard bytes around all arrays."""
        self._put(make_contents(self._given))
        self.memory.mend()

    def _put(self, contents: Contents) -> None:
        """Write a set's contents into the buffers that need any."""
        self._in_place = contents
        for name, content in contents.items():
            self.memory.write(self.restored[name], content)
        self.memory.wait()

    def check_in_place(self, runnable: R, tolerance: Tolerances, seed: int) -> Check | None:
        """Return the passed check against the first set stocked, where all is found right without copying outputs.

        None says nothing: the outputs are then fetched and compared on the host.
        """
        return None

    def fetch(self, runnable: R) -> dict[str, np.ndarray]:
        """Return the outputs as host arrays of their own, by name."""
        self._bring(runnable)
        found = {}
        for name, spec in self.signature.outputs.items():
            if name in self.unread:
                continue
            own, held = runnable.reduced.get(name, (None, spec))
            host = self.memory.read(runnable.results[name], held)
            found[name] = own.put_together(host, spec.shape) if own else host
        return found

    def _bring(self, runnable: R) -> None:
        """Copy the last execution's returned results into the outputs, and wait."""
        if runnable.deliver:
            with self.backend.errors("copy the results"):
                runnable.deliver()
            self.memory.wait("copy the results")

    def land(self, runnable: R) -> None:
        """Put the last execution's results into the outputs themselves, wherever it has left them."""
        if runnable.deliver:
            runnable.deliver()
        whole = self.fetch(runnable) if runnable.reduced else {}
        for name, buffer in runnable.results.items():
            if name in runnable.reduced:
                self.memory.write(self.outputs[name], Content(whole[name].astype(self.signature.outputs[name].type)))
            elif buffer is not self.outputs[name]:
                self.memory.copy(self.outputs[name], buffer, self.signature.outputs[name].nbytes)

    def checksum(self, runnable: R) -> tuple[int, ...] | None:
        """Return a checksum of each result, made on the device; None where the host holds the results anyway."""
        return None

    @property
    def stocked(self) -> int:
        """Return how many sets of inputs are kept; 0 where the caches are left alone, or there is no room."""
        return len(self._sets)

    def stock(self, sets: Sequence[Arrays], references: Sequence[Arrays] = ()) -> None:
        """Keep as many sets of inputs as fit in memory, in order, and give each execution the drawn one.

        All use the same addresses in turn. Executions drawn before this call use the inputs in place.

        Args:
            sets: the first one is in place.
            references: the right results on each, float64 or exact integers by output name, to compare with in place.
        """
        self._sets = []
        is_in_place = len(self.restored) > len(self.inputs)
        if self.options.flush == "none" and not is_in_place:
            return  # writing the inputs would warm the caches
        for inputs in sets:
            contents = make_contents(inputs)
            try:
                self.memory.keep([*contents.values()])
            except DeviceMemoryError:
                if is_in_place and not self._sets:
                    raise
                break
            self._sets.append(contents)
        if self._sets:
            self._put(self._sets[0])

    def give(self, runnable: R, draw: Draw) -> None:
        """Write the drawn inputs and outputs, and do the set-up of a runnable; nothing where no set is stocked."""
        if self._sets:
            self._put(self._sets[draw.inputs])
            self._fill(runnable, draw.fill)

    def expect(self, runnable: R, tolerances: Sequence[Tolerances]) -> Callable[[], Tally] | None:
        """Compare the results of a runnable's executions in place, with one tolerance per set of inputs.

        Returns:
            What waits and gives the counts of the comparisons; None if they cannot be done in place. The caller then
            fetches the outputs and compares them.
        """
        return None

    def execute(self, runnable: R, *draws: Draw) -> None:
        """Execute once as each draw says, timing nothing, and wait for the last.

        Raises:
            LaunchError: as `run`.
        """
        for draw in draws:
            self.give(runnable, draw)
            self.run(runnable)

    def put_back(self, *, settings: bool = True) -> bool:
        """Undo a variant's changes to library switches and the device.

        Args:
            settings: also undo limits and preferences of the device, which a variant may need while it runs.

        Returns:
            Whether those were changed.
        """
        put_back_switches()
        return False

    def wait(self) -> None:
        """Wait for whatever still goes on, also where no execution waits: other streams, and threads for a moment."""
        sleep(GRACE_S)

    @abstractmethod
    def begin(self, runnable: R, measure: Measure, batch: int = 1, draw: Draws = Draw) -> Frame:
        """Enqueue one timed execution; its reading is one execution's share: `batch` are timed back to back for hot.

        A cold reading is of one execution, or the mean of `batch` of them, each with cold caches, if the runnable's
        `launch_phases` require that many. Writing the inputs and comparing the result are not timed. In a hot batch the
        first execution gets the drawn inputs, and the last one's result is compared.

        Args:
            draw: called for each of them, before this returns.
        """

    def _transfers(self, runnable: R) -> tuple[list[tuple[Any, np.ndarray]], list[tuple[np.ndarray, Any]]]:
        """Return the copies of total time, to the device and back: target and source of each."""
        make = self.memory.host_array if self.options.pinned else np.empty
        uploads, downloads = [], []
        for name, content in self._in_place.items():
            if content.pinned is None:
                content.pinned = make(content.host.shape, content.host.dtype)
                content.pinned[...] = content.host
            uploads.append((self.restored[name], content.pinned))
        for name, buffer in runnable.results.items():
            _, held = runnable.reduced.get(name, (None, self.signature.outputs[name]))
            if (name, held) not in self._landing:
                self._landing[name, held] = make(held.shape, held.type)
            downloads.append((self._landing[name, held], buffer))
        return uploads, downloads

    def in_flight(self, runnable: R) -> int:
        """Return how many frames of this and other runnables may be begun before the oldest one's reading is taken.

        1 where a frame has to end before the next one begins, as of host code.
        """
        return 1

    def tick_ns(self, measure: Measure) -> float:
        """Return the step in which durations of this measure are read; 0 where it is finer than matters."""
        return 0.0

    def close(self) -> None:
        """Free the buffers."""
        self.inputs, self.outputs, self.restored, self.scratch = {}, {}, {}, None
        self._sets, self._in_place, self._landing = [], {}, {}
        self.memory.free()


class Backend(ABC, Generic[R]):
    """One device and the software that drives it."""

    spec: ClassVar[BackendSpec]
    """Facts about this back end that need no device."""
    sessions: ClassVar[Callable[..., Any]]
    """The class of its sessions."""
    busy_until_ns = 0
    """Until when its device has worked at least, by the monotonic clock."""

    @abstractmethod
    def facts(self) -> DeviceFacts:
        """Return the facts about the device."""

    @classmethod
    def begin_to_open(cls) -> None:
        """Start ahead of opening what works beside it."""

    def take_up(self) -> None:
        """Make the device current in this thread; it was opened in another one."""

    def warm_up(self) -> None:
        """Make ahead what the first session would wait for."""

    @abstractmethod
    def calibrate(self) -> Calibration:
        """Measure the device: read bandwidth and the timing method's own cost."""

    def correction_ns(self, measure: Measure) -> float:
        """Return the ns subtracted from every duration of this measure: the cost of timing itself."""
        return 0.0

    @cached_property
    def cache(self) -> BuildPool:
        """Return what compiles ahead what `list_builds` returns."""
        return BuildPool()

    def list_builds(self, signature: Signature, variant: Variant, program: Program, text: str) -> Sequence[Build]:
        """Return the builds of a program for `cache` to compile ahead; none if refused, which `prepare` reports."""
        return ()

    def build_ahead(
        self, signature: Signature, builds: Iterable[tuple[Variant, Program, str]], limit_s: float | None = None
    ) -> list[list[Future[tuple[Built, bool]]]]:
        """Begin each (variant, program, source text) in order, as `BuildPool.start` does; return the builds of each."""
        return [[self.cache.start(build, limit_s) for build in self.list_builds(signature, *each)] for each in builds]

    def open(self, signature: Signature, inputs: Arrays, options: ReadingOptions, scratch_bytes: int = 0) -> Session[R]:
        """Put the inputs on the device and make room for outputs.

        Args:
            scratch_bytes: size of the arena that the programs' scratch buffers are laid out in.

        Raises:
            DeviceMemoryError: the device's memory does not suffice.
        """
        with self.errors("put the inputs on the device"):
            session: Session[R] = self.sessions(self, signature, inputs, options, scratch_bytes)
            return session

    def errors(self, what: str) -> AbstractContextManager[None]:
        """Return a context that turns the device's exceptions into cuprof's; `what` was done there, for the message."""
        return nullcontext()


def smallest_step(durations: Sequence[float]) -> float:
    """Return the step in which a timer reads, from many readings of about the same; 0 where no two are equal."""
    values = np.unique(np.round(durations, 1))
    steps = np.diff(values)
    steps = steps[steps >= 1.0]  # a smaller one is rounding
    return float(steps.min()) if values.size < len(durations) and steps.size else 0.0
