"""Read one sweep from the store into a study; reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sqlalchemy.engine import Connection, Engine

from cuprof.backends.registry import is_host
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import Stored, is_timed, read_trials
from cuprof.core.errors import SelectionError
from cuprof.core.point import Point
from cuprof.core.records import NOT_RUN, Measure, State
from cuprof.report.counters import read_counters
from cuprof.report.experiment import Experiment, agrees, find_experiment
from cuprof.report.published import read_published
from cuprof.report.study import COLUMNS, Device, Study
from cuprof.report.trials import RANKING, Timed, grouped
from cuprof.results.earlier import compare_sessions
from cuprof.results.read import read_results
from cuprof.results.source import KernelSource, list_trial_sources
from cuprof.results.sweeps import (
    count_looked_again,
    find_calibration,
    find_finished_before,
    get_sweep,
    is_search,
    list_devices,
    read_configurations,
)
from cuprof.statistics.median import is_mere_range, sure_time
from cuprof.store.connection import reading
from cuprof.store.store import Store

ENERGIES = ("energy_j", "mean_w", "idle_w")


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
        StoreError: the database holds what cuprof never writes.
    """
    with store.snapshot() as connection:
        sweep = get_sweep(connection, experiment, sweep_id)
        description = find_experiment(experiment or sweep.experiment, folders)
        devices = list_sweep_devices(connection, sweep.id)
        results = read_results(connection, [sweep.id], whole=True)
        if results.empty:
            raise SelectionError(f"sweep {sweep.id} has no trials; run python -m cuprof sweep again")
        side = Side("", "sweep", "", read_trials(connection, results), Stored(connection.engine))
        # two trials of one name, which cuprof never writes in a sweep, are one there
        results = results[results["identity"].isin(side.trials["identity"])].reset_index(drop=True)
        frame, timings = make_frames(results, devices, description)
        configuration = read_configurations(connection, [sweep.id])[sweep.id]
        study = Study(
            experiment=description,
            sweep=sweep,
            configuration=configuration,
            devices=tuple(dict.fromkeys(devices.values())),
            frame=frame,
            timings=timings,
            reference=choose_reference(frame, description),
            published=read_published(description),
            counters=read_counters(connection, sweep.id, frame),
            earlier_finished=find_finished_before(connection, sweep),
            agreeing=frozenset(each.sweep_id for each in compare_sessions(connection, sweep.id) if each.agrees),
            looked_again=count_looked_again(connection, sweep.id) if is_search(configuration) else 0,
            side=side,
            database=store.place,
            kernels=cache(partial(_read_kernels, connection.engine)),
        )
        # What the page says of the sweep's settings and devices is written out here, so that wrong values fail here.
        _ = study.provenance, study.confidence
        return study


def _read_kernels(engine: Engine, trial_id: int) -> list[KernelSource]:
    with reading(engine) as connection:
        return list_trial_sources(connection, trial_id)


def choose_reference(trials: pd.DataFrame, experiment: Experiment) -> Point:
    """Return the problem at which variants are compared.

    It is the study's reference problem where that was measured; otherwise, and for axes that the study leaves open, the
    largest problem (useful bytes, then operations) with a right result, or the largest at all when there is none.
    """
    wanted = experiment.reference_problem
    is_right = trials["state"] == State.OK.value
    fits = trials["problem"].map({problem: agrees(problem, wanted) for problem in set(trials["problem"])}).astype(bool)
    chosen = next(trials[each] for each in (fits & is_right, is_right, fits, is_right | True) if each.any())
    sizes = chosen[["useful_bytes", "flops"]].fillna(0).sort_values(["useful_bytes", "flops"], ascending=False)
    reference: Point = trials["problem"][sizes.index[0]]
    return reference


def list_sweep_devices(connection: Connection, sweep_id: int) -> dict[int, Device]:
    """Return the device of every number; rows that are comparable are one device.

    A device is called by its name, with its back end or number where others are called the same.
    """
    kinds = grouped(list_devices(connection, [sweep_id]), lambda row: row.comparable)
    names = Counter(rows[0].facts.name for rows in kinds.values())
    devices: dict[int, Device] = {}
    for comparable, rows in kinds.items():
        facts = rows[0].facts
        label = facts.name if names[facts.name] == 1 else f"{facts.name} ({facts.backend})"
        if label in (each.label for each in devices.values()):
            label = f"{label} #{rows[0].id}"
        device = Device(label, facts, find_calibration(connection, comparable, sweep_id))
        devices |= {row.id: device for row in rows}
    return devices


