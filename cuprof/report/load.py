"""Read one sweep from the store into a study; reads only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from cuprof.comparison.entries import Entry
from cuprof.comparison.stored import read_entries
from cuprof.core.errors import SelectionError
from cuprof.core.point import Point
from cuprof.core.records import State
from cuprof.report.experiment import Experiment, find_experiment
from cuprof.report.load_counters import read_counters
from cuprof.report.published import read_published
from cuprof.report.study import Device, Study
from cuprof.report.trials import StudyTrial
from cuprof.report.units import point_label
from cuprof.results.devices import DeviceRow, find_calibration, list_devices
from cuprof.results.sessions import compare_sessions
from cuprof.results.sweeps import count_looked_again, find_finished_before, get_sweep, is_search, read_configurations
from cuprof.results.trials import TrialRow, list_trials
from cuprof.store import Store


def load_study(
    store: Store, experiment: str = "", *, sweep_id: int | None = None, folders: Iterable[Path] = ()
) -> Study:
    """Return the newest sweep of an experiment, or the sweep of that number, as a study.

    Runs that the sweep took over from earlier ones are part of it.

    Args:
        experiment: name of the experiment; for sweeps without one, the family's or the sweep's name.
        sweep_id: a sweep of that name, or of any where the name is empty.
        folders: folders of experiments, for study.yaml; an earlier one wins.

    Raises:
        UnknownNameError: no sweep of that name is stored.
        SelectionError: no sweep of that number is stored, it is another experiment's, or it has no trials.
        ConfigError: the experiment's study.yaml or a published table cannot be read.
    """
    with store.snapshot() as connection:
        sweep = get_sweep(connection, experiment, sweep_id)
        description = find_experiment(experiment or sweep.experiment, folders)
        rows = list_trials(connection, [sweep.id])
        if not rows:
            raise SelectionError(f"sweep {sweep.id} has no trials; run python -m cuprof sweep again")
        devices = _devices(connection, sweep.id)
        entries = {entry.identity: entry for entry in read_entries(connection, [sweep.id], rows=rows)}
        trials = _trials(rows, devices, description, entries)
        counters = read_counters(connection, sweep.id, trials)
        configuration = read_configurations(connection, [sweep.id])[sweep.id]
        earlier = find_finished_before(connection, sweep)
        agreeing = frozenset(each.sweep_id for each in compare_sessions(connection, sweep.id) if each.agrees)
        again = count_looked_again(connection, sweep.id) if is_search(configuration) else 0
    reference, note = choose_reference(trials, description)
    return Study(
        experiment=description,
        sweep=sweep,
        configuration=configuration,
        devices=tuple(dict.fromkeys(devices.values())),
        trials=trials,
        reference=reference,
        reference_note=note,
        published=read_published(description),
        counters=counters,
        earlier_finished=earlier,
        agreeing=agreeing,
        looked_again=again,
        database=store.place,
    )


def choose_reference(trials: Sequence[StudyTrial], experiment: Experiment) -> tuple[Point, str]:
    """Return the problem at which variants are compared, and why it is not the study's own (empty when it is).

    It is the study's reference problem where that was measured; otherwise, and for axes that the study leaves open, the
    largest problem (useful bytes, then operations) with a right result, or the largest at all when there is none.
    """
    wanted = experiment.reference_problem
    fits = [trial for trial in trials if _holds(trial.problem, wanted)]
    right = [trial for trial in trials if trial.state is State.OK]
    right_fits = [trial for trial in fits if trial.state is State.OK]
    chosen = next(filter(None, (right_fits, right, fits, trials)))
    reference = max(chosen, key=lambda trial: (trial.useful_bytes or 0, trial.flops or 0)).problem
    if _holds(reference, wanted):
        return reference, ""
    what = "was measured without a right result" if fits else "is not part of this sweep"
    note = (
        f"The study compares variants at {point_label(wanted)}, which {what}; {point_label(reference)} takes its place."
    )
    return reference, note


def _holds(problem: Point, wanted: Mapping[str, Any]) -> bool:
    return all(problem.get(axis) == value for axis, value in wanted.items())


def _devices(connection: Connection, sweep_id: int) -> dict[int, Device]:
    """Return the device of every number; rows that are comparable are one device."""
    rows = list_devices(connection, [sweep_id])
    first: dict[str, DeviceRow] = {}
    for row in rows:
        first.setdefault(row.comparable, row)
    labels = _labels(list(first.values()))
    devices = {
        comparable: Device(labels[comparable], row.facts, find_calibration(connection, comparable, sweep_id))
        for comparable, row in first.items()
    }
    return {row.id: devices[row.comparable] for row in rows}


def _labels(rows: Sequence[DeviceRow]) -> dict[str, str]:
    """Return a label for every kind of device: its name, with what tells it apart where two share the name."""
    names = [row.facts.name for row in rows]
    labels: dict[str, str] = {}
    for row in rows:
        name = row.facts.name
        label = name if names.count(name) == 1 else f"{name} ({row.facts.backend})"
        labels[row.comparable] = label if label not in labels.values() else f"{label} #{row.id}"
    return labels


def _trials(
    rows: Sequence[TrialRow], devices: Mapping[int, Device], experiment: Experiment, entries: Mapping[str, Entry]
) -> tuple[StudyTrial, ...]:
    names = [field.name for field in fields(TrialRow)]
    values = attrgetter(*names)
    on_devices = {(row.variant, devices[key].label) for row in rows if (key := row.device_id or 0) in devices}
    several = {name for name, number in Counter(variant for variant, _ in on_devices).items() if number > 1}
    problem_names = {
        problem: experiment.problem_name(problem) or point_label(problem)
        for problem in dict.fromkeys(row.problem for row in rows)
    }
    trials = []
    for row in rows:
        device = devices.get(row.device_id or 0)
        label = device.label if device else ""
        timed = {each: timing for each, timing in row.timings.items() if not math.isnan(timing.summary.median_ns)}
        trials.append(
            StudyTrial(
                **dict(zip(names, values(row), strict=True)) | {"timings": timed},
                contender=f"{row.variant} @ {label}" if row.variant in several else row.variant,
                problem_name=problem_names[row.problem],
                device=label,
                read_bandwidth=device.read_bandwidth if device else None,
                theoretical_bandwidth=device.theoretical_bandwidth if device else None,
                entry=entries.get(row.identity),
            )
        )
    return tuple(trials)
