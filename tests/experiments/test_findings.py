"""Findings say what was recorded: figures are written again from the recorded data, claims are checked on them."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import pytest

from benchmarks import findings
from benchmarks.findings import EXPERIMENTS, Recording, claim, format_percent, format_ratio, format_time, render

STUDIES = sorted(path.parent.name for path in EXPERIMENTS.glob("*/measured.csv"))


@pytest.mark.parametrize("study", STUDIES)
def test_findings_are_those_of_the_recorded_data(study: str) -> None:
    written = (EXPERIMENTS / study / "findings.md").read_text(encoding="utf-8")
    assert written == render(study), f"python -m benchmarks.findings write {study}"


@pytest.mark.parametrize("study", STUDIES)
def test_recorded_data_say_where_they_are_from(study: str) -> None:
    about = Recording.load(study).about
    assert {"date", "commit", "cuda", "cuda driver", "cpu"} <= set(about)


@pytest.mark.parametrize("study", STUDIES)
def test_figures_in_a_template_come_from_the_data(study: str) -> None:
    """A time or an energy that is typed in place of an expression would go stale unseen."""
    template = (EXPERIMENTS / study / "findings.md.jinja").read_text(encoding="utf-8")
    measured = template.partition("{# method #}")[0]
    typed = findings.find_typed_figures(measured)
    assert not typed, f"write these as expressions: {typed}"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a study of two variants with a template beside it."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "study.yaml").write_text("problems: {small: {n: 8}}\n")
    with (folder / "measured.csv").open("w", newline="") as file:
        file.write(
            "# date: 2026-11-24\n# commit: abc1234\n# cuda: Example\n# cuda driver: 580\n"
            "# cpu: Host\n# cpu threads: 2\n"
        )
        writer = csv.writer(file)
        writer.writerow(findings.COLUMNS)
        writer.writerows(
            [
                ("plain", "n=8", "block=64", "cold", "", 40.0, 39, 41, "us"),
                ("plain", "n=8", "block=128", "cold", "", 20.0, 19, 21, "us"),
                ("plain", "n=8", "block=128", "total", "", 90.0, 89, 91, "us"),
                ("host", "n=8", "", "cold", "", 4000.0, 3999, 4001, "us"),
                ("wrong", "n=8", "block=64", "state", "", "", "", "", "wrong_result"),
            ]
        )
    monkeypatch.setattr(findings, "EXPERIMENTS", tmp_path)
    return folder


def test_the_fastest_choice_stands_for_a_variant(recorded: Path) -> None:
    run = Recording.load("study")
    assert run.us("plain") == 20
    assert run.us("plain", block=64) == 40
    assert run.best("plain", problem="small") == {"block": 128}
    assert (run.count_wrong("wrong"), run.count_wrong("plain")) == (1, 0)
    with pytest.raises(LookupError, match="nothing recorded of plain"):
        run.us("plain", n=16)


def test_a_variant_on_the_host_has_no_transfers(recorded: Path) -> None:
    run = Recording.load("study")
    assert (run.total("plain"), run.total("host")) == (90, 4000)


def test_a_template_becomes_text_and_a_false_claim_an_error(recorded: Path) -> None:
    template = recorded / "findings.md.jinja"
    template.write_text("{{ claim(run.us('plain') < run.us('host')) }}It takes {{ t(run.us('plain')) }}.\n")
    assert render("study") == "It takes 20.0 µs.\n"
    template.write_text("{{ claim(run.us('plain') > run.us('host')) }}It is slower.\n")
    with pytest.raises(ValueError, match="say otherwise"):
        render("study")


def test_numbers_are_written_with_three_digits_or_so() -> None:
    assert [format_time(us) for us in (2.006, 39.06, 440.4, 1680, 5.4e6)] == [
        *("2.01 µs", "39.1 µs", "440.4 µs", "1.68 ms", "5.40 s")
    ]
    assert [format_ratio(each) for each in (1.226, 12.34, 11900)] == ["1.23", "12.3", "11,900"]
    assert [format_percent(each) for each in (0.086, 0.847)] == ["8.6 %", "85 %"]
    assert claim(True) == ""


def test_typed_figures_are_found() -> None:
    assert findings.find_typed_figures("In {{ t(3) }} or 39.1 µs, 5 mJ; published 565.5 µs: {{ 1 }}, 2^24, 3×3") == [
        *("39.1 µs", "5 mJ", "565.5 µs")
    ]


def test_a_database_becomes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr(findings, "EXPERIMENTS", tmp_path)
    source = Path(__file__).parents[1] / "data" / "equal_kernels" / "quick1.sqlite.gz"
    database = tmp_path / "quick1.sqlite"
    database.write_bytes(gzip.decompress(source.read_bytes()))
    with sqlite3.connect(database) as store:
        (experiment,) = store.execute("SELECT experiment FROM sweep LIMIT 1").fetchone()
        expected = store.execute("SELECT COUNT(*) FROM sweep_timings WHERE measure = 'cold'").fetchone()[0]
    study = experiment or "unnamed"
    (tmp_path / study).mkdir()
    if not experiment:
        with sqlite3.connect(database) as store:
            store.execute("UPDATE sweep SET experiment = 'unnamed'")
    findings.main(["record", "abc1234", study, str(database), str(database)])
    run = Recording.load(study)
    assert run.about["commit"] == "abc1234"
    assert sum(each.measure == "cold" for each in run.values) == expected
