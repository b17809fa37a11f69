"""The results frame: one row for each sweep, trial and measure."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from store_samples import CPU, FACTS, METHOD, UNAVAILABLE, make_outcome, make_timing, make_trial

from cuprof.core.errors import StoreError
from cuprof.core.records import Measure, Outcome, State
from cuprof.results.queries import query
from cuprof.results.read import FIRST_VERSION, read_results
from cuprof.store.store import Store


def test_a_trial_comes_back_with_its_run_and_a_row_for_each_measure(store: Store) -> None:
    trial, other = make_trial(), make_trial("numpy", device=CPU, backend="cpu", kind="cpu", order=3)
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial, other])
    outcome = make_outcome(trial, make_timing(21.5), make_timing(7, Measure.TOTAL))
    run = store.record(sweep, outcome)
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep], whole=True)
    cold, total, planned = frame.to_dict("records")
    assert [row["measure"] for row in (cold, total, planned)] == ["cold", "total", ""]
    copied = ("identity", "family", "variant", "kind", "backend", "expected", "origin")
    for name in (*copied, "problem", "tunables", "useful_bytes", "flops"):
        assert cold[name] == total[name] == getattr(trial, name)
    assert cold["variant_order"] == trial.order
    assert list(cold["problem"].items()) == list(trial.problem.items())
    assert (cold["run_id"], cold["run_sweep_id"]) == (run, sweep)
    for name in ("state", "message", "log", "started_at", "duration_ns"):
        assert cold[name] == getattr(outcome, name)
    check, build = outcome.check, outcome.build
    assert check is not None
    assert build is not None
    assert (cold["check_error"], cold["registers"]) == (check.error, build.registers)
    for row, timing in zip((cold, total), outcome.timings, strict=True):
        for name in ("method", "stopped_by", "rotation"):
            assert row[name] == getattr(timing, name)
        for name in ("median_ns", "low_ns", "high_ns", "confidence", "min_ns", "max_ns"):
            assert row[name] == getattr(timing.summary, name)
        assert (row["samples"], row["excluded"]) == (timing.summary.count, timing.summary.excluded)
        assert (row["version"], row["batch"], row["tick_ns"]) == (FIRST_VERSION, 1, 0.0)
        assert timing.energy is not None
        assert (row["energy_j"], row["mean_w"], row["idle_w"]) == (
            timing.energy.energy_j,
            timing.energy.mean_w,
            timing.energy.idle_w,
        )
        assert row["energy_unavailable"] == timing.details.get("energy_unavailable", "")
        assert (row["q1_ns"], row["q3_ns"]) == (timing.summary.q1_ns, timing.summary.q3_ns)
    assert (planned["state"], planned["run_id"], planned["timing_id"], planned["ordinal"]) == ("planned", 0, 0, 1)
    assert planned["device"] == CPU.name
    assert planned["device_id"] not in (0, cold["device_id"])
    assert math.isnan(planned["median_ns"])
    assert (planned["method"], planned["version"], planned["message"]) == ("", "", "")


def test_rows_agree_with_the_view(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    trials = [make_trial(n=n) for n in (2**10, 2**12)]
    store.enlist(sweep, trials)
    for trial in trials:
        store.record(sweep, make_outcome(trial, make_timing(20), make_timing(7, Measure.TOTAL)))
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep])
    view = query(store.url, "SELECT * FROM sweep_timings ORDER BY ordinal, timing_id")
    same = ["identity", "family", "variant", "device_id", "device", "device_key", "state", "measure", "method"]
    for name in (*same, "samples", "excluded", "confidence", "rotation", "timing_id", "run_id"):
        assert frame[name].tolist() == view[name].tolist()
    assert np.allclose(frame["median_ns"] * 1e-3, view["median_us"])
    assert [point.label for point in frame["problem"]] == view["problem"].tolist()


def test_words_and_points_of_many_rows_are_one_object(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    trials = [make_trial(variant) for variant in ("interleaved", "last_warp")]
    store.enlist(sweep, trials)
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep])
    assert len({id(point) for point in frame["problem"]}) == 1
    assert len({id(name) for name in frame["family"]}) == 1


def test_the_device_is_the_runs_else_the_plans_else_the_trials(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    with store.snapshot() as connection:
        assert read_results(connection, [sweep])["device"].tolist() == [trial.device.name if trial.device else ""]


def test_a_trial_that_cannot_run_says_why(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [UNAVAILABLE])
    with store.snapshot() as connection:
        (row,) = read_results(connection, [sweep]).to_dict("records")
    assert (row["state"], row["message"]) == (State.SKIPPED, "no OpenCL device; install a driver")
    store.record(sweep, Outcome(UNAVAILABLE.identity, State.CRASHED, "died", "", "time"))
    with store.snapshot() as connection:
        (row,) = read_results(connection, [sweep]).to_dict("records")
    assert (row["state"], row["message"], row["device_id"], row["device"]) == (State.CRASHED, "died", 0, "")


def test_of_two_methods_the_later_timing_stands(store: Store) -> None:
    trial = make_trial()
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [trial])
    store.record(sweep, make_outcome(trial, make_timing(1, method="older"), make_timing(2)))
    with store.snapshot() as connection:
        frame = read_results(connection, [sweep])
    assert frame["method"].tolist() == [METHOD]


def test_sweeps_come_in_the_order_asked_for_and_variants_are_chosen(store: Store) -> None:
    first, second = make_trial(), make_trial("last_warp", 2**24)
    sweeps = []
    for _ in range(2):
        sweeps.append(store.begin_sweep(FACTS))
        store.enlist(sweeps[-1], [first, second])
        store.record(sweeps[-1], make_outcome(first, make_timing(20)))
        store.finish_sweep(sweeps[-1], "finished")
    with store.snapshot() as connection:
        frame = read_results(connection, sweeps[::-1])
        assert list(zip(frame["sweep_id"], frame["variant"], strict=True)) == [
            (sweep, name) for sweep in sweeps[::-1] for name in ("interleaved", "last_warp")
        ]
        assert [point.n for point in read_results(connection, sweeps, ["last_warp"])["problem"]] == [2**24] * 2
        nothing = read_results(connection, [99])
        assert len(nothing) == len(read_results(connection, [])) == 0
        assert list(nothing.columns) == list(read_results(connection, []).columns) == list(frame.columns)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE trial SET tunables = '{\"block\": '", "JSON|truncated"),
        ("UPDATE run SET state = 'fine'", "'fine' is not a valid State"),
        ("UPDATE run SET started_at = 'yesterday'", "yesterday"),
        ("UPDATE run SET check_error = 'x'", "'x'"),
        ("UPDATE timing SET median_ns = 'long'", "long"),
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
        read_results(connection, [sweep], whole=True)
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
            read_results(connection, [sweep])
