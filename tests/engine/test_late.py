"""What is compiled for long while a search times others: put off, given again, given up."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace

import pytest

from cuprof.worker.messages import Job
from tests.engine.search_bench import SearchBench, put_off_often


@pytest.mark.parametrize(("cores", "most"), [(64, 16), (6, 6)])
def test_what_is_compiled_for_long_is_put_off_and_the_cores_have_the_most_of_it(
    built_ahead: None, monkeypatch: pytest.MonkeyPatch, cores: int, most: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    bench = SearchBench(trials=40)
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


def test_what_was_put_off_comes_again_beside_others_of_its_problem_at_the_same_station(built_ahead: None) -> None:
    bench = SearchBench(sizes=(64, 128), trials=60)
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
    bench = SearchBench(budget="4s")
    put_off_often(bench, 10**6)
    outcomes = bench.run()
    withdrawn = {*bench.feed.withdrawn}
    assert withdrawn
    assert not withdrawn & {outcome.identity for outcome in outcomes}
    assert not withdrawn & {bench.trials[index].identity for index in bench.scores.tried}
    assert bench.feed.endings[0].best is not None


@pytest.mark.parametrize("limit_s", [60.0, 3.0])
def test_what_is_compiled_for_far_too_long_is_given_up_as_if_it_had_failed(built_ahead: None, limit_s: float) -> None:
    bench = SearchBench(trials=36)
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
    bench = SearchBench(trials=12)
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
