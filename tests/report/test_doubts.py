"""What a page marks: trials of earlier sweeps, wide intervals, shares above the peak."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from study_data import CPU, GPU, START, Made, fill

from cuprof.core.records import State
from cuprof.report.experiment import TableSpec
from cuprof.report.grid import grid_table
from cuprof.report.load import load_study
from cuprof.report.study import Pair
from cuprof.report.summary import conclude
from cuprof.report.units import describe_age
from cuprof.report.variants import make_overview, steps_table
from cuprof.statistics.verdict import Verdict

STORED = [Made("base", 30.0), Made("old", 10.0)]
NEW = [replace(made, state=State.PLANNED) for made in STORED] + [Made("new", 12.0), Made("newer", 6.0)]


@pytest.fixture
def resumed(store):
    """Return a study whose first two trials an earlier sweep measured, 18 minutes before."""
    fill(store, STORED, name="first")
    study = load_study(store, sweep_id=fill(store, NEW, name="second"))
    return replace(study, sweep=replace(study.sweep, started_at=START + 1080))


def test_reused_rows_are_marked_with_their_age(resumed) -> None:
    notes = {row.heading: row.note for row in steps_table(resumed, TableSpec()).rows}
    assert notes == {"base": "measured 18 min earlier", "old": "measured 18 min earlier", "new": "", "newer": ""}
    assert any(
        "2 of 4 trials were measured by earlier sweeps, the oldest 18 min before this one" in each
        for each in conclude(resumed)["cautions"]
    )


def test_what_an_earlier_sweep_skipped_was_not_measured(store) -> None:
    skipped = Made("absent", state=State.SKIPPED, message="no driver")
    fill(store, [STORED[0], skipped], name="first")
    study = load_study(
        store, sweep_id=fill(store, [replace(each, state=State.PLANNED) for each in (STORED[0], skipped)])
    )
    assert [(trial.variant, trial.is_reused) for trial in study.trials] == [("base", True), ("absent", False)]
    assert any("1 of 2 trials were measured by earlier sweeps" in each for each in conclude(study)["cautions"])


def test_no_speedup_is_given_across_sweeps_that_are_not_known_to_agree(resumed) -> None:
    base, old, new, newer = resumed.trials
    assert resumed.speedup(old) == pytest.approx(3.0, rel=0.01)  # both of the earlier sweep
    assert Pair(resumed, new, newer).ratio == pytest.approx(0.5, rel=0.01)  # both of this one
    assert resumed.speedup(newer) is None
    assert Pair(resumed, base, newer).verdict is None
    table = steps_table(resumed, TableSpec())
    cells = {row.heading: row.cells[3] for row in table.rows}
    assert (cells["old"].text, cells["old"].note) == ("3.00", "")
    assert (cells["newer"].text, cells["newer"].note) == ("–", "another session")
    assert any("retry=all measures them together" in note for note in table.notes)
    pivot = grid_table(resumed, TableSpec(kind="pivot", value="speedup"))
    assert [row.cells[0].text for row in pivot.rows] == ["1.00", "3.00", "another session", "another session"]
    assert "newer is not compared with the baseline base: two sweeps measured them" in conclude(resumed)["sentences"][0]


def test_sessions_that_agree_are_compared(resumed) -> None:
    agreeing = replace(resumed, agreeing=frozenset({1}))
    assert Pair(agreeing, agreeing.trials[0], agreeing.trials[3]).verdict is Verdict.FASTER
    assert agreeing.speedup(agreeing.trials[3]) == pytest.approx(5.0, rel=0.01)


def test_a_sweep_that_took_over_everything_has_no_gap(store) -> None:
    fill(store, STORED, name="first")
    study = load_study(store, sweep_id=fill(store, NEW[:2], name="second"))
    assert study.speedup(study.trials[1]) == pytest.approx(3.0, rel=0.01)
    (caution,) = (each for each in conclude(study)["cautions"] if "earlier sweeps" in each)
    assert "speed-up" not in caution


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "less than a minute"), (1100, "18 min"), (8000, "2 h"), (90_000, "1 day"), (2e5, "2 days")],
)
def test_ages_are_in_their_largest_unit(seconds: float, words: str) -> None:
    assert describe_age(seconds) == words


def test_a_wide_interval_is_marked_wherever_a_speedup_rests_on_it(make_study) -> None:
    trials = [Made(name, time, {"n": n}, spread=spread) for n in (1, 2) for name, time, spread in
              (("base", 30.0, 0.01), ("noisy", 10.0, 1.5), ("calm", 5.0, 0.01))]  # fmt: skip
    study = make_study(trials)
    widths = {trial.variant: trial.half_width for trial in study.best}
    assert widths["calm"] < 0.01 < 0.2 < widths["noisy"]
    cells = {row.heading: row.cells[3] for row in steps_table(study, TableSpec()).rows}
    assert "±" in cells["noisy"].note
    assert cells["calm"].note == ""
    assert "interval" not in cells["calm"].note
    overview, *_ = make_overview(study)
    assert "±" in overview.rows[0].cells[2].note
    assert any(note.startswith("± below a ratio: half the width") for note in steps_table(study, TableSpec()).notes)
    noisy = make_study(trials[:2], name="noisy")
    assert "±" in {number["name"]: number["value"] for number in conclude(noisy)["numbers"]}["Against the baseline"]


def test_a_wide_interval_of_a_speedup_stands_below_it_though_both_times_are_narrow(make_study, monkeypatch) -> None:
    study = make_study([Made("base", 20.0), Made("new", 10.0)])
    row = SimpleNamespace(verdict="faster", ratio=0.5, low=0.1, high=0.6)
    monkeypatch.setattr(Pair, "compared", row)
    assert steps_table(study, TableSpec()).rows[1].cells[3].note == "interval 1.67 to 10.0"
    pivot = grid_table(study, TableSpec(kind="pivot", value="speedup"))
    assert "interval 1.67 to 10.0" in repr(pivot.rows[1])
    row.low, row.high = 0.45, 0.55
    assert steps_table(study, TableSpec()).rows[1].cells[3].note == ""


def test_a_share_above_the_peak_is_explained_and_is_no_headline(make_study) -> None:
    study = make_study([Made("fits", 10.0, device=CPU, kind="cpu"), Made("far", 900.0, device=CPU, kind="cpu")])
    table = steps_table(study, TableSpec())
    assert [row.cells[2].text for row in table.rows] == ["2\u202f097", "23.3"]
    assert any("faster than the memory" in note for note in table.notes)
    found = conclude(study)
    assert "read bandwidth" not in found["headline"]
    assert "Of the measured peak" not in [number["name"] for number in found["numbers"]]
    within = make_study([Made("far", 900.0, device=GPU)], name="within")
    assert not any("faster than the memory" in note for note in steps_table(within, TableSpec()).notes)
