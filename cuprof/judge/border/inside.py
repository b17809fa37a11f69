"""The process in which a stranger's code runs: it prepares a variant on shared memory and executes it when asked.

Nothing that this process says is evidence. It answers with one byte, or with a byte, a length and JSON: why it cannot
do what it was asked, or an outline.
"""

from __future__ import annotations

import copy
import pickle
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof.backends.contract import Runnable, arena_bytes
from cuprof.backends.registry import get_shared_memory, open_backend
from cuprof.core.errors import UsageError
from cuprof.core.text import one_line
from cuprof.families.candidate import extend
from cuprof.judge.border.layout import Place, cut
from cuprof.judge.border.signals import LENGTH, REQUEST, SECOND, Answer, Ask, Outline, Refusal, Task
from cuprof.plan import plan
from cuprof.worker.messages import Outlined
from cuprof.worker.method import reading_options
from cuprof.worker.trial import explain
from cuprof.worker.wire import encode

SPIN_S = 0.1


class Stage:
    """One variant, prepared on one set of arrays after the other, in the host's memory: for functions and libraries.

    Args:
        memory: descriptor of the shared memory.
    """

    spins = False

    def __init__(self, task: Task, memory: int) -> None:
        self.task = task
        self.host: Any = open_backend(task.job.backend, task.number)
        shared = get_shared_memory(task.job.backend)
        self.memory = shared(task.count, task.layout.stride, task.number, memory)
        self.calls: list[Callable[[], object]] = []
        self.bound: list[tuple[Any, Any]] = []  # sessions and runnables: what they own goes with them
        self.graphs: dict[int, Callable[[], object]] = {}

    def load(self) -> None:
        """Load the family with the stranger's file; from then on its code may run."""
        job = self.task.job
        (trial,) = job.trials
        family = job.origin.load()
        if job.extension is not None:
            extend(family, job.extension)
        self.variant, self.text, self.tunables = family.variant(trial.variant), trial.source_text, trial.tunables
        self.program = self.variant.make(job.problem, self.tunables) if self.variant.kind == "kernel" else None
        options = reading_options(job.measure)
        inputs = {name: np.zeros(place.shape, place.dtype) for name, place in self.task.layout.inputs.items()}
        # further sessions are copies of this one
        self.session = self.host.open(self.task.signature, inputs, options, arena_bytes(self.program))

    def prepare(self, count: int) -> None:
        """Bind the variant to further sets, as many as there are to be."""
        for number in range(len(self.calls), count):
            session = self._session_on(number)
            runnable = session.prepare(self.variant, self.task.job.problem, self.tunables, self.program, self.text)
            self.calls.append(self._as_call(session, runnable))
            self.bound.append((session, runnable))

    def _session_on(self, number: int) -> Any:
        """Return a session whose arrays are those of a set."""
        session, layout = copy.copy(self.session), self.task.layout
        session.inputs, session.outputs = (
            {name: self._array(self.memory.rows[number], place, like[name]) for name, place in places.items()}
            for places, like in ((layout.inputs, session.inputs), (layout.outputs, session.outputs))
        )
        return session

    def _array(self, row: Any, place: Place, like: Any) -> Any:
        """Return one array of a set, of the kind of the session's own."""
        return cut(row, place)

    def _as_call(self, session: Any, runnable: Runnable) -> Callable[[], object]:
        """Return one execution, with its results where they belong."""
        lands = runnable.deliver or any(each is not session.outputs[name] for name, each in runnable.results.items())
        if not (runnable.setup or runnable.reduced or lands):
            return runnable.enqueue  # by itself: who replaces what is ours would save microseconds with cold caches

        def execute() -> None:
            for put in runnable.setup:
                put()
            runnable.enqueue()
            session.land(runnable)

        return execute

    def _choose(self, count: int) -> list[Callable[[], object]]:
        return self.calls[1:2] if count == SECOND else self.calls[:count]

    def execute(self, count: int) -> None:
        """Execute on the first sets, one after the other, and wait."""
        if count in self.graphs:
            self.graphs[count]()
        else:
            for call in self._choose(count):
                call()
        self.wait()

    def wait(self) -> None:
        """Do nothing: a function has done its work when it returns."""

    def capture(self, counts: Sequence[int]) -> bool:
        """Capture executions as one graph for each count, if they can be; return whether they were."""
        self.graphs = {}
        with suppress(Exception):  # what cannot be captured is launched each time
            self.graphs = {count: self._capture(self._choose(count)) for count in counts}
            for graph in self.graphs.values():  # the first launch takes longer
                graph()
            self.wait()
        return bool(self.graphs)

    def _capture(self, calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
        """Refuse: the host has no graphs."""
        raise NotImplementedError

    def null(self) -> None:
        """Do what an execution costs beside its work."""
        self.wait()


class _OpenClStage(Stage):
    """Sets in the host's memory, used in place by an OpenCL device that is the host's own processor."""

    def _array(self, row: Any, place: Place, like: Any) -> Any:
        cl = self.host.cl
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        return cl.Buffer(self.host.context, flags, hostbuf=row[place.offset : max(place.end, place.offset + 1)])

    def wait(self) -> None:
        """Wait for the device."""
        with self.host.errors("execute", waiting=True):
            self.host.queue.finish()


class _CudaStage(Stage):
    """Sets in the memory of a CUDA device; executions are captured as graphs where they can be."""

    spins = True

    def __init__(self, task: Task, memory: int) -> None:
        super().__init__(task, memory)
        self.device = device = self.host.device
        self.cupy = device.cupy
        self.stream = self.cupy.cuda.Stream()  # a blocking one: it keeps the order with work on the default stream
        device.stream = self.stream
        # The trusted side compares, and to compile what takes checksums takes a second.
        device.checksums = lambda parts: [0 for _ in parts]
        device.claim()
        self._nothing = self.cupy.zeros(64, self.cupy.uint8)
        self._null = self._capture([lambda: self._nothing.fill(0)])

    def _array(self, row: Any, place: Place, like: Any) -> Any:
        return self.cupy.ndarray(like.shape, like.dtype, memptr=row.data + place.offset)

    def wait(self) -> None:
        """Wait for all work of this process."""
        self.cupy.cuda.runtime.deviceSynchronize()

    def _capture(self, calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
        """Return what replays these calls as one graph."""
        torch = sys.modules.get("torch")
        self.device.claim()
        self.wait()
        if torch is not None and torch.cuda.is_initialized():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="relaxed"):
                for call in calls:
                    call()
            return graph.replay  # type: ignore[no-any-return]
        self.stream.begin_capture()
        try:
            for call in calls:
                call()
        finally:
            captured = self.stream.end_capture()
        return lambda: captured.launch(self.stream)

    def null(self) -> None:
        """Do what an execution costs beside its work."""
        self._null()
        self.wait()


STAGES = {"cpu": Stage, "opencl": _OpenClStage, "cuda": _CudaStage}
"""Back ends whose memory another process can share."""


def refuse(error: BaseException) -> bytes:
    """Return what an honest author needs to know of an error, as a message."""
    state, message, log = explain(error)
    if isinstance(error, UsageError):  # it says all; a log would show cuprof's own lines
        message, log = one_line(str(error)), ""
    return Refusal(state.value, message, log).encode()  # type: ignore[arg-type]


def outline(task: Outline) -> bytes:
    """Return the trials that a file adds to a family, as a message."""
    family = task.origin.load()
    names = extend(family, task.extension)
    planned = plan(family, replace(task.selection, variants=names), task.devices)
    return encode(Outlined(planned.trials, planned.excluded))


def serve(pipe: socket.socket, memory: int = -1) -> None:
    """Serve requests until the other side closes."""
    task = pickle.loads(_receive(pipe, LENGTH.unpack(_receive(pipe, LENGTH.size))[0]))  # from the trusted side
    if not isinstance(task, Task):
        try:
            _tell(pipe, Answer.OUTLINE, outline(task))
        except BaseException as error:  # a process border: whatever the file raises is its own fault
            _tell(pipe, Answer.REFUSED, refuse(error))
        return
    stage: Any = None
    while True:
        if stage is not None and stage.spins:
            _await(pipe)
        ask, count = REQUEST.unpack(_receive(pipe, REQUEST.size))
        answer = Answer.DONE
        try:
            if ask == Ask.OPEN:
                stage = STAGES[task.job.backend](task, memory)
            elif ask == Ask.NULL:
                stage.null()
            elif ask == Ask.LOAD:
                stage.load()
            elif ask == Ask.PREPARE:
                stage.prepare(count)
            elif ask == Ask.CAPTURE:
                counts = (SECOND, 1, count) if count > 1 else (1,)
                answer = Answer.GRAPH if stage.capture(counts) else Answer.DIRECT
            elif ask == Ask.RELEASE:
                stage.graphs = {}
            elif ask == Ask.EXECUTE:
                stage.execute(count)
        except BaseException as error:  # a process border: whatever a variant raises costs its own trial alone
            _tell(pipe, Answer.REFUSED, refuse(error))
            continue
        pipe.sendall(answer)


def _await(pipe: socket.socket) -> None:
    """Wait for a request awake, for a while: to wake up takes longer than many a kernel."""
    until = time.monotonic() + SPIN_S
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            pipe.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return


def _receive(pipe: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = pipe.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def _tell(pipe: socket.socket, kind: bytes, text: bytes) -> None:
    pipe.sendall(kind + LENGTH.pack(len(text)) + text)
