from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import CPU, FACTS, METHOD, UNAVAILABLE, make_outcome, make_timing, make_trial

from cuprof.core.errors import StoreError
from cuprof.core.records import Measure, Outcome, State, Unavailable
from cuprof.results.trials import list_trials, list_variant_names
from cuprof.store import Store


def test_a_trial_comes_back_with_its_run_and_timings(store: Store) -> None:
    trial, other = make_trial(), make_trial("numpy", device=CPU, backend="cpu", kind="cpu", order=3)
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial, other])
    outcome = make_outcome(trial, make_timing(21.5), make_timing(7, Measure.TOTAL))
    run = store.record(sweep, outcome)
    with store.snapshot() as connection:
        read, planned = list_trials(connection, [sweep])
    copied = ("identity", "label", "family", "variant", "order", "kind", "backend", "expected", "description", "origin")
    for name in (*copied, "problem", "tunables", "useful_bytes", "flops"):
        assert getattr(read, name) == getattr(trial, name)
    assert list(read.problem.items()) == list(trial.problem.items())
    assert read.run is not None
    assert (read.run.id, read.run.sweep_id, read.run.device_id) == (run, sweep, read.device_id)
    for name in ("state", "phase", "message", "log", "started_at", "duration_ns", "check", "build"):
        assert getattr(read.run, name) == getattr(outcome, name)
    assert list(read.timings) == [Measure.COLD, Measure.TOTAL]
    for timing in outcome.timings:
        for name in ("measure", "method", "stopped_by", "summary", "details", "rotation", "energy"):
            assert getattr(read.timings[timing.measure], name) == getattr(timing, name)
    assert (planned.ordinal, planned.state, planned.run, planned.timings) == (1, State.PLANNED, None, {})
    assert planned.device_id not in (None, read.device_id)


def test_a_trial_that_cannot_run_says_why(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [UNAVAILABLE])
    with store.snapshot() as connection:
        (read,) = list_trials(connection, [sweep])
        assert (read.state, read.message) == (State.SKIPPED, "no OpenCL device; install a driver")
        assert read.unavailable == Unavailable("no OpenCL device", "install a driver")
    store.record(sweep, Outcome(UNAVAILABLE.identity, State.CRASHED, "died", "", "time"))
    with store.snapshot() as connection:
        (read,) = list_trials(connection, [sweep])
    assert (read.state, read.message, read.device_id) == (State.CRASHED, "died", None)


def test_of_two_methods_the_later_timing_stands(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    store.record(sweep, make_outcome(trial, make_timing(1, method="older"), make_timing(2)))
    with store.snapshot() as connection:
        (read,) = list_trials(connection, [sweep])
    assert read.timings[Measure.COLD].method == METHOD


def test_sweeps_come_in_the_order_asked_for_and_variants_are_chosen(store: Store) -> None:
    first, second = make_trial(), make_trial("last_warp", 2**24)
    sweeps = []
    for _ in range(2):
        sweeps.append(store.begin_sweep(FACTS))
        store.enlist(sweeps[-1], [first, second])
        store.record(sweeps[-1], make_outcome(first, make_timing(20)))
        store.finish_sweep(sweeps[-1], "finished")
    with store.snapshot() as connection:
        rows = list_trials(connection, sweeps[::-1])
        assert [(row.sweep_id, row.variant) for row in rows] == [
            (sweep, name) for sweep in sweeps[::-1] for name in ("interleaved", "last_warp")
        ]
        assert [row.problem.n for row in list_trials(connection, sweeps, ["last_warp"])] == [2**24] * 2
        assert sorted(list_variant_names(connection, sweeps)) == ["interleaved", "last_warp"]
        assert list_variant_names(connection, []) == list_trials(connection, [99]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE trial SET tunables = '{\"block\": '", "JSON|truncated"),
        ("UPDATE run SET state = 'fine'", "'fine' is not a valid State"),
        ("UPDATE run SET started_at = 'yesterday'", "yesterday"),
        ("UPDATE run SET check_seed = 'x'", "'x'"),
    ],
)
def test_values_of_another_hand_are_told_in_one_line(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "changed.sqlite"
    trial = make_trial()
    with Store.open(f"sqlite:///{path}") as store:
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, [trial])
        store.record(sweep, make_outcome(trial, make_timing(1)))
    raw = sqlite3.connect(path)
    raw.execute(change)
    raw.commit()
    raw.close()
    with (
        Store.open(f"sqlite:///{path}", read_only=True) as store,
        pytest.raises(StoreError, match=said) as caught,
        store.snapshot() as connection,
    ):
        list_trials(connection, [sweep])
    assert f"database {path} is damaged or was changed by hand" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_page_of_garbage_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    with Store.open(f"sqlite:///{path}") as store:
        sweep = store.begin_sweep(FACTS)
        trials = [replace(make_trial(n=n), source_text="x" * 5000) for n in range(1, 200)]
        store.enlist(sweep, trials)
    whole = bytearray(path.read_bytes())
    with Store.open(f"sqlite:///{path}", read_only=True) as store:
        for start in range(16_384, len(whole), 4096):
            whole[start : start + 100] = b"\xa5" * 100
        path.write_bytes(whole)
        with pytest.raises(StoreError, match="is damaged"), store.snapshot() as connection:
            list_trials(connection, [sweep])
