"""Plans: what is measured where and when, and how many times faster several executors are than one.

Durations of trials were recorded on an H200.

`durations_on_an_h200.json` has milliseconds a trial by study and problem. A single problem with many configurations is
the hardest: it is cut, and each station measures the reference besides.
"""

from __future__ import annotations

import heapq
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts, Measure, Outcome, State, Trial, Unavailable
from cuprof.engine.dispatcher import POLL_S, Dispatcher
from cuprof.engine.executor import Batch, Executor, Result
from cuprof.engine.grid import ASK_AGAIN_S, LEAST_BLOCK_S, EachScheduler, GridScheduler
from cuprof.engine.planning import Prepared
from cuprof.families import Tunable
from cuprof.families.origin import Folder
from cuprof.store.stations import Claim
from cuprof.worker.messages import Built, Job, JobTrial
from tests.engine.scripted import ask, list_identities, make_executors, tell
from tests.store.store_samples import make_timing

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "engine" / "durations_on_an_h200.json").read_text())
PROBLEMS = ("convlab 2", "convlab 4", "filter3x3 5", "filter3x3 8")
TRIALS = 768
WANTED = {4: 3.6, 8: 7.0, 64: 50.0}


@pytest.fixture(autouse=True)
def _the_same_places_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.grid.random", random.Random(1))


def draw(problem: str, count: int, seed: int = 1) -> list[float]:
    """Return so many durations in s as that problem's trials take."""
    return [each / 1000 for each in random.Random(seed).choices(RECORDED[problem], k=count)]


def make_job(count: int, problem: int = 0) -> Job:
    trials = tuple(JobTrial(f"{problem}/{place}", "v", Point(place=place), "") for place in range(count))
    return Job(Folder(Path()), "cuda", Point(n=problem), trials, 1, MeasureConfig(), {"cold": "a method"})


def play(
    jobs: list[Job], stations: int, durations: dict[str, float], sizes: list[int] | None = None
) -> tuple[float, dict[str, int]]:
    """Return how long stations take, by a clock that only these durations move, and how often each trial ran."""
    references = {(job.problem, job.backend): job.trials[0] for job in jobs}
    now = 0.0
    scheduler = GridScheduler(jobs, stations, references, clock=lambda: now)
    free = [(0.0, place) for place in range(stations)]
    every = make_executors(stations)
    held: dict[int, Batch] = {}
    ran: dict[str, int] = {}
    end = 0.0
    while not scheduler.done:
        now, place = heapq.heappop(free)
        if (done := held.pop(place, None)) and done.job:
            for trial in done.job.trials:
                scheduler.tell(every[place], Result(done, Outcome(trial.identity, State.OK)))
                ran[trial.identity] = ran.get(trial.identity, 0) + 1
        batch = ask(scheduler, every[place])
        if batch is None:
            heapq.heappush(free, (now + POLL_S, place))
        elif batch.job is not None:
            held[place] = batch
            if sizes is not None:
                sizes.append(len(batch.job.trials))
            busy = now + sum(durations[trial.identity] for trial in batch.job.trials)
            end = max(end, busy)
            heapq.heappush(free, (busy, place))
    return end, ran


@pytest.mark.parametrize("stations", WANTED)
def test_a_problem_with_many_configurations_is_shared_evenly(stations: int) -> None:
    for problem in PROBLEMS:
        taken = draw(problem, TRIALS)
        durations = {f"0/{place}": seconds for place, seconds in enumerate(taken)}
        end, ran = play([make_job(TRIALS)], stations, durations)
        assert sum(taken) / end >= WANTED[stations], problem
        assert ran.pop("0/0") == stations  # the reference, once at each
        assert set(ran.values()) == {1}
        assert len(ran) == TRIALS - 1


@pytest.mark.parametrize(("trial_s", "blocks"), [(0.04, 8), (4.0, 13)])
def test_blocks_of_short_trials_are_not_so_short_that_beginning_them_takes_longer(trial_s: float, blocks: int) -> None:
    durations = {f"0/{place}": trial_s for place in range(TRIALS)}
    sizes: list[int] = []
    end, _ = play([make_job(TRIALS)], 2, durations, sizes)
    assert len(sizes) == blocks
    assert min(sizes[:-1]) * trial_s >= LEAST_BLOCK_S - trial_s
    assert TRIALS * trial_s / end > 1.9


