"""Check and time strangers' host code from the trusted side of the border.

The stranger's process prepares a variant on many sets of arrays in shared memory. While it is stopped, each set gets
contents that differ from all others'. Then it executes on the first k of them. The clock here runs from before it goes
on until random elements of its results have been read. A time is the slope between two numbers of executions, so what a
request costs drops out; but no more of it than a request cost before the stranger's code was there.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from cuprof.backends.contract import POISON_BYTE, SECOND_POISON_BYTE
from cuprof.backends.registry import get_shared_memory
from cuprof.config.model import LimitsConfig
from cuprof.core.errors import FamilyError, LaunchError
from cuprof.core.records import OF_FAMILY, Check, DeviceFacts, Measure, Outcome, Sample, State, Timing, Unavailable
from cuprof.engine.executor import Executor
from cuprof.families import Arrays, Family
from cuprof.families.candidate import Extension
from cuprof.families.trace import describe
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.layout import Layout, cut
from cuprof.judge.border.signals import GRAPH, Ask, Task
from cuprof.judge.border.suspect import Lap, LateError, LostError, RefusedError, Suspect
from cuprof.sandbox.settings import Sandbox
from cuprof.statistics.median import summarise
from cuprof.worker.excerpt import excerpt, one_line
from cuprof.worker.messages import Job, WorkerSettings
from cuprof.worker.method import reading_options, stopping_rule
from cuprof.worker.problem import COMPARED_SETS, Problem, Standard, as_long_as
from cuprof.worker.status_page import PHASE_TEXT, Phase

MOST_SETS = 64
MEMORY_SHARE = 8
"""All sets together take no more than 1/N of the free memory, unless one alone does."""
LONG_NS = {"cuda": 5e6, "host": 20e6}
"""Executions of one request need take no longer together: the clock is a thousand times as fine."""
MOST_PREPARE_S = 8.0
MOST_DRAWING_S = 1.0
"""Prepare and draw only as many sets as fit into this time, but at least two."""
RESPONSES = 15
ROUND_TRIP_SLACK, ROUND_TRIP_SLACK_NS = 1.25, {"cuda": 15_000.0, "host": 50_000.0}
"""A slope may take out no more than a round trip took before the stranger's code was there, with so much for code that
the caches lost."""
ALIKE, ALIKE_NS = 2.0, {"cuda": 20_000.0, "host": 100_000.0}
"""An execution by itself may take this much longer than one of many."""
BUSY_HOST = "the host was busy with other work"
MOST_LAPS = 12
"""Ask this often for executions that nothing disturbs, on a machine that others use too."""
FRESH_TRIES = 6
REMEMBERS, REMEMBERS_NS = {"cuda": 2.0, "host": 1.3}, 20_000.0
"""A request on new contents may take this much longer than one on contents that have come up, and one of `FRESH_TRIES`
times it must: others may use the machine, and a device that has rested has other clocks."""
MOST_REFERENCES = 8
MOST_KEPT = 8
"""Keep at most this many processes from one turn to the next; each holds its sets, and may hold a device's context."""
MOST_ODD = 2
"""Of results that are not what they were on the same contents before, compare this many with the reference."""
CHECK_ONE_IN = 4
"""Check a result and the memory around it after every Nth request, at random; check all after the last."""
LOOK_SLACK, LOOK_SLACK_NS = 2.0, 20_000
"""Reading results may take this much longer than where nothing had been executed, else it counts as the executions'."""
EARLY_ROWS, EARLY_WORDS = 4, 16
"""Read this many random words of this many results before the clock stops."""
LATE_S = 0.2
LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream, make it wait for yours (event.record, wait_event), or join the thread"
)


