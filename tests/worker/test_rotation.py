"""Variants that do not do in timed executions what they do in checked ones, on the CPU; and honest ones like them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import Draw
from cuprof.backends.cpu import backend, processor
from cuprof.backends.cpu.backend import CpuBackend, CpuSession
from cuprof.backends.registry import CPU
from cuprof.config.model import MeasureConfig
from cuprof.core.records import ENERGY_UNAVAILABLE, Measure, Outcome, State
from cuprof.families import Point
from cuprof.families.origin import Folder
from cuprof.worker import executions, rotation, sampler
from cuprof.worker.executions import WANTED
from cuprof.worker.job import Held, JobRun
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.problem import COMPARED_SETS, Problem
from cuprof.worker.protection import LATE
from cuprof.worker.rotation import Rotations
from cuprof.worker.trial import Trial
from tests.worker.pages import Page
from tests.worker.twice import make_twice

N = 1 << 12
WORK_S = 0.0004
"""What an honest execution takes, by a clock that only the executions move: what else a host does is no part of it."""
LATE_S = 0.02
READ_NS = 100
"""What reading the clock takes, so that nothing takes no time at all."""
QUICK = MeasureConfig(modes=("cold",), target=1e-5, min_samples=8, max_samples=8, warmup=1, settle_seconds=0.0)
Arrays = Mapping[str, np.ndarray]
Make = Callable[[Point, Point, Arrays, Arrays], Callable[[], object]]


class Moment:
    """What time it is, and which threads have not had a processor yet."""

    now_ns = 10**12

    def __init__(self) -> None:
        self.late: list[Thread] = []

    def read_ns(self) -> int:
        self.now_ns += READ_NS
        return self.now_ns

    def pass_by(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def run_late(self) -> None:
        """Let all threads run that have not yet."""
        while self.late:
            run_whole(self.late.pop())


MOMENT = Moment()


def run_whole(thread: Thread) -> None:
    thread.start()
    thread.join()


def compute(inputs: Arrays, out: np.ndarray) -> None:
    MOMENT.pass_by(WORK_S)
    np.multiply(inputs["x"], 2, out=out)


def computed(inputs: Arrays) -> np.ndarray:
    out = np.empty(N, np.float32)
    compute(inputs, out)
    return out


def honest(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    return lambda: compute(inputs, outputs["y"])


def precomputed(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    kept = computed(inputs)
    return lambda: np.copyto(outputs["y"], kept)


def kept_by(key: Callable[[Arrays], object]) -> Make:
    def make(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        kept: dict[object, np.ndarray] = {}

        def run() -> None:
            found = kept.get(key(inputs))
            if found is None:
                found = kept[key(inputs)] = computed(inputs)
            np.copyto(outputs["y"], found)

        return run

    return make


def nth(wrong: Callable[[int], bool], action: Callable[[np.ndarray], object]) -> Make:
    """Return a variant that computes, and does something else to its output at some of its executions."""

    def make(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        calls: list[None] = []

        def run() -> None:
            calls.append(None)
            compute(inputs, outputs["y"])
            if wrong(len(calls)):
                action(outputs["y"])

        return run

    return make


def ends_where_done(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    x, y = inputs["x"], outputs["y"]

    def run() -> None:
        if not np.array_equal(y[[0, -1]], 2 * x[[0, -1]]):
            compute(inputs, y)

    return run


def where_poisoned(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    def run() -> None:
        if np.isnan(outputs["y"]).all():
            compute(inputs, outputs["y"])

    return run


def in_a_thread(joined: Callable[[np.ndarray], bool]) -> Make:
    """Return a variant that computes in a thread; where it is not joined, that runs when somebody waits for it."""

    def make(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        def run() -> None:
            wait = joined(outputs["y"])
            thread = Thread(target=lambda: (MOMENT.pass_by(LATE_S), compute(inputs, outputs["y"])))
            if wait:
                run_whole(thread)
            else:
                MOMENT.late.append(thread)

        return run

    return make


def workspace(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    space = np.empty(N, np.float32)

    def run() -> None:
        compute(inputs, space)
        outputs["y"][...] = space

    return run


def tuned_at_first(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    tuned: list[bool] = []

    def run() -> None:
        if not tuned:
            tuned.append(True)
            MOMENT.pass_by(LATE_S)
        compute(inputs, outputs["y"])

    return run


def reads_old_output(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
    def run() -> None:
        np.isnan(outputs["y"]).any()
        compute(inputs, outputs["y"])

    return run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Outcome]]:
    """Return what carries out a job of named variants, by this module's clock, and gives their outcomes by name."""
    monkeypatch.setattr(processor, "cache_bytes", lambda: 1 << 16)
    monkeypatch.setattr(backend, "perf_counter_ns", MOMENT.read_ns)
    monkeypatch.setattr(sampler, "perf_counter_ns", MOMENT.read_ns)
    monkeypatch.setattr(executions, "monotonic_ns", MOMENT.read_ns)
    monkeypatch.setattr(rotation, "time", SimpleNamespace(monotonic_ns=MOMENT.read_ns))
    monkeypatch.setattr(CpuSession, "wait", lambda session: MOMENT.run_late())
    MOMENT.late.clear()

    def run_job(
        measures: tuple[Measure, ...] = (Measure.COLD,),
        samples: int = 8,
        energy: bool = False,
        patience_seconds: float = 10.0,
        race: bool = False,
        **makes: Make,
    ) -> dict[str, Outcome]:
        family = make_twice(N)
        for name, make in makes.items():
            family.cpu(name)(make)
        trials = tuple(JobTrial(f"{number:032x}", name, Point(), "") for number, name in enumerate(makes))
        settings = replace(
            QUICK, modes=measures or QUICK.modes, min_samples=samples, max_samples=samples, energy=energy,
            patience_seconds=patience_seconds, race=race,
        )  # fmt: skip
        methods = dict.fromkeys(measures, "m" * 16)
        job = Job(Folder(Path()), "cpu", Point(n=N), trials, 3, settings, methods)
        names, page = list(makes), Page()
        run = JobRun(CpuBackend(1), Problem.make(family, job), job, page, Held())  # type: ignore[arg-type]
        return {names[finished.index]: finished.outcome for finished in run.run()}

    return run_job


