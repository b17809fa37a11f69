"""What a page says of samples that were left out and of intervals that stayed wide."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cuprof.analysis.sampling_notes import sampling_notes


def trials(*changes: dict[str, Any]) -> pd.DataFrame:
    """Return good trials, changed as told."""
    good = {
        "variant": "v",
        "state": "ok",
        "cold_ns": 100.0,
        "cold_low_ns": 99.9,
        "cold_high_ns": 100.2,
        "cold_count": 20,
        "cold_excluded": 0,
        "cold_stopped_by": "interval",
        "energy_unavailable": "",
    }
    return pd.DataFrame([{**good, **change} for change in changes])


def test_good_timings_need_no_word() -> None:
    assert sampling_notes(trials({}, {"cold_excluded": 4})) == []


def test_energy_that_was_asked_for_in_vain_is_said_once() -> None:
    without = {"energy_unavailable": "NVML does not know the device"}
    assert sampling_notes(trials({}, without, without)) == [
        "Energy was asked for and could not be measured: NVML does not know the device."
    ]


def test_many_samples_left_out_are_named() -> None:
    (note,) = sampling_notes(trials({"variant": "hot", "cold_excluded": 5}, {}))
    assert note.startswith("A fifth or more of the samples had to be left out for hot (throttling")
    assert "for v (" in sampling_notes(trials({"cold_stopped_by": "excluded"}))[0]


def test_only_a_few_names_are_listed() -> None:
    (note,) = sampling_notes(trials(*({"variant": f"v{number}", "cold_excluded": 99} for number in range(6))))
    assert "for v0, v1, v2, v3 and 2 more (" in note


def test_wide_intervals_are_counted() -> None:
    wide = {"cold_stopped_by": "time", "cold_high_ns": 103.0}
    assert sampling_notes(trials({}, wide, wide)) == [
        "2 of 3 kernel timings stopped at a bound of time or samples before the interval was as narrow as asked for; "
        "the widest reaches ±3.0\N{NO-BREAK SPACE}%."
    ]


def test_timings_of_too_few_samples_reach_no_width() -> None:
    wide = {"cold_stopped_by": "time", "cold_high_ns": 103.0}
    few = {"cold_stopped_by": "samples", "cold_count": 1, "cold_low_ns": float("nan"), "cold_high_ns": float("nan")}
    begin = "kernel timings stopped at a bound of time or samples before the interval was as narrow as asked for; "
    assert sampling_notes(trials(few, {})) == [f"1 of 2 {begin}1 of them has too few samples for an interval."]
    assert sampling_notes(trials(few, few, wide)) == [
        f"3 of 3 {begin}the widest reaches ±3.0\N{NO-BREAK SPACE}%; 2 of them have too few samples for an interval."
    ]


def test_trials_without_a_right_timing_do_not_count() -> None:
    assert sampling_notes(trials({"state": "wrong_result", "cold_excluded": 99}, {"cold_ns": None})) == []
