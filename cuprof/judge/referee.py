"""Check and time strangers' host code from the trusted side of the border.

The stranger's process prepares a variant on many sets of arrays in shared memory. While it is stopped, each set gets
contents that differ from all others'. Then it executes on the first k of them. The clock here runs from before it goes
on until random elements of its results have been read. A time is the slope between two numbers of executions, so what a
request costs drops out; but no more of it than a request cost before the stranger's code was there.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

from cuprof.backends.contract import POISON_BYTE, SECOND_POISON_BYTE
from cuprof.config.model import SweepConfig
from cuprof.core.errors import FamilyError, LaunchError
from cuprof.core.point import Point
from cuprof.core.records import OF_FAMILY, Check, Devices, Measure, Outcome, State, Timing
from cuprof.core.text import excerpt, one_line
from cuprof.engine.executor import Executor
from cuprof.families import Family
from cuprof.families.candidate import Extension
from cuprof.families.trace import describe
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.signals import Answer, Ask
from cuprof.judge.border.suspect import LateError, LostError, RefusedError, Suspect
from cuprof.judge.clock import LATE, Clock
from cuprof.judge.examiner import Examiner, FoundError, call_within
from cuprof.judge.sets import LONG_NS, Pool, Sets
from cuprof.sandbox.confinement import can_send_files, find_most_pipes, find_most_threads
from cuprof.sandbox.settings import Sandbox
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from cuprof.worker.problem import Problem
from cuprof.worker.status_page import Phase

MOST_KEPT = 8
"""Keep at most this many processes from one turn to the next; each holds its sets, and may hold a device's context."""
KEPT_SHARE = 4
"""All of them together keep at most 1/N of the memory that one candidate may have, and as many threads and pipes as one
may."""
LATE_S = 0.2
LINGERS = (
    "the device works while nothing is asked of it, and no longer once its process has ended: wait for all kernels in "
    "the call; if it does, judge it again while no others use the device"
)
LINGERING_TRIES, FREE_LOOKS, FREE_S = 3, 50, 1.0
"""A process is not judged if the device rests for most of `FREE_S` once it has ended, in `LINGERING_TRIES` turns. It is
accused of nothing: other programs may work there, too, and rest just then."""
PACKAGES = ", although the baseline ran; it sees the packages that cuprof's own Python has"
NO_MEMORY = "no memory is left for the inputs; its process, or other programs, may have taken it"
ROOM_SHARE = 4
"""Keep a process until its next turn only if it leaves 1/N of the device's free memory to others."""
MORE = 4
"""Prepare more sets if an execution takes so much less, among others, than by itself when their number was chosen."""
TRIES, TRIES_S = 3, 0.1
"""Time one execution this often, to choose how many make a request; for so long, where it would be a single one."""


@dataclass
class Border:
    """What the trials of all turns beyond the border share.

    Args:
        config: which devices are used, and how long one step of a trial may take.
        devices: see `Executor`.
        family: loaded here, where no stranger's code runs; inputs, references and tolerances are its own.
        server: starts the processes.

    Attributes:
        waiting: origin, extension, problem and trial → one of an earlier turn, whose process waits for the next one.
        pools: back end and problem → contents, while a trial uses them.
        tells: problem → whether a candidate that remembers results would be noticed; see `Problem.tells_apart`.
        same: problem → the inputs that all draws have in common.
    """

    config: SweepConfig
    devices: Devices
    family: Family
    server: ForkServer
    waiting: dict[tuple[AnyOrigin, Extension | None, Point, JobTrial], Referee] = field(default_factory=dict)
    pools: WeakValueDictionary[tuple[str, Point], Pool] = field(default_factory=WeakValueDictionary)
    tells: dict[Point, bool] = field(default_factory=dict)
    same: dict[Point, list[str]] = field(default_factory=dict)

    def close(self) -> None:
        """End the processes that wait for another turn."""
        while self.waiting:
            self.waiting.popitem()[1].close()

    def retire(self, origin: AnyOrigin, extension: Extension | None) -> None:
        """End the processes of a file that has no further turn: nobody would notice if they went on by themselves."""
        for key in [key for key in self.waiting if key[:2] == (origin, extension)]:
            self.waiting.pop(key).close()

    def find_stirred(self) -> set[tuple[AnyOrigin, Extension | None]]:
        """Return the files whose processes went on by themselves while they waited, beside what was timed meanwhile.

        Copies of two files may have the same name, each in a copy of the family.
        """
        return {key[:2] for key, referee in self.waiting.items() if key[1] and referee.suspect.has_stirred()}