def test_a_block_has_the_first_rotation_of_what_comes_after_it_built() -> None:
    job = make_job(100)
    scheduler = GridScheduler([job], 2, {(job.problem, job.backend): job.trials[0]})
    first, second = (ask(scheduler, executor) for executor in make_executors(2))
    assert first is not None
    assert second is not None
    assert first.job is not None
    assert second.job is not None
    assert first.job.trials == job.trials[:40]
    assert second.job.trials == (job.trials[0], *job.trials[40:64])
    assert [each.trials for each in second.build] == [job.trials[64:80]]
    assert (first.beside, second.beside) == (set(), {job.trials[0].identity})


def test_a_block_is_given_once_a_program_of_it_is_built() -> None:
    job, (executor,) = make_job(40), make_executors(1)
    scheduler = GridScheduler([job])
    begun = scheduler.ask(executor)
    assert begun is not None
    assert (begun.job, begun.build) == (None, (job,)), "only what is built is measured"
    executor.building.update(trial.identity for trial in job.trials)
    assert scheduler.ask(executor) == begun
    executor.take_built(Built((job.trials[20].identity,)))
    batch = scheduler.ask(executor)
    assert batch is not None
    assert batch.job == job, "the worker takes what is built first"
    assert not scheduler.done
    assert scheduler.ask(executor) is None
    assert scheduler.done


def test_what_a_lost_worker_was_building_is_built_when_its_turn_comes() -> None:
    job, (executor,) = make_job(3), make_executors(1)
    scheduler = GridScheduler([job])
    assert scheduler.ask(executor) == Batch(build=(job,))
    executor.building.update(trial.identity for trial in job.trials)
    executor.drop_worker()
    batch = scheduler.ask(executor)
    assert batch is not None
    assert batch.job == job


def make_named(n: int, names: str, backend: str = "cuda") -> Job:
    trials = tuple(JobTrial(f"{n}{name}", name, Point(), "") for name in names)
    return Job(Folder(Path()), backend, Point(n=n), trials, 0)


def make_cards(*others: DeviceFacts | Unavailable) -> list[Executor]:
    """Return executors with a GPU of their own each, the host's processor, and another device or none."""
    cards = make_executors(len(others))
    for number, (card, other) in enumerate(zip(cards, others, strict=True)):
        gpu, host = DeviceFacts("cuda", number, "H200"), DeviceFacts("cpu", 0, "it")
        card.devices = {"cuda": gpu, "cpu": host, "opencl": other}
    return cards


def test_where_every_card_measures_everything_what_only_one_can_do_is_done_once() -> None:
    opencl = DeviceFacts("opencl", 0, "H200")
    one, two = make_cards(opencl, Unavailable("its opencl device is another executor's"))
    host = replace(make_named(2, "a", "cpu"), methods={Measure.COLD: "a method"})
    scheduler = EachScheduler([make_named(1, "ab"), host, make_named(3, "a", "opencl")], [one, two])
    first, second = (ask(scheduler, executor) for executor in (one, two))
    assert (list_identities(first), list_identities(second)) == (["1a", "1b"], ["1a", "1b"])
    assert [batch and batch.beside for batch in (first, second)] == [set(), {"1a", "1b"}]
    third = ask(scheduler, one)
    assert list_identities(third) == ["3a"]
    assert ask(scheduler, two) is None
    assert not scheduler.done
    last = ask(scheduler, one)
    assert last is not None
    assert list_identities(last) == ["2a"], "nothing else runs beside the host's jobs"
    assert "2a" not in last.beside
    assert ask(scheduler, two) is None
    assert ask(scheduler, one) is None
    assert scheduler.done


def test_what_a_lost_card_has_not_measured_no_other_card_measures_in_its_place() -> None:
    one, two = make_cards(*[Unavailable("no OpenCL")] * 2)
    host = replace(make_named(3, "a", "cpu"), methods={Measure.COLD: "a method"})
    scheduler = EachScheduler([make_named(1, "a"), make_named(2, "a"), host], [one, two])
    assert list_identities(ask(scheduler, one)) == ["1a"]
    scheduler.release(one)
    found = [ask(scheduler, two) for _ in range(3)]
    assert [list_identities(batch) for batch in found] == [["1a"], ["2a"], ["3a"]]
    assert not any(batch and batch.beside & {*list_identities(batch)} for batch in found), "it is the first one now"
    scheduler.release(two)
    assert not scheduler.done, "the host's job is left"


