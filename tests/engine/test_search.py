"""What a search's feed asks for, of answers that are made up; and one search through a real worker."""

from __future__ import annotations

import importlib.util
import math
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.analysis import load_study
from cuprof.backends.registry import get_spec, list_backends
from cuprof.commands import portfolio
from cuprof.config.model import LimitsConfig, MeasureConfig, SearchConfig, SweepConfig
from cuprof.engine.duel import Duel, describe_ending, keep_time
from cuprof.engine.feed import LATER
from cuprof.engine.looks import FIRST, SECOND, Looks
from cuprof.engine.planning import Prepared, find_whole_space
from cuprof.engine.runner import JobRunner
from cuprof.engine.scores import Scores
from cuprof.engine.search import SearchFeed
from cuprof.engine.station import Station
from cuprof.engine.sweep import run_sweep
from cuprof.errors import UsageError
from cuprof.family.loader import load_family
from cuprof.measure.method import methods
from cuprof.plan import Selection, plan
from cuprof.point import Point
from cuprof.project import find_project
from cuprof.reading.earlier import EarlierRun
from cuprof.reading.progress import list_progress
from cuprof.reading.queries import query
from cuprof.records import DeviceFacts, Measure, Outcome, Sample, State, Timing, Trial
from cuprof.statistics.median import summarise
from cuprof.store import Store
from cuprof.terminal.status import status_lines
from cuprof.worker.messages import Job, WorkerSettings
from tests.engine.conftest import FAMILIES, Listener

FOLDER = FAMILIES / "searchable"
BEST = Point(width=64, height=2, unroll=4)
COLD = Measure.COLD
NOISE = 0.006


class Bench:
    """A search whose trials are answered at once: by the family's own formula, and noise."""

    def __init__(
        self, sizes: Sequence[int] = (64,), earlier: Sequence[EarlierRun] = (), counting: Any = None, **settings: Any
    ) -> None:
        family = load_family(FOLDER)
        spec = importlib.util.spec_from_file_location("searchable", FOLDER / "family.py")
        assert spec is not None
        assert spec.loader is not None
        self.source = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.source)
        self.config = SweepConfig(
            experiment="",
            family="searchable",
            measure=MeasureConfig(modes=("cold",)),
            search=SearchConfig(**{"name": "surrogate", "seed": 1, **settings}),
        )
        device = {"cpu": DeviceFacts("cpu", 0, "it")}
        tune = find_whole_space(family, self.config)
        planned = plan(family, Selection(family="searchable", problem={"n": tuple(sizes)}, tune=tune), device)
        by_backend = {"cpu": methods(self.config.measure, "cpu")}
        self.prepared = Prepared(self.config, family, planned, device, by_backend, "hash")
        self.trials = planned.trials
        self.by_identity = {trial.identity: trial for trial in self.trials}
        self.notes: list[str] = []
        self.now_s = 0.0
        self.scores = Scores(self.prepared, self.trials, earlier, 7, self.notes.append, counting)
        self.feed = SearchFeed(self.prepared, self.scores, self.notes.append, lambda: self.now_s)
        self.stations = [Station(JobRunner(WorkerSettings(), LimitsConfig())) for _ in range(2)]
        self.jobs: list[Job] = []
        self.given_to: list[int] = []
        self.random: Any = np.random.default_rng(1)

    def put_off(self, job: Job) -> set[str]:
        """Return which trials of a job are left unanswered, since they are compiled still."""
        return set()

    def time_ns(self, trial: Trial) -> float:
        return float(self.source.wait_us(trial.tunables)) * 1e3 * (1 + trial.problem.n / 1e3)

    def answer(self, job: Job, identity: str) -> Outcome:
        trial = self.by_identity[identity]
        self.now_s += 0.1
        if trial.tunables.unroll == 8 and trial.tunables.height == 16:
            return Outcome(identity, State.LAUNCH_ERROR, "too many registers", duration_ns=10**8)
        noise = np.exp(0.01 * self.random.standard_normal(job.measure.min_samples))
        samples = tuple(Sample(number, self.time_ns(trial) * each) for number, each in enumerate(noise))
        timing = Timing(COLD, job.methods[COLD], samples, summarise(samples, 0.95), "samples", rotation="r")
        return Outcome(identity, State.OK, timings=(timing,), duration_ns=10**8)

    def run(self) -> list[Outcome]:
        """Answer both stations in turn until neither is given more."""
        outcomes = []
        left = list(self.stations)
        while left:
            for station in list(left):
                job = self.feed.take(station)
                if job is None:
                    left.remove(station)
                elif job is not LATER:
                    self.jobs.append(job)
                    self.given_to.append(id(station))
                    put_off = self.put_off(job)
                    for each in job.trials:
                        if each.identity in put_off:
                            continue
                        outcome = self.answer(job, each.identity)
                        outcomes.append(outcome)
                        self.feed.tell(station, outcome)
        return outcomes


