"""What a page says of samples that were left out and of intervals that stayed wide."""

from __future__ import annotations

from typing import Any

from study_data import made_timing, made_trial

from cuprof.core.records import ENERGY_UNAVAILABLE, Measure, State
from cuprof.report.sampling_notes import sampling_notes
from cuprof.report.trials import StudyTrial

WIDE = {"stopped_by": "time", "interval": (99.9, 103.0)}
BEGIN = "kernel timings stopped at a bound of time or samples before the interval was as narrow as asked for; "


def timed(*, variant: str = "v", state: State = State.OK, **changes: Any) -> StudyTrial:
    """Return a trial with a good timing, changed as told."""
    timing = made_timing(100.0, **{"interval": (99.9, 100.2), **changes})
    trial = made_trial(variant=variant, timings={Measure.COLD: timing})
    return made_trial(variant=variant, timings=trial.timings, state=state)


def test_good_timings_need_no_word() -> None:
    assert sampling_notes([timed(), timed(excluded=4)]) == []


def test_energy_that_was_asked_for_in_vain_is_said_once_with_the_variants() -> None:
    unknown = {"details": {ENERGY_UNAVAILABLE: "NVML does not know the device"}}
    without = [timed(variant="one", **unknown), timed(variant="one", **unknown), timed(variant="two", **unknown)]
    assert sampling_notes([timed(), *without]) == [
        "The energy of one, two could not be measured: NVML does not know the device."
    ]


def test_many_samples_left_out_are_named() -> None:
    (note,) = sampling_notes([timed(variant="hot", excluded=5), timed()])
    assert note.startswith("A fifth or more of the samples had to be left out for hot (throttling")
    assert "for v (" in sampling_notes([timed(stopped_by="excluded")])[0]


def test_only_a_few_names_are_listed() -> None:
    (note,) = sampling_notes([timed(variant=f"v{number}", excluded=99) for number in range(6)])
    assert "for v0, v1, v2, v3 and 2 more (" in note


def test_wide_intervals_are_counted() -> None:
    assert sampling_notes([timed(), timed(**WIDE), timed(**WIDE)]) == [
        f"2 of 3 {BEGIN}the widest reaches ±3.0\N{NO-BREAK SPACE}%."
    ]


def test_timings_of_too_few_samples_reach_no_width() -> None:
    few = timed(stopped_by="samples", count=1)
    assert sampling_notes([few, timed()]) == [f"1 of 2 {BEGIN}1 of them has too few samples for an interval."]
    assert sampling_notes([few, few, timed(**WIDE)]) == [
        f"3 of 3 {BEGIN}the widest reaches ±3.0\N{NO-BREAK SPACE}%; 2 of them have too few samples for an interval."
    ]


def test_trials_without_a_right_timing_do_not_count() -> None:
    assert sampling_notes([timed(state=State.WRONG_RESULT, excluded=99), made_trial()]) == []
