from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from cuprof.cli.compare import OF_PAIRS, comparison_parts, markdown_lines, print_comparison, summary
from cuprof.cli.output import to_text
from cuprof.comparison.compare import Comparison, Options, compare
from cuprof.comparison.sides import Side
from cuprof.core.point import Point
from cuprof.core.records import Measure
from tests.comparison.entries import Record, made_side, record, series


def records(times: dict[int, float], seed: int) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        record(
            "reduction",
            "last|warp",
            Point(n=n, dtype="float32"),
            Point(block=64),
            {Measure.COLD: series(1000 * time * (1 + 0.003 * rng.standard_normal(60)))},
            backend="cuda",
            device="Test GPU",
            device_key="d",
            identity=f"{seed} {n}",
        )
        for n, time in times.items()
    ]


def side(kind: str, times: dict[int, float], seed: int, *more: Record, **facts: object) -> Side:
    return made_side("sweep", [*records(times, seed), *more], kind, f"sweep {seed}", **facts)


@pytest.fixture
def found() -> Comparison:
    return comparison()


def comparison(*more: Record) -> Comparison:
    gone = record("reduction", "gone", Point(n=1), Point())
    broken = record("reduction", "last|warp", Point(n=7), Point(), state="crashed", message="SIGSEGV while timing")
    right = record("reduction", "last|warp", Point(n=7), Point(), {Measure.COLD: series(np.ones(9))})
    notes = ("sweep 1 is not finished",)
    base = side("1", {1024: 50.0, 2048: 90.0, 4096: 200.0}, 1, gone, right, *more, notes=notes)
    new = side("2", {1024: 53.0, 2048: 80.0, 4096: 200.1}, 2, broken, *more)
    return compare(base, new, Options(noise=0.001))


def test_the_table_says_the_worst_first_within_its_width(found: Comparison) -> None:
    lines = to_text(comparison_parts(found), 80).splitlines()
    assert max(map(len, lines[:12])) <= 80
    words = [line.split()[0] for line in lines if line.split() and line.split()[0] in ("SLOWER", "faster", "same")]
    assert words == ["SLOWER", "faster", "same"]
    assert any(line.startswith("BROKEN reduction/last|warp · n=7: crashed: SIGSEGV") for line in lines)
    assert any("1 only in BASE: reduction/gone" in line for line in lines)
    assert "warning: sweep 1 is not finished" in lines
    assert any(
        "at most 5.0% (Holm), where the machine's noise between sweeps is no larger than that; 0 of 3 paired" in line
        for line in lines
    )
    assert "noise between sweeps (standard deviation): 0.1% of a time, as given by --noise" in lines
    assert lines[-1] == summary(found) == "1 slower, 1 faster, 1 same, 1 broken"


def test_the_reason_is_told_of_what_could_run_on_neither_side() -> None:
    skipped = record("reduction", "x", Point(n=8), Point(), state="skipped", message="no GPU")
    lines = to_text(comparison_parts(comparison(skipped)), 80).splitlines()
    assert "1 skipped on both sides: no GPU" in lines


def test_numbers_are_whole_at_any_width(found: Comparison) -> None:
    for width in (20, 80, 200):
        text = to_text(comparison_parts(found), width)
        for low, high in zip(found.rows["low"], found.rows["high"], strict=True):
            assert f"{low:.4f} to {high:.4f}" in text


def test_the_rate_names_each_devices_noise_and_none_within_a_sweep() -> None:
    def pair(seed: int, together: str = "") -> Side:
        made = records({1: 50.0, 2: 50.0}, seed)
        for one, name in zip(made, ("Test GPU", "Test CPU"), strict=True):
            taken = replace(one["series"][Measure.COLD], rounds=np.arange(60), rotation=np.array([together], object))
            one |= {"device": name, "on_host": name == "Test CPU", "series": {Measure.COLD: taken}}
        return made_side("sweep", made, "1", f"sweep {seed}")

    texts = to_text(comparison_parts(compare(pair(1), pair(2))), 80).splitlines()
    assert texts[-4:-2] == [
        "noise between sweeps on Test GPU (standard deviation): 0.2% and 75 ns of a time (CUDA, one launch): assumed, "
        "not measured; --noise sets it",
        "noise between sweeps on Test CPU (standard deviation): 5% of a time (CPU): assumed, not measured; --noise "
        "sets it",
    ]
    text = comparison_parts(compare(pair(1, "a"), pair(2, "a")))[-2].text
    assert text.endswith("at most 5.0% (Holm); 2 of 2 paired by round")


