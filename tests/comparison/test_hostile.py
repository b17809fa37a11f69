"""A database with values that cuprof never writes gives an answer or one line of explanation, never a traceback."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

import pytest

from cuprof.comparison.compare import compare
from cuprof.comparison.sides import load_sides
from cuprof.core.errors import CuprofError, StoreError
from cuprof.report.load import load_study
from cuprof.results.export import iter_csv
from cuprof.results.queries import read
from cuprof.store import Store
from cuprof.store import tables as t

SAMPLE = Path(__file__).parents[1] / "data" / "db" / "0007.sqlite"
VALUES = ("x", math.inf, -5, b"\xff", "[1]", None, 0)
"""Of these each column gets one, the next column the next one, and so on; and each number a text."""
READ = ("sweep", "variant", "problem", "trial", "run", "sweep_trial", "timing", "samples", "device", "calibration")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.sqlite"
    shutil.copy(SAMPLE, path)
    Store.open(f"sqlite:///{path}").close()
    return path


def spoil(path: Path, table: str, column: str, value: object) -> bool:
    """Put a value into a whole column; return whether its table takes it."""
    with sqlite3.connect(path) as database:
        try:
            database.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            return False
    database.close()
    return True


def use(path: Path, view: str = "sweep_timings") -> list[str]:
    """Compare, load a page's study, query and export; return what was said where that failed."""
    url, said = f"sqlite:///{path}", []

    def compare_variants() -> None:
        compare(*load_sides("reduction/interleaved", "reduction/last_warp", url))

    def load_page() -> None:
        with Store.open(url, create=False, read_only=True) as store:
            load_study(store, "reduction")

    def export() -> None:
        with read(url, view) as rows:
            "".join(iter_csv(rows))

    for step in (compare_variants, load_page, export):
        try:
            step()
        except CuprofError as error:
            said.append(str(error))
    assert not any("\n" in text for text in said)
    return said


def test_nothing_is_said_of_what_is_as_cuprof_wrote_it(sample: Path) -> None:
    assert use(sample) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("table", READ)
def test_no_value_of_a_database_is_a_traceback(sample: Path, tmp_path: Path, table: str) -> None:
    spoilt = tmp_path / "spoilt.sqlite"
    for place, column in enumerate(t.METADATA.tables[table].c):
        if column.primary_key or column.foreign_keys:
            continue
        shutil.copy(sample, spoilt)
        if spoil(spoilt, table, column.name, VALUES[place % len(VALUES)]):
            use(spoilt)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("timing", "excluded_count", "x"),
        ("timing", "high_ns", "x"),
        ("timing", "median_ns", 0),
        ("timing", "median_ns", math.inf),
        ("samples", "durations_ns", "[1e999]"),
        ("samples", "durations_ns", "[-1.0, NaN]"),
        ("problem", "coordinates", "[1]"),
        ("calibration", "read_bandwidth", "x"),
    ],
)
def test_a_spoilt_value_is_told_in_one_line(sample: Path, table: str, column: str, value: object) -> None:
    assert spoil(sample, table, column, value)
    assert any("is damaged or was changed by hand" in text for text in use(sample))


def test_a_sample_below_zero_is_no_sample(sample: Path) -> None:
    assert spoil(sample, "samples", "durations_ns", "[-1.0, -2.0]")
    with pytest.raises(StoreError, match="is damaged or was changed by hand"):
        compare(*load_sides("reduction/interleaved", "reduction/last_warp", f"sqlite:///{sample}"))
