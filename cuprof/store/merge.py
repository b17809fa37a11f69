"""Take what another database holds into this one: each row once, however often it is offered.

A row is known by what it is, never by its key: a sweep by its plan and its start, a run by its sweep, its trial and its
moment. What belongs to one owner alone (samples to a timing) comes with it. Of what both have, the later state counts.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.records import Measure, State
from cuprof.store import counter_models as counters
from cuprof.store import models, ranking
from cuprof.store.connection import checking
from cuprof.store.rows import chunks, fingerprint
from cuprof.store.source import Source
from cuprof.store.sweeps import ENDS, lock
from cuprof.store.trials import VARIANT_KEY

Row = dict[str, Any]
GONE_BY = -1
"""Stands for the key of a row that was not taken, since its owner is here already."""


@dataclass(frozen=True)
class Part:
    """Say by what rows of a table are known.

    Args:
        key: columns that tell one row from every other; empty where rows come and go with their owner's.
        same: further columns in which two rows of one key cannot differ.
        owner: the foreign key of what the row belongs to: it is taken only with a new owner.
    """

    model: type[models.Base]
    key: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    owner: str = ""

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self.table.name

    @property
    def table(self) -> sa.Table:
        """Return the table."""
        table = self.model.__table__
        assert isinstance(table, sa.Table)
        return table


PARTS = (
    Part(models.Device, ("fingerprint",), ("comparable",)),
    Part(models.Variant, VARIANT_KEY, ("source_text",)),
    Part(models.Problem, ("family", "fingerprint")),
    Part(models.Trial, ("identity",), ("variant_id", "problem_id", "tunables")),
    Part(models.Sweep, ("plan_hash", "started_at"), ("family",)),
    Part(models.Station, ("sweep_id", "name", "process_host", "process_id", "process_started", "joined_at")),
    Part(models.Calibration, ("sweep_id", "device_id")),
    Part(models.Run, ("sweep_id", "trial_id", "recorded_at"), ("state", "duration_ns", "message")),
    Part(models.SweepTrial, ("sweep_id", "trial_id")),
    Part(models.Timing, owner="run_id"),
    Part(models.Samples, owner="timing_id"),
    Part(counters.Artifact, ("sha256",)),
    Part(counters.Metric, ("name", "unit", "rollup")),
    Part(counters.Profile, ("trial_id", "sweep_id", "name", "recorded_at"), ("state", "duration_ns", "message")),
    Part(counters.Launch, owner="profile_id"),
    Part(counters.Counter, owner="launch_id"),
    Part(counters.TrialCounter, owner="profile_id"),
    Part(counters.Advice, owner="launch_id"),
)
"""Every table but the ranking, which is computed, and the one of facts about the database itself.