def test_when_nothing_changed_the_last_line_says_so() -> None:
    base, new = side("1", {1: 50.0}, 1), side("2", {1: 60.0}, 2)
    new = replace(new, trials=new.trials.assign(identity=base.trials["identity"]))
    found = compare(base, new, Options(noise=0.001))
    said = "nothing changed between these two sweeps; the differences are noise (1 slower)"
    assert comparison_parts(found)[-1].text == summary(found) == said
    assert "\nSLOWER" in to_text(comparison_parts(found), 80)
    assert next(iter(markdown_lines(found))) == f"**{said}**"


def test_many_equal_trials_are_counted_unless_asked_for() -> None:
    times = dict.fromkeys(range(1, 31), 50.0)
    found = compare(side("1", times, 1), side("2", times, 2), Options(noise=0.0))
    text = to_text(comparison_parts(found), 120)
    assert "and 30 more that are the same" in text
    everything = to_text(comparison_parts(found, everything=True), 120).splitlines()
    assert sum(line.startswith("same") for line in everything) == 30


def test_of_many_undecided_rows_those_that_differ_most_are_listed() -> None:
    before, after = dict.fromkeys(range(1, 251), 50.0), {place: 50.0 + place / 10 for place in range(1, 251)}
    found = compare(side("1", before, 1), side("2", after, 2), Options(noise=0.2))
    assert summary(found) == "250 undecided"
    text = to_text(comparison_parts(found), 120)
    lines = [line for line in text.splitlines() if line.startswith("undecided")]
    assert len(lines) == 200
    assert "n=250," in lines[0]
    assert "n=51," in lines[-1]
    assert "and 50 more that are undecided" in text
    assert to_text(comparison_parts(found, everything=True), 120).count("\nundecided?") == 250


def test_markdown_is_a_table_that_bars_in_names_do_not_break(found: Comparison) -> None:
    lines = list(markdown_lines(found))
    assert lines[0] == "**1 slower, 1 faster, 1 same, 1 broken**"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 5
    assert all(line.replace("\\|", "").count("|") == table[0].count("|") for line in table)


def test_json_has_every_row_and_the_rule(found: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(found, "json")
    data = json.loads(capsys.readouterr().out)
    assert data["counts"] == {"slower": 1, "faster": 1, "same": 1, "undecided": 0}
    assert data["rule"] == {"effect": 0.01, "error_rate": 0.05, "correction": "holm"}
    assert data["noise"] == [
        {
            "device": "Test GPU",
            "source": "stated",
            "times": [{"of": "", "relative": 0.001, "absolute_ns": 0.0}],
            "unchanged_trials": 0,
            "farthest_unchanged_ratio": None,
            "text": "0.1% of a time, as given by --noise",
        }
    ]
    assert (data["exit_code"], data["broken"][0]["state"]) == (1, "crashed")
    row = next(row for row in data["rows"] if row["verdict"] == "slower")
    assert row["low"] < row["ratio"] < row["high"]
    assert row["base"]["problem"] == {"n": 1024, "dtype": "float32"}
    assert row["base_ns"] == pytest.approx(50_000, rel=0.01)


def test_an_interval_so_wide_that_it_says_little_is_marked() -> None:
    rng = np.random.default_rng(0)

    def noisy(seed: int) -> Side:
        wild = {Measure.COLD: series(9e4 * np.exp(rng.standard_normal(6)))}
        return side(str(seed), {1024: 50.0}, seed, {**records({2048: 90.0}, seed)[0], "series": wild})

    lines = to_text(comparison_parts(compare(noisy(1), noisy(2), Options(noise=0.001))), 100).splitlines()
    assert [line.endswith("!") for line in lines if " n=1024" in line or " n=2048" in line] == [True, False]
    assert "! an interval wider than ±20%: more samples would tell" in lines
    assert OF_PAIRS in to_text(comparison_parts(compare(noisy(1), noisy(2), Options(noise=0.001))), 300)