class BorderExecutor(Executor):
    """Run each trial of a job in a process of its own, on the far side of the border.

    Args:
        settings: which devices are used.
        limits: how long one step of a trial may take.
        family: loaded here, where no stranger's code runs; inputs, references and tolerances are its own.
        confined: the sandbox of the processes; None for none.
        devices: see `Executor`.
        server: starts the processes.
        kept: trials of earlier turns, whose processes wait for the next one.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        limits: LimitsConfig,
        family: Family,
        confined: Sandbox | None,
        devices: Mapping[str, DeviceFacts | Unavailable],
        server: ForkServer,
        kept: Kept,
    ) -> None:
        super().__init__(settings, limits, devices=devices)
        self.family, self.confined, self.server, self.kept = family, confined, server, kept

    def measure(self, job: Job) -> Iterator[Outcome]:
        """Yield every trial's outcome as it comes."""
        self.unavailable = ""
        for trial in job.trials:
            key = job.origin, job.extension, trial.identity  # a stranger may claim another's identity
            referee = self.kept.pop(key, None) or Referee(self, replace(job, trials=(trial,)))
            outcome = referee.hold()
            if outcome.state is State.OK and len(self.kept) < MOST_KEPT:
                self.kept[key] = referee
            else:
                referee.close()
            yield self.judge(outcome)

    def calibrates(self, backend: str) -> bool:
        """Return False for the host, whose executions the border's own clock times."""
        return not self.is_host(backend)

    def builds_ahead(self, backend: str) -> bool:
        """Return False: programs are built on the far side of the border."""
        return False


Kept = dict[tuple[AnyOrigin, Extension | None, str], "Referee"]
"""Origin, extension and identity → a trial whose process waits."""


class _FoundError(Exception):
    """End a trial whose results are wrong, or whose times cannot be what they seem."""

    def __init__(self, message: str, state: State = State.WRONG_RESULT, check: Check | None = None) -> None:
        self.state = state
        self.check = check and replace(check, message=message)
        super().__init__(message)