@pytest.fixture
def built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.looks.get_spec", lambda name: replace(get_spec(name), builds_ahead=True))
    monkeypatch.setattr("cuprof.engine.looks.is_host", lambda device: False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))


def test_the_best_is_found_in_a_fraction_and_compared_at_the_end() -> None:
    bench = Bench(fraction=0.4)
    bench.run()
    (ending,) = bench.feed.endings
    assert ending.best is not None
    assert ending.best.tunables == BEST
    assert len(bench.scores.tried) == round(0.4 * len(bench.trials))
    *looks, duel = bench.jobs
    assert len(duel.trials) >= 3
    assert {job.measure.max_samples for job in looks} == {5, 60}, "few samples first, more for what is promising"
    assert bench.notes[-1].startswith("search: n=64: best is waiting · width=64, height=2, unroll=4 with 106.")
    assert "error rate 5 %" in bench.notes[-1]
    gain = r"search: its model expects trying the rest to gain (about \d+\.\d|less than 0\.1) %; "
    assert any(re.match(gain, note) for note in bench.notes)


@pytest.mark.parametrize("backend", list_backends())
def test_a_strategy_supposes_what_the_back_end_of_each_trial_lets_it(backend: str) -> None:
    bench = Bench()
    trials = [replace(trial, threads=64 + place) for place, trial in enumerate(bench.trials)]
    trials = [trials[0], *(replace(trial, backend=backend, device=None) for trial in trials[1:])]
    supposed = Scores(bench.prepared, trials, (), 7, bench.notes.append).strategy.space.supposed
    suppose = get_spec(backend).usual_block.suppose
    assert supposed.tolist() == [0, *(suppose(trial.threads) for trial in trials[1:])]
    assert any(supposed) == (backend in ("cuda", "opencl"))


def test_of_a_hosts_processor_nothing_is_supposed() -> None:
    bench = Bench()
    processor = DeviceFacts("opencl", 0, "a processor", details={"type": "CPU"})
    trials = [replace(trial, backend="opencl", device=processor, threads=1) for trial in bench.trials]
    assert not Scores(bench.prepared, trials, (), 7, bench.notes.append).strategy.space.supposed.any()


def test_the_next_job_is_built_while_one_is_timed(built_ahead: None) -> None:
    bench = Bench(trials=60)
    bench.stations = bench.stations[:1]
    bench.run()
    assert len(bench.scores.tried) == 60, "what is chosen ahead counts"
    first_looks = [job for job in bench.jobs[:-1] if job.measure.max_samples == 5]
    assert [len(job.trials) for job in first_looks][:3] == [4, 4, 4]
    known = [{trial.identity for trial in job.ahead} for job in bench.jobs]
    later = [{trial.identity for trial in job.trials} for job in bench.jobs[1:]]
    assert known[0] == set()
    assert np.mean([ahead == asked for ahead, asked in zip(known[4:-1], later[4:], strict=True)]) > 0.8


