"""Databases that cannot be used give one line that says what to do."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from store_samples import FACTS, make_trial

from cuprof.core.errors import CuprofError, MissingDependencyError, StoreError, UnreachableStoreError
from cuprof.core.text import hide_passwords
from cuprof.results.queries import query
from cuprof.results.read import read_results
from cuprof.store import connection, migrate
from cuprof.store.connection import explain, is_unreachable, parse_url
from cuprof.store.schema import VERSION_TABLE
from cuprof.store.source import open_source
from cuprof.store.store import Store, wait_for
from cuprof.store.tables import METADATA


def refusal(url: str, **options: bool) -> str:
    with pytest.raises(CuprofError) as caught:
        Store.open(url, **options)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("url", ["nonsense", "", "mysql://host/db", "oracle:///x", "sqlite://", "sqlite:///:memory:"])
def test_an_unusable_url_is_refused(url: str) -> None:
    assert "sqlite:///FILE" in refusal(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("://", "the given URL is not a database URL; write postgresql+psycopg://USER@HOST/DATABASE or sqlite:///FILE"),
        ("postgresql+psycopg://[::1/x", "the given URL: the port is not a number; write @ : / ? # & % and spaces of"),
    ],
)
def test_no_words_of_a_message_are_hidden_as_a_password(url: str, expected: str) -> None:
    assert hide_passwords(refusal(url)).startswith(expected)


def test_options_in_an_sqlite_url_are_refused(tmp_path: Path) -> None:
    assert "takes no options" in refusal(f"sqlite:///{tmp_path}/a.sqlite?timeout=5")


def test_a_password_is_never_shown() -> None:
    assert "secret" not in refusal("postgresql+psycopg://me:secret@127.0.0.1:1/none")


def test_a_server_that_is_not_there_is_named() -> None:
    assert "database postgresql+psycopg://me@127.0.0.1:1/none cannot be reached" in refusal(
        "postgres://me@127.0.0.1:1/none"
    )


def test_a_missing_driver_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'cuprof\[postgres\]'"):
        Store.open("postgresql://host/db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    path.write_text("these are notes, not a database, and they are quite long enough to be looked at " * 20)
    before = path.read_bytes()
    assert f"database {path} is damaged or no SQLite database" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_truncated_database_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Store.open(f"sqlite:///{path}") as store:
        store.enlist(store.begin_sweep(FACTS), [make_trial(n=n) for n in range(200)])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StoreError, match="is damaged"):
        read_everything(path)


def read_everything(path: Path) -> None:
    with Store.open(f"sqlite:///{path}") as store, store.snapshot() as connection:
        query(store.url, "trials")
        read_results(connection, [1])


def test_someone_elses_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE bookmarks (url text)")
    theirs.close()
    assert "was not made by cuprof" in refusal(f"sqlite:///{path}")
    with sqlite3.connect(path) as theirs:
        assert theirs.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    theirs.close()


def test_a_folder_and_a_folder_below_a_file_are_refused(tmp_path: Path) -> None:
    for read_only in (False, True):
        assert refusal(f"sqlite:///{tmp_path}", read_only=read_only).endswith("is a folder; name a file")
    (tmp_path / "file").write_text("")
    assert "its folder cannot be made (File exists)" in refusal(f"sqlite:///{tmp_path}/file/a.sqlite")


def test_a_database_that_is_not_there_is_not_made_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite"
    assert f"there is no database {path}; run a sweep first" in refusal(f"sqlite:///{path}", read_only=True)
    assert "there is no database" in refusal(f"sqlite:///{path}", create=False)
    path.touch()
    assert "is empty; run a sweep first" in refusal(f"sqlite:///{path}", create=False)


def test_a_servers_database_that_others_use_is_shared_or_refused(postgres) -> None:  # type: ignore[no-untyped-def]
    url = postgres.make_database("shared")
    with Store.open(url) as store, store.engine.begin() as connection:
        migrate.drop_views(connection)
        METADATA.drop_all(connection)
        connection.exec_driver_sql(f"DELETE FROM {VERSION_TABLE}")  # as who takes all migrations back leaves it
        connection.exec_driver_sql("CREATE TABLE theirs(x int); CREATE SCHEMA lab; CREATE ROLE guest LOGIN")
    told = refusal(url.replace("postgres@", "guest@"))
    assert told.endswith(
        "permission denied for table cuprof_revision; its owner can grant that, or name another database with --store"
    )
    Store.open(url).close()
    with Store.open(f"{url}&options=-csearch_path%3Dlab") as store, store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE property CASCADE; DROP TABLE cuprof_revision")
    told = refusal(f"{url}&options=-csearch_path%3Dlab")
    assert "already exists; what is there is not cuprof's" in told
    assert "CREATE" not in told


def test_a_server_that_is_full_or_goes_away_is_asked_again_and_one_that_refuses_is_not(postgres) -> None:  # type: ignore[no-untyped-def]
    url = postgres.make_database("crowded")
    with Store.open(url) as store, store.engine.begin() as connection:
        connection.exec_driver_sql("CREATE ROLE crowd LOGIN CONNECTION LIMIT 0; CREATE ROLE shut NOLOGIN")
    with pytest.raises(UnreachableStoreError, match=r"cannot be reached.*too many connections"):
        Store.open(url.replace("postgres@", "crowd@"))
    with pytest.raises(StoreError, match="not permitted to log in") as refused:
        Store.open(url.replace("postgres@", "shut@"))
    assert not isinstance(refused.value, UnreachableStoreError)
    assert "cannot be reached" not in str(refused.value)
    import psycopg

    away = ("AdminShutdown", "CannotConnectNow", "TooManyConnections", "IdleInTransactionSessionTimeout")
    for name in (*away, "ConnectionFailure", "QueryCanceled", "DiskFull", "UndefinedTable"):
        error = exc.OperationalError("", {}, getattr(psycopg.errors, name)("said so"))
        assert is_unreachable(error) == (name in (*away, "ConnectionFailure")), name
    for said, is_away in {"the database system is starting up": True, 'role "me" does not exist': False}.items():
        error = exc.OperationalError("", {}, psycopg.OperationalError(f"connection failed: FATAL:  {said}"))
        assert is_unreachable(error) is is_away, said


def test_a_database_that_was_there_is_waited_for_until_it_has_been_away_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cuprof.store.store.RETRY_SECONDS", 0.0)
    answers = iter([UnreachableStoreError("away"), UnreachableStoreError("away"), None])

    def read() -> str:
        if error := next(answers):
            raise error
        return "here"

    assert wait_for(read) == "here"
    monkeypatch.setattr("cuprof.store.store.AWAY_SECONDS", -1.0)
    answers = iter([UnreachableStoreError("away")])
    with pytest.raises(UnreachableStoreError):
        wait_for(read)


def test_a_line_says_since_when_a_server_is_away_and_that_it_is_back(postgres, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setattr("cuprof.store.store.NOTED_SECONDS", 0.1)
    monkeypatch.setattr("cuprof.store.store.RETRY_SECONDS", 0.05)
    notes: list[str] = []

    def beat(connection: object) -> str:
        if not notes:
            raise exc.OperationalError("", {}, psycopg.OperationalError("connection refused"))
        return "here"

    with Store.open(postgres.make_database("noted")) as store:
        store.note = notes.append
        assert store._write(beat) == "here"
        assert store._write(beat) == "here"
    assert len(notes) == 2
    assert " does not answer since " in notes[0]
    assert " answers again after " in notes[1]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("statement_timeout = 1", "canceling statement due to statement timeout; give its role a longer one"),
        ("search_path = nowhere", "no schema has been selected to create in; make the schema that search_path names"),
    ],
)
def test_what_a_servers_settings_refuse_comes_with_what_to_do(postgres, setting: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    name = f"set_{setting.partition(' ')[0]}"
    url = postgres.make_database(name)
    import psycopg

    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as opened:
        opened.execute(f"ALTER DATABASE {name} SET {setting}")
    # A server may call a time-out a user's request where the statement ends at that moment.
    told = next((each for _ in range(5) if "user request" not in (each := refusal(url))), "")
    assert expected in told
    assert "cannot be reached" not in told


def test_a_server_whose_transactions_see_one_state_is_told_otherwise(postgres) -> None:  # type: ignore[no-untyped-def]
    url = postgres.make_database("strict")
    import psycopg

    with closing(psycopg.connect(url.replace("+psycopg", ""), autocommit=True)) as opened:
        opened.execute("ALTER DATABASE strict SET default_transaction_isolation = 'repeatable read'")
    with Store.open(url) as store, store.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"


def test_an_empty_server_database_is_not_filled_for_reading(postgres) -> None:  # type: ignore[no-untyped-def]
    assert "is empty; run a sweep first" in refusal(postgres.make_database("empty"), read_only=True)


def test_the_environment_may_name_a_servers_host_or_the_folder_of_its_socket(
    postgres,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cuprof.config.composer import compose

    folder = postgres.make_database("environment").rpartition("=")[2]
    for name, value in {"PGHOST": folder, "PGUSER": "postgres", "PGDATABASE": "environment"}.items():
        monkeypatch.setenv(name, value)
    with Store.open(compose(["experiment=reduction", "store=postgres"]).store.url) as store:
        assert query(store.url, "SELECT current_database() AS name").name[0] == "environment"
    monkeypatch.setenv("PGHOST", "db.example.org")
    assert "host=db.example.org&port=5432" in compose(["experiment=reduction", "store=postgres"]).store.url


def test_a_store_opened_for_reading_cannot_write(url: str) -> None:
    Store.open(url).close()
    with Store.open(url, read_only=True) as store:
        with pytest.raises(StoreError):
            store.begin_sweep(FACTS)
        assert query(store.url, "SELECT * FROM sweep").empty


def test_a_database_in_a_folder_without_write_permission_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    with Store.open(url) as store:
        store.begin_sweep(FACTS)
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    with Store.open(url, read_only=True) as store, store.snapshot() as opened:
        assert opened.exec_driver_sql("SELECT COUNT(*) FROM sweep").scalar() == 1
        assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]  # no -shm file


@pytest.mark.parametrize("statement", ["ATTACH '{}' AS other", "VACUUM INTO '{}'", "SELECT hex(zeroblob(9))"])
def test_a_foreign_database_is_read_and_nothing_in_it_or_beside_it_is_run(tmp_path: Path, statement: str) -> None:
    url = f"sqlite:///{tmp_path / 'theirs.sqlite'}"
    Store.open(url).close()
    with open_source(url) as source, pytest.raises(exc.DatabaseError, match=r"not authorized|within a transaction"):
        source.connection.exec_driver_sql(statement.format(tmp_path / "new.sqlite"))
    assert not (tmp_path / "new.sqlite").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "attempt to write a readonly database",
            "is not writable; change its permissions, or name another place",
        ),
        ("unable to open database file", "cannot be opened; check the permissions"),
        ("database or disk is full", "free space on that disk"),
        ("disk I/O error", "cannot be written"),
        ("database disk image is malformed", "is damaged"),
        ("database is locked", "has been locked by another process"),
    ],
)
def test_what_sqlite_says_becomes_advice(tmp_path: Path, text: str, expected: str) -> None:
    error = exc.OperationalError("INSERT …", {}, sqlite3.OperationalError(text))
    line = explain(parse_url(f"sqlite:///{tmp_path}/a.sqlite"), error)
    assert expected in line
    assert line.startswith(f"database {tmp_path}/a.sqlite")
    assert "--store" not in line  # the option of `cuprof judge` is another one


def test_a_lock_that_is_not_released_is_reported(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.1)
    with Store.open(sqlite_url) as first, Store.open(sqlite_url) as second:
        with first.engine.begin(), pytest.raises(StoreError, match=r"locked by another process for 0\.1 s"):
            second.begin_sweep(FACTS)
        assert second.begin_sweep(FACTS) == 1


def test_sqlite_is_set_up_as_documented(sqlite_url: str) -> None:
    with Store.open(sqlite_url) as store, store.engine.connect() as opened:
        values = {
            name: opened.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("foreign_keys", "journal_mode", "synchronous", "busy_timeout")
        }
    assert values == {"foreign_keys": 1, "journal_mode": "wal", "synchronous": 1, "busy_timeout": 30_000}


def test_postgresql_speaks_utc_compiles_nothing_and_rows_need_their_owners(store: Store) -> None:
    with pytest.raises(exc.IntegrityError), store.engine.begin() as opened:
        opened.execute(sa.text("INSERT INTO samples (timing_id, durations_ns, rounds) VALUES (99, '[1.0]', '[0]')"))
    if store.engine.dialect.name == "postgresql":
        assert query(store.url, "SHOW TIME ZONE").iloc[0, 0] == "UTC"
        assert query(store.url, "SHOW jit").iloc[0, 0] == "off"


def test_threads_share_a_store(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    trials = [make_trial(n=n) for n in range(1, 41)]
    errors: list[BaseException] = []

    def work(part: int) -> None:
        try:
            for trial in trials[part::4]:
                store.enlist(sweep, [trial])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert query(store.url, "SELECT COUNT(*) AS n FROM trials")["n"].tolist() == [40]


def test_a_fifo_in_place_of_a_database_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.sqlite")
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"fifo\.sqlite cannot be opened"):
            Store.open(f"sqlite:///{tmp_path}/fifo.sqlite", read_only=read_only)