def test_jobs_come_in_the_order_of_the_plan_and_a_problem_stays_where_it_was_begun() -> None:
    one, two = make_executors(2)
    scheduler = GridScheduler(
        [make_named(1, "ab"), make_named(1, "c", "opencl"), make_named(2, "a"), make_named(3, "a")]
    )
    given = [list_identities(ask(scheduler, executor)) for executor in (one, two, one, two)]
    assert given == [["1a", "1b"], ["2a"], ["1c"], ["3a"]]
    assert ask(scheduler, one) is None
    assert not scheduler.done, "what the other one holds may come back"
    assert ask(scheduler, two) is None
    assert scheduler.done


def test_what_a_lost_executor_has_not_done_is_given_to_another() -> None:
    one, two = make_executors(2)
    scheduler = GridScheduler([make_named(1, "ab"), make_named(1, "c", "opencl")])
    batch = ask(scheduler, one)
    assert batch is not None
    tell(scheduler, one, batch, "1a")
    scheduler.release(one)
    assert [list_identities(ask(scheduler, two)) for _ in range(2)] == [["1b"], ["1c"]]
    assert ask(scheduler, two) is None
    assert scheduler.done


class Answers:
    """Claims with answers that are made before."""

    def __init__(self, claims: list[Claim], left: list[tuple[set[str], set[str]]]) -> None:
        self.claims, self.left = claims, left
        self.asked: list[list[str]] = []

    def claim(self, executor: Executor, identities: Sequence[str]) -> Claim:
        self.asked.append([*identities])
        return self.claims.pop(0)

    def list_left(self, executor: Executor) -> tuple[set[str], set[str]]:
        return self.left.pop(0)


def test_what_another_process_has_taken_over_is_waited_for() -> None:
    """It is done when the database says so, or is done here after all."""
    (one,) = make_executors(1)
    claims: Any = Answers(
        claims=[Claim(frozenset({"1a", "1b", "1c"}), 2), Claim(frozenset({"1b"}), 1)],
        left=[(set(), {"1b", "1c"}), ({"1b"}, set())],
    )
    now = 0.0
    scheduler = GridScheduler([make_named(1, "abc")], claims=claims, clock=lambda: now)
    first = ask(scheduler, one)
    assert first is not None
    assert list_identities(first) == ["1a", "1b", "1c"]
    tell(scheduler, one, first, "1a")
    assert ask(scheduler, one) is None
    assert not scheduler.done
    now += ASK_AGAIN_S
    second = ask(scheduler, one)
    assert second is not None
    assert list_identities(second) == ["1b"]
    tell(scheduler, one, second, "1b")
    assert ask(scheduler, one) is None
    assert scheduler.done
    assert claims.asked == [["1a", "1b", "1c"], ["1b"]]


class Database:
    """Claims of trials of which some are free, some held by others, and the rest is done."""

    def __init__(self, free: set[str], held: set[str]) -> None:
        self.free, self.held = free, held
        self.claims, self.looks, self.reads = 0, 0, 0

    def claim(self, executor: Executor, identities: Sequence[str]) -> Claim:
        self.claims += 1
        granted = self.free & {*identities}
        self.free -= granted
        return Claim(frozenset(granted), 16)

    def find_free(self, executor: Executor, identities: Sequence[str]) -> set[str]:
        self.looks += 1
        return self.free & {*identities}

    def list_left(self, executor: Executor) -> tuple[set[str], set[str]] | None:
        self.reads += 1
        return None if self.held and not self.free else (self.free, self.held)


