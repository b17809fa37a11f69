from __future__ import annotations

from dataclasses import replace

import pytest
from store_samples import CALIBRATION, CPU, FACTS, GPU, make_outcome, make_timing, make_trial

from cuprof.core.errors import SelectionError, UnknownNameError
from cuprof.core.records import Outcome, State
from cuprof.results.sweeps import (
    find_calibration,
    find_finished_before,
    get_sweep,
    is_newest,
    list_devices,
    list_tried_sweeps,
    read_configurations,
)
from cuprof.store.store import Store


def begin(store: Store, experiment: str = "reduction", purpose: str = "timing", family: str = "reduction") -> int:
    """Return a new, finished sweep."""
    facts = replace(FACTS, experiment=experiment, name=experiment or "plain", purpose=purpose, family=family)
    sweep = store.begin_sweep(facts)
    store.finish_sweep(sweep, "finished")
    return sweep


def test_a_sweep_comes_back_without_its_configuration(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    with store.snapshot() as connection:
        read = get_sweep(connection, FACTS.experiment, sweep)
        assert read_configurations(connection, [sweep, 99]) == {sweep: FACTS.configuration}
    for name in ("name", "experiment", "family", "baseline", "purpose", "command_line", "host", "git", "software"):
        assert getattr(read, name) == getattr(FACTS, name)
    assert (read.id, read.state, read.is_finished, read.finished_at) == (sweep, "running", False, None)


def test_the_newest_timing_sweep_of_a_name_is_chosen(store: Store) -> None:
    older, newer, plain = begin(store), begin(store), begin(store, "", family="scale")
    profiling = begin(store, purpose="profiling")
    with store.snapshot() as connection:
        assert get_sweep(connection, "reduction").id == newer
        assert get_sweep(connection, "scale").id == get_sweep(connection, "plain").id == plain
        assert get_sweep(connection, "reduction", older).id == get_sweep(connection, "", older).id == older
        assert find_finished_before(connection, get_sweep(connection, "reduction")) == older
        assert find_finished_before(connection, get_sweep(connection, "", older)) is None
        with pytest.raises(UnknownNameError, match="unknown stored experiment 'reductoin'"):
            get_sweep(connection, "reductoin")
        with pytest.raises(SelectionError, match=f"there is no sweep 99; the newest is {profiling}"):
            get_sweep(connection, "", 99)
        with pytest.raises(SelectionError, match=f"write family=scale report.sweep={plain}"):
            get_sweep(connection, "reduction", plain)
        with pytest.raises(SelectionError, match="collected counters"):
            get_sweep(connection, "reduction", profiling)


@pytest.mark.parametrize(
    ("experiment", "command_line", "selection"),
    [
        ("reduction", "cuprof sweep experiment=reduction", "experiment=reduction"),
        ("", "cuprof sweep family=reduction", "family=reduction"),
        ("", "cuprof sweep my/add.py measure=quick", "my/add.py"),
        ("", "cuprof sweep family=add.py", "add.py"),
        ("", "add.py", "add.py"),
    ],
)
def test_a_sweep_says_how_to_select_the_same_again(
    store: Store, experiment: str, command_line: str, selection: str
) -> None:
    sweep = store.begin_sweep(replace(FACTS, experiment=experiment, command_line=command_line))
    with store.snapshot() as connection:
        assert get_sweep(connection, "", sweep).selection == selection


def test_sweeps_that_tried_nothing_are_left_out(store: Store) -> None:
    trial, sweeps = make_trial(), {}
    outcomes = {
        "timed": make_outcome(trial, make_timing(1)),
        "failed": make_outcome(trial, state=State.TIMED_OUT),
        "skipped": Outcome(trial.identity, State.SKIPPED, "no GPU"),
        "planned": None,
    }
    for name, outcome in outcomes.items():
        sweeps[name] = begin(store, name)
        store.enlist(sweeps[name], [trial])
        if outcome:
            store.record(sweeps[name], outcome)
    store.enlist(begin(store, purpose="profiling"), [trial])
    with store.snapshot() as connection:
        assert [sweep.id for sweep in list_tried_sweeps(connection)] == [sweeps["timed"], sweeps["failed"]]


def test_devices_are_those_of_the_sweeps_with_the_calibration_that_fits_best(store: Store) -> None:
    first, second = begin(store), begin(store)
    store.enlist(first, [make_trial()])
    store.enlist(second, [make_trial("numpy", device=CPU)])
    store.save_calibration(first, GPU, CALIBRATION)
    store.save_calibration(second, replace(GPU, uuid="other"), replace(CALIBRATION, read_bandwidth=None))
    with store.snapshot() as connection:
        (gpu,) = list_devices(connection, [first])
        assert gpu.facts == GPU
        assert [device.facts.name for device in list_devices(connection, [second])] == [CPU.name, GPU.name]
        assert len(list_devices(connection, [first, second])) == 3
        assert find_calibration(connection, gpu.comparable, first) == CALIBRATION
        assert find_calibration(connection, gpu.comparable, second) == CALIBRATION  # its own has no bandwidth
        assert find_calibration(connection, "0" * 64, second) is None


def test_of_sweeps_side_by_side_one_is_the_newest(store: Store) -> None:
    facts = replace(FACTS, experiment="a", name="a", plan_hash="another plan")
    first, second, again = store.begin_sweep(facts), begin(store, "a"), begin(store, "a")
    with store.snapshot() as connection:
        newest = {number: is_newest(connection, get_sweep(connection, "", number)) for number in (first, second, again)}
    assert newest == {first: False, second: True, again: True}


def test_a_snapshot_does_not_see_what_is_written_meanwhile_and_keeps_nobody_off(store: Store) -> None:
    begin(store)
    with store.snapshot() as connection:
        before = get_sweep(connection, "reduction")
        after = begin(store)
        if connection.dialect.name == "sqlite":
            assert get_sweep(connection, "reduction") == before
    with store.snapshot() as connection:
        assert get_sweep(connection, "reduction").id == after
