import csv
import json

import pytest

from benchmarks.table import format_table, make_parser, report


def test_numbers_stand_to_the_right_and_what_is_missing_stays_empty():
    text = format_table(("name", "µs"), [{"name": "a", "µs": 1.5}, {"name": "long"}, {"name": "b", "µs": 1234.5678}])
    assert text.splitlines() == [
        "name      µs",
        "----  ------",
        "a      1.500",
        "long",
        "b     1234.6",
    ]


def test_truth_values_are_told_without_colour():
    assert format_table(("within",), [{"within": True}, {"within": False}]).splitlines()[2:] == ["   yes", "    NO"]


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1), (None, 1)])
def test_report_keeps_rows_and_criteria_and_tells_by_its_exit_code(tmp_path, capsys, holds, code):
    assert report("one", ("a",), [{"a": 1, "b": 2}], tmp_path / "out", {"it holds": holds}) == code
    assert "it holds" in capsys.readouterr().out
    assert list(csv.DictReader((tmp_path / "out" / "one.csv").read_text().splitlines())) == [{"a": "1"}]
    kept = json.loads((tmp_path / "out" / "one.json").read_text())
    assert kept["rows"] == [{"a": 1, "b": 2}]
    assert kept["criteria"] == {"it holds": holds}
    assert kept["versions"]["python"]


def test_every_benchmark_takes_a_folder(tmp_path):
    assert make_parser("x").parse_args(["--out", str(tmp_path)]).out == tmp_path