class BorderExecutor(Executor):
    """Run each trial of a job in a process of its own, on the far side of the border.

    Args:
        confined: the sandbox of the processes; None for none.
    """

    def __init__(self, border: Border, confined: Sandbox | None) -> None:
        config = border.config
        super().__init__(WorkerSettings(config.device.numbers()), config.limits, devices=border.devices)
        self.border, self.confined = border, confined

    def measure(self, job: Job) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes."""
        self.is_unavailable, waiting = False, self.border.waiting
        for trial in job.trials:
            key = job.origin, job.extension, job.problem, trial
            referee, tries = waiting.pop(key, None) or Referee(self, replace(job, trials=(trial,))), 1
            outcome = referee.hold()
            while referee.lingers and tries < LINGERING_TRIES:
                referee.close()
                referee, tries = Referee(self, replace(job, trials=(trial,))), tries + 1
                outcome = referee.hold()
            if outcome.state is State.OK and not referee.has_ended and self._has_room(referee):
                waiting[key] = referee
            else:
                referee.close()
            yield self.judge(outcome)

    def _has_room(self, referee: Referee) -> bool:
        """Return whether a trial's process may wait beside those that wait already."""
        weights = [each.suspect.weigh() for each in (*self.border.waiting.values(), referee)]
        memory, threads, _, pipes = map(sum, zip(*weights, strict=True))
        most = self.confined.memory_bytes // KEPT_SHARE if self.confined is not None else 0
        is_small = threads <= find_most_threads() and pipes <= find_most_pipes() and (not most or memory <= most)
        return len(weights) <= MOST_KEPT and is_small and can_send_files() and referee.leaves_room()

    def calibrates(self, backend: str) -> bool:
        """Return False for the host, whose executions the border's own clock times."""
        return not self.is_host(backend)

    def builds_ahead(self, backend: str) -> bool:
        """Return False: programs are built on the far side of the border."""
        return False


