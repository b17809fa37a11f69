"""Read one sweep from the store into a study; reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.orm import Session

from cuprof.analysis.experiment import Experiment, find_experiment
from cuprof.analysis.facts import point_label
from cuprof.analysis.load_counters import read_counters
from cuprof.analysis.published import read_published
from cuprof.analysis.study import FINISHED, Device, Study, Sweep, choose_baseline
from cuprof.analysis.trials import trials_frame
from cuprof.errors import SelectionError, UnknownNameError
from cuprof.point import Point
from cuprof.records import ENERGY_UNAVAILABLE
from cuprof.store import Store, models
from cuprof.store.connection import explained, make_engine, parse_url

SUMMARY = {
    "ns": "median_ns",
    "low_ns": "low_ns",
    "high_ns": "high_ns",
    "count": "sample_count",
    "excluded": "excluded_count",
    "stopped_by": "stopped_by",
    "energy_j": "energy_j",
    "mean_w": "mean_w",
    "idle_w": "idle_w",
    "rotation": "rotation",
}
CHUNK = 400
"""Keys in one IN (…): SQLite takes no more than 999 parameters in older builds."""


def load_study(
    store: Store, experiment: str = "", *, sweep_id: int | None = None, folders: Iterable[Path] = (), database: str = ""
) -> Study:
    """Return the newest sweep of an experiment, or the sweep of that number, as a study.

    Runs that the sweep took over from earlier ones are part of it.

    Args:
        experiment: name of the experiment; for sweeps without one, the family's or the sweep's name.
        sweep_id: a sweep of that name, or of any where the name is empty.
        folders: folders of experiments, for study.yaml; an earlier one wins.
        database: text for the provenance section; default the place of the store.

    Raises:
        UnknownNameError: no sweep of that name is stored.
        SelectionError: no sweep of that number is stored, it is another experiment's, or it has no trials.
        ConfigError: the experiment's study.yaml or a published table cannot be read.
    """
    url = parse_url(store.url)
    with explained(url), _session(url) as session:
        sweep = _find_sweep(session, experiment, sweep_id)
        description = find_experiment(experiment or sweep.experiment, folders)
        devices, labels = _read_devices(session, sweep.id)
        rows = _read_rows(session, sweep.id, labels)
        if not rows:
            raise SelectionError(f"sweep {sweep.id} has no trials; run python -m cuprof sweep again")
        baseline = choose_baseline(sweep.configuration or {}, description, sweep.baseline)
        trials = trials_frame(rows, devices, description, baseline)
        reference, note = choose_reference(trials, description)
        samples = _read_samples(session, trials[trials["problem"] == reference])
        counted = read_counters(session, trials)
        finished = _find_finished(session, sweep)
    facts = Sweep(
        id=sweep.id,
        name=sweep.name,
        experiment=sweep.experiment,
        family=sweep.family,
        baseline=sweep.baseline,
        command_line=sweep.command_line,
        configuration=sweep.configuration or {},
        host=sweep.host,
        git=sweep.git or {},
        software=sweep.software or {},
        state=sweep.state,
        started_at=_iso(sweep.started_at),
        finished_at=_iso(sweep.finished_at),
        database=database or store.place,
        earlier_finished=finished,
    )
    return Study(
        experiment=description,
        sweep=facts,
        devices=devices,
        trials=trials,
        samples=samples,
        reference=reference,
        reference_note=note,
        published=read_published(description),
        counters=counted.values,
        launches=counted.launches,
        findings=counted.findings,
        hot_only=counted.hot_only,
        other_algorithm=counted.other_algorithm,
    )


def choose_reference(trials: pd.DataFrame, experiment: Experiment) -> tuple[Point, str]:
    """Return the problem at which variants are compared, and why it is not the study's own (empty when it is).

    It is the study's reference problem where that was measured; otherwise, and for axes that the study leaves open, the
    largest problem (useful bytes, then operations) with a right result, or the largest at all when there is none.
    """
    wanted = experiment.reference_problem
    fits = trials["problem"].map(lambda problem: all(problem.get(axis) == value for axis, value in wanted.items()))
    right = trials["state"] == "ok"
    note = ""
    for chosen in (trials[fits & right], trials[right], trials[fits], trials):
        if not chosen.empty:
            break
    sizes = chosen.assign(
        _bytes=chosen["useful_bytes"].fillna(0).astype(float), _flops=chosen["flops"].fillna(0).astype(float)
    )
    reference = sizes.sort_values(["_bytes", "_flops"], ascending=False, kind="stable").iloc[0]["problem"]
    if wanted and not all(reference.get(axis) == value for axis, value in wanted.items()):
        what = "was measured without a right result" if bool(fits.any()) else "is not part of this sweep"
        note = (
            f"The study compares variants at {point_label(wanted)}, which {what}; {point_label(reference)} takes its "
            "place."
        )
    return reference, note


@contextmanager
def _session(url: sa.URL) -> Iterator[Session]:
    engine = make_engine(url, read_only=True)
    try:
        with Session(engine) as session:
            yield session
    finally:
        engine.dispose()


def _find_sweep(session: Session, experiment: str, sweep_id: int | None) -> models.Sweep:
    if sweep_id is not None:
        return _get_sweep(session, experiment, sweep_id)
    for column in (models.Sweep.experiment, models.Sweep.family, models.Sweep.name):
        of_that_name = sa.select(models.Sweep).where(column == experiment, models.Sweep.purpose == "timing")
        newest_first = of_that_name.order_by(models.Sweep.id.desc()).limit(1)
        if experiment and (found := session.scalar(newest_first)) is not None:
            return found
    known = [name for name in session.scalars(sa.select(models.Sweep.experiment).distinct()) if name]
    raise UnknownNameError("stored experiment", experiment, known, "(run python -m cuprof sweep experiment=NAME first)")


def _get_sweep(session: Session, experiment: str, sweep_id: int) -> models.Sweep:
    """Return the sweep of that number, which must be of the experiment where one is named."""
    found = session.get(models.Sweep, sweep_id)
    if found is None:
        newest = session.scalar(sa.select(sa.func.max(models.Sweep.id)))
        raise SelectionError(
            f"there is no sweep {sweep_id}; " + (f"the newest is {newest}" if newest else "none is stored")
        )
    if not experiment:
        return found
    # a family's name finds a sweep of its own only where it is no experiment's name, as without a number
    is_experiment = session.scalar(sa.select(sa.exists().where(models.Sweep.experiment == experiment)))
    names = {found.experiment, *(() if found.experiment and is_experiment else (found.family, found.name))}
    if experiment not in names:
        what = f"experiment={found.experiment}" if found.experiment else f"family={found.family}"
        raise SelectionError(
            f"sweep {sweep_id} is of {what}, not of {experiment}; write {what} report.sweep={sweep_id}"
        )
    if found.purpose == "profiling":
        raise SelectionError(
            f"sweep {sweep_id} collected counters, which the pages of timing sweeps show; "
            f"python -m cuprof query sweeps lists those of {experiment}"
        )
    return found


def _find_finished(session: Session, sweep: models.Sweep) -> int | None:
    """Return the newest earlier timing sweep of the same experiment that was finished, None without one."""
    return session.scalar(
        sa.select(sa.func.max(models.Sweep.id)).where(
            models.Sweep.id < sweep.id,
            models.Sweep.experiment == sweep.experiment,
            models.Sweep.family == sweep.family,
            models.Sweep.purpose == "timing",
            models.Sweep.state.in_(FINISHED),
        )
    )


def _read_devices(session: Session, sweep_id: int) -> tuple[tuple[Device, ...], dict[int, str]]:
    """Return the sweep's devices, and the label of every device row; rows that are comparable are one device."""
    members = sa.select(models.SweepTrial.device_id).where(models.SweepTrial.sweep_id == sweep_id)
    runs = (
        sa.select(models.Run.device_id)
        .join(models.SweepTrial, models.SweepTrial.run_id == models.Run.id)
        .where(models.SweepTrial.sweep_id == sweep_id)
    )
    calibrated = sa.select(models.Calibration.device_id).where(models.Calibration.sweep_id == sweep_id)
    chosen = models.Device.id.in_(members) | models.Device.id.in_(runs) | models.Device.id.in_(calibrated)
    rows = session.scalars(sa.select(models.Device).where(chosen).order_by(models.Device.id)).all()
    first: dict[str, models.Device] = {}
    for row in rows:
        first.setdefault(row.comparable, row)
    names = _labels(list(first.values()))
    devices = tuple(_device(session, sweep_id, row, names[comparable]) for comparable, row in first.items())
    return devices, {row.id: names[row.comparable] for row in rows}


