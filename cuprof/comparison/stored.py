"""Entries of stored sweeps; reads only."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from cuprof.comparison.entries import Entry
from cuprof.family.point import Point
from cuprof.measure.method import relevant_settings
from cuprof.records import FAILED, Measure, State, is_host
from cuprof.statistics.series import Series
from cuprof.store import Store

SWEEPS = """
SELECT s.id, s.name, s.experiment, s.family, s.git, s.state, s.started_at, s.purpose FROM sweep s
WHERE s.purpose <> 'profiling' AND (
    EXISTS (SELECT 1 FROM sweep_trial m JOIN timing t ON t.run_id = m.run_id WHERE m.sweep_id = s.id)
    OR EXISTS (SELECT 1 FROM sweep_trial m JOIN run r ON r.id = m.run_id
               WHERE m.sweep_id = s.id AND r.state IN ({failed})))
ORDER BY s.id
"""
FOLLOW_UP = "follow-up"
"""The purpose of a sweep that timed two variants once more; for nothing else is it the newest of its experiment."""
STANDINGS = """
SELECT m.sweep_id, v.name, v.expected, r.state, p.coordinates,
       EXISTS (SELECT 1 FROM timing i JOIN sample s ON s.timing_id = i.id
               WHERE i.run_id = r.id AND s.excluded = '' AND s.duration_ns > 0) AS is_timed
FROM sweep_trial m
JOIN trial t ON t.id = m.trial_id
JOIN variant v ON v.id = t.variant_id
JOIN problem p ON p.id = t.problem_id
JOIN run r ON r.id = m.run_id
WHERE v.family = :family ORDER BY m.sweep_id
"""
MEMBERS = """
SELECT m.run_id, r.sweep_id AS run_sweep_id, r.state, r.message, r.started_at, r.duration_ns,
       v.family, v.name AS variant, v.backend, v.expected,
       p.coordinates, t.tunables, t.identity, d.name AS device, d.comparable, d.details
FROM sweep_trial m
JOIN trial t ON t.id = m.trial_id
JOIN variant v ON v.id = t.variant_id
JOIN problem p ON p.id = t.problem_id
LEFT JOIN run r ON r.id = m.run_id
LEFT JOIN device d ON d.id = COALESCE(r.device_id, m.device_id)
WHERE m.sweep_id = :sweep
ORDER BY m.ordinal
"""
TIMINGS = """
SELECT t.id, t.run_id, t.measure, t.method, t.rotation, t.details FROM timing t WHERE t.run_id IN ({keys}) ORDER BY t.id
"""
SAMPLES = """
SELECT s.timing_id, s.round, s.duration_ns FROM sample s
WHERE s.timing_id IN ({keys}) AND s.excluded = '' AND s.duration_ns > 0 ORDER BY s.timing_id, s.ordinal
"""
CONFIGURATIONS = "SELECT id, configuration FROM sweep WHERE id IN ({keys})"
CHUNK = 400


@dataclass(frozen=True)
class StoredSweep:
    """One sweep of the database."""

    id: int
    name: str
    experiment: str
    family: str
    git: Mapping[str, Any]
    state: str
    started_at: str
    is_follow_up: bool = False

    @property
    def description(self) -> str:
        """Return the sweep for people."""
        return f"sweep {self.id} ({self.experiment or self.name}, {self.started_at})"


@dataclass
class Standing:
    """What became of one variant: at each problem, the sweeps that timed it or saw it fail; whether that is meant."""

    sweeps: dict[Point, set[int]] = field(default_factory=dict)
    is_expected_wrong: bool = False


FIRST_VERSION = "1.1"
"""The method's of timings that do not tell it: it was stored from the second on."""


@dataclass(frozen=True)
class Taken:
    """One timing: its method and that method's version, its samples, and the executions in each of them."""

    method: str
    version: str
    series: Series
    batch: int = 1


def list_sweeps(store: Store) -> list[StoredSweep]:
    """Return the sweeps that timed something or saw it fail, the oldest first; those for a profiler are left out."""
    sql = SWEEPS.format(failed=", ".join(f"'{state.value}'" for state in sorted(FAILED)))
    return [
        StoredSweep(
            id=int(row["id"]),
            name=row["name"],
            experiment=row["experiment"],
            family=row["family"],
            git=json.loads(row["git"] or "{}"),
            state=row["state"],
            started_at=f"{row['started_at']:%Y-%m-%d %H:%M}",
            is_follow_up=row["purpose"] == FOLLOW_UP,
        )
        for row in store.query(sql).to_dict("records")
    ]