@dataclass
class Referee:
    """One trial: check it, time it, and check it again.

    Attributes:
        has_ended: its process was ended after its turn.
        lingers: the device was free of work then, and not before.
    """

    runner: BorderExecutor
    job: Job
    phase: Phase = Phase.INPUTS
    check: Check | None = None
    timings: dict[Measure, Timing] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)
    is_ready: bool = False
    prepare_s: float = 0.0
    has_ended: bool = False
    lingers: bool = False

    def close(self) -> None:
        """End the trial's process and release its memory."""
        self.stack.close()

    def hold(self) -> Outcome:
        """Return what became of the trial: in the first turn it is prepared and checked, in each one timed."""
        began, began_ns = time.time(), time.monotonic_ns()
        self.phase, self.timings = Phase.INPUTS, {}
        ended = self._hold()
        return replace(ended, started_at=began, duration_ns=time.monotonic_ns() - began_ns)

    def _hold(self) -> Outcome:
        limits = self.runner.limits
        patience_s = self.job.measure.patience_seconds * max(len(self.job.methods), 1)
        deadline = time.monotonic() + 2 * limits.build_s + 3 * limits.check_s + patience_s
        try:
            if not self.is_ready:
                self._begin(deadline)
            sets = self.sets
            sets.memory.use()
            self.suspect.deadline = deadline
            if self.is_ready and self.suspect.spins:
                self.suspect.go_on()
            elif not self.is_ready:
                self._prepare()
            self._enter(Phase.TIME)
            for measure in self.job.methods:
                timing = self.clock.time(measure)
                # What a request may cost by itself is shared by too few while more would be chosen.
                while (count := sets.choose_count(timing.summary.median_ns, self.prepare_s)) >= MORE * sets.count:
                    self._prepare_sets(count)
                    timing = self.clock.time(measure)
                self.timings[measure] = timing
            self.suspect.rest()
            self._require_idle()
        except RefusedError as error:
            state = State(error.refusal.state)
            hint = PACKAGES if state is State.SKIPPED and self.job.extension is not None else ""
            return self._end(state, one_line(error.refusal.message) + hint, error.refusal.log)
        except LateError as error:
            return self._end(State.TIMED_OUT, f"{error} while {self.phase}")
        except LostError as error:
            return self._end(State.CRASHED, f"{error} while {self.phase}", self.suspect.log_tail())
        except FoundError as error:
            if error.state is State.WRONG_RESULT:
                self.check = error.check or Check(False, math.inf, math.inf, math.inf, str(error))
            return self._end(error.state, str(error))
        except LaunchError as error:
            return self._end(State.SKIPPED, str(error))
        except FamilyError as error:
            return self._end(State.SKIPPED, f"the family's {error}", phase=OF_FAMILY)
        except MemoryError:
            return self._end(State.SKIPPED, NO_MEMORY)
        return self._end(State.OK)

    def _require_idle(self) -> None:
        """End a stranger's process beside which something works on the device; raise `FoundError` if that ends too."""
        if self.job.extension is None or not self.clock.is_crowded():
            return
        self.has_ended = True
        self.suspect.close()
        looks = []
        for _ in range(FREE_LOOKS):
            time.sleep(FREE_S / FREE_LOOKS)
            looks.append(self.clock.is_shared())
        self.lingers = sum(looks) <= FREE_LOOKS / 4
        if self.lingers:
            raise FoundError(LINGERS, State.SKIPPED)

    def leaves_room(self) -> bool:
        """Return whether its process leaves enough of the device's memory to others while it waits."""
        sets = self.sets
        return not self.suspect.spins or sets.memory.find_room(sets.task.number) >= sets.room_bytes // ROOM_SHARE

    def _begin(self, deadline: float) -> None:
        """Make inputs and references, share memory, and start the process.

        Raises:
            FamilyError: a function of the family failed.
        """
        runner, job, border = self.runner, self.job, self.runner.border
        pool, family = border.pools.get((job.backend, job.problem)), border.family
        if family.verify:
            family = replace(family, verify=partial(call_within, runner.limits.check_s, family.verify))
        try:
            pool = pool or Pool(Problem.make(family, job))
        except Exception as error:  # whatever a family raises is the family's fault
            raise FamilyError(str(error) if isinstance(error, FamilyError) else describe(error)) from error
        border.pools[job.backend, job.problem] = pool
        self.problem = pool.problem
        if job.problem not in border.tells:
            border.tells[job.problem] = self.problem.tells_apart()
            border.same[job.problem] = self.problem.list_same()
        variant = replace(next(iter(border.family.variants.values())), tolerance=None)
        if job.extension is None:
            variant = border.family.variant(job.trials[0].variant)
        self.sets = Sets.open(job, pool, runner.settings.numbers.get(job.backend), self.stack)
        task, handle = self.sets.task, self.sets.memory.handle
        suspect = Suspect(border.server, task, handle, runner.confined, deadline)
        self.suspect = self.stack.enter_context(suspect)
        self.examiner = Examiner(self.problem, variant, self.sets)
        self.clock = Clock(job, self.sets, suspect, self.examiner, runner.limits.check_s)

    def _end(self, state: State, message: str = "", log: str = "", phase: str = "") -> Outcome:
        failed = state is not State.OK
        return Outcome(
            identity=self.job.trials[0].identity,
            state=state,
            message=message,
            log=excerpt(log),
            phase=phase or (self.phase.name.lower() if failed else ""),
            check=self.check,
            timings=() if failed else tuple(self.timings.values()),
        )

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.runner.watch(self.job.trials[0], phase)

    def _prepare(self) -> None:
        """Let the process prepare, and check it; raises what ends the trial."""
        suspect = self.suspect
        self._enter(Phase.BUILD)
        suspect.open()
        suspect.stop()
        self.clock.set()
        self._ask(Ask.LOAD, 0)
        self._ask(Ask.PREPARE, 1)
        self._enter(Phase.CHECK)
        self.check = self._check()
        took_ns = self._time_one() - self.clock.trips.ones_ns[0]
        self.prepare_s = self._prepare_second()
        self._prepare_sets(self.sets.choose_count(max(took_ns, 100.0), self.prepare_s))
        self.is_ready = True

    def _prepare_sets(self, count: int) -> None:
        """Let the process prepare this many sets, and capture executions on them as a graph."""
        limits = self.runner.limits
        self.sets.memory.rows[1:count] = self.sets.memory.rows[:1]  # constants are there to prepare from
        self._ask(Ask.PREPARE, count)
        self.sets.repeat(count)
        self.sets.give(count)
        self._ask(Ask.EXECUTE, count, limits.check_s)  # nothing is compiled or set up after this
        is_graph = self._ask(Ask.CAPTURE, count) == Answer.GRAPH
        self.clock.is_graph = is_graph and self._is_right_as_graph(count)
        if is_graph and not self.clock.is_graph:
            self._ask(Ask.RELEASE, 0)

    def _ask(self, ask: bytes, count: int, limit_s: float = 0.0) -> bytes:
        """Ask for something, by default within the limit of a build, and stop the process afterwards."""
        self.suspect.go_on()
        answer = self.suspect.ask(ask, count, limit_s or self.runner.limits.build_s)
        self.suspect.stop()
        return answer

    def _prepare_second(self) -> float:
        """Return the seconds that a second set takes to prepare; the first one's may include a build."""
        if self.sets.task.count == 1:
            return 0.0
        self.sets.memory.rows[1:2] = self.sets.memory.rows[:1]
        started = time.monotonic()
        self._ask(Ask.PREPARE, 2)
        return time.monotonic() - started

    def _check(self) -> Check:
        """Return the check of the first executions."""
        checks = []
        for number, (inputs, byte) in enumerate(
            zip(self.problem.sets, (POISON_BYTE, SECOND_POISON_BYTE), strict=False)
        ):
            self.sets.put(inputs, byte)
            self.clock.execute(1)
            check = self._judge(number)
            if not check.passed:
                raise FoundError(check.message + self._find_lateness(number), check=check)
            checks.append(check)
            self.examiner.require_undamaged([0])
        return checks[0]

    def _judge(self, number: int) -> Check:
        """Return whether the first row's results are right for the inputs of a number."""
        return self.examiner.judge(0, self.problem.standards[number])

    def _find_lateness(self, number: int) -> str:
        """Return the message for a call that is right only a moment after it has ended, or an empty string."""
        self.suspect.go_on()
        time.sleep(LATE_S)
        self.suspect.stop()
        return LATE if self._judge(number).passed else ""

    def _time_one(self) -> float:
        """Return the time of one execution by itself, with the round trip; in a graph where it is right there."""
        direct_ns = self._fastest()
        if self._ask(Ask.CAPTURE, 1) == Answer.GRAPH:
            captured_ns = self._fastest()
            if self._judge((TRIES - 1) % len(self.problem.sets)).passed:
                return captured_ns
        return direct_ns

    def _fastest(self) -> float:
        """Return the least time of some executions; of many where others who use the device would hide the number."""
        until, fastest_ns = time.monotonic() + TRIES_S, math.inf
        while fastest_ns > LONG_NS[self.sets.kind] and time.monotonic() < until:
            for number in range(TRIES):
                self.sets.put(self.problem.sets[number % len(self.problem.sets)], POISON_BYTE)
                fastest_ns = min(fastest_ns, self.clock.execute(1)[0].duration_ns)
        return fastest_ns

    def _is_right_as_graph(self, count: int) -> bool:
        self.sets.give(count)
        self.clock.execute(count)
        with suppress(FoundError):
            self.examiner.require(secrets.randbelow(count))
            self.examiner.require(count - 1)
            return True
        return False
