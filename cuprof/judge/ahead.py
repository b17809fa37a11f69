"""Processes that have done what a leg needs beside the device, side by side, and wait for their turns.

Each leg has a process of its own, which takes a second or two to start, to open the device, to make inputs and
references, and to compile. None of that is timed, so the legs do it at once. The first is timed when all of them wait.

Only the leg whose turn it is has arrays on the device. Where arrays lie in its memory changes a time by half a percent,
and legs whose arrays are there one after another get the same places.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from cuprof.backends.buffers import available_bytes
from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.core.processes import count_at_once
from cuprof.core.records import Devices
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.executor import Executor
from cuprof.engine.planning import Prepared
from cuprof.families import Family
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.contenders import Contender
from cuprof.judge.warden import LEAST_AHEAD
from cuprof.plan import Plan, Selection, plan_hash
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Load, Open, WorkerSettings
from cuprof.worker.method import methods

PURPOSE = "judging"
CONTEXT_BYTES, COPIES = 1 << 30, 8
"""Memory of a leg, on the host and on the device: libraries or a context, and this many times the arrays of its
problem, for sets of inputs, references and guards. On the device one leg at a time has arrays."""
SHARE_OF_MEMORY = 4
"""All of them together take at most 1/N of the host's memory that is free, and of the device's beside the arrays."""
PATIENCE, PATIENCE_S = 2, 5.0
"""Wait for a leg this many times as long as the first one took, and some seconds: each does about the same."""


@dataclass(frozen=True)
class Leg:
    """One turn of a contender: the sweep that it is, and the executor whose worker prepares it."""

    contender: Contender
    sweep: Prepared
    executor: Executor


@dataclass
class Ahead:
    """The legs of one call of `judge` that are prepared.

    Args:
        config: how all legs are timed.
        confine: gives a contender's sandbox.
        idle: executors whose workers open the device and have nothing to do yet.
        locks: keep other cuprof processes off the device while legs are prepared.

    Attributes:
        is_on: whether legs are prepared. It ends when one could not be, and was right by itself.
        waiting: in the order of their turns.
        used: executors of legs that are over. Their workers do nothing any more; to end one takes the device's time.
    """

    config: SweepConfig
    family: Family
    devices: Devices
    confine: Callable[[Contender], Sandbox | None]
    locks: DeviceLocks
    idle: list[Executor]
    is_on: bool = True
    waiting: list[Leg] = field(default_factory=list)
    used: list[Executor] = field(default_factory=list)
    _begun: float | None = None
    _turn: ExitStack = field(default_factory=ExitStack)

    def make_sweep(self, contender: Contender) -> Prepared:
        """Return the sweep that a leg is, with inputs of its own."""
        origin, backend, over_border = contender.origin, contender.backend, contender.runs_on_host
        # candidates cannot write there, so its code needs no guard
        family = replace(self.family, folder=origin.folder, path=origin.path, origin=origin, code={})
        selection = Selection(tuple(dict.fromkeys(trial.variant for trial in contender.trials)))
        plan = Plan(selection, contender.trials)
        by_measure = methods(self.config.measure, backend, over_border=over_border)
        return Prepared(
            config=replace(self.config, variants=selection.variants, baseline="", purpose=PURPOSE),
            family=family,
            plan=plan,
            devices=self.devices,
            methods={backend: by_measure},
            hash=plan_hash(plan, {str(measure): value for measure, value in by_measure.items()}),
            extension=contender.extension,
            is_private=True,  # from other legs' results; and a stranger may not change the project by files it reports
        )

    def make_executor(self, contender: Contender) -> Executor:
        """Return the executor of a leg that is built and timed by a worker."""
        sandbox = self.confine(contender)
        executor = next((one for one in self.idle if one.sandbox == sandbox), None)
        if executor is None:
            return make_executor(self.config, sandbox, self.devices)
        self.idle.remove(executor)
        executor.devices = self.devices
        return executor

    def begin(self, turns: Sequence[Contender]) -> None:
        """Begin to prepare the legs that come next, unless the next one is prepared."""
        mine = [contender for contender in turns if is_apart(contender)]
        is_next = any(leg.contender is turns[0] for leg in self.waiting)
        if not self.is_on or is_next or turns[0] not in mine[:1] or (count := self._count(mine[0])) < LEAST_AHEAD:
            return
        self._end_used()
        if device := mine[0].trials[0].device:
            self._turn.enter_context(self.locks.hold(device))
        self._begun = time.monotonic()
        for contender in mine[:count]:
            leg = Leg(contender, self.make_sweep(contender), self.make_executor(contender))
            self.waiting.append(leg)
            leg.executor.prepare(leg.sweep.list_jobs(contender.trials)[0])
        while self.idle:  # there is no memory for so many
            self.idle.pop().retire_worker()

    def await_ready(self) -> Contender | None:
        """Wait until all legs that were begun are prepared.

        Returns:
            A contender whose leg is to run by itself, since it takes too long or ended its process. No leg waits then.
        """
        began, self._begun = self._begun, None
        if began is None:
            return None
        until = began + self.config.limits.trial_s
        with self._turn:
            for place, leg in enumerate(self.waiting):
                if not leg.executor.await_ready(until):
                    self.end()
                    return leg.contender
                if place == 0:
                    until = began + PATIENCE * (time.monotonic() - began) + PATIENCE_S
        return None

    def take(self, contender: Contender) -> Leg | None:
        """Return a contender's next leg, if one waits."""
        leg = next((leg for leg in self.waiting if leg.contender is contender), None)
        if leg is not None:
            self.waiting.remove(leg)
            self.used.append(leg.executor)
        return leg

    def end(self) -> None:
        """End all workers; the next one that is started waits for that."""
        self._turn.close()
        self._end_used()
        while self.idle:
            self.idle.pop().retire_worker()

    def _end_used(self) -> None:
        for executor in (*self.used, *(leg.executor for leg in self.waiting)):
            executor.retire_worker()
        self.used, self.waiting = [], []

    def _count(self, contender: Contender) -> int:
        """Return how many legs may be prepared at once, by cores and memory."""
        signatures = [self.family.signature(trial.problem) for trial in contender.trials]
        copies = COPIES * max(signature.nbytes for signature in signatures)
        device = contender.trials[0].device
        on_device = ((device.memory_bytes if device else 0) - copies) // SHARE_OF_MEMORY // CONTEXT_BYTES
        return min(count_at_once(), on_device, available_bytes() // SHARE_OF_MEMORY // (CONTEXT_BYTES + copies))


def make_executor(config: SweepConfig, sandbox: Sandbox | None, devices: Devices | None = None) -> Executor:
    """Return an executor of legs that workers build and time; none is started yet."""
    return Executor(WorkerSettings(config.device.numbers()), config.limits, sandbox, devices)


def open_ahead(executor: Executor, backend: str, origin: AnyOrigin) -> None:
    """Have the worker open the device, and load the family where that is the user's own."""
    executor.tell(Open((backend,)))
    if executor.sandbox is None:
        executor.tell(Load(origin))


def is_apart(contender: Contender) -> bool:
    """Return whether a contender's process does not share the processor that is timed, so that it may be prepared."""
    return not contender.runs_on_host and not is_host(contender.trials[0].device)