def read_standings(store: Store, family: str) -> dict[str, Standing]:
    """Return variant → standing for the variants of a family that any sweep ran."""
    found: dict[str, Standing] = defaultdict(Standing)
    for row in _records(store.query(STANDINGS, {"family": family})):
        standing, state = found[row["name"]], State(row["state"])
        standing.is_expected_wrong = row["expected"] == "wrong"
        if state in FAILED or (state is State.OK and row["is_timed"]):
            problem = Point(json.loads(row["coordinates"]))
            standing.sweeps.setdefault(problem, set()).add(int(row["sweep_id"]))
    return dict(found)


def read_configuration(store: Store, sweep_id: int) -> dict[str, Any]:
    """Return the composed configuration of a sweep, as plain data."""
    return {key: value for row in _by_keys(store, CONFIGURATIONS, [sweep_id]) for key, value in _plain(row).items()}


def read_entries(store: Store, sweep_ids: Sequence[int], variants: Collection[str] = ()) -> list[Entry]:
    """Return the trials of some sweeps; of a trial in several of them, the last one's.

    Args:
        sweep_ids: the later ones win.
        variants: only these, all when empty.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for sweep_id in sweep_ids:
        for row in _records(store.query(MEMBERS, {"sweep": sweep_id})):
            if not variants or row["variant"] in variants:
                key = tuple(row[name] for name in ("family", "variant", "backend", "coordinates", "tunables", "device"))
                rows.pop(key, None)
                rows[key] = row
    runs = sorted({int(row["run_id"]) for row in rows.values() if row["run_id"] is not None})
    owners = sorted({int(row["run_sweep_id"]) for row in rows.values() if row["run_sweep_id"] is not None})
    configurations = {int(row["id"]): _plain(row) for row in _by_keys(store, CONFIGURATIONS, owners)}
    timings = _timings(store, runs)
    return [_entry(row, timings, configurations) for row in rows.values()]


def _entry(
    row: Mapping[str, Any],
    timings: Mapping[int, Mapping[Measure, Taken]],
    configurations: Mapping[int, Mapping[str, Any]],
) -> Entry:
    state = State(row["state"]) if row["state"] else State.PLANNED
    found = timings.get(row["run_id"], {}) if state is State.OK else {}
    measuring = configurations.get(row["run_sweep_id"], {}).get("measure") or {}
    return Entry(
        family=row["family"],
        variant=row["variant"],
        problem=Point(json.loads(row["coordinates"])),
        tunables=Point(json.loads(row["tunables"] or "{}")),
        backend=row["backend"],
        device=row["device"] or "",
        device_identity=row["comparable"] or "",
        on_host=is_host(row["backend"], json.loads(row["details"] or "{}")),
        several_launches=Measure.COLD in found and found[Measure.COLD].batch > 1,
        identity=row["identity"],
        state=state,
        message=row["message"] or "",
        is_expected_wrong=row["expected"] == "wrong",
        run=f"{row['identity']} {row['started_at']} {row['duration_ns']}" if row["run_id"] is not None else "",
        settings={
            measure: {**relevant_settings(measure, measuring), "version": taken.version}
            for measure, taken in found.items()
        },
        methods={measure: taken.method for measure, taken in found.items()},
        series={measure: taken.series for measure, taken in found.items()},
    )


def _timings(store: Store, runs: Sequence[int]) -> dict[int, dict[Measure, Taken]]:
    """Return run → measure → what was taken; of two methods in one run, the later one."""
    rows = list(_by_keys(store, TIMINGS, runs))
    samples: dict[int, Any] = {}
    for chunk in _chunks([int(row["id"]) for row in rows]):
        frame = store.query(SAMPLES.format(keys=",".join(map(str, chunk))))
        samples.update((int(str(key)), group) for key, group in frame.groupby("timing_id"))
    found: dict[int, dict[Measure, Taken]] = defaultdict(dict)
    for row in rows:
        taken = samples.get(int(row["id"]))
        if taken is None:
            continue
        details = json.loads(row["details"] or "{}")
        series = Series(
            taken["duration_ns"].to_numpy(np.float64),
            taken["round"].to_numpy(np.int64),
            row["rotation"] or "",
            tick_ns=float(details.get("tick_ns") or 0.0),
        )
        found[int(row["run_id"])][Measure(row["measure"])] = Taken(
            row["method"], str(details.get("version") or FIRST_VERSION), series, int(details.get("batch") or 1)
        )
    return found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(row["configuration"] or "{}"))


def _by_keys(store: Store, sql: str, keys: Sequence[int]) -> Iterator[dict[str, Any]]:
    for chunk in _chunks(keys):
        yield from _records(store.query(sql.format(keys=",".join(map(str, chunk)))))


def _records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows as plain mappings, None for what is missing."""
    for row in frame.to_dict("records"):
        yield {str(name): None if pd.isna(value) else value for name, value in row.items()}


def _chunks(keys: Sequence[int]) -> Iterator[list[int]]:
    iterator = iter(keys)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