def _device(session: Session, sweep_id: int, row: models.Device, label: str) -> Device:
    """Return one device with this sweep's calibration, or its newest one where the sweep measured none."""
    calibration = session.scalar(
        sa.select(models.Calibration)
        .join(models.Device, models.Device.id == models.Calibration.device_id)
        .where(models.Device.comparable == row.comparable)
        .order_by(
            models.Calibration.read_bandwidth.is_(None),
            (models.Calibration.sweep_id == sweep_id).desc(),
            models.Calibration.sweep_id.desc(),
        )
        .limit(1)
    )
    return Device(
        label=label,
        backend=row.backend,
        name=row.name,
        identity=row.identity or {},
        details=row.details or {},
        memory_bytes=row.memory_bytes,
        read_bandwidth=calibration.read_bandwidth if calibration else None,
        calibration={**(calibration.details or {}), "event_overhead_ns": calibration.event_overhead_ns}
        if calibration
        else {},
    )


def _labels(rows: Sequence[models.Device]) -> dict[str, str]:
    """Return a label for every kind of device: its name, with what tells it apart where two share the name."""
    names = [row.name for row in rows]
    labels: dict[str, str] = {}
    for row in rows:
        label = row.name if names.count(row.name) == 1 else f"{row.name} ({row.backend})"
        labels[row.comparable] = label if label not in labels.values() else f"{label} #{row.id}"
    return labels


