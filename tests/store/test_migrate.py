"""The migrations make the schema of the models, for a new database and for one of every earlier revision."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from opened_together import open_together
from pandas.testing import assert_frame_equal
from store_samples import FACTS
from stored_records import get_outcome

from cuprof.core.errors import StoreError
from cuprof.core.project import bundled
from cuprof.core.records import Artifact, Energy, Measure
from cuprof.results.queries import query
from cuprof.store import migrate
from cuprof.store import schema as schema_module
from cuprof.store import store as store_module
from cuprof.store.connection import make_engine, parse_url
from cuprof.store.counters import save_artifact
from cuprof.store.schema import REVISION
from cuprof.store.source import open_source
from cuprof.store.store import Store
from cuprof.store.tables import METADATA
from tests.core.typed_passwords import FORMS, SECRETS, WORD, leaks, type_url

_numbers = itertools.count()
OLD = Path(__file__).parents[1] / "data" / "db"
REVISIONS = [script.revision for script in ScriptDirectory.from_config(migrate.make_configuration()).walk_revisions()]


def differences(store: Store) -> list[object]:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "include_name": lambda name, kind, parents: name != migrate.VERSION_TABLE,
            },
        )
        return list(compare_metadata(context, METADATA))


def schema(store: Store) -> dict[str, object]:
    inspector = sa.inspect(store.engine)
    described = {
        table: (
            [[column[name] for name in ("name", "nullable", "default")] for column in inspector.get_columns(table)],
            [str(column["type"]) for column in inspector.get_columns(table)],
            inspector.get_pk_constraint(table),
            *(
                sorted(str(sorted(each.items(), key=str)) for each in read(table))
                for read in (
                    inspector.get_foreign_keys,
                    inspector.get_indexes,
                    inspector.get_unique_constraints,
                    inspector.get_check_constraints,
                )
            ),
        )
        for table in inspector.get_table_names()
    }
    views: dict[str, object] = {view: str(inspector.get_columns(view)) for view in inspector.get_view_names()}
    if store.engine.dialect.name == "sqlite":
        with store.engine.connect() as connection:
            rows = connection.execute(sa.text("SELECT name, wr FROM pragma_table_list WHERE type = 'table'"))
            views["without rowid"] = {name for name, is_without in rows if is_without}
    return described | views


@pytest.fixture
def migrated(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store that the migrations have made, one after another."""
    url = f"sqlite:///{tmp_path / 'migrated.sqlite'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").make_database(f"migrated_{next(_numbers)}")
    parsed = parse_url(url)
    engine = make_engine(parsed, foreign_keys=False)
    with engine.begin() as connection:
        migrate.run_migrations(connection, parsed)
    engine.dispose()
    with Store.open(url) as opened:
        yield opened


def test_a_new_database_is_what_all_migrations_come_to_and_what_the_models_are(migrated: Store, store: Store) -> None:
    assert differences(migrated) == []
    found, wanted = schema(store), schema(migrated)
    assert found.keys() == wanted.keys()
    for name, table in wanted.items():
        assert found[name] == table, name
    for each in (store, migrated):
        with each.engine.connect() as connection:
            assert migrate.check_revision(connection, each.parsed_url) == REVISION
            assert migrate.has_own_views(connection)


def test_a_new_database_is_made_without_the_migrations(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "run_migrations", lambda *_: pytest.fail("the migrations ran"))
    Store.open(url).close()


def test_the_comparison_sees_a_difference(store: Store) -> None:
    with store.engine.begin() as connection:
        migrate.drop_views(connection)
        connection.execute(sa.text("ALTER TABLE run DROP COLUMN build_log"))
    assert "build_log" in str(differences(store))


def test_the_newest_migration_is_the_revision_that_the_models_name() -> None:
    assert REVISIONS[0] == REVISION
    assert sorted(REVISIONS, reverse=True) == REVISIONS  # "newer" is decided by comparing the numbers
    assert all(re.fullmatch(r"\d{4}", revision) for revision in REVISIONS)


@pytest.fixture(scope="module")
def newest(sqlite_template: Path) -> dict[str, object]:
    """Return the schema of a new SQLite database."""
    with Store.open(f"sqlite:///{sqlite_template}", read_only=True) as fresh:
        return schema(fresh)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_real_database_of_every_revision_is_upgraded(
    revision: str, newest: dict[str, object], tmp_path: Path
) -> None:
    shutil.copy(OLD / f"{revision}.sqlite", tmp_path / "old.sqlite")
    expected = json.loads((OLD / f"{revision}.json").read_text(encoding="utf-8"))
    with Store.open(f"sqlite:///{tmp_path / 'old.sqlite'}") as store:
        assert schema(store) == newest
        assert differences(store) == []
        best = query(store.url, "best")
        assert sorted(best[["variant", "measure"]].values.tolist()) == sorted(expected["best"])
        identities = query(store.url, "SELECT identity FROM trial ORDER BY id")["identity"].tolist()
        found = store.stored(identities, {Measure.COLD: expected["method"]})
        assert {trial.state.value for trial in found.values()} == set(expected["states"])
        for run in query(store.url, "SELECT id FROM run")["id"]:
            get_outcome(store, int(run))
        assert sorted(query(store.url, "counters")["metric"]) == expected["counters"]


