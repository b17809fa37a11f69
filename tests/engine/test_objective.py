"""The counters of a search's objective: from the store, and from a profiler where they are not there yet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from cuprof.config.model import SearchConfig, SweepConfig
from cuprof.core.errors import ProfilerError, UnknownNameError, UsageError
from cuprof.core.project import find_project
from cuprof.core.records import CounterValue, Measure, Outcome, Profile, State, StoredProfile
from cuprof.engine import objective
from cuprof.engine.objective import (
    ObjectiveCounters,
    check_names,
    check_trials,
    evaluate,
)
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.profiling import Profiling
from tests.engine.test_profiling import Memory, ToyCollector, trials

BYTES, OTHER = "dram__bytes_read.sum", "dram__bytes_read.max"


class Snapshots(Memory):
    """Give what is kept to whoever reads it; each profile has a value for two counters."""

    def snapshot(self) -> AbstractContextManager[Memory]:
        """Return itself in place of a connection."""
        return nullcontext(self)


def read_values(memory: Memory, identities: Sequence[str], conditions: object) -> dict[str, dict[str, CounterValue]]:
    known: list[Profile] = [profile for profile in memory.profiles if profile.identity in identities]
    return {
        profile.identity or "": {name: CounterValue(name, 7.0, "byte") for name in (BYTES, OTHER)} for profile in known
    }


def make(names: Sequence[str], monkeypatch: pytest.MonkeyPatch, **before: Any) -> ObjectiveCounters:
    monkeypatch.setattr(objective, "read_newest_counters", read_values)
    return ObjectiveCounters(
        names,
        Profiling(ToyCollector(), Snapshots(**before), 1, Observer(), lambda device: nullcontext()),  # type: ignore[arg-type]
    )


def test_an_objective_is_a_product_and_zero_is_no_end_of_it() -> None:
    assert evaluate(("time", "energy"), 2e9, 3.0, {}) == pytest.approx(6.0)
    assert evaluate(("a__b", "time"), 1e9, None, {"a__b": 0.0}) == pytest.approx(1e-3)
    assert math.isnan(evaluate(("a__b",), 1e9, 3.0, {}))
    assert math.isnan(evaluate(("energy",), 1e9, None, {}))


def test_energy_is_asked_of_back_ends_that_measure_it_alone() -> None:
    (trial,) = trials("a")
    search = SearchConfig(name="surrogate", objective="energy")
    check_trials([replace(trial, backend="cuda"), replace(trial, backend="opencl")], Measure.COLD, search)
    with pytest.raises(UsageError, match=r"energy, which is not measured of a \(cpu\); leave it out with variants=!a"):
        check_trials([replace(trial, backend="cuda"), replace(trial, backend="cpu")], Measure.COLD, search)


def test_a_time_is_asked_of_back_ends_that_measure_it_alone() -> None:
    trial = replace(trials("a")[0], backend="cpu")
    search = SearchConfig(name="surrogate")
    check_trials([trial, replace(trial, backend="cuda")], Measure.HOT, search)
    with pytest.raises(UsageError, match=r"first of measure.modes, total, which is not measured of a \(cpu\); name an"):
        check_trials([replace(trial, backend="cuda"), trial], Measure.TOTAL, search)


def test_right_trials_are_profiled_and_their_counters_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = make([BYTES], monkeypatch)
    a, b = trials("ab")
    outcomes = {a.identity: Outcome(a.identity, State.OK), b.identity: Outcome(b.identity, State.WRONG_RESULT)}
    assert counting.collect([a, b], outcomes) == {a.identity: {BYTES: 7.0}, b.identity: {}}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tiem", r": did you mean time\?$"),
        ("enrgy", r": did you mean energy\?$"),
        ("dram_bytes_read.sum", r": did you mean dram__bytes_read\.sum or "),
        ("foo", ": there are energy, time$"),
    ],
)
def test_a_name_that_is_no_counters_is_refused_before_anything_runs(name: str, told: str) -> None:
    """Where Nsight Compute is not installed too; the worker would be asked for its devices next, and there is none."""
    search = SearchConfig(name="surrogate", objective=f"time*{BYTES}*{name}")
    config = SweepConfig(experiment="", family="searchable", search=search)
    with pytest.raises(UnknownNameError, match=f"unknown factor of search.objective '{name}' .*{told}"):
        prepare(config, find_project(), [])


def test_what_has_the_form_of_a_counter_is_for_the_profiler_to_find() -> None:
    check_names([BYTES, "launch__registers_per_thread", "sm__of_a_later_chip.sum"])


def test_names_that_mean_several_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    counting, (a, _) = make(["dram__bytes_read"], monkeypatch), trials("ab")
    with pytest.raises(
        UsageError, match=r"dram__bytes_read stands for dram__bytes_read.max, dram__bytes_read.sum; name"
    ):
        counting.collect([a], {a.identity: Outcome(a.identity, State.OK)})


def test_what_the_chip_or_the_back_end_does_not_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = trials("ab")
    counting = make(
        [BYTES], monkeypatch, before={a.identity: StoredProfile(State.OK, missing={BYTES: "there is none"})}
    )
    with pytest.raises(ProfilerError, match=r"search\.objective: there is none"):
        counting.collect([a], {a.identity: Outcome(a.identity, State.OK)})
    monkeypatch.setattr(objective, "BACKENDS", ("opencl",))
    with pytest.raises(UsageError, match=r"Nsight Compute reads no counters of a \(cuda\); leave it out"):
        check_trials(trials("ab"), Measure.COLD, SearchConfig(name="surrogate", objective=BYTES))
