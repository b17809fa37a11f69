"""How far a sweep is, as another process sees it, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from store_samples import FACTS, METHOD, make_outcome, make_timing, make_trial

from cuprof.cli.output import to_text
from cuprof.cli.status import status_parts
from cuprof.core.errors import UnreachableStoreError
from cuprof.core.records import Measure, State
from cuprof.plan.identity import IDENTITY_VERSION
from cuprof.results.earlier import count_outdated
from cuprof.results.progress import Progress, count_done, list_at_work, list_progress
from cuprof.results.sweeps import IDENTITIES
from cuprof.store import tables as t
from cuprof.store.outcomes import Origin
from cuprof.store.processes import Process, this_process
from cuprof.store.stations import LEASE_S, clock
from cuprof.store.store import Store
from tests.conftest import Result

TRIALS = [make_trial(variant, n) for variant in ("interleaved", "last_warp") for n in (2**10, 2**11, 2**12)]


def read(store: Store) -> Progress:
    with store.snapshot() as connection:
        (found,) = list_progress(connection)
    return found


def text(found: Progress) -> str:
    return to_text(status_parts([found]), 200)


def stop_the_clock(store: Store, monkeypatch: pytest.MonkeyPatch) -> float:
    """Let progress be looked at in this moment, however long the test takes; return it."""
    with store.snapshot() as connection:
        now = clock(connection)
    monkeypatch.setattr("cuprof.results.progress.clock", lambda connection: now)
    return now


def test_what_runs_where_what_failed_and_how_long_still(
    store: Store, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Result]
) -> None:
    sweep_id, (mine,) = store.join_sweep(FACTS, ["cuda:0 (NVIDIA H200)"])
    store.enlist(sweep_id, TRIALS)
    monkeypatch.setattr("cuprof.store.stations.this_process", lambda: Process("node-9", 42, 1.0))
    _, (theirs, dead) = store.join_sweep(FACTS, ["cuda:1 (NVIDIA H200)", "cuda:2 (NVIDIA H200)"])
    monkeypatch.undo()
    for trial, station, state in zip(TRIALS, (mine, theirs, dead), (State.OK, State.OK, State.CRASHED), strict=False):
        store.claim(sweep_id, station, {trial.identity: TRIALS.index(trial)})
        store.record(sweep_id, make_outcome(trial, make_timing(5), state=state, message="it fell"))
    store.beat({mine: "time: one", theirs: "build: another"})
    now = stop_the_clock(store, monkeypatch)
    with store.engine.begin() as connection:
        for station, joined_ago, seen_ago in ((mine, 30, 0), (theirs, 30, 0), (dead, 95, 90)):
            values = {"joined_at": now - joined_ago, "seen_at": now - seen_ago}
            connection.execute(sa.update(t.station).where(t.station.c.id == station).values(**values))
        assert count_done(connection, sweep_id) == (3, 6)
        at_work = list_at_work(connection, sweep_id)
        assert at_work == {mine: f"{this_process().host}: time: one", theirs: "node-9: build: another"}
    found = read(store)
    assert (found.state, found.planned, found.done, found.failed) == ("running", 6, 3, 1)
    assert [station.state for station in found.stations] == ["working", "working", "silent"]
    assert found.seconds_left == pytest.approx(30 / 2 * 3)
    assert found.failures == ((TRIALS[2].label, "crashed: it fell"),)
    told = text(found)
    for part in ("3 of 6 trials, 1 failed", "left", "time: one", "build: another", "node-9", "silent: others take"):
        assert part in told, told
    assert "failed: reduction/interleaved" in told
    between = replace(found, stations=(replace(found.stations[0], doing="", done=2),))
    assert "nothing yet" not in text(between), "what is done is something"
    printed = cli("status", "--store", store.url).out
    assert printed.splitlines()[0].startswith(f"sweep {sweep_id} (study): running, 3 of 6 trials")
    assert "\x1b" not in printed


def test_what_a_silent_station_holds_is_left_until_its_lease_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id, (mine,) = store.join_sweep(FACTS, ["host"])
    store.enlist(sweep_id, TRIALS[:2])
    monkeypatch.setattr("cuprof.store.stations.this_process", lambda: Process("node-9", 42, 1.0))
    _, (theirs,) = store.join_sweep(FACTS, ["host"])
    monkeypatch.undo()
    for trial, station in zip(TRIALS[:2], (mine, theirs), strict=True):
        store.claim(sweep_id, station, {trial.identity: TRIALS.index(trial)})
    store.record(sweep_id, make_outcome(TRIALS[0], make_timing(5)), Origin(mine))
    now = stop_the_clock(store, monkeypatch)
    with store.engine.begin() as connection:
        for station, seen_ago in ((mine, 0), (theirs, 20)):
            values = {"joined_at": now - 21, "seen_at": now - seen_ago}
            connection.execute(sa.update(t.station).where(t.station.c.id == station).values(**values))
    assert read(store).seconds_left == pytest.approx(LEASE_S - 20)


def test_nobody_works_any_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id, stations = store.join_sweep(FACTS, ["host"])
    store.enlist(sweep_id, TRIALS)
    assert text(read(store)).splitlines()[3].endswith("nothing yet")
    monkeypatch.setattr(Process, "is_alive", lambda self: False)
    found = read(store)
    assert (found.state, found.stations[0].state, found.seconds_left) == ("abandoned", "gone", None)
    assert text(found).splitlines()[3].endswith("its process has ended")
    assert "the same command goes on where it stopped" in text(found)
    monkeypatch.undo()
    store.leave(stations)
    store.finish_sweep(sweep_id, "finished")
    assert text(read(store)).startswith(f"sweep {sweep_id} (study): finished, 0 of 6 trials")


def test_a_process_that_shares_its_sweep_with_nobody_is_shown_too(store: Store) -> None:
    sweep_id = store.begin_sweep(FACTS)
    store.enlist(sweep_id, TRIALS)
    store.record(sweep_id, make_outcome(TRIALS[0], make_timing(5)))
    found = read(store)
    assert [(station.state, station.done) for station in found.stations] == [("working", 1)]
    assert found.seconds_left is not None
    with store.snapshot() as connection:
        assert list_progress(connection, sweep_id + 1) == []


def test_trials_that_are_skipped_again_do_not_count_as_stored_before(store: Store) -> None:
    measured, skipped = TRIALS[:2]
    first = store.begin_sweep(FACTS)
    store.enlist(first, TRIALS[:2])
    store.record(first, make_outcome(measured, make_timing(5)))
    store.record(first, make_outcome(skipped, state=State.SKIPPED))
    store.finish_sweep(first, "finished")
    second = store.begin_sweep(FACTS)
    known = store.stored([trial.identity for trial in TRIALS[:2]], {Measure.COLD: METHOD})
    store.enlist(second, TRIALS[:3], reused=known)
    found = read(store)
    assert (found.sweep_id, found.done, found.reused, found.skipped) == (second, 2, 1, 1)
    assert found.seconds_left is None, "nothing has been measured yet"
    assert "running, 2 of 3 trials, 1 stored before, 1 skipped, " in text(found)


def test_of_a_search_each_trial_counts_once_and_nobody_knows_its_end(store: Store) -> None:
    sweep_id = store.begin_sweep(replace(FACTS, configuration={"search": {"name": "surrogate"}}))
    store.enlist(sweep_id, TRIALS)
    for trial in (TRIALS[0], TRIALS[1], TRIALS[0], TRIALS[0]):
        store.record(sweep_id, make_outcome(trial, make_timing(5)))
    found = read(store)
    assert (found.done, found.looked_again, found.seconds_left) == (2, 1, None)
    assert text(found).startswith(f"sweep {sweep_id} (study): running, 2 tried, 1 timed again, ")
    assert " left" not in text(found).splitlines()[0]


def test_who_watches_waits_for_a_server_that_is_restarted(
    store: Store, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Result]
) -> None:
    sweep_id = store.begin_sweep(FACTS)
    calls: list[int] = []

    def read_again(connection: Connection, number: int | None) -> list[Progress]:
        calls.append(1)
        if len(calls) == 2:
            raise UnreachableStoreError("database x cannot be reached: it is restarted")
        if len(calls) == 3:
            store.finish_sweep(sweep_id, "finished")
        return list_progress(connection, number)

    monkeypatch.setattr("cuprof.cli.status.list_progress", read_again)
    watched = cli("status", "--store", store.url, "--every", "0.001")
    assert (watched.exit_code, len(calls)) == (0, 3)
    assert "cannot be reached" in watched.err
    assert "finished" in watched.out
    calls[:] = [1]
    assert cli("status", "--store", store.url, "--every", "0.001").exit_code == 2, "a first answer there has to be"


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e30", "soon"])
def test_how_often_is_a_number_of_seconds(cli: Callable[..., Result], text: str) -> None:
    told = cli("status", "--every", text)
    assert (told.exit_code, f"'{text}' is no number of seconds from 0 to 86400" in told.err) == (2, True)


def test_results_of_an_earlier_identity_are_named_until_there_are_newer_ones(store: Store) -> None:
    def sweep(software: dict[str, str], name: str) -> None:
        sweep_id, (station,) = store.join_sweep(replace(FACTS, software=software, plan_hash=name), ["cuda:0"])
        store.enlist(sweep_id, TRIALS)
        store.claim(sweep_id, station, {TRIALS[0].identity: 0})
        store.record(sweep_id, make_outcome(TRIALS[0], make_timing(5)))

    def count() -> int:
        with store.snapshot() as connection:
            return count_outdated(connection, FACTS.family)

    assert count() == 0
    sweep({}, "one")
    assert count() == 1
    assert "identities of an earlier version" in text(read(store))
    sweep({IDENTITIES: str(IDENTITY_VERSION)}, "two")
    assert count() == 0
    with store.snapshot() as connection:
        newest, oldest = (text(each) for each in list_progress(connection))
    assert "earlier version" not in newest
    assert "earlier version" in oldest