def _read_rows(session: Session, sweep_id: int, labels: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return what is stored of every trial of the sweep, in the sweep's order."""
    query = (
        sa.select(models.SweepTrial, models.Trial, models.Variant, models.Problem, models.Run)
        .join(models.Trial, models.Trial.id == models.SweepTrial.trial_id)
        .join(models.Variant, models.Variant.id == models.Trial.variant_id)
        .join(models.Problem, models.Problem.id == models.Trial.problem_id)
        .outerjoin(models.Run, models.Run.id == models.SweepTrial.run_id)
        .where(models.SweepTrial.sweep_id == sweep_id)
        .order_by(models.SweepTrial.ordinal)
    )
    found = session.execute(query).all()
    timings = _read_timings(session, [run.id for *_, run in found if run is not None])
    return [_trial_row(*each, labels=labels, timings=timings) for each in found]


def _trial_row(
    member: models.SweepTrial,
    trial: models.Trial,
    variant: models.Variant,
    problem: models.Problem,
    run: models.Run | None,
    *,
    labels: Mapping[int, str],
    timings: Mapping[int, Mapping[str, Mapping[str, Any]]],
) -> dict[str, Any]:
    device_id = (run.device_id if run else None) or member.device_id or trial.device_id
    reason = "; ".join(text for text in (member.unavailable_reason, member.unavailable_remedy) if text)
    return {
        "trial_id": trial.id,
        "run_id": run.id if run else None,
        "run_sweep_id": run.sweep_id if run else None,
        "ordinal": member.ordinal,
        "identity": trial.identity,
        "family": variant.family,
        "variant": variant.name,
        "order": variant.ordinal,
        "kind": variant.kind,
        "backend": variant.backend,
        "expected": variant.expected,
        "description": variant.description,
        "origin": variant.origin,
        "device": labels.get(device_id, "") if device_id is not None else "",
        "problem": Point(problem.coordinates),
        "tunables": Point(trial.tunables or {}),
        "state": run.state if run else ("skipped" if reason else "planned"),
        "message": run.message if run else reason,
        "log": run.log if run else "",
        "check_error": run.check_error if run else None,
        "check_message": (run.check_message if run else None) or "",
        "registers": run.build_registers if run else None,
        "useful_bytes": trial.useful_bytes,
        "flops": trial.flops,
        "timings": timings.get(run.id, {}) if run else {},
    }


def _read_timings(session: Session, run_ids: Sequence[int]) -> dict[int, dict[str, dict[str, Any]]]:
    """Return run → measure → summary; of two methods in one run, the later one."""
    result: dict[int, dict[str, dict[str, Any]]] = {}
    for chunk in _chunks(run_ids):
        query = sa.select(models.Timing).where(models.Timing.run_id.in_(chunk)).order_by(models.Timing.id)
        for timing in session.scalars(query):
            summary = {name: getattr(timing, column) for name, column in SUMMARY.items()}
            summary["timing_id"] = timing.id
            summary[ENERGY_UNAVAILABLE] = timing.details.get(ENERGY_UNAVAILABLE, "")
            result.setdefault(timing.run_id, {})[timing.measure] = summary
    return result


def _read_samples(session: Session, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the counted samples of the measure that ranks, for these trials."""
    columns = ["trial_id", "round", "duration_ns"]
    frames = [pd.DataFrame(columns=columns).astype({"trial_id": int, "round": int, "duration_ns": float})]
    for measure, chosen in trials[trials["run_id"].notna()].groupby("time_measure"):
        for chunk in _chunks([int(run) for run in chosen["run_id"]]):
            query = (
                sa.select(models.Run.trial_id, models.Sample.round, models.Sample.duration_ns)
                .join(models.Timing, models.Timing.id == models.Sample.timing_id)
                .join(models.Run, models.Run.id == models.Timing.run_id)
                .where(models.Timing.run_id.in_(chunk), models.Timing.measure == measure, models.Sample.excluded == "")
                .where(models.Sample.duration_ns.is_not(None))
                .order_by(models.Sample.timing_id, models.Sample.ordinal)
            )
            frames.append(pd.DataFrame(session.execute(query).all(), columns=columns))
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def _chunks(keys: Sequence[int]) -> Iterable[Sequence[int]]:
    return (keys[start : start + CHUNK] for start in range(0, len(keys), CHUNK))


def _iso(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else ""
