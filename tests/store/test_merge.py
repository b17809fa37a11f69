"""Several databases become one, which cannot be told from one that was filled alone."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from store_samples import (
    ARTIFACT,
    CALIBRATION,
    FACTS,
    GPU,
    make_counter,
    make_outcome,
    make_profile,
    make_timing,
    make_trial,
)
from throwaway_postgres import Server

from cuprof.core.errors import StoreError
from cuprof.core.records import State
from cuprof.engine.merging import merge_source
from cuprof.results.sweeps import get_sweep
from cuprof.store.merge import PARTS, Merged
from cuprof.store.refusals import DURATIONS, SIZES
from cuprof.store.schema import REVISION
from cuprof.store.source import open_source
from cuprof.store.store import Store
from cuprof.store.tables import METADATA
from cuprof.store.types import Real
from tests.cli.damage import damage

OLD = Path(__file__).parents[1] / "data" / "db"
TRIALS = [make_trial(variant, n) for variant in ("interleaved", "last_warp") for n in (2**10, 2**11)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return make_clock(monkeypatch)


def make_clock(patch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets the time to an hour; it stands still there."""
    now = [0.0]
    patch.setattr("time.time", lambda: now[0])
    patch.setattr("cuprof.store.stations.clock", lambda connection: now[0])
    return lambda hour: now.__setitem__(0, 1_790_000_000 + hour * 3600)


def sweep(
    store: Store, hour: int, *states: State, clock: Callable[[int], None], plan: str = "", stop: bool = False
) -> None:
    """Write a sweep of that hour with everything that a sweep may have; the same hour writes the same."""
    clock(hour)
    facts = replace(FACTS, plan_hash=plan or f"plan of {hour}")
    sweep_id, (station,) = store.join_sweep(facts, [GPU.name])
    store.enlist(sweep_id, TRIALS)
    store.save_calibration(sweep_id, GPU, CALIBRATION)
    for trial, state in zip(TRIALS, states, strict=False):
        store.claim(sweep_id, station, {trial.identity: TRIALS.index(trial)})
        timings = [make_timing(100 + hour)] * (state is State.OK)
        store.record(sweep_id, make_outcome(trial, *timings, state=state, message=f"hour {hour}"))
    artifact = replace(ARTIFACT, sha256=f"{hour:064x}", path=f"{hour}.ncu-rep")
    store.record_profile(sweep_id, replace(make_profile(TRIALS[0], make_counter("cycles", 5.0)), artifact=artifact))
    store.leave([station])
    store.finish_sweep(sweep_id, "interrupted" if stop else "finished")


@pytest.fixture
def new(sqlite_template: Path, tmp_path: Path) -> Callable[[str], str]:
    """Return what makes an empty database of that name and returns its URL."""

    def make(name: str) -> str:
        shutil.copy(sqlite_template, tmp_path / name)
        return f"sqlite:///{tmp_path / name}"

    return make


def dump(store: Store) -> dict[str, list[Any]]:
    """Return all rows, with what they refer to in the place of keys."""
    names: dict[tuple[str, int], Any] = {}
    found = {}
    with store.snapshot() as connection:
        for part in PARTS:
            rows = []
            for row in connection.execute(sa.select(*part.table.c)):
                values = row._asdict()
                key = values.pop("id", None)
                for column in part.table.c:
                    for reference in column.foreign_keys:
                        value = values[column.name]
                        values[column.name] = value and names[reference.column.table.name, value]
                if "station_id" in values:
                    values["station_id"] = values["station_id"] and names["station", values["station_id"]]
                names[part.table.name, key] = tuple(repr(values[name]) for name in part.key) or repr(values)
                rows.append(repr(values))
            found[part.table.name] = sorted(rows)
    return found


def merge_database(url: str, store: Store, artifacts: Path) -> Merged:
    with open_source(url) as source:
        return merge_source(source, store, artifacts)


def merge(store: Store, *urls: str) -> list[Any]:
    return [merge_database(url, store, Path("/nonexistent")) for url in urls]


def test_every_table_is_merged() -> None:
    assert {part.table.name for part in PARTS} == set(METADATA.tables) - {"property", "ranking"}


