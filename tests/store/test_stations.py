"""Who has claimed which trials of a sweep, for how long, and what becomes of a claim that has lapsed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa
from store_samples import FACTS, make_outcome, make_trial

from cuprof.core.records import State
from cuprof.results.queries import query
from cuprof.results.sweeps import list_ends
from cuprof.store import outcomes
from cuprof.store import tables as t
from cuprof.store.processes import Process
from cuprof.store.stations import LEASE_S
from cuprof.store.store import Store

TRIALS = [make_trial(n=n) for n in (1, 2, 3)]
PLACES = {trial.identity: place for place, trial in enumerate(TRIALS)}
ONE, TWO, THREE = PLACES


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1_790_000_000.0]
    monkeypatch.setattr("cuprof.store.stations.clock", lambda connection: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def join(store: Store, monkeypatch: pytest.MonkeyPatch, host: str) -> tuple[int, int]:
    """Return the sweep, and the station of a process of another host, whose end shows by its silence alone."""
    with monkeypatch.context() as patch:
        for module in ("stations", "sweeps"):
            patch.setattr(f"cuprof.store.{module}.this_process", lambda: Process(host, 42, 1.0))
        sweep, (station,) = store.join_sweep(FACTS, [host])
    store.enlist(sweep, TRIALS)
    return sweep, station


def test_who_stood_still_loses_its_claims_and_takes_part_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]
) -> None:
    sweep, slow = join(store, monkeypatch, "slow")
    same, other = join(store, monkeypatch, "other")
    assert same == sweep
    assert store.claim(sweep, slow, {ONE: 0, TWO: 1}).granted == {ONE, TWO}
    assert store.claim(sweep, other, PLACES).granted == {THREE}
    wait(LEASE_S + 1)
    store.beat({other: ""})
    assert store.list_left(sweep, other) == ({0, 1, 2}, set())
    assert store.find_free(sweep, slow, PLACES) == set(), "it takes no part until it asks what is left"
    taken = store.claim(sweep, other, {ONE: 0})
    assert (taken.granted, taken.stations) == ({ONE}, 1)
    assert store.claim(sweep, slow, {TWO: 1}).granted == set()
    assert store.list_left(sweep, slow)[0] == {1}
    again = store.claim(sweep, slow, {ONE: 0, TWO: 1})
    assert (again.granted, again.stations) == ({TWO}, 2)
    assert store.claim(sweep, other, PLACES).granted == {ONE, THREE}
    assert store.list_left(sweep, other) == ({0, 2}, {1})
    assert store.find_free(sweep, other, PLACES) == {ONE, THREE}
    assert store.list_left(sweep, slow) == ({1}, {0, 2})


def test_what_is_left_is_not_listed_while_others_hold_all_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]
) -> None:
    sweep, one = join(store, monkeypatch, "one")
    _, two = join(store, monkeypatch, "two")
    assert store.claim(sweep, one, PLACES).granted == {ONE, TWO, THREE}
    assert store.list_left(sweep, two) is None
    assert store.find_free(sweep, two, PLACES) == set()
    wait(LEASE_S + 1)
    store.beat({two: ""})
    assert store.list_left(sweep, two) == ({0, 1, 2}, set())
    assert store.find_free(sweep, two, PLACES) == {ONE, TWO, THREE}


def test_a_trial_that_took_the_place_of_another_is_claimed_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, wait: Callable[[float], None]
) -> None:
    sweep, mine = join(store, monkeypatch, "mine")
    _, other = join(store, monkeypatch, "other")
    store.claim(sweep, other, PLACES)
    ran = [replace(trial, identity=trial.identity[::-1]) for trial in TRIALS[:2]]
    for former, trial in zip(TRIALS, ran, strict=False):
        store.exchange(sweep, former.identity, trial)
    store.record(sweep, make_outcome(ran[0], state=State.CRASHED, message="it fell"))
    found = store.claim(sweep, mine, PLACES)
    assert found.granted == set()
    with store.snapshot() as connection:
        assert list_ends(connection, sweep) == [(0, State.CRASHED, "it fell")]
    store.leave([other])
    assert store.list_left(sweep, mine)[0] == {1, 2}
    assert store.claim(sweep, mine, PLACES).granted == {TWO, THREE}
    held = query(
        store.url, f"SELECT t.identity FROM sweep_trial m JOIN trial t ON t.id = trial_id WHERE station_id = {mine}"
    )
    assert set(held["identity"]) == {TWO[::-1], THREE}


def test_what_is_recorded_at_the_time_of_a_claim_is_not_granted(store: Store) -> None:
    """A server's claim passes it over, a file's waits for the end of the other transaction."""
    sweep, (station,) = store.join_sweep(FACTS, ["host"])
    store.enlist(sweep, TRIALS)
    with ThreadPoolExecutor(1) as pool:
        with store.engine.begin() as connection:
            outcomes.record(connection, sweep, make_outcome(TRIALS[0], message="as expected"))
            asked = pool.submit(store.claim, sweep, station, PLACES)
            if store.engine.dialect.name == "postgresql":
                assert asked.result(100).granted == {TWO, THREE}
        assert asked.result(100).granted == {TWO, THREE}


def test_a_sweep_whose_process_lives_and_is_silent_is_taken_up(store: Store, wait: Callable[[float], None]) -> None:
    sweep, _ = store.join_sweep(FACTS, ["host"])
    wait(LEASE_S + 1)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("stations", "sweeps"):
            patch.setattr(f"cuprof.store.{module}.this_process", lambda: Process("another", 42, 1.0))
        assert store.join_sweep(FACTS, ["host"])[0] == sweep


def test_what_is_finished_is_not_interrupted_any_more(store: Store) -> None:
    sweep, (station,) = store.join_sweep(FACTS, ["host"])
    store.finish_sweep(sweep, "finished")
    store.leave([station])
    store.finish_sweep(sweep, "interrupted")  # by another process, or by Ctrl-C at the very end
    assert query(store.url, "sweeps")["state"].tolist() == ["finished"]


def test_a_sweep_begins_and_ends_by_the_clock_that_all_share(store: Store, wait: Callable[[float], None]) -> None:
    sweep = store.begin_sweep(FACTS)
    begun = store.read_start(sweep)
    wait(10.0)
    store.finish_sweep(sweep, "finished")
    with store.snapshot() as connection:
        ended = connection.scalar(sa.select(t.sweep.c.finished_at))
    assert (begun, ended) == (1_790_000_000.0, 1_790_000_010.0)
