"""Damaged databases: whatever is wrong with them, a command says it in one line, or does its work."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cuprof.core.project import Project
from cuprof.store.schema import REVISION
from tests.cli.damage import damage
from tests.conftest import Result

WHOLE = Path(__file__).parents[1] / "data" / "db" / f"{REVISION}.sqlite"
COMMANDS = (
    ["query", "best"],
    ["query", "SELECT * FROM sweep, trial, run", "--format", "json"],
    ["compare", "reduction/interleaved", "reduction/last_warp", "--json"],
    ["compare", "latest", "latest"],
    ["report", "experiment=reduction"],
    ["doctor", "--json"],
    ["backup", "copy.sqlite", "--force"],
)


def run_all(cli: Callable[..., Result], project: Project, seeds: range) -> None:
    file = project.root / "db" / "cuprof.sqlite"
    file.parent.mkdir()
    faults = []
    for seed in seeds:
        gc.collect()  # a connection that an error holds would take part in what becomes of the file
        shutil.copy(WHOLE, file)
        how = damage(file, seed)
        for command in COMMANDS:
            kept = file.read_bytes()
            try:
                result = cli(*command)
            except Exception as error:  # what would be a traceback
                faults.append(f"{how}: {command}: {type(error).__name__}: {error}"[:400])
                continue
            finally:
                for left in file.parent.glob("cuprof.sqlite-*"):
                    left.unlink()
                file.write_bytes(kept)
            lines = [line for line in result.err.splitlines() if not line.startswith("warning: ")]
            if result.exit_code not in (0, 1, 2) or len(lines) > 1 or (result.exit_code == 2 and not lines):
                faults.append(f"{how}: {command}: exit code {result.exit_code}: {result.err[-300:]}")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)


@pytest.mark.parametrize(
    ("file", "change", "command", "told"),
    [
        ("0008", "UPDATE property SET value = '[]' WHERE name = 'views'", "query best", "was changed by hand"),
        ("0009", "UPDATE timing SET median_ns = 5e-324", "report experiment=reduction", "median_ns is not a duration"),
        ("0009", "UPDATE problem SET coordinates = '{\"n\": [4]}'", "best reduction", "was changed by hand"),
        (
            "0009",
            "DROP TABLE sweep_trial; CREATE VIEW sweep_trial AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
            " FROM n) SELECT i AS sweep_id, i AS trial_id, i AS position, i AS run_id FROM n",
            "status",
            "sweep_trial is not a plain table",
        ),
        (
            "0009",
            "ALTER TABLE run RENAME TO r; CREATE VIEW run AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
            " FROM n) SELECT r.* FROM r, n",
            "status --log last_warp",
            "run is not a plain table",
        ),
        ("0009", "UPDATE cuprof_revision SET version_num = x'ff'", "backup copy.sqlite", r"(its revision is b'\xff')"),
        ("0009", "UPDATE cuprof_revision SET version_num = 'hello'", "status", "by hand (its revision is 'hello')"),
        ("0005", "DROP TABLE device", "status", "by hand (there is no table device); restore a copy of it"),
        ("0009", "UPDATE cuprof_revision SET version_num = '0005'", "query best", "(table samples already exists)"),
        ("0009", "ALTER TABLE cuprof_revision RENAME version_num TO x", "status", "(no such column: version_num)"),
        ("0009", "UPDATE cuprof_revision SET version_num = ''", "query best", "by hand (its revision is '')"),
    ],
)
def test_what_was_changed_is_told(
    cli: Callable[..., Result], project: Project, file: str, change: str, command: str, told: str
) -> None:
    place = project.root / "db" / "cuprof.sqlite"
    place.parent.mkdir()
    shutil.copy(WHOLE.with_name(f"{file}.sqlite"), place)
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(change)
    result = cli(*command.split())
    assert (result.exit_code, told in result.err, result.err.count("\n")) == (2, True, 1), result


@pytest.mark.parametrize(
    "change",
    [
        "trial SET useful_bytes = 'Infinity'",
        "trial SET useful_bytes = 9e999",
        "trial SET useful_bytes = 5e-324",
        "trial SET flops = 1e308",
        "timing SET q1_ns = 9e999, q3_ns = -9e999",
        "timing SET high_ns = -1, median_ns = 1000 * id * id",
        "timing SET median_ns = 1e-300",
    ],
)
def test_a_page_is_written_whatever_its_numbers_are(cli: Callable[..., Result], project: Project, change: str) -> None:
    place = project.root / "db" / "cuprof.sqlite"
    place.parent.mkdir()
    shutil.copy(WHOLE, place)
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(f"UPDATE {change}")
    result = cli("report", "experiment=reduction", "report.path=pages")
    assert (result.exit_code, result.err) == (0, "")
    assert (project.root / "pages" / "reduction.html").is_file()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [8])
def test_a_few(cli: Callable[..., Result], project: Project, seed: int) -> None:
    run_all(cli, project, range(seed, seed + 8))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 740, 64))
def test_many(cli: Callable[..., Result], project: Project, seed: int) -> None:
    run_all(cli, project, range(seed, seed + 64))