def test_four_databases_with_overlaps_twice_are_equal_to_one_that_was_filled_alone(
    new: Callable[[str], str], postgres: Server, postgres_template: str, clock: Callable[[int], None]
) -> None:
    ok, wrong, skipped = State.OK, State.WRONG_RESULT, State.SKIPPED
    server, empty = (postgres.make_database(f"merge_{name}", postgres_template) for name in ("from", "into"))
    files = [new(f"{number}.sqlite") for number in range(3)]
    hours = {1: (ok, ok, wrong, ok), 2: (ok, wrong), 3: (wrong, ok, ok), 4: (skipped, skipped), 5: (ok,) * 4}
    held = {server: (5, 1), files[0]: (1, 2), files[1]: (2, 3, 4), files[2]: (3, 1)}
    for place, its_hours in held.items():
        with Store.open(place) as one:
            for hour in sorted(its_hours):
                sweep(one, hour, *hours[hour], clock=clock)
    with Store.open(new("alone.sqlite")) as alone:
        for hour, states in hours.items():
            sweep(alone, hour, *states, clock=clock)
        expected = dump(alone)
    into = new("into.sqlite")
    with Store.open(into) as store:
        merge(store, *held)
        assert dump(store) == expected
        again = merge(store, *reversed(held))
        assert dump(store) == expected
        assert not any(sum(result.added.values()) or result.notes for result in again)
    with Store.open(empty) as store:
        merge(store, into)
        assert dump(store) == expected


def test_a_sweep_that_went_on_in_both_keeps_both_runs_and_goes_by_the_later_one(
    new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None]
) -> None:
    first, other = tmp_path / "first.sqlite", tmp_path / "other.sqlite"
    with Store.open(new(first.name)) as store:
        sweep(store, 1, State.OK, clock=clock, plan="one", stop=True)
    shutil.copy(first, other)
    with Store.open(f"sqlite:///{first}") as store:
        sweep(store, 3, State.WRONG_RESULT, State.OK, State.OK, clock=clock, plan="one", stop=True)
    with Store.open(f"sqlite:///{other}") as store:
        sweep(store, 2, State.OK, State.WRONG_RESULT, State.OK, State.OK, clock=clock, plan="one")
    dumps = []
    for order in ((first, other), (other, first)):
        with Store.open(new(f"into {order[0].name}")) as store:
            results = merge(store, *(f"sqlite:///{file}" for file in order))
            (note,) = results[1].notes
            assert "3 of its trials were measured in both" in note
            dumps.append(dump(store))
            with store.snapshot() as connection:
                told = "SELECT r.message FROM sweep_trial m JOIN run r ON r.id = m.run_id ORDER BY m.ordinal"
                assert list(connection.scalars(sa.text(told))) == ["hour 3"] * 3 + ["hour 2"]
                assert connection.execute(sa.text("SELECT state, invocations FROM sweep")).all() == [("finished", 2)]
                assert connection.scalar(sa.text("SELECT COUNT(*) FROM run")) == 8
    assert dumps[0] == dumps[1]


def test_what_is_newest_goes_by_the_time_and_not_by_when_it_was_taken_in(
    new: Callable[[str], str], clock: Callable[[int], None]
) -> None:
    newer, older = new("newer.sqlite"), new("older.sqlite")
    for url, hour, state in ((newer, 2, State.OK), (older, 1, State.WRONG_RESULT)):
        with Store.open(url) as store:
            sweep(store, hour, state, clock=clock)
    with Store.open(newer) as store:
        merge(store, older)
        identity = TRIALS[0].identity
        assert store.stored([identity], {})[identity].message == "hour 2"
        with store.snapshot() as connection:
            assert get_sweep(connection, FACTS.experiment).started_at == 1_790_000_000 + 2 * 3600
            told = connection.execute(sa.text("SELECT state, message FROM trials WHERE run_id IS NOT NULL"))
            assert told.all() == [("ok", "hour 2")]


@pytest.mark.parametrize("revision", ["0001", "0004", REVISION])
def test_a_database_of_an_older_cuprof_is_taken_from_a_copy(
    revision: str, new: Callable[[str], str], tmp_path: Path
) -> None:
    file = tmp_path / "old.sqlite"
    shutil.copy(OLD / f"{revision}.sqlite", file)
    before = file.read_bytes()
    with Store.open(new("mine.sqlite")) as store:
        (result,) = merge(store, f"sqlite:///{file}")
        merged = dump(store)
    assert result.added["run"] > 0
    assert file.read_bytes() == before
    with Store.open(f"sqlite:///{file}") as upgraded:
        assert merged == dump(upgraded)


