from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.cli.output import to_text
from cuprof.cli.query import view_parts
from cuprof.core.project import Project
from cuprof.core.records import State
from cuprof.store.store import Store
from tests.conftest import Result
from tests.report.study_data import Made, fill

Cli = Callable[..., Result]


@pytest.fixture
def stored(project: Project) -> Project:
    """Give the project an empty database."""
    Store.open(project.database_url).close()
    return project


def test_rows_as_a_table_and_as_text_for_programs(cli: Cli, stored: Project) -> None:
    assert "one" in cli("query", "SELECT 1 AS one").out
    assert cli("query", "SELECT 1 AS one, 'a' AS two", "--format", "csv").out == "one,two\n1,a\n"
    assert json.loads(cli("query", "SELECT 1 AS one", "--format", "json").out) == [{"one": 1}]


def test_sql_need_not_be_quoted(cli: Cli, stored: Project) -> None:
    assert cli("query", "SELECT", "1", "AS", "one", "--format", "csv").out == "one\n1\n"


def test_a_query_has_a_time_limit(cli: Cli, stored: Project) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
    result = cli("query", endless, "--time-limit", "0.2")
    assert (result.exit_code, result.out) == (2, "")
    assert "set --time-limit" in result.err
    assert cli("query", "SELECT 1 AS one", "--time-limit", "inf").exit_code == 0
    for wrong in ("0", "-1", "nan", "soon"):
        assert "write 60 or inf" in cli("query", "SELECT 1", f"--time-limit={wrong}").err


def test_a_file_and_another_database(cli: Cli, stored: Project, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.sqlite'}"
    Store.open(url).close()
    output = tmp_path / "rows.csv"
    assert cli("query", "SELECT 2 AS two", "--store", url, "--format", "csv", "--output", str(output)).out == ""
    assert output.read_text() == "two\n2\n"


def test_names_are_listed(cli: Cli, project: Project) -> None:
    result = cli("query")
    assert result.exit_code == 0
    assert {"best", "before_after", "speedups", "timings", "trials"} <= set(result.out.split())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["bst"], "best"),
        (["SELECT * FROM nowhere"], "nowhere"),
        (["DELETE FROM trial"], "refused"),
        (["trials", "timings"], "trials is a query of its own; give one name, or a SELECT statement in quotes"),
        (["before_after", "where", "ratio > 1"], "before_after is a query of its own; give one name"),
        (["SELEC", "1"], "SELEC is not SQL: did you mean SELECT?"),
        (["best", "--format", "xml"], "'xml' is not known: there are csv, json, parquet, table"),
        (["best", "--format", "parquet"], "--output FILE.parquet"),
        (["best", "--store", "nonsense"], "nonsense"),
        (["best", "--store", "sqlite:////nowhere/x.sqlite"], "/nowhere/x.sqlite"),
        (["best", "--output", "/nowhere/x.csv"], "/nowhere/x.csv"),
        (["SELECT x'00ff' AS b", "--format", "json"], "column b holds bytes, which JSON has no form for"),
        (["SELECT 1 AS a, 2 AS a", "--format", "json"], "2 columns are named a"),
    ],
)
def test_bad_input(cli: Cli, stored: Project, argv: list[str], message: str) -> None:
    result = cli("query", *argv)
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_rows_that_only_their_method_tells_apart_are_explained() -> None:
    """Two rows of one variant with two times looked like a contradiction: the method is a hidden column."""
    columns = [("base", "base"), (45.8, 51.3), ("07f8", "c1d2")]
    lines = to_text(view_parts(("variant", "median_us", "method"), columns, 80), 80).splitlines()
    assert "measured by 2 methods, whose times are not ranked together; --full names them" in lines
    one = to_text(view_parts(("variant", "median_us", "method"), [*columns[:2], ("07f8", "07f8")], 80), 80)
    assert "methods" not in one


@pytest.fixture
def filled(project: Project) -> Project:
    """Give the project a database with two variants that were timed and one that failed."""
    made = [Made("base", 20.0), Made("mine", 10.0), Made("bad", state=State.WRONG_RESULT, message="sum[0] = 1")]
    with Store.open(project.database_url) as store:
        fill(store, made)
    return project


def test_a_view_fits_the_screen_a_line_a_row(cli: Cli, filled: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    heading, rule, *rows = cli("query", "timings").out.splitlines()
    assert max(map(len, (heading, rule, *rows[:2]))) <= 80
    assert heading.split()[:2] == ["variant", "variant_order"]
    assert [row.split()[0] for row in rows[:2]] == ["base", "mine"]
    assert any(row.startswith("in every row: family invented, ") for row in rows)
    assert rows[-1].endswith("columns left out; --full shows all")
    full = cli("query", "timings", "--full").out
    assert "identity" in full
    assert "identity" not in heading


def test_what_programs_read_is_whole(cli: Cli, filled: Project) -> None:
    (row, *_) = json.loads(cli("query", "timings", "--format", "json").out)
    assert {"identity", "trial_id", "family", "median_us", "method"} <= set(row)
    assert "identity" in cli("query", "SELECT * FROM timings").out


def test_failures_are_a_view(cli: Cli, filled: Project) -> None:
    assert cli("query", "SELECT variant, message FROM failures", "--format", "csv").out == (
        "variant,message\nbad,sum[0] = 1\n"
    )


def test_a_view_that_an_older_cuprof_did_not_make_is_read(cli: Cli, filled: Project) -> None:
    with sqlite3.connect(filled.database_url.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP VIEW failures")
    connection.close()
    assert "sum[0] = 1" in cli("query", "failures").out


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT varant FROM timings", "no such column: varant; did you mean variant"),
        ("SELECT t.varant FROM timings AS t", "no such column: t.varant; did you mean variant"),
        ("SELECT t.message FROM sweep_timings t, trials", "t.message; it is a column of trials"),
        ("SELECT variant FROM timngs", "no such table: timngs; did you mean timings"),
        ("SELECT * FROM skipped", "skipped is a query of its own: cuprof query skipped"),
    ],
)
def test_misspelt_columns_and_tables_are_answered_with_the_nearest(
    cli: Cli, filled: Project, sql: str, said: str
) -> None:
    done = cli("query", sql)
    assert (done.exit_code, done.out) == (2, "")
    assert said in done.err
