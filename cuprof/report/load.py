"""Read one sweep from the store into a study; reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import json
from sqlalchemy.engine import Connection

from cuprof.comparison.sides import Side
from cuprof.comparison.trials import Stored, read_trials
from cuprof.core.errors import SelectionError
from cuprof.core.point import Point
from cuprof.core.records import ENERGY_UNAVAILABLE, Measure, State
from cuprof.report.counters import read_counters
from cuprof.report.experiment import Experiment, find_experiment
from cuprof.report.published import read_published
from cuprof.report.study import Device, Study
from cuprof.report.trials import Measured, StudyTrial, Timed
from cuprof.report.units import point_label
from cuprof.results.devices import DeviceRow, find_calibration, list_devices
from cuprof.results.read import read_results
from cuprof.results.sessions import compare_sessions
from cuprof.results.sweeps import (
    count_looked_again,
    find_finished_before,
    get_sweep,
    is_search,
    read_configurations,
)
from cuprof.statistics import Samples
from cuprof.store import Store

if TYPE_CHECKING:
    import pandas as pd


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
        devices = _devices(connection, sweep.id)
        results = read_results(connection, [sweep.id], whole=True)
        side = Side("", "sweep", "", read_trials(connection, [sweep.id], results=results), Stored(connection.engine))
        trials = _trials(results, side, devices, description)
        if not trials:
            raise SelectionError(f"sweep {sweep.id} has no trials; run python -m cuprof sweep again")
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
        side=side,
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


def _measured(side: Side) -> dict[str, Measured]:
    """Return the times of each trial, by identity."""
    timed = side.trials[side.trials["measure"] != ""]
    places: dict[str, dict[Measure, int]] = {}
    for place, (identity, measure) in enumerate(zip(timed["identity"], timed["measure"], strict=True)):
        places.setdefault(identity, {})[Measure(measure)] = place

    def reader(of_trial: Mapping[Measure, int]) -> Callable[[Measure], Samples]:
        return lambda measure: side.source.read(timed.iloc[[of_trial[measure]]])

    on_host = timed["on_host"].tolist()
    return {
        identity: Measured(frozenset(of_trial), on_host[next(iter(of_trial.values()))], reader(of_trial))
        for identity, of_trial in places.items()
    }


def _trials(
    results: pd.DataFrame, side: Side, devices: Mapping[int, Device], experiment: Experiment
) -> tuple[StudyTrial, ...]:
    """Return the sweep's trials in its order, made of the rows that the results frame has of each."""
    entries, timings = _measured(side), _timings(results)
    facts = results.drop_duplicates("trial_id")
    labels = [devices[key].label if key in devices else "" for key in facts["device_id"]]
    ran_on = {pair for pair in zip(facts["variant"], labels, strict=True) if pair[1]}
    several = {name for name, number in Counter(variant for variant, _ in ran_on).items() if number > 1}
    problems = {
        problem: experiment.problem_name(problem) or point_label(problem) for problem in dict.fromkeys(facts["problem"])
    }
    columns = [_column(facts[name]) for name in _COLUMNS.values()]
    trials = []
    for label, key, *values in zip(labels, facts["device_id"], *columns, strict=True):
        given: dict[str, Any] = dict(zip(_COLUMNS, values, strict=True))
        variant = given["variant"]
        given["state"] = State(given["state"])
        trials.append(
            StudyTrial(
                **given,
                timings=timings.get(given["id"], {}),
                contender=f"{variant} @ {label}" if label and variant in several else variant,
                problem_name=problems[given["problem"]],
                device=label,
                read_bandwidth=devices[key].read_bandwidth if label else None,
                theoretical_bandwidth=devices[key].theoretical_bandwidth if label else None,
                entry=entries.get(given["identity"]),
            )
        )
    return tuple(trials)


_COLUMNS = {"id": "trial_id", "order": "variant_order"} | {
    name: name
    for name in (
        *("sweep_id", "ordinal", "identity", "family", "variant", "kind", "backend", "expected", "origin", "problem"),
        *(
            "tunables",
            "useful_bytes",
            "flops",
            "state",
            "message",
            "run_id",
            "run_sweep_id",
            "started_at",
            "job",
            "log",
        ),
        *("registers", "check_error"),
    )
}
"""Field of a trial → column of the results frame."""


def _column(column: pd.Series[Any]) -> list[Any]:
    """Return a column as plain values, None for a number that is missing."""
    values: list[Any] = column.tolist()
    return [None if value != value else value for value in values] if column.dtype == float else values


def _timings(frame: pd.DataFrame) -> dict[int, dict[Measure, Timed]]:
    """Return trial → measure → its timing, of those with a median."""
    timed = frame[frame["median_ns"].notna()]
    found: dict[int, dict[Measure, Timed]] = {}
    columns = [timed[name].tolist() for name in Timed._fields[:-1]]
    for trial, measure, details, *values in zip(
        timed["trial_id"].tolist(), timed["measure"], timed["details"], *columns, strict=True
    ):
        why = json.decode(details).get(ENERGY_UNAVAILABLE, "") if ENERGY_UNAVAILABLE in details else ""
        found.setdefault(trial, {})[Measure(measure)] = Timed._make([*values, str(why or "")])
    return found
