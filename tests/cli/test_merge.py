from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cuprof.core.project import Project
from cuprof.store.schema import REVISION
from cuprof.store.store import Store
from tests.conftest import Result

WHOLE = Path(__file__).parents[1] / "data" / "db" / f"{REVISION}.sqlite"


def test_databases_are_taken_in_once_and_what_cannot_be_is_told_in_a_line(
    cli: Callable[..., Result], project: Project
) -> None:
    shutil.copy(WHOLE, "theirs ü.sqlite")
    Path("notes.sqlite").write_text("no database at all, though it has such a name")
    Path("loop.sqlite").symlink_to("loop.sqlite")
    told = cli("merge", "theirs ü.sqlite")
    assert (told.exit_code, told.err) == (0, "")
    assert "theirs ü.sqlite: sweeps: 1, trials: 5, runs: 5, profiles: 2" in told.out
    assert "not in the folder artifacts beside it: 1" in told.out
    (again,) = json.loads(cli("merge", f"sqlite:///{project.root / 'theirs ü.sqlite'}", "--json").out)
    assert {again[name] for name in ("sweeps", "trials", "runs", "profiles")} == {0}
    ours = cli("query", "best", "--format", "csv").out
    theirs = cli("query", "best", "--format", "csv", "--store", "sqlite:///theirs ü.sqlite").out  # by its own views
    assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
    for words in (
        ["notes.sqlite"],
        ["nowhere.sqlite"],
        ["loop.sqlite"],
        ["db/cuprof.sqlite"],
        ["postgresql://me:hunter2@127.0.0.1:1/base"],
        ["oracle://me:hunter2@host/base"],
    ):
        refused = cli("merge", *words)
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1), words
        assert "hunter2" not in refused.err
    with Store.open(project.database_url, read_only=True) as store, store.snapshot() as connection:
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM run").scalar() == 5


def test_refused_rows_are_counted_and_the_target_still_has_a_report(
    cli: Callable[..., Result], project: Project
) -> None:
    shutil.copy(WHOLE, "theirs.sqlite")
    with closing(sqlite3.connect("theirs.sqlite")) as raw:
        raw.execute("UPDATE timing SET median_ns = -5.0, low_ns = 9e999 WHERE id = 1")
        raw.commit()
    told = cli("merge", "theirs.sqlite")
    assert (
        "refused, with everything that belongs to it: 1 row of timing, median_ns is not a possible duration" in told.out
    )
    (again,) = json.loads(cli("merge", "theirs.sqlite", "--json").out)
    assert (told.exit_code, again["refused"]) == (0, {})  # the run that it belongs to is here already
    assert cli("report", "experiment=reduction").exit_code == 0


@pytest.mark.parametrize("value", ["5", "'yesterday'"])
def test_a_target_with_a_wrong_date_is_named(cli: Callable[..., Result], project: Project, value: str) -> None:
    shutil.copy(WHOLE, "good.sqlite")
    shutil.copy(WHOLE, "bad.sqlite")
    with closing(sqlite3.connect("bad.sqlite")) as raw:
        raw.execute(f"UPDATE run SET recorded_at = {value}")
        raw.commit()
    told = cli("merge", "good.sqlite", "--store", "bad.sqlite")
    assert (told.exit_code, told.err.count("\n")) == (2, 1)
    assert "bad.sqlite is damaged or was changed by hand" in told.err


@pytest.mark.parametrize("source", ["nowhere.sqlite", "notes.sqlite"])
def test_a_refused_database_leaves_no_new_one(cli: Callable[..., Result], project: Project, source: str) -> None:
    Path("notes.sqlite").write_text("no database at all, though it has such a name")
    assert cli("merge", source, "--store", "sqlite:///new/all.sqlite").exit_code == 2
    assert not (project.root / "new").exists()