@dataclass
class Referee:
    """One trial: check it, time it, and check it again."""

    runner: BorderExecutor
    job: Job
    phase: Phase = Phase.INPUTS
    check: Check | None = None
    timings: dict[Measure, Timing] = field(default_factory=dict)
    looks: int = 0

    def __post_init__(self) -> None:
        self.stack = ExitStack()
        self.is_ready = False

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
            self.sets.memory.use()
            self.suspect.deadline = deadline
            if not self.is_ready:
                self._prepare()
            self._enter(Phase.TIME)
            for measure in self.job.methods:
                self.timings[measure] = self._time(measure, self.count)
        except RefusedError as error:
            state = State(error.refusal.state)
            return self._end(state, one_line(error.refusal.message), error.refusal.log)
        except LateError as error:
            return self._end(State.TIMED_OUT, f"{error} while {PHASE_TEXT[self.phase]}")
        except (LostError, msgspec.MsgspecError) as error:
            return self._end(State.CRASHED, f"{error} while {PHASE_TEXT[self.phase]}", self.suspect.log_tail())
        except _FoundError as error:
            if error.state is State.WRONG_RESULT:
                self.check = error.check or Check(False, math.inf, math.inf, math.inf, str(error))
            return self._end(error.state, str(error))
        except LaunchError as error:
            return self._end(State.SKIPPED, str(error))
        except FamilyError as error:
            return self._end(State.SKIPPED, f"the family's {error}", phase=OF_FAMILY)
        return self._end(State.OK)

    def _begin(self, deadline: float) -> None:
        """Make inputs and references, share memory, and start the process.

        Raises:
            FamilyError: a function of the family failed.
        """
        try:
            self.problem = Problem.make(self.runner.family, self.job)
        except Exception as error:  # whatever a family raises is the family's fault
            raise FamilyError(str(error) if isinstance(error, FamilyError) else describe(error)) from error
        self.variant = replace(next(iter(self.runner.family.variants.values())), tolerance=None)
        if self.job.extension is None:
            self.variant = self.runner.family.variant(self.job.trials[0].variant)
        self.sets = Sets.open(self.job, self.problem, self.runner, self.stack)
        task, handle = self.sets.task, self.sets.memory.handle
        runner, spins = self.runner, self.sets.kind == "cuda"
        suspect = Suspect(runner.server, task, handle, runner.confined, deadline, spins=spins)
        self.suspect = self.stack.enter_context(suspect)

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
        limits, suspect = self.runner.limits, self.suspect
        self._enter(Phase.BUILD)
        suspect.open()
        suspect.stop()
        self.sets.draw_early(0)
        trips = []
        for _ in range(RESPONSES):
            self.sets.flush(self.job.measure.flush)
            trips.append(suspect.respond(self.sets.look))
        trips = [each for each in trips if each.is_sound] or trips
        self.round_trip_ns = float(statistics.median(each.duration_ns for each in trips))
        self.most_look_ns = LOOK_SLACK * statistics.median(each.look_ns for each in trips) + LOOK_SLACK_NS
        suspect.go_on()
        suspect.ask(Ask.LOAD, 0, limits.build_s)
        started = time.monotonic()
        suspect.ask(Ask.PREPARE, 1, limits.build_s)
        prepare_s = time.monotonic() - started
        suspect.stop()
        self._enter(Phase.CHECK)
        self.check = self._check()
        took_ns = min(self._once(number % COMPARED_SETS) for number in range(3)) - self.round_trip_ns
        self.count = count = self.sets.choose_count(max(took_ns, 100.0), prepare_s)
        self.sets.memory.rows[1:count] = self.sets.memory.rows[:1]  # constants are there to prepare from
        suspect.go_on()
        suspect.ask(Ask.PREPARE, count, limits.build_s)
        suspect.stop()
        self.sets.draw(count)
        self.sets.give()
        suspect.go_on()
        suspect.ask(Ask.EXECUTE, count, limits.check_s)  # nothing is compiled or set up after this
        self.is_graph = suspect.ask(Ask.CAPTURE, count, limits.build_s) == GRAPH
        suspect.stop()
        if self.is_graph and not self._is_right_as_graph(count):
            self.is_graph = False
            suspect.go_on()
            suspect.ask(Ask.RELEASE, 0, limits.check_s)
            suspect.stop()
        self.is_ready = True

    def _check(self) -> Check:
        """Return the check of the first executions."""
        first = None
        for number, byte in ((0, POISON_BYTE), (1, SECOND_POISON_BYTE)):
            if number >= self.problem.compared:
                break
            self.sets.put(0, self.problem.inputs(number), byte)
            self._execute(1)
            check = self._judge(0, number)
            if not check.passed:
                raise _FoundError(check.message + self._find_lateness(number), check=check)
            first = first or check
            self._require_undamaged([0])
        assert first is not None
        return first

    def _find_lateness(self, number: int) -> str:
        """Return the message for a call that is right only a moment after it has ended, or an empty string."""
        self.suspect.go_on()
        time.sleep(LATE_S)
        self.suspect.stop()
        return LATE if self._judge(0, number).passed else ""

    def _once(self, number: int) -> float:
        """Return the time of one execution by itself, with the round trip."""
        self.sets.put(0, self.problem.inputs(min(number, self.problem.compared - 1)), POISON_BYTE)
        return float(self._execute(1).duration_ns)

    def _execute(self, count: int) -> Lap:
        self.sets.draw_early(count)
        self.sets.memory.wait()
        lap = self.suspect.execute(count, self.runner.limits.check_s, self.sets.look)
        if not self.sets.was_there():
            raise _FoundError("results change after the call has returned" + LATE)
        return lap

    def _judge(self, row: int, number: int) -> Check:
        """Return whether a row's results are right for the inputs of a number."""
        self.looks += 1
        outputs = self.sets.fetch(row)
        standard = self.problem.standards[number] if number < COMPARED_SETS else self.sets.find_right(number)
        return self.problem.compare_with(outputs, standard, self.problem.hold(self.variant, standard), self.looks)

    def _require(self, row: int) -> None:
        """Raise if a row's results are wrong for the contents that it has."""
        check = self._judge(row, COMPARED_SETS + int(self.sets.order[row]))
        if not check.passed:
            raise _FoundError(f"wrong on inputs that it met while it was timed: {check.message}", check=check)

    def _require_undamaged(self, rows: list[int]) -> None:
        if damage := self.sets.find_damage(rows):
            raise _FoundError(f"it {damage}")

    def _is_right_as_graph(self, count: int) -> bool:
        self.sets.give()
        self._execute(count)
        try:
            self._require(secrets.randbelow(count))
            self._require(count - 1)
        except _FoundError:
            return False
        return True

    def _time(self, measure: Measure, count: int) -> Timing:
        """Return the timing of a measure; the caches are emptied for the cold one."""
        config, rule = self.job.measure, stopping_rule(self.job.measure)
        flush = config.flush if measure is Measure.COLD else "none"
        low = count // 2
        times: dict[int, list[float]] = {1: [], low: [], count: []}
        slopes: list[tuple[float, bool]] = []
        spent_ns, last_look, reason, number = 0, 0, None, 0
        settled = time.monotonic() + config.settle_seconds
        new_ns, met_ns = self._read_new(count, flush), list[float]()
        while reason is None:
            began = time.perf_counter_ns()
            wanted = {low, count, *([1] if number % 4 == 0 else [])} - {0}
            laps = {each: self._read(each, flush) for each in sorted(wanted, key=lambda _: secrets.randbits(32))}
            for each, lap in laps.items():
                times[each] += [self._count_ns(lap)] if lap.is_sound else []
            met_ns.append(laps[count].cost_ns)
            base_ns = self._count_ns(laps[low]) if low else self.round_trip_ns
            is_sound = laps[count].is_sound and (not low or laps[low].is_sound)
            slopes.append(((self._count_ns(laps[count]) - base_ns) / (count - low), is_sound))
            number += 1
            if time.monotonic() < settled or number == 1:
                slopes.clear()
                continue
            spent_ns += time.perf_counter_ns() - began
            if rule.is_due(len(slopes), spent_ns, last_look):
                last_look = len(slopes)
                sound = [max(each, 0.0) for each, is_sound in slopes if is_sound]
                reason = rule.reason(sound, len(slopes) - len(sound), spent_ns, 0.0)
        self._require_alike(count, flush, new_ns, statistics.median(met_ns))
        self._read(count, flush)  # so that all rows have results
        for row in range(count):
            if int(self.sets.order[row]) + COMPARED_SETS in self.sets.late:
                self._require(row)
        self._require_undamaged([*range(count)])
        return self._conclude(measure, slopes, times, count, reason)

    def _count_ns(self, lap: Lap) -> float:
        """Return the time of a lap, with what reading its results took beyond what that usually takes."""
        return lap.duration_ns + max(lap.look_ns - self.most_look_ns, 0.0)

    def _read(self, count: int, flush: str, most: int = MOST_LAPS) -> Lap:
        """Execute this number of times, on contents in a new order; check a result now and then.

        Args:
            most: how often to try if others disturb it.
        """
        for _ in range(most):
            self.sets.give()
            self.sets.flush(flush)
            lap = self._execute(count)
            if lap.is_sound:
                break
        odd = self.sets.find_odd(count)
        for row in odd[:MOST_ODD]:  # sums in another order are right, too
            self._require(row)
        if secrets.randbelow(CHECK_ONE_IN) == 0:
            late = self.sets.late
            rows = [row for row in range(count) if int(self.sets.order[row]) + COMPARED_SETS in late]
            chosen = secrets.randbelow(count) if len(late) < MOST_REFERENCES or not rows else secrets.choice(rows)
            self._require(chosen)
            self._require_undamaged([chosen])
        return lap

    def _read_new(self, count: int, flush: str) -> float:
        """Return the cost of a first request on new contents."""
        self.sets.draw(count)
        if self.suspect.spins:
            self.suspect.ask(Ask.NULL)  # after a rest it waits asleep
        return self._read(count, flush, most=1).cost_ns  # the second one would meet them again

    def _require_alike(self, count: int, flush: str, new_ns: float, met_ns: float) -> None:
        """Raise if executions on contents that never were there before always take longer than those on others.

        On the host that counts which a process used of the processors, since others use them too.

        Args:
            new_ns: of the first request on the contents that the others had.
        """
        for _ in range(FRESH_TRIES):
            if new_ns <= REMEMBERS[self.sets.kind] * met_ns + REMEMBERS_NS:
                return
            new_ns = self._read_new(count, flush)
        found = f"{new_ns / count / 1e3:.2f} µs on inputs that are new, {met_ns / count / 1e3:.2f} µs on others"
        raise _FoundError(f"it remembers results: an execution takes {found}", State.IMPLAUSIBLE)

    def _conclude(
        self, measure: Measure, slopes: list[tuple[float, bool]], times: dict[int, list[float]], count: int, reason: str
    ) -> Timing:
        """Return the timing, held to the time that the requests took as a whole."""
        most_ns = ROUND_TRIP_SLACK * self.round_trip_ns + ROUND_TRIP_SLACK_NS[self.sets.kind]
        middle_ns = statistics.median([each for each, is_sound in slopes if is_sound] or [each for each, _ in slopes])
        bounds = [(statistics.median(taken) - most_ns) / each for each, taken in times.items() if each > 1 and taken]
        alone_ns = min(times[1], default=0.0) - most_ns
        if (
            count > 1 and alone_ns > ALIKE * middle_ns + ALIKE_NS[self.sets.kind]
        ):  # the sets were worked on side by side
            bounds.append(alone_ns)
        shift_ns = max(max(bounds, default=0.0) - middle_ns, 0.0)
        samples = tuple(
            Sample(number, max(each + shift_ns, 1.0), None, "" if is_sound and each + shift_ns > 0 else BUSY_HOST)
            for number, (each, is_sound) in enumerate(slopes)
        )
        if all(sample.excluded for sample in samples):
            samples = tuple(replace(sample, excluded="") for sample in samples)
        details: dict[str, Any] = {
            "batch": count,
            "round_trip_ns": round(self.round_trip_ns),
            "launches_included": not self.is_graph and self.job.backend == "cuda",
            "held_to_requests": shift_ns > 0,
        }
        summary = summarise(samples, self.job.measure.confidence)
        return Timing(measure, self.job.methods[measure], samples, summary, reason, details)