What a row refers to comes before it.
"""

WORDS: Mapping[tuple[str, str], Collection[str]] = {
    **dict.fromkeys([("run", "state"), ("trial", "state"), ("profile", "state")], frozenset(State)),
    ("timing", "measure"): frozenset(Measure),
    ("sweep", "state"): ("running", *ENDS),
}
"""What a column may hold, where whoever reads it knows these words alone."""


@dataclass
class Merged:
    """What was taken from one database.

    Args:
        added: table → how many rows are new.
        notes: what both had and was not the same, a line each.
    """

    place: str
    added: Count[str] = field(default_factory=Count)
    notes: list[str] = field(default_factory=list)


class Merge:
    """One database being taken into another, within one transaction.

    Args:
        connection: of the database that is written to.
        paths: SHA-256 → where an artifact's file lies now.
    """

    def __init__(self, connection: Connection, source: Source, paths: Mapping[str, str]) -> None:
        self.connection, self.source, self.paths = connection, source, paths
        self.merged = Merged(source.place)
        self._keys: dict[str, dict[int, int]] = {}
        self._new: dict[str, set[int]] = {}
        self._moments: dict[int, float] = {}
        self._newest: dict[int, float] = {}
        self._both: Count[int] = Count()

    def run(self) -> Merged:
        """Take all tables, each after those that it refers to."""
        lock(self.connection, "merge")  # sweeps go on: what they write, no merge does
        here = {row.trial_id: row.moment for row in self.connection.execute(_NEWEST_RUNS)}
        for part in PARTS:
            self._take(part)
        self._settle_states(here)
        ranking.refresh(self.connection)
        for sweep_id, count in self._both.items():
            label = self.connection.scalar(sa.select(models.Sweep.name).where(models.Sweep.id == sweep_id))
            self.merged.notes.append(
                f"sweep {sweep_id} ({label}) had gone on in both databases, and {count} of its trials were measured in "
                "both: both runs are kept, and the sweep goes by the later one"
            )
        return self.merged

    def _take(self, part: Part) -> None:
        table = part.table
        known = self._read_known(part)
        has_key = "id" in table.c
        keys = self._keys.setdefault(part.name, {})
        new_keys = self._new.setdefault(part.name, set())
        differing: list[str] = []
        for rows in self.source.read(part.model):
            new: list[Row] = []
            old: list[int] = []
            with checking(self.source.url):
                translated = [(row.get("id", 0), self._translate(part, row)) for row in rows]
            for old_key, row in translated:
                if row is None:
                    keys[old_key] = GONE_BY
                    continue
                mark = tuple(row[name] for name in part.key)
                there = known.get(mark) if part.key else None
                if there is None:
                    new.append(row)
                    old.append(old_key)
                    continue
                if has_key:
                    keys[old_key] = there["id"]
                if any(row[name] != there[name] for name in part.same):
                    differing.append(str(row.get("label") or row.get("name") or mark))
                else:
                    self._reconcile(part, row, there)
            inserted = self._insert(part, new)
            keys.update(zip(old, inserted, strict=False))
            new_keys.update(inserted)
            self.merged.added[part.name] += len(new)
            if part.model is models.Run:
                self._moments.update((key, row["recorded_at"]) for key, row in zip(inserted, new, strict=True))
        if part.model is models.Run:
            for mark, there in known.items():
                self._moments[there["id"]] = mark[2]
        if differing:
            what = f"{part.name} {differing[0]}" + (f" and {len(differing) - 1} others" if differing[1:] else "")
            if part.model not in (models.Run, counters.Profile):
                raise StoreError(
                    f"{self.source.place}: {what} is not what it is here under the same identity; nothing of that "
                    "database was merged: it is damaged, or was changed by hand"
                )
            self.merged.notes.append(f"{what} is not what it is here; what is here is kept")

    def _read_known(self, part: Part) -> dict[tuple[Any, ...], Row]:
        """Return what is here of a table, as far as it may meet what comes."""
        if not part.key:
            return {}
        table = part.table
        more = ("run_id",) if part.model is models.SweepTrial else ()
        columns = [table.c[name] for name in dict.fromkeys((*part.key, *part.same, *more))]
        columns += [table.c.id] if "id" in table.c else []
        rows = (dict(row._mapping) for row in self.connection.execute(sa.select(*columns)))
        return {tuple(row[name] for name in part.key): row for row in rows}

    def _translate(self, part: Part, row: Row) -> Row | None:
        """Return a row with the keys that what it refers to has here, or None where its owner is here already.

        Raises:
            ValueError: it holds what cuprof never writes.
            LookupError: it refers to a row that is not there.
        """
        row.pop("id", None)
        for column in part.table.c:
            if (words := WORDS.get((part.name, column.name))) is not None and row[column.name] not in words:
                raise ValueError(f"{part.name}.{column.name} is {row[column.name]!r:.40}")
            for reference in column.foreign_keys:
                if row[column.name] is not None:
                    row[column.name] = self._keys[reference.column.table.name][row[column.name]]
        if part.owner:
            owner = next(iter(part.table.c[part.owner].foreign_keys)).column.table.name
            return row if row[part.owner] in self._new[owner] else None
        if part.model is models.Problem and row["fingerprint"] != fingerprint(row["coordinates"]):
            raise ValueError(f"problem {row['label']!r:.40} has another fingerprint")
        if part.model is models.Device:
            facts = [row["backend"], row["name"], row["uuid"] or f"#{row['ordinal']}", row["identity"]]
            if row["fingerprint"] != fingerprint(facts) or row["comparable"] != fingerprint(facts[:2] + facts[3:]):
                raise ValueError(f"device {row['name']!r:.40} has another fingerprint")
        if part.model is models.SweepTrial and row["station_id"] is not None:
            row["station_id"] = self._keys["station"].get(row["station_id"])
        if part.model is models.Sweep and row["state"] == "running":
            row["state"] = "interrupted"  # nobody goes on with it here
        if part.model is models.Station and row["left_at"] is None:
            row |= {"left_at": row["seen_at"], "doing": ""}
        if part.model is counters.Artifact:
            row["path"] = self.paths.get(row["sha256"], row["path"])
        if part.model is models.Run and row["state"] != State.SKIPPED:
            moment = max(row["recorded_at"], self._newest.get(row["trial_id"], 0.0))
            self._newest[row["trial_id"]] = moment
        return row

    def _insert(self, part: Part, rows: list[Row]) -> list[int]:
        """Insert rows and return their keys in the same order, where they have any."""
        if not rows:
            return []
        statement = sa.insert(part.model)
        key = part.table.c.get("id")
        if key is None:
            self.connection.execute(statement, rows)
            return []
        return list(self.connection.scalars(statement.returning(key, sort_by_parameter_order=True), rows))

    def _reconcile(self, part: Part, row: Row, there: Row) -> None:
        """Bring what is here up to what the other database knows of the same thing."""
        table = part.table
        if part.model is models.Sweep:
            of_it = sa.select(table).where(table.c.id == there["id"])
            here = self.connection.execute(of_it).one()._asdict()
            if here["state"] != "running" and _progress(row) > _progress(here):
                self.connection.execute(sa.update(table).where(table.c.id == there["id"]).values(row))
        elif part.model is models.Calibration:
            same = [table.c[name] == row[name] for name in part.key]
            self.connection.execute(sa.update(table).where(*same, table.c.measured_at < row["measured_at"]).values(row))
        elif part.model is models.SweepTrial and row["run_id"] not in (None, there["run_id"]):
            if there["run_id"] is not None:
                self._both[row["sweep_id"]] += 1
                if self._moments[row["run_id"]] < self._moments[there["run_id"]]:
                    return
            same = [table.c[name] == row[name] for name in part.key]
            values = {name: row[name] for name in ("run_id", "reused", "station_id")}
            self.connection.execute(sa.update(table).where(*same).values(values))

    def _settle_states(self, here: Mapping[int, float]) -> None:
        """Let each trial that both knew have the state of its newest run."""
        later = {key: moment for key, moment in self._newest.items() if moment > here.get(key, 0.0)}
        later = {key: moment for key, moment in later.items() if key not in self._new["trial"]}
        for chunk in chunks(list(later)):
            rows = self.connection.execute(
                sa.select(models.Run.trial_id, models.Run.recorded_at, models.Run.state, models.Run.message).where(
                    models.Run.trial_id.in_(chunk), models.Run.state != State.SKIPPED.value
                )
            )
            for row in rows:
                if row.recorded_at == later[row.trial_id]:
                    self.connection.execute(
                        sa.update(models.Trial)
                        .where(models.Trial.id == row.trial_id)
                        .values(state=row.state, message=row.message)
                    )


_NEWEST_RUNS = (
    sa.select(models.Run.trial_id, sa.func.max(models.Run.recorded_at).label("moment"))
    .where(models.Run.state != State.SKIPPED.value)
    .group_by(models.Run.trial_id)
)


def _progress(sweep: Mapping[str, Any]) -> tuple[bool, float, int]:
    """Return how far a sweep has come, to be compared with itself in another database."""
    return sweep["state"] == "finished", sweep["resumed_at"] or sweep["started_at"], sweep["invocations"]
