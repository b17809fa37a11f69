"""Queries only read, whatever they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pytest
from store_samples import FACTS, make_outcome, make_timing, make_trial

import cuprof
from cuprof.core.errors import CuprofError, StoreError, UnknownNameError, UsageError
from cuprof.core.interrupts import heard
from cuprof.results import queries
from cuprof.results.queries import list_queries, query, read
from cuprof.store.store import Store
from tests.interrupter import signalled_soon


@pytest.fixture(scope="module")
def filled(shared_store: Store) -> Store:
    return fill(shared_store)


def fill(store: Store) -> Store:
    sweep = store.begin_sweep(FACTS)
    store.enlist(sweep, [make_trial()])
    store.record(sweep, make_outcome(make_trial(), make_timing(20)))
    return store


WRITES = [
    "DELETE FROM sample",
    "  delete from sample",
    "-- look\nDELETE FROM sample",
    "/* SELECT */ UPDATE trial SET state = 'ok'",
    "INSERT INTO property VALUES ('a', 'b')",
    "DROP VIEW best",
    "CREATE TABLE x (y int)",
    "SELECT 1; DELETE FROM sample",
    "SELECT 1; COMMIT; DELETE FROM sample",
    "COMMIT;",
]


@pytest.mark.parametrize("sql", WRITES)
def test_a_query_that_writes_is_refused_and_changes_nothing(filled: Store, sql: str) -> None:
    with pytest.raises(UsageError, match=r"a query only reads|a query is one statement"):
        query(filled.url, sql)
    assert len(query(filled.url, "SELECT * FROM sample")) == 4
    assert len(query(filled.url, "best")) == 1


def test_a_cte_that_writes_is_refused(filled: Store) -> None:
    with pytest.raises(UsageError, match="refused"):
        query(filled.url, "WITH x AS (SELECT 1) DELETE FROM samples")
    assert len(query(filled.url, "SELECT * FROM sample")) == 4


@pytest.mark.parametrize("sql", ["VACUUM INTO '{}'", "ATTACH '{}' AS other", "EXPLAIN ATTACH '{}' AS other"])
def test_a_query_makes_no_other_file(sqlite_url: str, tmp_path: Path, sql: str) -> None:
    Store.open(sqlite_url).close()
    with pytest.raises(UsageError, match="refused"):
        query(sqlite_url, sql.format(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("sql", ["PRAGMA query_only = OFF", "PRAGMA journal_mode = DELETE", "PRAGMA user_version = 7"])
def test_pragmas_that_set_something_are_refused(sqlite_url: str, sql: str) -> None:
    Store.open(sqlite_url).close()
    with pytest.raises(UsageError, match="refused"):
        query(sqlite_url, sql)


def test_names_of_views_tables_and_queries_are_understood(filled: Store) -> None:
    assert len(query(filled.url, "best")) == 1
    assert len(query(filled.url, "sample")) == 4
    assert query(filled.url, "failures").empty
    for name in list_queries():
        query(filled.url, name)


def test_text_that_is_no_text_is_one_line(sqlite_url: str) -> None:
    Store.open(sqlite_url).close()
    with pytest.raises(CuprofError, match=r"UTF-8"):
        query(sqlite_url, "SELECT CAST(x'ff' AS TEXT)")


def test_an_unknown_name_gives_the_nearest(filled: Store) -> None:
    with pytest.raises(UnknownNameError, match="did you mean before_after"):
        query(filled.url, "before_aftr")


def test_a_table_and_a_value_have_an_end(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(sqlite_url).close()
    monkeypatch.setattr(queries, "MOST_ROWS", 50_000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    with (
        read(sqlite_url, endless) as rows,
        pytest.raises(UsageError, match="a table takes 50,000 rows, and there are"),
    ):
        rows.columns()
    with pytest.raises(UsageError, match="too big"):
        query(sqlite_url, "SELECT hex(zeroblob(400000000))")


@pytest.mark.parametrize("size", [1_000, 30_000_000])
def test_large_rows_have_an_end(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    Store.open(sqlite_url).close()
    monkeypatch.setattr(queries, "MOST_BYTES", 100_000)
    endless = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT printf('%.*c', {size}, i) FROM n"
    with read(sqlite_url, endless, time_limit_s=60) as rows:
        assert 1 <= len(next(iter(rows.batches))) <= 1 + 100_000 // size
    with read(sqlite_url, endless) as rows, pytest.raises(UsageError, match="a table takes 256 MB, and there is more"):
        rows.columns()
    # On a slow host the time may be up before there is a row.
    with pytest.raises(UsageError, match="than its time limit"), read(sqlite_url, endless, time_limit_s=0.5) as rows:
        deque(rows.batches, maxlen=0)


def test_parameters_fill_the_places(filled: Store) -> None:
    sql = "SELECT variant, ':variant' AS quoted FROM trials WHERE variant = :variant AND useful_bytes > :least"
    frame = query(filled.url, sql.replace("':variant'", "'x'"), {"variant": "interleaved", "least": 5})
    assert frame["variant"].tolist() == ["interleaved"]


def test_text_that_looks_like_a_parameter_or_a_format_is_left_alone(filled: Store) -> None:
    frame = query(filled.url, "SELECT ':x %s %(y)s 100%' AS a WHERE 'a;b' LIKE 'a%'")
    assert frame["a"].tolist() == [":x %s %(y)s 100%"]


def test_mistakes_in_the_sql_are_one_line(filled: Store) -> None:
    with pytest.raises(UsageError, match=r"^the database does not understand the query: .*nope") as caught:
        query(filled.url, "SELECT nope FROM trials")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="nothing to query"):
        query(filled.url, "  ")


def test_frames_are_alike_on_every_database(filled: Store) -> None:
    frame = query(filled.url, "SELECT * FROM run UNION ALL SELECT * FROM run WHERE 1 = 0")
    assert str(frame["started_at"].dtype) == "datetime64[us, UTC]"
    assert frame["started_at"][0].timestamp() == pytest.approx(1_790_000_000.123456, abs=1e-6)
    frame = query(filled.url, "SELECT configuration, git FROM sweep")
    assert frame["configuration"][0].startswith('{"measure": {"target": 0.005')
    gaps = query(filled.url, "SELECT 9007199254740993 AS big UNION ALL SELECT NULL")
    assert str(gaps["big"].dtype) == "Int64"
    assert 9007199254740993 in gaps["big"].dropna().tolist()
    assert (
        str(query(filled.url, "SELECT SUM(useful_bytes) AS s, AVG(useful_bytes) AS a FROM trial")["a"].dtype)
        == "float64"
    )


def test_two_columns_of_one_name_are_both_kept(filled: Store) -> None:
    frame = query(filled.url, "SELECT 1 AS a, 2 AS a")
    assert list(frame.columns) == ["a", "a"]
    assert frame.iloc[0].tolist() == [1, 2]


@pytest.mark.parametrize("shared_store", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("sql", "kept"), [("SELECT COUNT(*) FROM pg_cursors", 1), ("SHOW transaction_read_only", "on")]
)
def test_a_server_keeps_the_rows_of_what_may_have_many(filled: Store, sql: str, kept: object) -> None:
    assert query(filled.url, sql).iloc[0, 0] == kept


def test_a_reader_sees_a_finished_record_while_a_sweep_writes(store: Store) -> None:
    with fill(store).engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM samples")
        assert len(query(store.url, "SELECT * FROM sample")) == 4


def test_load_is_there_from_the_top(filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "load" in dir(cuprof)
    frame = cuprof.load("SELECT variant FROM best WHERE measure = :measure", filled.url, measure="cold")
    assert frame["variant"].tolist() == ["interleaved"]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=r"there is no database .*cuprof\.sqlite; run a sweep first, or .* url="):
        cuprof.load("best")


def test_a_query_of_a_file_loads_no_sqlalchemy(sqlite_url: str) -> None:
    Store.open(sqlite_url).close()
    code = (
        "import sys; from cuprof.results.queries import read\n"
        f"with read({sqlite_url!r}, 'best') as rows: list(rows.batches)\n"
        "print(sorted({'sqlalchemy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_query_of_the_project_goes_before_the_bundled_one(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "db" / "queries"
    folder.mkdir(parents=True)
    (folder / "failures.sql").write_text("-- Mine.\nSELECT 42 AS answer;\n")
    monkeypatch.chdir(tmp_path)
    assert list_queries()["failures"] == "Mine."
    assert query(filled.url, "failures")["answer"].tolist() == [42]


def test_a_database_in_a_folder_that_cannot_be_written_is_read(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(sqlite_url).close()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    real = os.access
    monkeypatch.setattr(os, "access", lambda where, mode: real(where, mode) and Path(where) != path.parent)
    query(sqlite_url, "best")
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name]


def test_a_file_may_be_given_for_its_url(sqlite_url: str) -> None:
    Store.open(sqlite_url).close()
    assert cuprof.load("sweeps", Path(sqlite_url.removeprefix("sqlite:///"))).empty


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"


def test_a_query_has_a_time_limit(url: str) -> None:
    Store.open(url).close()
    started = time.monotonic()
    with pytest.raises(UsageError, match=r"took longer than its time limit and was stopped; .*--time-limit"):
        query(url, ENDLESS, time_limit_s=0.3)
    assert time.monotonic() - started < 100
    assert query(url, "SELECT 1 AS one", time_limit_s=60)["one"].tolist() == [1]
    assert query(url, "SELECT :one AS one", {"one": "1"}, time_limit_s=1e12)["one"].tolist() == ["1"]


@pytest.mark.parametrize("shared_store", ["postgresql"], indirect=True)
def test_the_limit_is_for_all_that_is_fetched(filled: Store) -> None:
    with (
        pytest.raises(UsageError, match="took longer than its time limit"),  # on a slow host, before there is a row
        read(filled.url, "SELECT generate_series(1, 1000000000) AS i", time_limit_s=0.5) as rows,
    ):
        deque(islice(rows.batches, 2000), maxlen=0)  # each of them comes soon


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_query_is_interrupted(url: str, is_heard: bool) -> None:
    Store.open(url).close()
    with pytest.raises(KeyboardInterrupt), heard() if is_heard else nullcontext(), signalled_soon(signal.SIGINT):
        query(url, ENDLESS, time_limit_s=100)  # which would end it by another error