def test_a_database_of_a_newer_cuprof_is_refused_and_left_alone(url: str) -> None:
    with Store.open(url) as store, store.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '9999'"))
    message = rf"was written by a newer cuprof \(revision 9999, this one knows {REVISION}\); upgrade cuprof"
    with pytest.raises(StoreError, match=message):
        Store.open(url)
    with pytest.raises(StoreError, match=message):
        query(url, "best")


def test_no_migration_runs_a_trigger_that_others_have_made(tmp_path: Path) -> None:
    file = Path(shutil.copy(OLD / "0008.sqlite", tmp_path))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with contextlib.closing(sqlite3.connect(file)) as raw:
        raw.execute(f"CREATE TRIGGER endless AFTER INSERT ON property BEGIN SELECT ({endless}); END")
    with pytest.raises(StoreError, match=r"0008\.sqlite was changed by hand: drop its trigger 'endless'"):
        Store.open(f"sqlite:///{file}")


@pytest.mark.parametrize(
    ("revision", "name"),
    [("0008", "timing"), ("0008", "PROPERTY"), ("0008", "calibration"), ("0002", "finding"), ("0005", "sample")],
)
def test_no_migration_reads_a_view_that_others_have_made(tmp_path: Path, revision: str, name: str) -> None:
    file = Path(shutil.copy(OLD / f"{revision}.sqlite", tmp_path))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT old.* FROM old, n"
    with contextlib.closing(sqlite3.connect(file)) as raw:
        raw.executescript(f"ALTER TABLE {name} RENAME TO old; CREATE VIEW {name} AS {endless}")
        kept = list(raw.iterdump())
    with pytest.raises(StoreError, match=f"{name.lower()} is not a plain table"):
        Store.open(f"sqlite:///{file}")
    with contextlib.closing(sqlite3.connect(file)) as raw:
        assert list(raw.iterdump()) == kept


def test_a_revision_is_read_from_a_plain_table(tmp_path: Path) -> None:
    file = Path(shutil.copy(OLD / f"{REVISION}.sqlite", tmp_path))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT '0009' AS version_num FROM n"
    with contextlib.closing(sqlite3.connect(file)) as raw:
        raw.executescript(
            f"DROP TABLE {migrate.VERSION_TABLE}; CREATE VIEW {migrate.VERSION_TABLE} AS {endless} WHERE i < 0"
        )
    for read in (Store.open, lambda url: query(url, "best", time_limit_s=60), lambda url: open_source(url).__enter__()):
        with pytest.raises(StoreError, match="cuprof_revision is not a plain table"):
            read(f"sqlite:///{file}")


def test_views_follow_their_files(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(url).close()
    shutil.copytree(bundled("db"), tmp_path / "db", ignore=shutil.ignore_patterns("*.sqlite*"))
    views = tmp_path / "db" / "views"
    (views / "53_counters_before_after.sql").unlink()
    (views / "90_mine.sql").write_text("CREATE VIEW mine AS SELECT COUNT(*) AS n FROM best;\n")
    monkeypatch.setattr(schema_module, "bundled", lambda name: tmp_path / name)
    Store.open(url, read_only=True).close()  # a reader leaves them as they are
    assert "counters_before_after" in view_names(url)
    with Store.open(url):
        pass
    assert "mine" in view_names(url)
    assert "counters_before_after" not in view_names(url)


def view_names(url: str) -> list[str]:
    with Store.open(url, read_only=True) as store:
        return sa.inspect(store.engine).get_view_names()


def test_a_migration_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "list_views", lambda database: {"broken": "CREATE VIEW broken AS SELECT FROM nothing"})
    with pytest.raises(StoreError):
        Store.open(url)
    monkeypatch.undo()
    with Store.open(url) as store:
        assert differences(store) == []


FURTHER = f"{int(REVISION) + 1:04}"
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "{FURTHER}"
down_revision = "{REVISION}"


def upgrade():
    with op.batch_alter_table("run") as batch:
        batch.add_column(sa.Column("extra", sa.Text()))
        batch.alter_column("phase", existing_type=sa.String(64), type_=sa.String(80), existing_nullable=False)
