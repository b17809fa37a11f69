"""How many times faster several stations are than one, with durations of trials that were recorded on an H200.

`durations_on_an_h200.json` has milliseconds a trial by study and problem. A single problem with many configurations is
the hardest: it is cut, and each station measures the reference besides.
"""

from __future__ import annotations

import heapq
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig, MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import Outcome, State, Trial
from cuprof.engine.feed import LATER, LEAST_BLOCK_S, PlannedFeed
from cuprof.engine.fleet import POLL_S, Fleet
from cuprof.engine.jobs import find_references
from cuprof.engine.runner import JobRunner
from cuprof.engine.station import Station
from cuprof.families import Tunable
from cuprof.families.origin import Folder
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from tests.store.store_samples import make_timing

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "engine" / "durations_on_an_h200.json").read_text())
PROBLEMS = ("convlab 2", "convlab 4", "filter3x3 5", "filter3x3 8")
TRIALS = 768
WANTED = {4: 3.6, 8: 7.0, 64: 50.0}


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
    feed = PlannedFeed(jobs, stations, references, clock=lambda: now)
    free = [(0.0, place) for place in range(stations)]
    every = [Station(JobRunner(WorkerSettings(), LimitsConfig())) for _ in range(stations)]
    held: dict[int, Job] = {}
    ran: dict[str, int] = {}
    end = 0.0
    while free:
        now, place = heapq.heappop(free)
        for trial in held.pop(place).trials if place in held else ():
            feed.tell(every[place], Outcome(trial.identity, State.OK))
            ran[trial.identity] = ran.get(trial.identity, 0) + 1
        job = feed.take(every[place])
        if job is LATER:
            heapq.heappush(free, (now + POLL_S, place))
        elif job is not None:
            held[place] = job
            if sizes is not None:
                sizes.append(len(job.trials))
            busy = now + sum(durations[trial.identity] for trial in job.trials)
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
    feed = PlannedFeed([job], 2, {(job.problem, job.backend): job.trials[0]})
    stations = [Station(JobRunner(WorkerSettings(), LimitsConfig())) for _ in range(2)]
    first, second = map(feed.take, stations)
    assert isinstance(first, Job)
    assert isinstance(second, Job)
    assert first.trials == job.trials[:40]
    assert first.ahead == job.trials[40:56]
    assert second.trials == (job.trials[0], *job.trials[40:64])
    assert second.ahead == job.trials[64:80]


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
        (reference,) = find_references(prepared).values()  # type: ignore[arg-type]
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


class Recorded(JobRunner):
    """Take as long for each trial as was recorded, divided by `pace`."""

    pace = 1.0
    durations: dict[int, float]

    def run(self, job: Job, judge: Callable[[Outcome], Outcome] = lambda outcome: outcome) -> Iterator[Outcome]:
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
    monkeypatch.setattr("cuprof.engine.calibrator.Calibrator.calibrate", lambda *_: None)
    make_cards(stations, Recorded)
    spans: list[tuple[float, float]] = []
    run = Fleet.run

    def timed(self: Fleet, feed: Any, work: Any) -> None:
        begun = time.monotonic()
        run(self, feed, work)
        spans.append((begun, time.monotonic()))

    monkeypatch.setattr(Fleet, "run", timed)
    bench.sweep("twice", family="many", tune={"place": tuple(range(TRIALS))})
    (span,) = spans
    factor = sum(taken) / pace / (span[1] - span[0])
    assert bench.query("SELECT COUNT(*), COUNT(run_id) FROM sweep_trial") == [(TRIALS, TRIALS)]
    assert bench.query("SELECT COUNT(*) FROM run") == [(TRIALS + stations - 1,)]
    assert factor >= WANTED[stations], factor