def test_what_contradicts_is_named_and_nothing_of_it_taken(
    new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None]
) -> None:
    mine, theirs = tmp_path / "mine.sqlite", tmp_path / "theirs.sqlite"
    with Store.open(new(mine.name)) as store:
        sweep(store, 1, State.OK, clock=clock)
    shutil.copy(mine, theirs)
    with closing(sqlite3.connect(theirs)) as raw:
        raw.executescript("UPDATE trial SET tunables = '{\"block\": 1}'")
    with Store.open(f"sqlite:///{mine}") as store:
        before = dump(store)
        with pytest.raises(StoreError, match=r"trial reduction/.* and 3 others differs from what is stored here"):
            merge(store, f"sqlite:///{theirs}")
        assert dump(store) == before


HOSTILE = {
    "a view in a table's place": "ALTER TABLE run RENAME TO r; CREATE VIEW run AS SELECT * FROM r",
    "an endless view": "DROP TABLE advice; CREATE VIEW advice AS "
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n",
    "a virtual table": "DROP TABLE advice; CREATE VIRTUAL TABLE advice USING fts5(id, launch_id, rule)",
    "a computed column": "ALTER TABLE run RENAME COLUMN log TO l; "
    "ALTER TABLE run ADD COLUMN log TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000)))",
    "an escape from its folder": "UPDATE artifact SET path = '../../etc/passwd'",
    "another problem": "UPDATE problem SET coordinates = '{\"n\": 7}'",
    "deep JSON": "UPDATE device SET details = '" + "[" * 100_000 + "]" * 100_000 + "'",
    "bytes": "UPDATE station SET name = x'ff'; UPDATE variant SET origin = x'ff'",
    "a revision of nobody": "UPDATE cuprof_revision SET version_num = '0000'",
    "a row that is missing": "PRAGMA foreign_keys=OFF; DELETE FROM problem",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_strangers_database_does_no_harm(how: str, new: Callable[[str], str], tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.sqlite"
    shutil.copy(OLD / f"{REVISION}.sqlite", theirs)
    with closing(sqlite3.connect(theirs)) as raw:
        raw.executescript(HOSTILE[how])
    with Store.open(new("mine.sqlite")) as store:
        before = dump(store)
        with pytest.raises(StoreError) as told:
            merge(store, f"sqlite:///{theirs}")
        assert "\n" not in str(told.value)
        assert "theirs.sqlite" in str(told.value)
        assert dump(store) == before


@pytest.mark.parametrize(("made", "told"), [("SELECT 1", "is empty"), ("CREATE TABLE x(y)", "was not made by cuprof")])
def test_a_database_of_nobody_or_of_another_program_is_told(
    made: str, told: str, new: Callable[[str], str], tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.sqlite"
    theirs.touch()
    with closing(sqlite3.connect(theirs)) as raw:
        raw.execute(made)
    with Store.open(new("mine.sqlite")) as store, pytest.raises(StoreError, match=told):
        merge(store, f"sqlite:///{theirs}")


NONSENSE = {
    "a negative time": ("UPDATE timing SET median_ns = -5", "timing: median_ns is not a possible duration"),
    "an endless time": ("UPDATE timing SET mean_ns = 9e999", "timing: mean_ns is not a possible duration"),
    "no time": ("UPDATE timing SET min_ns = 0", "timing: min_ns is not a possible duration"),
    "a time below all clocks": ("UPDATE timing SET q1_ns = 1e-308", "timing: q1_ns is not a possible duration"),
    "a time below this clock": (
        "UPDATE timing SET details = json_set(details, '$.tick_ns', 1e9)",
        "timing: median_ns is below the resolution of its timer",
    ),
    "a negative range": ("UPDATE timing SET stdev_ns = -1", "timing: stdev_ns is not a possible value"),
    "an unknown measure": ("UPDATE timing SET measure = 'lukewarm'", "timing: measure is an unknown word"),
    "a negative sample": (
        "UPDATE samples SET durations_ns = json_set(durations_ns, '$[1]', -5.0)",
        "samples: durations_ns has a sample that is not a possible duration",
    ),
    "a sample that is text": (
        "UPDATE samples SET durations_ns = json_set(durations_ns, '$[0]', 'Infinity')",
        "samples: durations_ns has a sample that is not a possible duration",
    ),
    "a sample too few": (
        "UPDATE samples SET rounds = json_remove(rounds, '$[0]')",
        "samples: rounds and durations_ns have different lengths",
    ),
    "a round that is text": (
        "UPDATE samples SET rounds = json_set(rounds, '$[0]', 'x')",
        "samples: rounds has an impossible number",
    ),
    "a round beyond all": (
        "UPDATE samples SET rounds = json_set(rounds, '$[0]', 1 << 40)",
        "samples: rounds has an impossible number",
    ),
    "a reason that is a number": (
        "UPDATE samples SET exclusions = json_set(replace(rounds, '0', '\"\"'), '$[0]', 5)",
        "samples: exclusions has a reason that is not a text",
    ),
    "a left out sample that is text": (
        "UPDATE samples SET durations_ns = '[\"x\", 5]', rounds = '[0, 1]', sm_clocks_mhz = NULL, "
        'exclusions = \'["throttled", ""]\'',
        "samples: durations_ns has a sample that is not a possible duration",
    ),
    "no sample": (
        "UPDATE samples SET durations_ns = '[]', rounds = '[]', sm_clocks_mhz = NULL, exclusions = NULL",
        "samples: durations_ns has no sample that counts",
    ),
    "samples that are gone": ("DELETE FROM samples WHERE timing_id = 1", "timing: it has no samples"),
    "a run of before 1970": (
        "UPDATE run SET recorded_at = '1970-01-01 00:00:00.000000'",
        "run: recorded_at is in the future or before 1970",
    ),
    "an unknown state": ("UPDATE run SET state = 'marvellous'", "run: state is an unknown word"),
    "a run that took less than no time": (
        "UPDATE run SET duration_ns = -1",
        "run: duration_ns is not a possible value",
    ),
    "a run of the year 2099": (
        "UPDATE run SET recorded_at = '2099-01-01 00:00:00.000000', state = 'wrong_result'",
        "run: recorded_at is in the future or before 1970",
    ),
    "a sweep of the year 2099": (
        "UPDATE sweep SET started_at = '2099-01-01 00:00:00.000000'",
        "sweep: started_at is in the future or before 1970",
    ),
    "a bandwidth below none": (
        "UPDATE calibration SET read_bandwidth = -1",
        "calibration: read_bandwidth is not a possible value",
    ),
    "a process that never started": (
        "UPDATE station SET process_started = 9e999",
        "station: process_started is not a possible value",
    ),
    "an unknown expectation": ("UPDATE variant SET expected = 'perhaps'", "variant: expected is an unknown word"),
    "less than no register": ("UPDATE run SET build_registers = -5", "run: build_registers is negative"),
    "a median outside of its interval": (
        "UPDATE timing SET low_ns = 1e9",
        "timing: median_ns is not between low_ns and high_ns",
    ),
    "a level of 95": ("UPDATE timing SET confidence = 95", "timing: confidence is above 1"),
    "a text for a number": (
        "UPDATE timing SET details = json_set(details, '$.batch', 'x')",
        "timing: details has a text where a number belongs",
    ),
    "settings that are a number": (
        "UPDATE sweep SET configuration = '{\"search\": 5}'",
        "sweep: configuration has a value in the place of a group",
    ),
    "a tunable that is a list": (
        "UPDATE trial SET tunables = '{\"block\": [64]}'",
        "trial: tunables has a value that is neither a number nor a text",
    ),
    "a launch that took no time": (
        "UPDATE launch SET duration_ns = 0",
        "launch: duration_ns is not a possible duration",
    ),
}
LIMIT = {
    "trial": "id = 1",
    "timing": "id = 1",
    "samples": "timing_id = 1",
    "run": "id = 1",
    "variant": "id = 1",
    "launch": "id = 1",
}


UNBOUNDED = {
    *(("run", name) for name in ("check_error", "check_error_absolute", "check_error_relative")),  # may be infinite
    *(("counter", "value"), ("trial_counter", "value"), ("advice", "speedup")),  # whatever Nsight Compute says
}
"""Columns of numbers whose values are all taken."""


def test_every_number_that_is_merged_has_bounds() -> None:
    numbers = {
        (part.table.name, column.name)
        for part in PARTS
        for column in part.table.c
        if isinstance(column.type, Real | sa.Float)
    }
    assert numbers - DURATIONS - SIZES == UNBOUNDED


@pytest.fixture(scope="module")
def honest(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """Return a database with two sweeps, and how many rows each of its tables has."""
    path = Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("honest")))
    with pytest.MonkeyPatch.context() as patch, Store.open(f"sqlite:///{path}") as store:
        for hour in (1, 2):
            sweep(store, hour, *[State.OK] * 4, clock=make_clock(patch))
        return path, {name: len(rows) for name, rows in dump(store).items()}


@pytest.mark.parametrize("how", NONSENSE)
def test_nonsense_is_refused_and_counted_and_the_rest_is_merged(
    how: str, new: Callable[[str], str], honest: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    theirs, (statement, why) = Path(shutil.copy(honest[0], tmp_path / "theirs.sqlite")), NONSENSE[how]
    table = why.partition(":")[0]
    with closing(sqlite3.connect(theirs)) as raw:
        limit = LIMIT.get(table, "rowid = 1" if table == "sweep" else "sweep_id = 1")
        raw.execute(statement if " WHERE " in statement else f"{statement} WHERE {limit}")
        raw.commit()
    with Store.open(new("mine.sqlite")) as store:
        (result,) = merge(store, f"sqlite:///{theirs}")
        assert dict(result.refused) == {why: 1}
        left = {name: len(rows) for name, rows in dump(store).items()}
        assert {name: result.added[name] for name in left} == left
        lost = {name for name, count in honest[1].items() if left[name] < count}
        assert lost == LOST.get(table, {table})
        with store.snapshot() as connection:
            assert set(connection.scalars(sa.text("SELECT state FROM trials"))) == {"ok"}
            assert not connection.exec_driver_sql("PRAGMA foreign_key_check").first()


LOST = {
    "timing": {"timing", "samples"},
    "samples": {"timing", "samples"},
    "run": {"run", "timing", "samples"},
    "sweep": {
        *("sweep", "station", "calibration", "run", "sweep_trial", "timing", "samples"),
        *("profile", "launch", "counter", "trial_counter", "advice"),
    },
    "variant": {
        *("variant", "trial", "run", "sweep_trial", "timing", "samples"),
        *("profile", "launch", "counter", "trial_counter", "advice"),
    },
    "trial": {"trial", "run", "sweep_trial", "timing", "samples"},
    "launch": {"launch", "counter", "advice"},
}
"""What goes with a refused row: all that belongs to it."""


def test_no_trial_goes_by_the_run_of_another_one(
    new: Callable[[str], str], honest: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    theirs = Path(shutil.copy(honest[0], tmp_path / "theirs.sqlite"))
    with closing(sqlite3.connect(theirs)) as raw:
        raw.execute(
            "UPDATE sweep_trial SET run_id = (SELECT run_id FROM sweep_trial WHERE ordinal = 1) WHERE ordinal = 0"
        )
        raw.commit()
    with Store.open(new("mine.sqlite")) as store:
        (result,) = merge(store, f"sqlite:///{theirs}")
        assert dict(result.refused) == {"sweep_trial: its run is of another trial": 2}
        with store.snapshot() as connection:
            told = "SELECT ordinal, COUNT(run_id) FROM sweep_trial GROUP BY ordinal"
            assert connection.execute(sa.text(told)).all() == [(0, 0), (1, 2), (2, 2), (3, 2)]


def test_a_run_of_the_future_changes_no_state_of_a_trial(
    new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None]
) -> None:
    mine, theirs = tmp_path / "mine.sqlite", tmp_path / "theirs.sqlite"
    for path, state in ((mine, State.OK), (theirs, State.WRONG_RESULT)):
        with Store.open(new(path.name)) as store:
            sweep(store, 1, state, clock=clock, plan=path.name)
    with closing(sqlite3.connect(theirs)) as raw:
        raw.execute("UPDATE run SET recorded_at = '2099-01-01 00:00:00.000000'")
        raw.commit()
    for target in (mine, Path(new("other.sqlite").removeprefix("sqlite:///"))):
        with Store.open(f"sqlite:///{target}") as store:
            (result,) = merge(store, f"sqlite:///{theirs}")
            assert result.refused["run: recorded_at is in the future or before 1970"] == 1
            with store.snapshot() as connection:
                query = sa.text("SELECT DISTINCT state FROM trial WHERE identity = :identity")
                state = connection.scalars(query, {"identity": TRIALS[0].identity}).one()
            assert state == ("ok" if target == mine else "planned")


def test_a_clock_that_is_some_hours_ahead_is_accepted(
    new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None]
) -> None:
    with Store.open(new("theirs.sqlite")) as store:
        sweep(store, 14, State.OK, clock=clock)
    clock(0)
    with Store.open(new("mine.sqlite")) as store:
        (result,) = merge(store, f"sqlite:///{tmp_path / 'theirs.sqlite'}")
        assert (result.added["run"], dict(result.refused)) == (1, {})


def test_a_folder_is_told_as_one(new: Callable[[str], str], tmp_path: Path) -> None:
    with Store.open(new("mine.sqlite")) as store, pytest.raises(StoreError, match="is a folder; name a file in it"):
        merge(store, f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("seed", [0, pytest.param(100, marks=pytest.mark.slow)])
def test_damage_is_told_in_one_line_and_leaves_nothing_behind(
    seed: int, new: Callable[[str], str], tmp_path: Path
) -> None:
    theirs, mine = tmp_path / "theirs.sqlite", new("mine.sqlite")
    refused = 0
    for number in range(seed, 2 * seed + 16):
        shutil.copy(OLD / f"{REVISION}.sqlite", theirs)
        damage(theirs, number)
        with Store.open(mine) as store:
            before, told = dump(store), ""
            try:
                merge(store, f"sqlite:///{theirs}")
            except StoreError as error:
                told = str(error)
            refused += bool(told)
            assert "\n" not in told
            assert not told or dump(store) == before
        for left in tmp_path.glob("theirs.sqlite-*"):
            left.unlink()
    assert refused >= 4


def test_a_report_comes_along_whole(new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None]) -> None:
    folder = tmp_path / "theirs" / "artifacts"
    folder.mkdir(parents=True)
    url = new("theirs/cuprof.sqlite")
    with Store.open(url) as store:
        sweep(store, 0, State.OK, clock=clock)
        with store.engine.begin() as connection:
            sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
            connection.execute(sa.text("UPDATE artifact SET sha256 = :sha256"), {"sha256": sha256})
    with Store.open(new("mine.sqlite")) as store:
        kept = tmp_path / "kept"
        assert merge_database(url, store, kept).missing == 1
        (folder / "0.ncu-rep").write_text("hullo")
        with pytest.raises(StoreError, match="is not the report that its database names"):
            merge_database(url, store, kept)
        (folder / "0.ncu-rep").write_text("hello")
        assert merge_database(url, store, kept).reports == 1
        assert merge_database(url, store, kept).reports == 0
        assert [path.read_text() for path in kept.iterdir()] == ["hello"]
    with Store.open(url) as store, store.engine.begin() as connection:
        connection.execute(sa.text("UPDATE problem SET coordinates = '{\"n\": 7}'"))
    with Store.open(new("another.sqlite")) as store:
        with pytest.raises(StoreError, match="was changed by hand"):
            merge_database(url, store, tmp_path / "refused")
        assert list((tmp_path / "refused").iterdir()) == []


@pytest.mark.parametrize(
    ("sha256", "told"),
    [("../../x", "'../../x' is no SHA-256 of a report"), ("0" * 64, "is not the report"), ("", "cannot be copied to")],
)
def test_a_report_that_cannot_be_taken_is_told(
    new: Callable[[str], str], tmp_path: Path, clock: Callable[[int], None], sha256: str, told: str
) -> None:
    report = tmp_path / "theirs" / "artifacts" / "folder" / "0.ncu-rep"
    report.parent.mkdir(parents=True)
    report.write_text("hello")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "folder").write_text("a file in the folder's place")
    url, sha256 = new("theirs/cuprof.sqlite"), sha256 or hashlib.sha256(b"hello").hexdigest()
    with Store.open(url) as store:
        sweep(store, 0, State.OK, clock=clock)
        with store.engine.begin() as connection:
            values = "UPDATE artifact SET sha256 = :sha256, path = 'folder/0.ncu-rep'"
            connection.execute(sa.text(values), {"sha256": sha256})
    with Store.open(new("mine.sqlite")) as store, pytest.raises(StoreError, match=told):
        merge_database(url, store, tmp_path / "kept")