@pytest.mark.parametrize(
    ("backend", "profiles", "is_kept"), [("cuda", False, True), ("cpu", False, False), ("cuda", True, False)]
)
def test_arrays_stay_on_a_device_between_jobs_unless_a_profiled_process_needs_room(
    backend: str, profiles: bool, is_kept: bool
) -> None:
    bench, device = Bench(), DeviceFacts(backend, 0, "it")
    trials = tuple(replace(trial, device=device) for trial in bench.trials[:3])
    (job,) = Looks(bench.prepared, trials, 1, profiles=profiles).make(trials, FIRST)
    assert job.is_block == is_kept
    if not profiles:
        duel = Duel(bench.prepared, trials, COLD, 1)
        assert duel.next_job().is_block == is_kept  # type: ignore[union-attr]


def test_a_budget_of_time_holds_for_the_duel_too_whose_looks_share_what_is_left() -> None:
    bench = Bench(sizes=(64, 128, 256), budget="20s")
    bench.run()
    looks = [job for job in bench.jobs if job.measure.target < bench.config.measure.target]
    tried_s = bench.now_s - 0.1 * sum(len(job.trials) for job in looks)
    assert 17 <= tried_s <= 18.5, "the rest is the duels'"
    assert all(ending.best for ending in bench.feed.endings)
    longest_s = [job.measure.max_seconds * len(job.trials) for job in looks]
    assert 0.1 <= longest_s[0] <= max(1 / 4, 0.05 * len(looks[0].trials))
    assert sum(longest_s) <= 3
    assert all(math.log2(job.measure.max_seconds).is_integer() for job in looks), "few methods"
    assert all(0 < job.measure.patience_seconds <= 4 * 10 * job.measure.max_seconds for job in looks)


@pytest.mark.parametrize(("settings", "kept_s"), [({"budget": "10s"}, 1.5), ({"budget": "1h"}, 2 * 8 * 21), ({}, 0)])
def test_a_duel_has_its_part_of_the_budget_but_no_more_than_it_takes(settings: dict[str, Any], kept_s: float) -> None:
    config = replace(Bench().config, search=SearchConfig(name="surrogate", **settings))
    assert keep_time(config, 2) == pytest.approx(kept_s)