def test_who_comes_late_to_a_long_list_asks_what_is_left() -> None:
    """It is refused twice; then it asks which of some problems are free, and for the rest once few are."""
    (one,) = make_executors(1)
    database: Any = Database(free={"60a", "60b", "77b"}, held={"40a", "40b"})
    now = 0.0
    scheduler = GridScheduler([make_named(n, "ab") for n in range(1000)], claims=database, clock=lambda: now)
    found: list[str] = []
    while not scheduler.done and now < 10 * ASK_AGAIN_S:
        while batch := ask(scheduler, one):
            for identity in list_identities(batch):
                tell(scheduler, one, batch, identity)
            found += list_identities(batch)
        assert not scheduler.done, "others hold two"
        now += ASK_AGAIN_S
        if len(found) == 3 and now > 5 * ASK_AGAIN_S:
            database.held = set()
            assert ask(scheduler, one) is None
    assert sorted(found) == ["60a", "60b", "77b"]
    assert scheduler.done
    assert database.claims <= 2 + 2 * len(found)
    assert database.looks <= 1 + len(found)


def test_what_others_have_lost_on_the_host_still_runs_while_nothing_else_does() -> None:
    one, two = make_executors(2)
    database: Any = Database(free=set(), held={"1a", "2a"})
    now = 0.0
    jobs = [make_named(1, "a"), replace(make_named(2, "a", "cpu"), methods={Measure.COLD: "a method"})]
    scheduler = GridScheduler(jobs, 2, is_host=lambda backend: backend == "cpu", claims=database, clock=lambda: now)
    assert ask(scheduler, one) is None
    assert ask(scheduler, two) is None
    now += ASK_AGAIN_S
    database.free, database.held = {"1a", "2a"}, set()
    (first,) = filter(None, [ask(scheduler, one), ask(scheduler, two)])
    assert list_identities(first) == ["1a"]
    tell(scheduler, one, first, "1a")
    found = [ask(scheduler, one), ask(scheduler, two)]
    assert [list_identities(each) if each else [] for each in found] == [["2a"], []]


def test_half_of_a_long_list_is_found_with_few_refusals() -> None:
    """Which ones others have done cannot be told from the plan."""
    (one,) = make_executors(1)
    left = {f"{n}{name}" for n in random.Random(1).sample(range(1000), 500) for name in "ab"}
    database: Any = Database(free={*left}, held=set())
    scheduler = GridScheduler([make_named(n, "ab") for n in range(1000)], claims=database)
    found: list[str] = []
    while batch := ask(scheduler, one):
        for identity in list_identities(batch):
            tell(scheduler, one, batch, identity)
        found += list_identities(batch)
    assert sorted(found) == sorted(left)
    assert scheduler.done
    assert database.looks + database.reads <= len(left)


class Shared:
    """Claims of one of several processes; all see the same trials, done or held by one of them."""

    def __init__(self, done: set[str], held: dict[str, int], every: set[str], me: int, processes: int) -> None:
        self.done, self.held, self.every, self.me, self.processes = done, held, every, me, processes

    def claim(self, executor: Executor, identities: Sequence[str]) -> Claim:
        granted = frozenset(self.find_free(executor, identities))
        self.held |= dict.fromkeys(granted, self.me)
        return Claim(granted, self.processes)

    def find_free(self, executor: Executor, identities: Sequence[str]) -> set[str]:
        return {*identities} - self.done - self.held.keys()

    def list_left(self, executor: Executor) -> tuple[set[str], set[str]] | None:
        held = {identity for identity, holder in self.held.items() if holder != self.me}
        free = self.every - self.done - held
        return (free, held) if free or not held else None


@pytest.mark.parametrize("processes", [2, 3, 16])
def test_processes_that_share_a_list_seldom_wait_for_one_another(processes: int) -> None:
    problem_s, problems = 0.05, 150 * processes
    jobs = [make_named(n, "ab") for n in range(problems)]
    done, held, now = set[str](), dict[str, int](), 0.0
    every = {trial.identity for job in jobs for trial in job.trials}
    crew: Any = [
        GridScheduler(jobs, claims=Shared(done, held, every, me, processes), clock=lambda: now)  # type: ignore[arg-type]
        for me in range(processes)
    ]
    executors = make_executors(processes)
    at_work: dict[int, Batch] = {}
    turns = [(0.0, me) for me in range(processes)]
    while len(done) < len(every):
        now, me = heapq.heappop(turns)
        if batch := at_work.pop(me, None):
            for identity in list_identities(batch):
                tell(crew[me], executors[me], batch, identity)
                held.pop(identity)
                done.add(identity)
        if batch := ask(crew[me], executors[me]):
            at_work[me] = batch
        heapq.heappush(turns, (now + (problem_s if batch else POLL_S), me))
    assert now < 1.15 * problems / processes * problem_s + ASK_AGAIN_S


