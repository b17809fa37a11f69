"""A database with values that cuprof never writes gives an answer or one line of explanation, never a traceback."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from cuprof.comparison.compare import compare
from cuprof.comparison.sides import load_sides
from cuprof.core.errors import CuprofError, StoreError
from cuprof.report.load import load_study
from cuprof.results.export import iter_csv
from cuprof.results.queries import read
from cuprof.store import tables as t
from cuprof.store.store import Store

SAMPLE = Path(__file__).parents[1] / "data" / "db" / "0007.sqlite"
VALUES = ("x", math.inf, -5, b"\xff", "[1]", None, 0)
"""Of these each column gets one, the next column the next one, and so on; and each number a text."""
READ = ("sweep", "variant", "problem", "trial", "run", "sweep_trial", "timing", "samples", "device", "calibration")


Columns = set[tuple[str, str]]
Step = Callable[[str], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample at the newest revision, which the tests copy."""
    path = tmp_path_factory.mktemp("sound") / "sample.sqlite"
    shutil.copy(SAMPLE, path)
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="module")
def read_by(sound: Path) -> dict[Step, Columns]:
    """Return step → the columns that it reads of the sample; what it never reads cannot change it."""
    read: dict[Step, Columns] = {}
    for step in STEPS:
        columns = read[step] = set()

        def note(action: int, table: str, column: str, *_: object, columns: Columns = columns) -> int:
            columns.update([(table, column)] if action == sqlite3.SQLITE_READ else [])
            return sqlite3.SQLITE_OK

        def watch(connection: sqlite3.Connection, _: object, note: Callable[..., int] = note) -> None:
            connection.set_authorizer(note)

        sa.event.listen(sa.Pool, "connect", watch)
        step(f"sqlite:///{sound}")
        sa.event.remove(sa.Pool, "connect", watch)
        assert ("timing", "median_ns") in columns
    return read


@pytest.fixture
def sample(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path))


def spoil(path: Path, table: str, column: str, value: object) -> bool:
    """Put a value into a whole column; return whether its table takes it."""
    with sqlite3.connect(path) as database:
        try:
            database.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.IntegrityError:
            return False
    database.close()
    return True


def compare_variants(url: str) -> None:
    compare(*load_sides("reduction/interleaved", "reduction/last_warp", url))


def load_page(url: str) -> None:
    with Store.open(url, create=False, read_only=True) as store:
        load_study(store, "reduction")


def export(url: str) -> None:
    with read(url, "sweep_timings") as rows:
        "".join(iter_csv(rows))


STEPS = (compare_variants, load_page)


def use(path: Path, steps: Iterable[Step] = STEPS) -> list[str]:
    """Take some steps, then query and export; return what was said where that failed."""
    said = []
    for step in (*steps, export):
        try:
            step(f"sqlite:///{path}")
        except CuprofError as error:
            said.append(str(error))
    assert not any("\n" in text for text in said)
    return said


def test_nothing_is_said_of_what_is_as_cuprof_wrote_it(sample: Path) -> None:
    assert use(sample) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("table", READ)
def test_no_value_of_a_database_is_a_traceback(
    sound: Path, tmp_path: Path, table: str, read_by: Mapping[Step, Columns]
) -> None:
    spoilt = tmp_path / "spoilt.sqlite"
    for place, column in enumerate(t.METADATA.tables[table].c):
        if column.primary_key or column.foreign_keys:
            continue
        shutil.copy(sound, spoilt)
        if spoil(spoilt, table, column.name, VALUES[place % len(VALUES)]):
            use(spoilt, [step for step in STEPS if (table, column.name) in read_by[step]])


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


def test_settings_of_another_form_are_told(sample: Path) -> None:
    spoil(sample, "sweep", "configuration", '{"measure": 5}')
    with (
        Store.open(f"sqlite:///{sample}") as store,
        pytest.raises(StoreError, match="is damaged or was changed by hand"),
    ):
        load_study(store, sweep_id=1)
