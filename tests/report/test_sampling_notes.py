"""What a page says of samples that were left out and of intervals that stayed wide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from study_data import Made

from cuprof.core.records import State
from cuprof.report.summary import conclude

BEGIN = "kernel timings stopped at a bound of time or samples before the interval was as narrow as asked for; "
FEW = {"stopped_by": "samples", "samples": 1}


@pytest.fixture
def cautions(make_study):
    """Return a function: the cautions of the page of some trials."""
    return lambda *trials: list(conclude(make_study(trials))["cautions"])


def test_good_timings_need_no_word(cautions) -> None:
    assert cautions(Made("a"), Made("b", excluded=4)) == []


def test_energy_that_was_asked_for_in_vain_is_said_once_with_the_variants(cautions) -> None:
    why = "NVML does not know the device"
    trials = (Made(name, problem={"n": n}, energy_unavailable=why) for name, n in (("one", 1), ("one", 2), ("two", 1)))
    assert cautions(Made("known", energy_j=1.0), *trials) == [f"The energy of one, two could not be measured: {why}."]


def test_many_samples_left_out_are_named(cautions) -> None:
    (note,) = cautions(Made("a"), Made("hot", excluded=10), Made("ended", stopped_by="excluded"))[:1]
    assert note.startswith("A fifth or more of the samples had to be left out for hot, ended (throttling")


def test_only_a_few_names_are_listed(cautions) -> None:
    (note,) = cautions(*(Made(f"v{number}", excluded=99) for number in range(6)))
    assert "for v0, v1, v2, v3 and 2 more (" in note


def test_wide_intervals_are_counted(cautions) -> None:
    wide = [Made(name, spread=0.1, stopped_by="time") for name in "bc"]
    (note,) = cautions(Made("a"), *wide)
    assert note.startswith(f"2 of 3 {BEGIN}the widest, of c at ")


def test_the_widest_is_as_wide_as_in_the_tables(make_study) -> None:
    """Half the width of the interval counts, not its far end."""
    study = make_study([Made("b", tune={"block": 64}, stopped_by="time")])
    study = replace(study, timings=study.timings.assign(low_ns=9000.0, median_ns=10_000.0, high_ns=30_000.0))
    (note,) = conclude(study)["cautions"]
    assert note == f"1 of 1 {BEGIN}the widest, of b (block=64) at n=2^20, is ±105.0\u00a0%.".replace(
        "timings", "timing"
    )


def test_timings_of_too_few_samples_reach_no_width(cautions) -> None:
    assert cautions(Made("few", **FEW), Made("a")) == [f"1 of 2 {BEGIN}1 of them has too few samples for an interval."]


def test_wide_intervals_and_few_samples_are_told_apart(cautions) -> None:
    (note,) = cautions(Made("few", **FEW), Made("fewer", **FEW), Made("wide", spread=0.1, stopped_by="time"))
    assert note.startswith(f"3 of 3 {BEGIN}the widest, of wide at ")
    assert note.endswith("%; 2 of them have too few samples for an interval.")


def test_trials_without_a_right_timing_do_not_count(cautions) -> None:
    (note,) = cautions(Made("a"), Made("bad", state=State.WRONG_RESULT, excluded=99))
    assert note == "bad: wrong result (1 trial); not ranked."
