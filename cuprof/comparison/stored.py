"""Entries of stored sweeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy.engine import Connection

from cuprof.backends.registry import is_host
from cuprof.comparison.entries import Entry
from cuprof.measure.method import relevant_settings
from cuprof.reading.devices import DeviceRow, list_devices
from cuprof.reading.references import Reference, list_references
from cuprof.reading.samples import SampleArrays, iter_samples
from cuprof.reading.sweeps import read_configurations
from cuprof.reading.trials import TimingRow, TrialRow, list_trials
from cuprof.records import Measure, State
from cuprof.statistics.series import Series

FOLLOW_UP = "follow-up"
"""The purpose of a sweep that timed two variants once more; for nothing else is it the newest of its experiment."""
SAME = ("family", "variant", "problem", "tunables", "backend", "identity", "state", "message", "is_expected_wrong")
"""What an entry is as the trial is."""
FIRST_VERSION = "1.1"
"""The method's of timings that do not tell it: it was stored from the second on."""


def read_entries(
    connection: Connection,
    sweep_ids: Sequence[int],
    variants: Collection[str] = (),
    trials: Iterable[TrialRow] | None = None,
) -> list[Entry]:
    """Return the trials of some sweeps; of a trial in several of them, the last one's.

    Args:
        sweep_ids: the later ones win.
        variants: only these, all when empty.
        trials: what `list_trials` returns of them, where it is known.
    """
    devices = {device.id: device for device in list_devices(connection, sweep_ids)}
    rows: dict[tuple[Any, ...], TrialRow] = {}
    for row in list_trials(connection, sweep_ids, variants) if trials is None else trials:
        device = devices.get(row.device_id or 0)
        key = (row.family, row.variant, row.backend, row.problem, row.tunables, device and device.facts.name)
        rows.pop(key, None)
        rows[key] = row
    configurations = read_configurations(connection, {row.run.sweep_id for row in rows.values() if row.run})
    timings = [timing.id for row in rows.values() for timing in _timings(row).values()]
    measured_in = {row.run.sweep_id for row in rows.values() if row.run}
    references: dict[tuple[int, str], list[Reference]] = defaultdict(list)
    for reference in list_references(connection, sorted(measured_in)):
        references[reference.sweep_id, reference.job].append(reference)
    timings += [each.timing_id for of_job in references.values() for each in of_job]
    samples = dict(iter_samples(connection, timings))

    @cache
    def settings(sweep_id: int, measure: Measure, version: str) -> Mapping[str, Any]:
        measuring = configurations.get(sweep_id, {}).get("measure") or {}
        return {**relevant_settings(measure, measuring), "version": version}

    return [
        _refer(_entry(row, devices.get(row.device_id or 0), samples, settings), row, references, samples)
        for row in rows.values()
    ]


def _refer(
    entry: Entry,
    row: TrialRow,
    references: Mapping[tuple[int, str], Sequence[Reference]],
    samples: Mapping[int, SampleArrays],
) -> Entry:
    """Return the entry with what its job measured of the reference."""
    if row.run is None or not row.run.job:
        return entry
    found = references.get((row.run.sweep_id, row.run.job), ())
    series = {
        each.measure: Series(samples[each.timing_id].durations_ns, samples[each.timing_id].rounds)
        for each in found
        if each.timing_id in samples and (samples[each.timing_id].durations_ns > 0).all()
    }
    return replace(entry, job=row.run.job, reference=found[0].identity if found else "", references=series)


def _timings(row: TrialRow) -> Mapping[Measure, TimingRow]:
    return row.timings if row.state is State.OK else {}


def _entry(
    row: TrialRow,
    device: DeviceRow | None,
    samples: Mapping[int, SampleArrays],
    settings: Callable[[int, Measure, str], Mapping[str, Any]],
) -> Entry:
    timings, series = {}, {}
    for measure, timing in _timings(row).items():
        if timing.id in samples and (found := _series(timing, samples[timing.id])):
            timings[measure], series[measure] = timing, found
    sweep_id = row.run.sweep_id if row.run else 0
    return Entry(
        **{name: getattr(row, name) for name in SAME},
        device=device.facts.name if device else "",
        device_identity=device.comparable if device else "",
        on_host=is_host(device.facts if device else None),
        several_launches=Measure.COLD in timings and int(timings[Measure.COLD].details.get("batch") or 1) > 1,
        run=f"{row.identity} {row.run.started_at} {row.run.duration_ns}" if row.run else "",
        settings={
            measure: settings(sweep_id, measure, str(timing.details.get("version") or FIRST_VERSION))
            for measure, timing in timings.items()
        },
        methods={measure: timing.method for measure, timing in timings.items()},
        series=series,
    )


def _series(timing: TimingRow, samples: SampleArrays) -> Series | None:
    """Return the samples that have a logarithm; None where there are none."""
    durations, rounds = samples.durations_ns, samples.rounds
    positive = durations > 0
    if not positive.all():
        durations, rounds = durations[positive], rounds[positive]
    tick_ns = float(timing.details.get("tick_ns") or 0.0)
    return Series(durations, rounds, timing.rotation, tick_ns=tick_ns) if durations.size else None
