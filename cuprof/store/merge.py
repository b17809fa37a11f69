"""Take what another database holds into this one: each row once, however often it is offered.

A row is recognised by what it is, never by its key: a sweep by its plan and its start, a run by its sweep, its trial
and its time. Rows that belong to one owner alone (samples to a timing) come with it. Of what both databases have, the
later state counts. Rows that cuprof would never have written are refused with everything that belongs to them.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.core.errors import StoreError
from cuprof.core.records import State
from cuprof.store import ranking, stations
from cuprof.store import tables as t
from cuprof.store.connection import checking
from cuprof.store.outcomes import SET_STATE
from cuprof.store.refusals import find_fault, find_samples_fault, find_timing_fault
from cuprof.store.rows import Row, among
from cuprof.store.source import Source
from cuprof.store.sweeps import lock, mark_device
from cuprof.store.trials import VARIANT_KEY
from cuprof.store.types import fingerprint

SEEN, REFUSED = -1, -2
"""Stand for the key of a row that is not taken: its owner is here already, or it was refused."""


@dataclass(frozen=True)
class Part:
    """How the rows of a table are recognised.

    Args:
        key: columns that identify a row; empty where rows come and go with their owner's.
        same: further columns in which two rows of one key cannot differ.
        owner: the foreign key to what the row belongs to: it is taken only with a new owner.
    """

    table: sa.Table
    key: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    owner: str = ""

    def mark(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values that identify a row."""
        return tuple([row[name] for name in self.key])


PARTS = (
    Part(t.device, ("fingerprint",), ("comparable",)),
    Part(t.variant, VARIANT_KEY, ("source_text",)),
    Part(t.problem, ("family", "fingerprint")),
    Part(t.trial, ("identity",), ("variant_id", "problem_id", "tunables")),
    Part(t.sweep, ("plan_hash", "started_at"), ("family",)),
    Part(t.station, ("sweep_id", "name", "process_host", "process_id", "process_started", "joined_at")),
    Part(t.calibration, ("sweep_id", "device_id")),
    Part(t.run, ("sweep_id", "trial_id", "recorded_at"), ("state", "duration_ns", "message")),
    Part(t.sweep_trial, ("sweep_id", "trial_id")),
    Part(t.timing, owner="run_id"),
    Part(t.samples, owner="timing_id"),
    Part(t.artifact, ("sha256",)),
    Part(t.metric, ("name", "unit", "rollup")),
    Part(t.profile, ("trial_id", "sweep_id", "name", "recorded_at"), ("state", "duration_ns", "message")),
    Part(t.launch, owner="profile_id"),
    Part(t.counter, owner="launch_id"),
    Part(t.trial_counter, owner="profile_id"),
    Part(t.advice, owner="launch_id"),
    Part(t.source_counters, owner="launch_id"),
)
"""Every table but the ranking, which is computed, and the one of facts about the database itself.

A table comes after those that its rows refer to.
"""


@dataclass
class Merged:
    """What was taken from one database.

    Args:
        added: table → how many rows are new.
        refused: "table: why" → how many rows were refused.
        notes: a line for each difference between what both databases have.
        reports: how many report files were copied.
        missing: how many were not found at that database's paths, or are on a machine out of reach.
    """

    added: Count[str] = field(default_factory=Count)
    refused: Count[str] = field(default_factory=Count)
    notes: list[str] = field(default_factory=list)
    reports: int = 0
    missing: int = 0


