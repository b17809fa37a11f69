from pathlib import Path

from cuprof.report.load import load_study
from cuprof.report.page import study_tables
from cuprof.report.tables import Table
from cuprof.report.variants import ENOUGH, TOP, fastest_table
from tests.report.study_data import Made, fill, open_store


def table(tmp_path: Path, each: int) -> Table | None:
    trials = [Made(name, 10.0 + (7 * i) % each, tune={"block": i}) for name in ("a", "b") for i in range(each)]
    with open_store(tmp_path) as store:
        study = load_study(store, sweep_id=fill(store, trials))
    found = fastest_table(study)
    assert (found in study_tables(study)) is (found is not None), "the page has it where there is one"
    return found


def test_few_configurations_have_no_table_of_the_fastest(tmp_path: Path) -> None:
    assert table(tmp_path, ENOUGH // 2) is None


def test_of_many_the_ten_fastest_of_each_variant_are_listed(tmp_path: Path) -> None:
    found = table(tmp_path, 30)
    assert found is not None
    assert [row.heading for row in found.rows] == ["a"] * TOP + ["b"] * TOP
    assert [row.note for row in found.rows[:3]] == ["block=0", "block=13", "block=26"]
    assert [cell.text for cell in found.rows[5].cells] == ["15.0", "1.50"]
    assert "The 10 fastest of each variant, of 60 configurations" in found.notes[0]
