"""Stations side by side, with work that needs no worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.point import Point
from cuprof.core.records import Outcome, State
from cuprof.engine.feed import LATER, PlannedFeed
from cuprof.engine.fleet import Fleet
from cuprof.engine.station import Station
from cuprof.families.origin import Folder
from cuprof.store.stations import Claim
from cuprof.worker.messages import Job, JobTrial


@dataclass
class Runner:
    """Stand in for a `JobRunner`; it answers all trials of a job."""

    stopped: bool = False
    ended: list[str] = field(default_factory=list)

    def stop(self) -> None:
        self.stopped = True

    def retire_worker(self) -> None:
        self.ended.append("worker")


def make_job(n: int, names: str, backend: str = "cuda") -> Job:
    trials = tuple(JobTrial(f"{n}{name}", name, Point(), "") for name in names)
    return Job(Folder(Path()), backend, Point(n=n), trials, 0)


def make_stations(count: int) -> list[Station]:
    return [Station(Runner()) for _ in range(count)]  # type: ignore[arg-type]


def labels(job: Any) -> list[str]:
    return [trial.identity for trial in job.trials]


def test_jobs_come_in_the_order_of_the_plan_and_a_problem_stays_where_it_was_begun() -> None:
    one, two = make_stations(2)
    feed = PlannedFeed([make_job(1, "ab"), make_job(1, "c", "opencl"), make_job(2, "a"), make_job(3, "a")])
    assert [labels(feed.take(station)) for station in (one, two, one, two)] == [["1a", "1b"], ["2a"], ["1c"], ["3a"]]
    assert feed.take(one) is LATER  # what the other one holds may come back
    assert feed.take(two) is None
    assert feed.take(one) is None


def test_what_a_lost_station_has_not_done_is_given_to_another() -> None:
    one, two = make_stations(2)
    feed = PlannedFeed([make_job(1, "ab"), make_job(1, "c", "opencl")])
    job = feed.take(one)
    assert isinstance(job, Job)
    feed.tell(one, Outcome("1a", State.OK))
    feed.give_back(one, job)
    assert [labels(feed.take(two)), labels(feed.take(two))] == [["1b"], ["1c"]]
    assert feed.take(two) is None


def test_what_another_process_has_taken_over_is_waited_for() -> None:
    """It is done when the database says so, or is done here after all."""
    (one,) = make_stations(1)
    answers = [
        Claim(frozenset({"1a", "1b", "1c"}), {}, 2),
        Claim(frozenset(), {}, 2),
        Claim(frozenset({"1b"}), {"1c": (State.OK, "")}, 1),
        Claim(frozenset({"1b"}), {}, 1),
    ]
    asked: list[list[str]] = []

    def claim(station: Station, identities: Sequence[str]) -> Claim:
        asked.append([*identities])
        return answers.pop(0)

    seconds = iter(range(100))
    feed = PlannedFeed([make_job(1, "abc")], claim=claim, clock=lambda: 2.0 * next(seconds))
    assert labels(feed.take(one)) == ["1a", "1b", "1c"]
    feed.tell(one, Outcome("1a", State.OK))
    assert feed.take(one) is LATER
    assert labels(feed.take(one)) == ["1b"]
    feed.tell(one, Outcome("1b", State.OK))
    assert feed.take(one) is None
    assert asked == [["1a", "1b", "1c"], ["1b", "1c"], ["1b", "1c"], ["1b"]]


@pytest.mark.parametrize("count", [1, 3])
def test_all_is_told_from_one_thread_and_several_stations_work_at_once(count: int) -> None:
    here, told, most, busy = threading.get_ident(), [], 0, 0
    lock = threading.Lock()
    fleet = Fleet(make_stations(count))

    def tell(identity: str) -> None:
        assert threading.get_ident() == here
        told.append(identity)

    def work(station: Station, job: Job) -> None:
        nonlocal most, busy
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        for identity in labels(job):
            fleet.call(tell, identity)
        with lock:
            busy -= 1

    fleet.run(PlannedFeed([make_job(n, "ab") for n in range(6)]), work)
    assert sorted(told) == sorted(f"{n}{name}" for n in range(6) for name in "ab")
    assert most == count


@pytest.mark.parametrize("place", ["work", "tell"])
def test_what_one_station_raises_ends_all(place: str) -> None:
    stations = make_stations(2)
    fleet = Fleet(stations)

    def fail() -> None:
        raise KeyboardInterrupt

    def work(station: Station, job: Job) -> None:
        if station is stations[0]:
            fleet.call(fail) if place == "tell" else fail()
        while not station.runner.stopped:  # type: ignore[attr-defined]
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt):
        fleet.run(PlannedFeed([make_job(n, "a") for n in range(4)]), work)
    assert [station.runner.ended for station in stations] == [["worker"], ["worker"]]  # type: ignore[attr-defined]