class Merge:
    """One database being taken into another, within one transaction.

    Args:
        connection: of the database that is written to.
        paths: SHA-256 → where an artifact's file lies now.
    """

    def __init__(self, connection: Connection, source: Source, paths: Mapping[str, str]) -> None:
        self.connection, self.source, self.paths = connection, source, paths
        self.merged = Merged()
        self._now = stations.clock(connection)
        self._keys: dict[str, dict[int, int]] = {}
        self._new: dict[str, set[int]] = {}
        self._ok: set[int] = set()
        self._ran: set[int] = set()
        self._doubted: set[int] = set()
        self._both: Count[int] = Count()

    def run(self) -> Merged:
        """Take all tables, each after those that it refers to."""
        lock(self.connection, "merge")  # sweeps go on: no merge writes what they write
        for part in PARTS:
            self._take(part)
        self._settle_states()
        ranking.refresh(self.connection)
        for sweep_id, count in self._both.items():
            label = self.connection.scalar(sa.select(t.sweep.c.name).where(t.sweep.c.id == sweep_id))
            self.merged.notes.append(
                f"sweep {sweep_id} ({label}) had gone on in both databases, and {count} of its trials were measured in "
                "both: both runs are kept, and the sweep goes by the later one"
            )
        return self.merged

    def _take(self, part: Part) -> None:
        known = self._read_known(part)
        keys = self._keys.setdefault(part.table.name, {})
        differing: list[str] = []
        for rows in self.source.read(part.table):
            new: dict[int, Row] = {}
            with checking(self.source.url):
                for place, row in enumerate(rows):
                    old_key = row.pop("id", -place)
                    keys[old_key] = self._translate(part, row)
                    if keys[old_key] == REFUSED and part.table is t.run:
                        self._doubted.add(row["trial_id"])  # whose state the refused run may have set
                    if keys[old_key] in (SEEN, REFUSED):
                        continue
                    there = known.get(part.mark(row))
                    if there is None:
                        new[old_key] = row
                        continue
                    keys[old_key] = there.get("id", SEEN)
                    if any(row[name] != there[name] for name in part.same):
                        differing.append(str(row.get("label") or row.get("name") or part.mark(row)))
                    else:
                        self._reconcile(part, row, there)
            self._insert(part, new, keys)
        if part.table is t.samples:
            self._drop_bare_timings()
        if part.table is t.sweep_trial:
            self._part_from_others()
        if differing:
            self._tell_differing(part, differing)

    def _read_known(self, part: Part) -> dict[tuple[Any, ...], Row]:
        """Return the rows of a table that are here and may be among those that come."""
        if not part.key:
            return {}
        names = dict.fromkeys((*part.key, *part.same, "id", "run_id"))
        columns = [part.table.c[name] for name in names if name in part.table.c]
        with checking(self.connection.engine.url):
            rows = (row._asdict() for row in self.connection.execute(sa.select(*columns)))
            return {part.mark(row): row for row in rows}

    def _translate(self, part: Part, row: Row) -> int:
        """Give a row the keys that what it refers to has here; return SEEN or REFUSED where it is not taken, else 0.

        Raises:
            ValueError: a hash does not fit what it is the hash of.
            LookupError: it refers to a row that is not there.
        """
        for column in part.table.c:
            for reference in column.foreign_keys:
                if row[column.name] is None:
                    continue
                key = row[column.name] = self._keys[reference.column.table.name][row[column.name]]
                if key == REFUSED and part.table is t.sweep_trial and column.name == "run_id":
                    row |= {"run_id": None, "reused": False}
                elif key == REFUSED:
                    return REFUSED
        if part.owner:
            owner = next(iter(part.table.c[part.owner].foreign_keys)).column.table.name
            if row[part.owner] not in self._new.get(owner, ()):
                return SEEN
        if fault := self._find_fault(part, row):
            self.merged.refused[f"{part.table.name}: {fault}"] += 1
            return REFUSED
        _check_hashes(part, row)
        self._adapt(part, row)
        return 0

    def _find_fault(self, part: Part, row: Row) -> str:
        if (fault := find_fault(part.table, row, self._now)) or part.table is t.samples:
            return fault or find_samples_fault(row)
        return find_timing_fault(row, is_ok=row["run_id"] in self._ok) if part.table is t.timing else ""

    def _drop_bare_timings(self) -> None:
        """Delete the new timings whose samples are refused or missing: nothing can be compared with them."""
        is_new = among(self.connection, t.timing.c.id, self._new.get("timing", ()))
        bare = sa.delete(t.timing).where(is_new, t.timing.c.id.not_in(sa.select(t.samples.c.timing_id)))
        count = self.connection.execute(bare).rowcount
        self.merged.added["timing"] -= count
        refused = sum(number for what, number in self.merged.refused.items() if what.startswith("samples: "))
        if count > refused:
            self.merged.refused["timing: it has no samples"] += count - refused

    def _part_from_others(self) -> None:
        """Let no trial of a sweep go by a new run of another trial, whose time it would show."""
        run, member = t.run.c, t.sweep_trial.c
        foreign = sa.select(run.id).where(run.id == member.run_id, run.trial_id != member.trial_id)
        chosen = among(self.connection, member.run_id, self._new.get("run", ())), foreign.exists()
        parted = sa.update(t.sweep_trial).where(*chosen).values(run_id=None, reused=False)
        if count := self.connection.execute(parted).rowcount:
            self.merged.refused["sweep_trial: its run is of another trial"] += count

    def _adapt(self, part: Part, row: Row) -> None:
        """Change what a row says of the place that it comes from, and remember what later rows need."""
        if part.table is t.sweep_trial and row["station_id"] is not None:
            key = self._keys["station"].get(row["station_id"])
            row["station_id"] = None if key in (SEEN, REFUSED) else key
        if part.table is t.sweep and row["state"] == "running":
            row["state"] = "interrupted"  # no process continues it here
        if part.table is t.station and row["left_at"] is None:
            row |= {"left_at": row["seen_at"], "doing": ""}
        if part.table is t.artifact:
            row["path"] = self.paths.get(row["sha256"], row["path"])

    def _insert(self, part: Part, new: Mapping[int, Row], keys: dict[int, int]) -> None:
        """Insert rows, and note the keys that they have here, where they have any."""
        rows = list(new.values())
        self.merged.added[part.table.name] += len(rows)
        if not rows:
            return
        statement = sa.insert(part.table)
        if "id" not in part.table.c:
            self.connection.execute(statement, rows)
            return
        returning = statement.returning(part.table.c.id, sort_by_parameter_order=True)
        inserted = list(self.connection.scalars(returning, rows))
        keys.update(zip(new, inserted, strict=True))
        self._new.setdefault(part.table.name, set()).update(inserted)
        if part.table is t.run:
            self._ran.update(row["trial_id"] for row in rows)
            self._ok.update(key for key, row in zip(inserted, rows, strict=True) if row["state"] == State.OK)

    def _reconcile(self, part: Part, row: Row, there: Row) -> None:
        """Update a row here with the other database's data on the same thing."""
        table = part.table

        def update(values: Row, *conditions: sa.ColumnElement[bool]) -> None:
            same = [table.c[name] == row[name] for name in part.key]
            self.connection.execute(sa.update(table).where(*same, *conditions).values(values))

        if table is t.sweep:
            here = self.connection.execute(sa.select(table).where(table.c.id == there["id"])).one()._asdict()
            if here["state"] != "running" and _progress(row) > _progress(here):
                update(row)
        elif table is t.calibration:
            update(row, table.c.measured_at < row["measured_at"])
        elif table is t.sweep_trial and row["run_id"] not in (None, there["run_id"]):
            values = {name: row[name] for name in ("run_id", "reused", "station_id")}
            if there["run_id"] is None:
                update(values)
            else:
                self._both[row["sweep_id"]] += 1
                update(values, _moment(table.c.run_id) <= _moment(row["run_id"]))

    def _tell_differing(self, part: Part, differing: Sequence[str]) -> None:
        """Note the rows that differ from those here; raise StoreError where no honest database could differ."""
        what = f"{part.table.name} {differing[0]}" + (f" and {len(differing) - 1} others" if differing[1:] else "")
        if part.table not in (t.run, t.profile):
            raise StoreError(
                f"{self.source.place}: {what} differs from what is stored here under the same identity; nothing of "
                "that database was merged: it is damaged, or was changed by hand"
            )
        self.merged.notes.append(f"{what} differs from what is stored here, which is kept")

    def _settle_states(self) -> None:
        """Give the state of its newest run to each trial that both knew, or whose state a refused run may have set."""
        new, new_runs = self._new.get("trial", set()), self._new.get("run", set())
        doubted, run = self._doubted & new, t.run.c
        chosen = among(self.connection, run.trial_id, (self._ran - new) | doubted)
        runs = sa.select(run.trial_id, run.id, run.state, run.message).where(chosen)
        newest_last = runs.order_by(run.state != State.SKIPPED.value, run.recorded_at)
        newest = {row.trial_id: row for row in self.connection.execute(newest_last)}
        ends = dict.fromkeys(doubted, (State.PLANNED.value, ""))
        for key, (_, run_id, state, message) in newest.items():
            if key in doubted or (run_id in new_runs and state != State.SKIPPED):
                ends[key] = state, message
        if ends:
            values = [{"trial": key, "became": state, "said": text} for key, (state, text) in sorted(ends.items())]
            self.connection.execute(SET_STATE, values)


def _moment(run: Any) -> Any:
    """Return the query for when a run was recorded."""
    return sa.select(t.run.c.recorded_at).where(t.run.c.id == run).scalar_subquery()


def _check_hashes(part: Part, row: Row) -> None:
    if part.table is t.problem and row["fingerprint"] != fingerprint(row["coordinates"]):
        raise ValueError(f"problem {row['label']!r:.40} has another fingerprint")
    if part.table is t.device:
        marks = mark_device(row["backend"], row["name"], row["uuid"] or f"#{row['ordinal']}", row["identity"])
        if any(row[name] != mark for name, mark in marks.items()):
            raise ValueError(f"device {row['name']!r:.40} has another fingerprint")


def _progress(sweep: Mapping[str, Any]) -> tuple[bool, float, int]:
    """Return how far a sweep has got, to be compared with itself in another database."""
    return sweep["state"] == "finished", sweep["resumed_at"] or sweep["started_at"], sweep["invocations"]