def make_frames(
    results: pd.DataFrame, devices: Mapping[int, Device], experiment: Experiment
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frame of a study's trials, and that of their timings; see `Study`.

    Args:
        results: what `read_results` returns of one sweep, whole.
    """
    place, has_median = pd.factorize(results["trial_id"])[0], results["median_ns"].notna().to_numpy()
    timings = results[has_median].set_index(place[has_median])
    sure = zip(*(timings[name] for name in ("median_ns", "high_ns", "samples", "confidence")), strict=True)
    timings["sure_ns"] = [sure_time(*each) for each in sure]
    is_few = list(map(is_mere_range, timings["samples"], timings["confidence"]))
    timings.loc[is_few, ["low_ns", "high_ns"]] = np.nan  # they are of the range of the samples
    medians = timings.set_index("measure", append=True)["median_ns"].unstack().reindex(columns=[*Measure])
    ranking = pd.concat([timings[timings["measure"] == measure.value] for measure in RANKING])
    ranked = ranking[["measure", "median_ns", "sure_ns"]].groupby(level=0).first()
    told = timings[[*ENERGIES, "energy_unavailable"]]
    energies = told.mask(told == "").groupby(level=0).first()  # of the measure that was taken first
    trials = results.drop_duplicates("trial_id", ignore_index=True)
    trials = trials.rename(columns={"trial_id": "id", "variant_order": "order"})
    was_run = ~trials["state"].isin([*NOT_RUN])
    is_reused = was_run & ~trials["run_sweep_id"].isin([0, *trials["sweep_id"].unique()])
    trials = trials.assign(**_names(trials, devices, experiment), **medians.add_suffix("_ns"), **ranked, **energies)
    trials = trials.fillna({"sure_ns": np.inf, "measure": "", "energy_unavailable": ""})
    has_samples = is_timed(results)
    sampled = [trials.index.isin(place[has_samples & (results["measure"] == measure.value)]) for measure in RANKING]
    trials["sampled"] = [tuple(compress(RANKING, each)) for each in zip(*sampled, strict=True)]
    is_right = (trials["state"] == State.OK.value) & (trials["expected"] != "wrong") & (trials["measure"] != "")
    on_cpu = trials["total_ns"].isna() & (trials["backend"] == "cpu")
    trials = trials.assign(
        is_right=is_right, is_reused=is_reused, total_ns=trials["total_ns"].where(~on_cpu, trials["median_ns"])
    )
    median_ns = trials["median_ns"].where(trials["median_ns"] > 0)
    for rate, amount in (("bandwidth", "useful_bytes"), ("rate", "flops")):
        trials[rate] = trials[amount].where(trials[amount] > 0) / median_ns * 1e9
    for share, peak in (("share", "read_bandwidth"), ("theoretical_share", "theoretical_bandwidth")):
        allowed = {key: getattr(device, peak) or np.nan for key, device in devices.items()}
        trials[share] = trials["bandwidth"] / trials["device_id"].map(allowed).astype(float)
    # A copy has its columns of one type side by side: to take rows of it takes a third of the time.
    return trials[[*COLUMNS, "at"]].copy(), timings[["measure", *Timed._fields]]


def _names(trials: pd.DataFrame, devices: Mapping[int, Device], experiment: Experiment) -> dict[str, Any]:
    """Return what trials, their devices and problems are called."""
    at, problems = pd.factorize(trials["problem"])
    names = [experiment.problem_name(problem) or problem.label for problem in problems]
    known = {key: device.label for key, device in devices.items()}
    hosts = [key for key, device in devices.items() if is_host(device.facts)]
    labels = pd.Series([known.get(key, "") for key in trials["device_id"]], trials.index, dtype=object)
    several = labels.mask(labels == "").groupby(trials["variant"]).transform("nunique") > 1
    return {
        "at": at,
        "problem_name": [names[number] for number in at],
        "device": labels,
        "on_host": trials["device_id"].isin(hosts),
        "contender": trials["variant"].where(~several | (labels == ""), trials["variant"] + " @ " + labels),
    }