@dataclass
class Sets:
    """The shared memory with its contents, which only the trusted side knows.

    Attributes:
        order: which contents each row has.
    """

    task: Task
    problem: Problem
    memory: Any
    order: np.ndarray
    junk: Any
    draw_s: float
    contents: Any = None
    drawn: list[Arrays] = field(default_factory=list)
    sums: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    is_summed: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    late: dict[int, Standard] = field(default_factory=dict)
    """The right results on drawn contents, by their number; each is computed at first use."""

    def find_right(self, number: int) -> Standard:
        """Return the right results on drawn contents."""
        if number not in self.late:
            self.late[number] = self.problem.find_right(self.drawn[number - COMPARED_SETS])
        return self.late[number]

    @classmethod
    def open(cls, job: Job, problem: Problem, runner: BorderExecutor, stack: ExitStack) -> Sets:
        """Allocate shared memory for the sets, closed with the stack; the first inputs are in each row that counts."""
        layout, shared = Layout.of(problem.signature), get_shared_memory(job.backend)
        number = runner.settings.numbers.get(job.backend)
        most = min(shared.most_bytes, shared.find_room(number) // MEMORY_SHARE) // layout.stride
        count = max(1, min(MOST_SETS, most))
        memory = shared(count, layout.stride, number)
        stack.callback(memory.close)
        task = Task(job, number, problem.signature, reading_options(job.measure), layout, count)
        started = time.monotonic()
        shown = as_long_as(problem.signature, problem.draw())
        draw_s = time.monotonic() - started
        sets = cls(task, problem, memory, np.zeros(count, int), memory.get_junk(number), draw_s)
        sets.put(0, shown, POISON_BYTE)
        return sets

    @property
    def kind(self) -> str:
        """Return "cuda", or "host" for memory of the host."""
        return "cuda" if self.task.job.backend == "cuda" else "host"

    def choose_count(self, took_ns: float, prepare_s: float) -> int:
        """Return on how many sets to execute at once."""
        wanted = math.ceil(LONG_NS[self.kind] / took_ns)
        bounds = [MOST_PREPARE_S / max(prepare_s, 1e-6), MOST_DRAWING_S / max(self.draw_s, 1e-6)]
        return max(1, min(wanted, self.task.count, *(max(2, int(bound)) for bound in bounds)))

    def draw(self, count: int) -> None:
        """Draw new contents, unlike any before, for the first rows."""
        stride = self.task.layout.stride
        self.drawn, self.late = [self.problem.draw() for _ in range(count)], {}
        self.sums = np.zeros(count, np.uint64)
        self.is_summed = np.zeros(count, bool)
        inputs = [as_long_as(self.problem.signature, each) for each in self.drawn]
        host = np.empty((count, stride), np.uint8)
        for row, each in enumerate(inputs):
            self.task.layout.fill(host[row], each, (POISON_BYTE, SECOND_POISON_BYTE)[row % 2])
        self.contents = self.memory.array_module.asarray(host).view(np.uint64)

    def give(self) -> None:
        """Give each row contents, in a random order."""
        count, xp = len(self.contents), self.memory.array_module
        self.order = np.random.default_rng(secrets.randbits(64)).permutation(count)
        rows = self.memory.rows.view(np.uint64)[:count]
        if xp is np:
            np.take(self.contents, self.order, axis=0, out=rows, mode="clip")
        else:
            rows[...] = self.contents[xp.asarray(self.order)]

    def put(self, row: int, inputs: Any, byte: int) -> None:
        """Write inputs and a fill into one row."""
        host = np.empty(self.task.layout.stride, np.uint8)
        self.task.layout.fill(host, inputs, byte)
        self._put = host
        self.memory.rows[row] = self.memory.array_module.asarray(host)

    def flush(self, how: str) -> None:
        """Fill the caches with other data once all is written."""
        self.memory.wait()
        if how == "clean":
            self.junk.max()
        elif how == "dirty":
            self.junk.fill(1.0)
        self.memory.wait()

    def draw_early(self, count: int) -> None:
        """Choose the words to read once this number of executions has been reported."""
        xp, rng = self.memory.array_module, np.random.default_rng(secrets.randbits(64))
        rows = np.append(rng.integers(0, max(count, 1), EARLY_ROWS - 1), max(count - 1, 0))
        places = [place for place in self.task.layout.select("output").values() if place.end > place.offset]
        chosen = [places[each] for each in rng.integers(0, len(places), (EARLY_ROWS * EARLY_WORDS))]
        words = [rng.integers(each.offset // 8, -(-each.end // 8)) for each in chosen]
        self._places = xp.asarray(np.repeat(rows, EARLY_WORDS)), xp.asarray(np.array(words))
        self._words = self.memory.rows.view(np.uint64)

    def look(self) -> None:
        """Read the chosen words."""
        found = self._words[self._places]
        self._early = found if isinstance(found, np.ndarray) else found.get()

    def was_there(self) -> bool:
        """Return whether the chosen words are what they were at the first look."""
        early = self._early
        self.look()
        return bool(np.array_equal(early, self._early))

    def find_odd(self, count: int) -> list[int]:
        """Return the first rows whose results are not those of the same contents before, in a random order."""
        words = self.memory.rows.view(np.uint64)[:count]
        sums: Any = sum(
            words[:, place.offset // 8 : -(-place.end // 8)].sum(axis=1, dtype=np.uint64)
            for place in self.task.layout.select("output").values()
        )
        found = sums if isinstance(sums, np.ndarray) else sums.get()
        contents = self.order[:count]
        odd = np.flatnonzero(self.is_summed[contents] & (self.sums[contents] != found))
        new = ~self.is_summed[contents]
        self.sums[contents[new]], self.is_summed[contents[new]] = found[new], True
        return [int(row) for row in np.random.default_rng(secrets.randbits(64)).permutation(odd)]

    def fetch(self, row: int) -> dict[str, np.ndarray]:
        """Return copies of a row's outputs."""
        held = self.memory.rows[row]
        host = np.array(held) if isinstance(held, np.ndarray) else held.get()
        return {name: cut(host, place) for name, place in self.task.layout.select("output").items()}

    def find_damage(self, rows: list[int]) -> str:
        """Return what was done to memory that no execution may change, or an empty string."""
        xp = self.memory.array_module
        for row in rows:
            held, known = self.memory.rows[row], xp.asarray(self._put)
            if self.contents is not None:
                known = self.contents[int(self.order[row])].view(np.uint8)
            for what, part in self.task.layout.protected():
                if not bool(xp.array_equal(held[part], known[part])):
                    return what
        return ""