def test_small_problems_stay_whole() -> None:
    jobs = [make_job(24, problem) for problem in range(40)]
    durations = {trial.identity: 1.0 for job in jobs for trial in job.trials}
    end, ran = play(jobs, 8, durations)
    assert set(ran.values()) == {1}
    assert end == 5 * 24


def test_blocks_share_the_baseline_with_its_defaults_or_what_comes_first() -> None:
    def variant(name: str, *values: int) -> list[Trial]:
        return [
            Trial(f"{name}{value}", "a family", name, "cuda", "kernel", Point(n=1), Point(block=value), "")
            for value in values
        ]

    def find(*trials: Trial, baseline: str = "") -> str:
        plan = SimpleNamespace(trials=trials)
        prepared = SimpleNamespace(family=family, plan=plan, config=SimpleNamespace(baseline=baseline))
        (reference,) = Prepared.find_shared(prepared).values()  # type: ignore[arg-type]
        return reference.identity

    block = Tunable("block", (32, 64, 128), default=64)
    family = SimpleNamespace(variant=lambda name: SimpleNamespace(tunables=(block,)), get_baseline=lambda: "plain")
    assert find(*variant("other", 64), *variant("plain", 32, 64, 128)) == "plain64"
    assert find(*variant("other", 64), *variant("plain", 32, 128)) == "plain32"
    assert find(*variant("plain", 64), *variant("other", 32, 64), baseline="other") == "other64"
    assert find(*variant("other", 32, 64)) == "other32"


FAMILY = """
import numpy as np
from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="many",
    title="y = 2x",
    axes=(Axis("n", default=1, low=1, high=8),),
    signature=lambda problem: Signature({"x": Array((1,), "float32")}, {"y": Array((1,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(1, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8,
    baseline="twice",
)


@family.cpu("twice", tunables=[Tunable("place", tuple(range(768)), 0)])
def twice(problem, tune, inputs, outputs):
    "Doubles."
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
"""


class Recorded(Executor):
    """Take as long for each trial as was recorded, divided by `pace`."""

    pace = 1.0
    durations: dict[int, float]

    def measure(self, job: Job) -> Iterator[Outcome]:
        for trial in job.trials:
            begun = time.time()
            time.sleep(self.durations[int(trial.tunables.place)] / self.pace)
            timing = make_timing(100.0, samples=40)
            yield Outcome(trial.identity, State.OK, timings=(timing,), started_at=begun)


@pytest.mark.slow
@pytest.mark.parametrize(("stations", "pace"), [(4, 16.0), (8, 8.0), (64, 1.0), (64, 3.3)])
def test_the_engine_itself_loses_no_more(
    bench: Any, monkeypatch: pytest.MonkeyPatch, make_cards: Callable[..., None], stations: int, pace: float
) -> None:
    folder = bench.project.root / "kernels" / "many"
    folder.mkdir()
    (folder / "family.py").write_text(FAMILY)
    taken = draw("filter3x3 8", TRIALS)
    monkeypatch.setattr(Recorded, "pace", pace)
    monkeypatch.setattr(Recorded, "durations", dict(enumerate(taken)), raising=False)
    monkeypatch.setattr("cuprof.engine.calibration.Calibrator.calibrate", lambda *_: None)
    make_cards(stations, Recorded)
    spans: list[tuple[float, float]] = []
    run = Dispatcher.run

    def timed(self: Dispatcher, *given: Any) -> None:
        begun = time.monotonic()
        run(self, *given)
        spans.append((begun, time.monotonic()))

    monkeypatch.setattr(Dispatcher, "run", timed)
    bench.sweep("twice", family="many", tune={"place": tuple(range(TRIALS))})
    (span,) = spans
    factor = sum(taken) / pace / (span[1] - span[0])
    assert bench.query("SELECT COUNT(*), COUNT(run_id) FROM sweep_trial") == [(TRIALS, TRIALS)]
    assert bench.query("SELECT COUNT(*) FROM run") == [(TRIALS + stations - 1,)]
    assert factor >= WANTED[stations], factor