TRICKS: dict[str, tuple[Make, State, str, str]] = {
    "precomputed": (precomputed, State.WRONG_RESULT, "time", r"wrong in \d+ of \d+ executions that were compared: y\["),
    "kept_by_address": (
        kept_by(lambda inputs: inputs["x"].ctypes.data), State.WRONG_RESULT, "time", r"wrong in \d+ of \d+ executions",
    ),
    "kept_by_count": (kept_by(lambda inputs: 0), State.WRONG_RESULT, "time", r"wrong in \d+ of \d+ executions"),
    "where_poisoned": (where_poisoned, State.WRONG_RESULT, "time", r"wrong in \d+ of \d+ executions"),
    "one_in_fifty": (
        nth(lambda call: call % 50 == 49, lambda y: y.fill(0)), State.WRONG_RESULT, "time",
        r"wrong in \d of \d+ executions",
    ),
    "half_then": (nth(lambda call: call > 4, lambda y: y[N // 2 :].fill(0)), State.WRONG_RESULT, "time", "wrong in"),
    "thread_handed": (in_a_thread(lambda y: False), State.WRONG_RESULT, "check", re.escape(LATE) + "$"),
    "joined_for_checks": (
        in_a_thread(lambda y: bool(np.isnan(y).all())), State.WRONG_RESULT, "time", r"^wrong in \d+ of \d+ executions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(TRICKS))
def test_what_is_timed_is_what_is_checked(run: Callable[..., dict[str, Outcome]], name: str) -> None:
    make, state, phase, message = TRICKS[name]
    found = run(before=honest, trick=make, after=honest, samples=120 if name == "one_in_fifty" else 8)
    trick = found["trick"]
    assert (trick.state, trick.phase) == (state, phase), trick.message
    assert re.search(message, trick.message), trick.message
    assert len(trick.timings) == (state is State.IMPLAUSIBLE)  # a time that is not believed is kept, with its samples
    for neighbour in ("before", "after"):
        assert (found[neighbour].state, found[neighbour].message) == (State.OK, "")


def test_who_sets_a_limit_while_it_prepares_has_it_when_it_runs_and_nobody_else(
    run: Callable[..., dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = {"limit": 1}

    def put_back(session: CpuSession, *, settings: bool = True) -> bool:
        changed = settings and device["limit"] != 1
        device["limit"] = 1 if settings else device["limit"]
        return changed

    def needs(limit: int) -> Make:
        def prepare(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
            device["limit"] = max(limit, device["limit"])

            def execute() -> None:
                assert device["limit"] == limit
                compute(inputs, outputs["y"])

            return execute

        return prepare

    monkeypatch.setattr(CpuSession, "put_back", put_back)
    found = run(before=needs(1), two=needs(2), three=needs(3), after=needs(1))
    assert {name: (each.state, each.message) for name, each in found.items()} == dict.fromkeys(found, (State.OK, ""))
    assert device["limit"] == 1


LOOK_ALIKES: dict[str, Make] = {
    "honest": honest,
    "thread_joined": in_a_thread(lambda y: True),
    "workspace": workspace,
    "plan_kept": kept_by(lambda inputs: MOMENT.read_ns()),
    "tuned_at_first": tuned_at_first,
    "reads_old_output": reads_old_output,
}


@pytest.mark.parametrize("measures", [(Measure.COLD,), (Measure.COLD, Measure.HOT)])
def test_honest_variants_that_look_alike_are_accused_of_nothing(
    run: Callable[..., dict[str, Outcome]], measures: tuple[Measure, ...]
) -> None:
    for name, outcome in run(measures, **LOOK_ALIKES).items():
        assert (outcome.state, outcome.message) == (State.OK, ""), name
        assert [timing.measure for timing in outcome.timings] == list(measures)
        assert all(timing.summary.median_ns >= 1e9 * WORK_S for timing in outcome.timings), name


def test_who_ends_where_the_result_seems_to_be_there_is_timed_in_full_cold_and_wrong_hot(
    run: Callable[..., dict[str, Outcome]],
) -> None:
    cold = run(ends=ends_where_done)["ends"]  # its output is overwritten each time, so it never is
    assert (cold.state, cold.message) == (State.OK, "")
    assert cold.timings[0].summary.median_ns >= 1e9 * WORK_S
    hot = run((Measure.COLD, Measure.HOT), before=honest, ends=ends_where_done)
    assert hot["before"].state is State.OK
    assert (hot["ends"].state, hot["ends"].phase) == (State.WRONG_RESULT, "time"), hot["ends"].message


def test_a_row_says_how_many_executions_were_compared(run: Callable[..., dict[str, Outcome]]) -> None:
    (timing,) = run(honest=honest)["honest"].timings
    assert COMPARED_SETS <= timing.details["compared"] <= WANTED


def lasting(*seconds: float, ahead: bool = False) -> tuple[Make, list[float]]:
    """Return a variant whose executions last so long, the last of these for all further ones, and a list of them.

    Args:
        ahead: its result is computed while it prepares.
    """
    lasted: list[float] = []

    def prepare(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        known = computed(inputs) if ahead else None

        def call() -> None:
            lasted.append(seconds[min(len(lasted), len(seconds) - 1)])
            MOMENT.pass_by(lasted[-1])
            outputs["y"][:] = computed(inputs) if known is None else known

        return call

    return prepare, lasted


@pytest.mark.parametrize(("patience_s", "samples"), [(0.1, 1), (10.0, 3)])
def test_who_takes_long_is_executed_no_more_often_than_checked_and_sampled(
    run: Callable[..., dict[str, Outcome]], patience_s: float, samples: int
) -> None:
    variant, lasted = lasting(0.12)
    found = run(samples=3, patience_seconds=patience_s, long=variant)["long"]
    (timing,) = found.timings
    assert [sample.round for sample in timing.samples] == [*range(-1, samples - 1)]
    assert timing.details["compared"] >= 1
    assert len(lasted) == 1 + samples


def test_who_takes_long_and_knew_its_result_is_wrong_at_its_one_sample(run: Callable[..., dict[str, Outcome]]) -> None:
    variant, _ = lasting(0.12, ahead=True)
    found = run(patience_seconds=0.1, long=variant)["long"]
    assert (found.state, found.phase) == (State.WRONG_RESULT, "time")


@pytest.mark.parametrize(("first_s", "patience_s"), [((0.7,), 10.0), ((0.7,), 0.6), ((0.3, 0.3), 10.0)])
def test_what_takes_long_at_first_is_neither_its_time_nor_held_against_it(
    run: Callable[..., dict[str, Outcome]], first_s: tuple[float, ...], patience_s: float
) -> None:
    variant, _ = lasting(*first_s, 0.001)
    found = run(patience_seconds=patience_s, compiles=variant)["compiles"]
    assert found.state is State.OK, found.message
    assert found.timings[0].summary.median_ns == pytest.approx(1e6 + 1e9 * WORK_S, abs=10 * READ_NS)


@pytest.mark.parametrize("measures", [(Measure.COLD,), (Measure.COLD, Measure.HOT)])
def test_what_was_measured_beside_a_variant_that_raises_counts_and_has_its_energy(
    run: Callable[..., dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch, measures: tuple[Measure, ...]
) -> None:
    asked: list[tuple[Measure, list[str]]] = []
    sample = Rotations._sample

    def sample_others_first(rotations: Rotations, measure: Measure, trials: Sequence[Trial]) -> Iterator[Trial]:
        asked.append((measure, [each.variant.name for each in trials]))
        yield from sample(rotations, measure, [each for each in trials if each.variant.name != "raises"])
        for each in trials:
            if each.variant.name == "raises":
                rotations._attend(each.index)
                raise RuntimeError("late")

    monkeypatch.setattr(Rotations, "_sample", sample_others_first)
    monkeypatch.setattr(CpuBackend, "spec", replace(CPU, unheeded=CPU.unheeded - {"energy"}))
    found = run(measures, energy=True, before=honest, raises=honest, after=honest)
    assert asked == [
        (Measure.COLD, ["before", "raises", "after"]),
        *((each, ["before", "after"]) for each in measures[1:]),
    ]
    assert (found["raises"].state, found["raises"].phase) == (State.LAUNCH_ERROR, "time")
    for neighbour in ("before", "after"):
        assert found[neighbour].state is State.OK, found[neighbour].message
        with_energy = [ENERGY_UNAVAILABLE in timing.details for timing in found[neighbour].timings]
        assert with_energy == [True, *[False] * (len(measures) - 1)]


def test_of_a_hot_batch_the_last_result_is_compared(run: Callable[..., dict[str, Outcome]]) -> None:
    found = run((Measure.HOT,), precomputed=precomputed, honest=honest)
    assert found["precomputed"].state is State.WRONG_RESULT
    assert found["honest"].state is State.OK


def test_what_a_kernel_did_to_anothers_inputs_is_not_laid_to_the_other(
    run: Callable[..., dict[str, Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trial, "calls_host", False)  # as of kernels, whose inputs are not written for each execution
    give, given = CpuSession.give, [-1]

    def give_once(session: CpuSession, runnable: Any, draw: Draw) -> None:
        if draw.fresh or draw.inputs != given[0]:
            give(session, runnable, draw)
        else:
            session._fill(runnable, draw.fill)
        given[0] = draw.inputs

    def spoils(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        calls: list[None] = []

        def run() -> None:
            calls.append(None)
            compute(inputs, outputs["y"])
            inputs["x"][0] += len(calls) > 6

        return run

    monkeypatch.setattr(CpuSession, "give", give_once)
    found = run(before=honest, trick=spoils, after=honest, samples=40)
    assert {name: each.state for name, each in found.items()} == {
        "before": State.OK, "trick": State.WRONG_RESULT, "after": State.OK,
    }  # fmt: skip
    assert found["trick"].message == "it overwrites its input x while it is timed"


def test_a_kernel_that_does_nothing_while_its_scratch_says_done_has_no_hot_time(
    run: Callable[..., dict[str, Outcome]],
) -> None:
    def counts(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        def run() -> None:  # as where a counter is not set back: the second of two executions in a row does nothing
            if outputs["y"][0] != 2 * inputs["x"][0]:
                compute(inputs, outputs["y"])

        return run

    found = run((Measure.HOT,), counts=counts)["counts"]
    assert (found.state, found.phase) == (State.WRONG_RESULT, "time")
    assert found.message.startswith("it skips the work when its result is already there")


def test_in_a_race_who_is_slower_than_the_best_ends_early_and_says_so(run: Callable[..., dict[str, Outcome]]) -> None:
    def thrice(problem: Point, tune: Point, inputs: Arrays, outputs: Arrays) -> Callable[[], object]:
        return lambda: [compute(inputs, outputs["y"]) for _ in range(3)]

    found = run(samples=40, race=True, best=honest, slow=thrice)
    best, slow = (found[name].timings[0] for name in ("best", "slow"))
    assert (best.stopped_by, slow.stopped_by) == ("interval", "slower")
    assert len(slow.samples) < len(best.samples) == 40
    alone = run(samples=40, best=honest, slow=thrice)
    assert alone["slow"].timings[0].stopped_by == "interval"