"""


@pytest.mark.parametrize("read_only", [False, True])
def test_a_migration_that_rebuilds_a_table_keeps_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    shutil.copy(OLD / "0001.sqlite", tmp_path / "old.sqlite")
    shutil.copytree(bundled("db"), tmp_path / "db", ignore=shutil.ignore_patterns("*.sqlite*"))
    (tmp_path / "db" / "migrations" / "versions" / f"{FURTHER}_more.py").write_text(NEXT)
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    tables = ("run", "timing", "sample", "sweep_trial")
    with Store.open(url) as store:
        before = {table: query(store.url, table) for table in tables}
    monkeypatch.setattr(migrate, "bundled", lambda name: tmp_path / name)
    for module in (migrate, store_module):
        monkeypatch.setattr(module, "REVISION", FURTHER)
    with Store.open(url, read_only=read_only) as store:
        after = {table: query(store.url, table) for table in tables}
        with store.engine.connect() as connection:
            assert migrate.check_revision(connection, store.parsed_url) == FURTHER
        assert not query(store.url, "best").empty
    assert after["run"]["extra"].isna().all()
    assert not any(frame.empty for frame in before.values())
    for table in tables:
        assert_frame_equal(after[table][list(before[table])], before[table])


def test_energy_moves_out_of_the_details(tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite"
    shutil.copy(OLD / "0001.sqlite", file)
    energy = '{"energy_j": 0.25, "mean_w": 450.5, "idle_w": 80.0, "energy_executions": 7}'
    with contextlib.closing(sqlite3.connect(file)) as old:
        old.execute("UPDATE timing SET details = ? WHERE id = 1", (energy,))
        old.commit()
    with Store.open(f"sqlite:///{file}") as store:
        found = query(store.url, "SELECT energy_j, mean_w, idle_w, rotation, details FROM timing ORDER BY id")
        timing = get_outcome(store, int(query(store.url, "SELECT run_id FROM timing WHERE id = 1").run_id[0])).timings[
            0
        ]
    assert found.loc[0, ["energy_j", "mean_w", "idle_w", "rotation"]].tolist() == [0.25, 450.5, 80.0, ""]
    assert json.loads(found.details[0]) == {"energy_executions": 7}
    assert found.energy_j[1:].isna().all()
    assert timing.energy == Energy(0.25, 450.5, 80.0)


def test_a_database_whose_revision_was_never_there_is_refused(url: str) -> None:
    with Store.open(url) as store, store.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '0000'"))
    with pytest.raises(StoreError, match="cannot be upgraded"):
        Store.open(url)


def test_processes_that_make_one_database_together_all_succeed(url: str) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cuprof.store.store", "alembic.command"])
    gate = context.Barrier(4)
    processes = [context.Process(target=open_together, args=(url, gate)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=150)
    assert [process.exitcode for process in processes] == [0] * 4
    with Store.open(url) as store:
        assert differences(store) == []


def test_opening_a_current_database_does_not_import_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.sqlite'}"
    Store.open(url).close()
    script = (
        "import sys; from cuprof.store.store import Store; Store.open(sys.argv[1]).close(); "
        "print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


LATER_THAN_PASSWORDS = (
    "DROP TABLE station",
    "ALTER TABLE sweep_trial DROP COLUMN station_id",
    "ALTER TABLE run DROP COLUMN job",
    "ALTER TABLE run DROP COLUMN build_sass_hash",
    "DROP TABLE source_counters",
    "DELETE FROM property",
    "DROP TABLE ranking",
    "DROP TABLE samples",
    "CREATE TABLE sample (timing_id INTEGER, ordinal INTEGER, round INTEGER, duration_ns DOUBLE PRECISION, "
    "sm_clock_mhz DOUBLE PRECISION, excluded TEXT)",
)
"""What takes back the revisions after 0004."""


def test_passwords_that_were_stored_are_taken_out(url: str) -> None:
    typed = f"postgresql://127.0.0.1/base?user=me&password={WORD}"
    leaky = {
        "sweep": {
            "command_line": f"cuprof sweep 'store.url={typed}' measure=quick",
            "configuration": {"store": {"url": typed}, "measure": {"target": 0.01}},
        },
        "artifact": {"command": ["ncu", "python", f"--db={typed}"]},
    }
    with Store.open(url) as store:
        store.begin_sweep(FACTS)
        with store.engine.begin() as connection:
            save_artifact(connection, Artifact("a.ncu-rep", "0" * 64, 1))
            for table, values in leaky.items():
                connection.execute(sa.update(METADATA.tables[table]).values(values))
            migrate.drop_views(connection)
            for undone in LATER_THAN_PASSWORDS:
                connection.execute(sa.text(undone))
            connection.execute(sa.text(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '0003'"))
    with Store.open(url) as store, store.snapshot() as connection:
        sweep = connection.execute(sa.select(METADATA.tables["sweep"])).one()
        artifact = connection.execute(sa.select(METADATA.tables["artifact"])).one()
    hidden = typed.replace(WORD, "***")
    assert sweep.command_line == f"cuprof sweep 'store.url={hidden}' measure=quick"
    assert sweep.configuration == {"store": {"url": hidden}, "measure": {"target": 0.01}}
    assert artifact.command == ["ncu", "python", f"--db={hidden}"]


def test_no_password_gets_into_a_column(url: str) -> None:
    with Store.open(url) as store:
        for number, (form, secret) in enumerate(product(FORMS, SECRETS)):
            typed = type_url(form, secret)
            command = shlex.join(["cuprof", "sweep", f"store.url={typed}", "measure=quick"])
            configuration = {"store": {"url": typed}}
            facts = replace(FACTS, plan_hash=str(number), command_line=command, configuration=configuration)
            store.begin_sweep(facts)
    for row in query(url, "SELECT command_line, configuration FROM sweep").itertuples(index=False):
        assert not leaks(str(row)), row
        assert "measure=quick" in row.command_line