def test_a_duel_without_time_for_another_look_says_so_and_names_none_it_has_not_told() -> None:
    bench = Bench(budget="10s")
    for allowed_s, looks in ((100.0, 3), (4.0, 1)):
        duel = Duel(bench.prepared, bench.trials[:3], COLD, 1, lambda: bench.now_s, allowed_s)
        count = 0
        while duel.ending is None:
            job = duel.next_job()
            assert isinstance(job, Job)
            count += 1
            bench.now_s += 3.6
            for place, each in enumerate(job.trials):  # two speeds in turn: no number of samples narrows that
                samples = tuple(Sample(one, 1e4 * (1 + 0.05 * ((one + place) // 3 % 2))) for one in range(60))
                timing = Timing(COLD, "m", samples, summarise(samples, 0.95), "time", rotation="side by side")
                duel.tell(Outcome(each.identity, State.OK, timings=(timing,)))
        said = describe_ending(duel.ending, bench.config.search)
        assert count == looks
        assert "not told from 2 more" in said
        assert ("the comparison had 3.6 s, and more of a larger search.budget" in said) == (looks == 1)
    unbounded = describe_ending(duel.ending, Bench(trials=6).config.search)
    assert unbounded.endswith("the comparison had 3.6 s")


def test_without_a_budget_of_time_a_duel_has_some_seconds_or_a_quarter_of_what_trying_took() -> None:
    bench = Bench(trials=6)
    assert bench.feed._find_duel_time() == 10
    bench.now_s = 100
    assert bench.feed._find_duel_time() == 25


def test_several_problems_share_the_budget_and_each_has_its_best() -> None:
    bench = Bench(sizes=(64, 128, 256), trials=120)
    bench.run()
    assert len(bench.scores.tried) == 120
    assert {ending.problem.n: ending.best and ending.best.tunables for ending in bench.feed.endings} == dict.fromkeys(
        (64, 128, 256), BEST
    )
    assert all(len({bench.by_identity[t.identity].problem for t in job.trials}) == 1 for job in bench.jobs)


def test_of_four_within_three_thousandths_the_best_wins_or_is_called_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.duel.is_host", lambda device: False)  # there a place in memory counts as well
    bench, right, names = Bench(), 0, []
    for seed in range(100):
        random = np.random.default_rng(seed)
        medians = dict(
            zip(
                [trial.identity for trial in bench.trials[:5]],
                random.permutation([1e4, 1.001e4, 1.002e4, 1.003e4, 1.03e4]),
                strict=True,
            )
        )
        duel = Duel(bench.prepared, bench.trials[:5], COLD, 1)
        while duel.ending is None:
            job = duel.next_job()
            assert isinstance(job, Job)
            count = min(job.measure.max_samples, int((1.25 * 1.96 * NOISE / job.measure.target) ** 2))
            drift = 1 + 0.004 * np.sin(np.arange(count) / 9)
            for each in job.trials:
                outliers = 0.05 * (random.random(count) < 0.03)
                times = medians[each.identity] * drift * (np.exp(NOISE * random.standard_normal(count)) + outliers)
                samples = tuple(Sample(number, float(time)) for number, time in enumerate(times))
                timing = Timing(COLD, "m", samples, summarise(samples, 0.95), "target", rotation="side by side")
                duel.tell(Outcome(each.identity, State.OK, timings=(timing,)))
        assert duel.ending.best is not None
        best = min(medians, key=medians.__getitem__)
        right += best in {duel.ending.best.identity, *(trial.identity for trial in duel.ending.level)}
        names.append(describe_ending(duel.ending, bench.config.search))
    assert right >= 95, names
    assert "level with unroll=1; unroll=4; height=2, unroll=1 (within 1 %), faster than 1; error rate 5 %" in names[0]


def test_a_station_that_is_lost_gives_its_trials_and_its_duel_back() -> None:
    bench = Bench(trials=6)
    lost = Station(JobRunner(WorkerSettings(), LimitsConfig()))
    job = bench.feed.take(lost)
    assert isinstance(job, Job)
    bench.feed.give_back(lost, job)
    bench.run()
    assert job.trials[0].identity in {trial.identity for trial in bench.jobs[0].trials}
    assert len(bench.scores.tried) == 6

    bench = Bench(trials=6)
    while not bench.feed._duelling:
        job = bench.feed.take(lost)
        assert isinstance(job, Job)
        for each in job.trials if not bench.feed._duelling else ():
            bench.feed.tell(lost, bench.answer(job, each.identity))
    bench.feed.give_back(lost, job)
    bench.run()
    assert len(bench.feed.endings) == 1


class NoNoise:
    """Answer as a generator of random numbers that draws zeros."""

    def standard_normal(self, count: int) -> np.ndarray:
        return np.zeros(count)


def earlier(trial: Trial, ns: float, **details: Any) -> EarlierRun:
    method = methods(MeasureConfig(modes=("cold",)), "cpu")[COLD]
    known = {"device": "it", "sweep_id": 3, "state": State.OK, "method": method, "energy_j": None}
    known |= {"started_at": 1e9, "duration_ns": 10**8, "is_expected_wrong": False}
    known |= {"samples": 20, "high_ns": ns, "confidence": 0.95}
    of_trial = {"identity": trial.identity, "variant": trial.variant, "problem": trial.problem}
    return EarlierRun(
        **{**known, **of_trial, "tunables": trial.tunables, "median_ns": ns, "circumstances": (1,), **details}
    )


def test_what_is_stored_is_told_for_free() -> None:
    known = Bench().trials
    bench = Bench(earlier=[earlier(trial, 5e5) for trial in known[:50]], trials=20)
    assert bench.notes == ["search: 50 of 96 configurations are stored already"]
    bench.run()
    assert len(bench.scores.tried) == 20
    stored = {trial.identity for trial in known[:50]}
    assert not {t.identity for job in bench.jobs[:-1] for t in job.trials if job.measure.max_samples == 5} & stored
    compared = sum(trial.identity in stored for trial in bench.jobs[-1].trials)
    more = f"; {compared} more, stored before, are in the last comparison" if compared else ""
    assert any(re.fullmatch(rf"search: tried 20 of 96 configurations in [\d.]+ s{more}", note) for note in bench.notes)


def test_an_interrupted_search_goes_on_with_what_is_left_of_its_budget() -> None:
    known = Bench().trials
    done = [
        earlier(trial, 5e5, sweep_id=7, started_at=1e9 + place // 5, duration_ns=10**8 * (1 + place % 5))
        for place, trial in enumerate(known[:15])
    ]
    bench = Bench(earlier=done, trials=20)
    assert len(bench.scores.tried) == 15
    bench.run()
    assert len(bench.scores.tried) == 20
    assert Bench(earlier=done, budget="3s").feed.spent_s == pytest.approx(1.5), "three jobs of half a second"


def test_the_order_of_a_sweep_says_nothing_of_costs() -> None:
    """All trials of its one job have begun at once: the last has lasted longest, whatever it costs."""
    done = [earlier(trial, 5e5, duration_ns=10**8 * (1 + place)) for place, trial in enumerate(Bench().trials[:20])]
    scores = Bench(earlier=done, trials=20).scores
    assert list(scores.strategy.costs.values()) == pytest.approx([0.1] * 20)


def put_off_often(bench: Bench, times: int) -> Counter[str]:
    """Have every third trial put off so many times; return how often each was."""
    counts: Counter[str] = Counter()
    slow = {trial.identity for trial in bench.trials[::3]}

    def choose(job: Job) -> set[str]:
        found = {each.identity for each in job.trials if each.identity in slow and counts[each.identity] < times}
        if not job.least_built or len(found) == len(job.trials):  # which a worker waits for
            return set()
        counts.update(found)
        return found

    bench.put_off = choose  # type: ignore[method-assign]
    return counts


@pytest.mark.parametrize(("cores", "most"), [(64, 16), (6, 6)])
def test_what_is_compiled_for_long_is_put_off_and_the_cores_have_the_most_of_it(
    built_ahead: None, monkeypatch: pytest.MonkeyPatch, cores: int, most: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    bench = Bench(trials=40)
    del bench.stations[1:]
    counts = put_off_often(bench, 4)
    bench.run()
    assert len(bench.scores.tried) == 40
    assert not bench.feed.withdrawn
    looks = [job for job in bench.jobs[:-1] if job.least_built]
    assert max(len(job.trials) for job in looks) == most
    assert max(counts.values()) == 4
    given = [{trial.identity for trial in job.trials} for job in looks]
    assert all(not looks[place + 1].ahead for place in range(len(looks) - 1) if given[place] & given[place + 1])
    assert all(job.measure.max_samples == 5 for job in looks)


def test_where_nothing_is_put_off_jobs_grow_with_what_is_known(built_ahead: None) -> None:
    bench = Bench(trials=32)
    bench.run()
    assert max(len(job.trials) for job in bench.jobs if job.least_built) == 4


def test_what_was_put_off_comes_again_beside_others_of_its_problem_at_the_same_station(built_ahead: None) -> None:
    bench = Bench(sizes=(64, 128), trials=60)
    counts = put_off_often(bench, 3)
    bench.run()
    assert len(bench.scores.tried) == 60
    problems = {trial.identity: trial.problem for trial in bench.trials}
    places: dict[str, set[int]] = defaultdict(set)
    for job, station in zip(bench.jobs, bench.given_to, strict=True):
        assert {problems[trial.identity] for trial in job.trials} == {job.problem}
        for trial in job.trials if job.least_built else ():
            places[trial.identity].add(station)
    assert len(counts) > 5
    assert {len(found) for found in places.values()} == {1}


def test_what_is_compiled_still_when_the_budget_is_spent_is_withdrawn(built_ahead: None) -> None:
    bench = Bench(budget="4s")
    put_off_often(bench, 10**6)
    outcomes = bench.run()
    withdrawn = {*bench.feed.withdrawn}
    assert withdrawn
    assert not withdrawn & {outcome.identity for outcome in outcomes}
    assert not withdrawn & {bench.trials[index].identity for index in bench.scores.tried}
    assert bench.feed.endings[0].best is not None


@pytest.mark.parametrize("limit_s", [60.0, 3.0])
def test_what_is_compiled_for_far_too_long_is_given_up_as_if_it_had_failed(built_ahead: None, limit_s: float) -> None:
    bench = Bench(trials=36)
    del bench.stations[1:]
    limits = replace(bench.config.limits, build_s=limit_s)
    bench.feed.prepared = replace(bench.prepared, config=replace(bench.config, limits=limits))
    stuck = {trial.identity for trial in bench.trials if trial.tunables.width >= 256}

    def put_off(job: Job) -> set[str]:
        found = {each.identity for each in job.trials} & stuck
        bench.now_s += 1.0 if len(found) == len(job.trials) else 0.0
        return found

    bench.put_off = put_off  # type: ignore[method-assign]
    bench.run()
    given_up = len(bench.feed.withdrawn)
    assert {*bench.feed.withdrawn} <= stuck
    assert given_up
    values = bench.scores.strategy.values
    assert all(math.isnan(values[bench.feed.index[identity]]) for identity in bench.feed.withdrawn)
    assert len(bench.scores.tried) == 36 - given_up
    least_s = 3 if limit_s == 3 else 5
    (said,) = (note for note in bench.notes if "left out" in note)
    found = re.fullmatch(r"search: (\d+) were compiled for over (\d+) s and are left out", said)
    assert found is not None
    assert int(found[1]) == given_up
    assert int(found[2]) >= least_s


def test_what_a_lost_station_was_compiling_is_given_to_another(built_ahead: None) -> None:
    bench = Bench(trials=12)
    lost, other = bench.stations
    job = bench.feed.take(lost)
    assert isinstance(job, Job)
    bench.feed.tell(lost, bench.answer(job, job.trials[0].identity))
    again = bench.feed.take(lost)
    assert isinstance(again, Job)
    late = {trial.identity for trial in job.trials[1:]}
    assert late < {trial.identity for trial in again.trials}
    bench.feed.give_back(lost, again)
    bench.stations = [other]
    bench.run()
    assert len(bench.scores.tried) == 12
    assert late <= {bench.trials[index].identity for index in bench.scores.tried}


def test_where_the_host_is_timed_nothing_is_compiled_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.engine.looks.get_spec", lambda name: replace(get_spec(name), builds_ahead=True))
    bench = Bench(trials=20)
    bench.run()
    assert {(job.least_built, job.ahead) for job in bench.jobs} == {(0, ())}


def test_isolated_trials_are_not_put_off_since_their_worker_ends(built_ahead: None) -> None:
    bench = Bench()
    looks = Looks(bench.prepared, bench.trials, 1)
    assert {job.least_built for job in looks.make(bench.trials[:2], FIRST)} == {2}
    assert {job.least_built for job in looks.make(bench.trials[:2], SECOND)} == {0}
    config = replace(bench.config, limits=replace(bench.config.limits, isolate=True))
    isolated = Looks(replace(bench.prepared, config=config), bench.trials, 1)
    assert {job.least_built for job in isolated.make(bench.trials[:2], FIRST)} == {0}


@pytest.mark.parametrize(("better", "sizes"), [(1.0, range(4, 8)), (0.97, range(2, 4))])
def test_second_looks_share_a_job_without_what_is_promising_no_more(better: float, sizes: range) -> None:
    """All take the same time, or each takes less than the one before it, which is soon more than 5 % behind."""
    bench = Bench(trials=24, finalists=24)
    times: dict[str, float] = {}
    bench.random = NoNoise()
    bench.time_ns = lambda trial: times.setdefault(trial.identity, 1e6 * better ** len(times))  # type: ignore[method-assign]
    bench.run()
    again = [len(job.trials) for job in bench.jobs if job.measure.max_samples == 60]
    assert len(again) > 3
    assert {*again[:-1]} <= {*sizes}
    right = sum(not math.isnan(value) for value in bench.scores.strategy.values.values())
    assert sum(again) == right or better < 1


@pytest.mark.parametrize("finalists", [2, 6])
def test_of_many_that_are_level_only_finalists_are_looked_at_again_and_compared(finalists: int) -> None:
    bench = Bench(trials=24, finalists=finalists)
    bench.random = NoNoise()
    bench.time_ns = lambda trial: 1e6  # type: ignore[method-assign]
    bench.run()
    assert sum(len(job.trials) for job in bench.jobs if job.measure.max_samples == 60) == finalists
    assert len(bench.jobs[-1].trials) == finalists


def test_times_of_another_problem_say_what_to_try_first() -> None:
    other = Bench(sizes=(512,))
    elsewhere = [earlier(trial, other.time_ns(trial)) for trial in other.trials]
    bench = Bench(earlier=elsewhere, trials=4)
    assert bench.notes == [
        "search: what 1 other problems, devices or versions say of 96 choices of tunables is where it starts, and part "
        "of what it expects"
    ]
    bench.run()
    assert bench.by_identity[bench.jobs[0].trials[0].identity].tunables == BEST


class Widths:
    """Answer as counters do, of which there is one here: a trial's width."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known, self.collected = known, list[str]()

    def read(self, identities: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return what is stored: nothing."""
        return {identity: {} for identity in identities[:0]}

    def collect(self, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, float]]:
        """Return the counters of right trials, each of which is asked for once."""
        assert {trial.identity for trial in trials} == set(outcomes)
        self.collected += outcomes
        return {trial.identity: {"a__b.sum": float(trial.tunables.width)} for trial in trials}


def test_the_least_of_a_counter_and_of_its_product_with_time_are_found() -> None:
    for objective, best in (("a__b.sum", 16), ("a__b.sum*time", 32)):
        counting = Widths({})
        bench = Bench(counting=counting, objective=objective, fraction=0.4)
        bench.source.wait_us = lambda tune: 400 if tune.width == 16 else 100
        bench.run()
        (ending,) = bench.feed.endings
        assert ending.best is not None
        assert ending.best.tunables.width == best
        assert len(counting.collected) == len(set(counting.collected)) > 20
        assert f" and {objective} " in bench.notes[-1]


def test_candidates_that_fail_when_they_are_compared_are_told() -> None:
    bench = Bench(trials=12)
    answer = bench.answer

    def fail_in_duel(job: Job, identity: str) -> Outcome:
        is_look = job.measure.max_samples in (5, 60)
        return answer(job, identity) if is_look else Outcome(identity, State.CRASHED, "exit code 1", duration_ns=10**8)

    bench.answer = fail_in_duel  # type: ignore[method-assign]
    bench.run()
    assert bench.notes[-1] == "search: n=64: none of the 3 best gave a right result again when they were compared"


def test_what_gives_nothing_right_is_told() -> None:
    bench = Bench(trials=5)
    bench.answer = lambda job, identity: Outcome(identity, State.COMPILE_ERROR, "no")  # type: ignore[method-assign]
    bench.run()
    assert bench.notes[-1] == "search: n=64: no configuration gives a right result"
    assert math.isnan(bench.feed.endings[0].median_ns)


def test_a_search_through_a_worker_stores_what_it_tried_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "cuprof.toml").write_text("")
    shutil.copytree(FOLDER, tmp_path / "kernels" / "searchable")
    config = SweepConfig(
        experiment="",
        family="searchable",
        measure=MeasureConfig(modes=("cold",), max_seconds=0.01, max_samples=20, settle_seconds=0.0, flush="none"),
        search=SearchConfig(name="surrogate", trials=6, seed=1),
    )
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    config = replace(config, store=replace(config.store, url=url), composed={"search": {"name": "surrogate"}})
    project, broken = find_project(tmp_path), _Repeats(most=3)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(config, project, broken)
    again = _Repeats()
    result = run_sweep(config, project, again)
    assert result.exit_code == 0
    assert "search: 3 of 96 configurations are stored already" in again.notes
    frame = query(url, f"SELECT COUNT(*) AS tried FROM sweep_trial WHERE sweep_id = {result.sweep_id}")
    assert int(frame["tried"][0]) == 6
    latest = "SELECT MAX(run.id) FROM run WHERE run.trial_id = sweep_trial.trial_id"
    frame = query(url, f"SELECT COUNT(run_id) AS runs, SUM(run_id = ({latest})) AS latest FROM sweep_trial")
    assert (int(frame["runs"][0]), int(frame["latest"][0])) == (6, 6), "the sweep goes by the last look at each"
    frame = query(url, "SELECT COUNT(*) AS looks FROM run")
    assert int(frame["looks"][0]) > 6
    assert again.before == 3
    with Store.open(url) as store, store.snapshot() as connection:
        (found,) = list_progress(connection)
    looks = query(url, "SELECT COUNT(*) AS looks FROM run GROUP BY trial_id")["looks"]
    assert (found.is_search, found.done, found.looked_again) == (True, 6, sum(looks > 1))
    told = f"6 tried, {found.looked_again} looked at again"
    assert f"finished, {told}, " in status_lines([found], 200)[0].text
    with Store.open(url) as store:
        assert load_study(store, sweep_id=result.sweep_id).size == told
    sweeps = query(url, "SELECT COUNT(*) AS sweeps, MAX(state) AS state FROM sweep")
    assert (int(sweeps["sweeps"][0]), sweeps["state"][0]) == (1, "finished"), "the interrupted one went on"

    header = tmp_path / "choose.h"
    assert portfolio.main(["searchable", "--store", url, "--header", str(header)]) == 0
    assert re.search(r"1 configuration keeps 1 problem on .* within 5%\n", capsys.readouterr().out)
    if shutil.which("cc"):
        main = f'#include "{header.name}"\nint main(void) {{ return searchable_pick(64)->width != BEST; }}\n'
        (tmp_path / "it.c").write_text(main)
        best = int(re.findall(r'"waiting", (\d+)', header.read_text())[0])
        subprocess.run(["cc", "-Wall", "-Werror", f"-DBEST={best}", "it.c", "-lm"], cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "a.out"], check=False).returncode == 0
    with pytest.raises(UsageError, match=r"no/folder/choose\.h"):
        portfolio.main(["searchable", "--store", url, "--header", "/no/folder/choose.h"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("limits", [{"trials": 14}, {"budget": "1s"}])
def test_what_a_compiler_works_on_for_long_is_put_off_and_nothing_of_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Mapping[str, Any]
) -> None:
    monkeypatch.setenv("CUPROF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("cuprof.engine.looks.is_host", lambda device: False)  # as if the programs ran on a GPU
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    given: list[Job] = []
    run = JobRunner.run
    monkeypatch.setattr(JobRunner, "run", lambda runner, job, *judge: given.append(job) or run(runner, job, *judge))
    (tmp_path / "kernels").mkdir()
    (tmp_path / "cuprof.toml").write_text("")
    shutil.copytree(FAMILIES / "slow_builds", tmp_path / "kernels" / "slow_builds")
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    config = SweepConfig(
        experiment="",
        family="slow_builds",
        measure=MeasureConfig(modes=("cold",), max_seconds=0.01, max_samples=20, settle_seconds=0.0, flush="none"),
        search=SearchConfig(name="surrogate", seed=1, **limits),
    )
    config = replace(config, store=replace(config.store, url=url), composed={"search": {"name": "surrogate"}})
    result = run_sweep(config, find_project(tmp_path), _Repeats())
    assert result.exit_code == 0
    looks = [{trial.identity for trial in job.trials} for job in given if job.least_built]
    frame = query(url, "SELECT m.run_id, r.state FROM sweep_trial AS m LEFT JOIN run AS r ON r.id = m.run_id")
    assert {*frame["state"]} == {"ok"}
    assert len(frame) == 14 or "budget" in limits
    came_again = any(one & other for one, other in pairwise(looks))
    assert came_again or len(set().union(*looks)) > len(frame), "some were put off"
    assert len(query(url, "trials")) == len(frame), "what was put off in the end is not left behind"
    once = "SELECT job, trial_id FROM run GROUP BY job, trial_id HAVING COUNT(*) > 1"
    assert query(url, once).empty


class _Repeats(Listener):
    """A search looks at a trial more than once; it may be interrupted after some."""

    def __init__(self, most: int = 10**6) -> None:
        super().__init__()
        self.most, self.before = most, 0

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        assert planned is None
        self.before = len(stored)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        self.outcomes[trial.label] = outcome
        if len(self.outcomes) == self.most:
            raise KeyboardInterrupt
