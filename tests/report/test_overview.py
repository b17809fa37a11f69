"""Every problem on one page: the map of variants by problems, and each problem's table."""

from __future__ import annotations

import pytest
from study_data import CPU, GPU, Made

from cuprof.core.records import State
from cuprof.report import variants
from cuprof.report.variants import make_overview


def signs(row) -> list[str]:
    return [f"{cell.mark}{cell.text}" for cell in row.cells]


def test_the_winner_of_every_problem_is_marked_and_what_is_level_with_it(make_study) -> None:
    trials = [Made("a", 10.0, {"n": 1}), Made("b", 10.01, {"n": 1}), Made("c", 40.0, {"n": 1})]
    trials += [Made("a", 30.0, {"n": 2}), Made("b", 15.0, {"n": 2}), Made("c", problem={"n": 2}, state=State.CRASHED)]
    table, *_ = make_overview(make_study([*trials, Made("never", problem={"n": 1}, state=State.TIMED_OUT)]))
    assert [column.heading for column in table.columns] == ["Fastest", "a", "b", "c"]
    assert [row.heading for row in table.rows] == ["n=1", "n=2"]
    assert [signs(row) for row in table.rows] == [
        ["a", "★10.0", "≈10.0", "40.0"],
        ["b", "30.0", "★15.0", "crashed"],
    ]
    heats = [cell.heat for cell in table.rows[0].cells[1:]]
    assert heats[0] == 0.0 < heats[1] < 0.01 < heats[2] == 1.0
    assert any("1 variant without any right" in note for note in table.notes)


def test_a_page_without_the_reference_problems_table_shows_it_first(make_study) -> None:
    trials = [Made("a", 10.0, {"n": n}) for n in (1024, 4096)]
    *_, chosen = make_overview(make_study(trials, "reference_problem: {n: 4096}\ntables: [{kind: pivot}]"))
    assert chosen == 1


def test_every_problem_has_its_own_table_and_the_reference_problems_stands_once(make_study) -> None:
    trials = [Made(name, time, {"n": n}) for n in (1024, 4096) for name, time in (("a", n / 10), ("b", n / 20))]
    _, problems, chosen = make_overview(make_study(trials, "reference_problem: {n: 1024}"))
    assert [table.title for table in problems] == ["Variants at n=1024", "Variants at n=4096"]
    assert chosen is None, "the page has the reference problem's table already"
    speedups = [[row.cells[-1].text for row in table.rows] for table in problems]
    assert speedups == [["–", "2.00"], ["–", "2.00"]]


def test_one_problem_needs_no_overview(make_study) -> None:
    assert make_overview(make_study([Made("a"), Made("b")])) is None


def test_two_back_ends_are_never_called_level(make_study) -> None:
    trials = [Made(made.backend, 10.0, {"n": n}, device=made) for n in (1, 2) for made in (GPU, CPU)]
    table, *_ = make_overview(make_study(trials))
    assert sorted(signs(table.rows[0])[1:]) == ["10.0", "★10.0"]


def test_what_has_no_room_is_said(make_study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "MOST_VARIANTS", 3)
    monkeypatch.setattr(variants, "MOST_PROBLEMS", 4)
    many = [Made(f"v{number}", 5.0 + number, {"n": n}) for n in range(1, 7) for number in range(5)]
    table, *_ = make_overview(make_study(many))
    assert (len(table.columns), len(table.rows)) == (1 + 3, 4)
    notes = " ".join(table.notes)
    assert "3 of 5 variants" in notes
    assert "The first 4 of 6 problems" in notes
