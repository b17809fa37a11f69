"""Fill a database with a study's trials, runs, timings, samples and counters, as a GPU's sweeps leave them.

The trials are planned, so that a sweep of them finds them; what became of them is drawn at random, in the proportions
of five studies on an H200: how many samples a timing has, how many trials fail, how many were profiled.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.config.build import build_config
from cuprof.core.project import Project
from cuprof.core.records import SweepFacts, Trial
from cuprof.engine.devices import open_executors
from cuprof.engine.planning import prepare
from cuprof.store import ranking
from cuprof.store import tables as t
from cuprof.store.store import Store
from cuprof.store.trials import find_keys

EXPERIMENT = "wide"
VARIANTS, BLOCKS, UNROLLS = 5, 16, 25
MEASURES = ("cold", "hot")
WRONG, FAILED, PROFILED = 0.003, 0.002, 0.05
METRICS = ("launch__grid_dim_z", "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum")
LAUNCHES = 2
AT_ONCE = 2000
OTHER_METHOD = "9beb0df8da0d230c"
DETAILS = {
    "version": "3.3", "correction_ns": 2389.365041561957, "batch": 8, "tick_ns": 4.0, "sampling_ns": 43399712,
    "median_sm_clock_mhz": 1966.9, "temperature_c": 34, "throttled": 0, "flush": "clean", "warmup_ns": 5012345,
}  # fmt: skip
_PROFILE = {
    "artifact_id": None, "name": "", "state": "ok", "message": "", "log": "", "metric_set": "study", "missing": {},
    "metrics": list(METRICS), "cache_mode": "cold", "duration_ns": 11_441_463_075, "clock_control": "none",
    "replay": "kernel",
}  # fmt: skip
_LAUNCH = {
    "kernel": "single_pass", "grid_x": 64, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1,
    "registers": 16, "shared_static_bytes": 0, "shared_dynamic_bytes": 256, "duration_ns": 2784.0, "details": {},
}  # fmt: skip
_VALUE = {"cache_mode": "cold", "text": None, "instances": None}
_RUN = {
    "phase": "", "log": "", "duration_ns": 2_092_395_410, "check_error": 0.0149, "check_error_absolute": 1.39e-05,
    "check_error_relative": 9.9e-08, "check_message": "", "build_registers": 56, "build_shared_bytes": 68,
    "build_spill_bytes": 0, "build_cached": False, "build_ns": 52_379_847, "job": "",
    "build_log": "ptxas info    : 4 bytes gmem\nptxas info    : Compiling entry function 'single_pass' for 'sm_90'",
}  # fmt: skip
SEED = 20231


@dataclass(frozen=True)
class Filled:
    """What was written.

    Args:
        command: the words of the sweep that finds its trials stored.
    """

    sweeps: tuple[int, ...]
    trials: int
    samples: int
    command: tuple[str, ...]


def axes_of(trials: int) -> dict[str, dict[str, list[int]]]:
    """Return problems and tunables whose product with the variants is about as many trials."""
    points = max(1, trials // VARIANTS)
    blocks = min(BLOCKS, points)
    unrolls = max(1, min(UNROLLS, points // blocks))
    problems = max(1, points // (blocks * unrolls))
    return {
        "problem": {"n": list(range(64, 64 + problems))},
        "tune": {"block": [32 * (place + 1) for place in range(blocks)], "unroll": list(range(1, unrolls + 1))},
    }


def fill(project: Project, url: str, trials: int, sweeps: int = 2) -> Filled:
    """Write sweeps of one study, all but the last of an earlier source; together they have about `trials` trials."""
    with Store.open(url) as store, store.snapshot() as connection:
        row = connection.execute(sa.select(*t.sweep.c).order_by(t.sweep.c.id)).first()
    assert row is not None, "sweep the experiment once before, so that its configuration is known"
    axes = axes_of(trials // sweeps)
    composed = {**row.configuration, **axes}
    facts = SweepFacts(**{field.name: getattr(row, field.name) for field in fields(SweepFacts)})
    facts = replace(facts, configuration=composed)
    config = build_config(composed, experiment=EXPERIMENT)
    with open_executors(config) as executors:
        prepared = prepare(config, project, executors)
        with Store.open(url) as store:
            planned = prepared.plan.trials
            methods = {measure.value: method for measure, method in prepared.methods["cpu"].items()}
            filled: list[int] = []
            samples = 0
            for age in reversed(range(sweeps)):
                earlier = planned if not age else [_earlier(trial, age) for trial in planned]
                sweep_id = store.begin_sweep(replace(facts, plan_hash=f"{facts.plan_hash}-{age}"))
                store.enlist(sweep_id, earlier)
                samples += _write_runs(store, sweep_id, earlier, methods)
                store.finish_sweep(sweep_id, "finished")
                filled.append(sweep_id)
            with store.engine.begin() as connection:
                ranking.refresh(connection)
    words = [f"{part}.{name}={','.join(map(str, values))}" for part, of in axes.items() for name, values in of.items()]
    return Filled(tuple(filled), len(planned) * sweeps, samples, (f"experiment={EXPERIMENT}", *words))


def _earlier(trial: Trial, age: int) -> Trial:
    """Return the trial as it was before its source was changed."""
    source = hashlib.sha256(f"{trial.source_hash}-{age}".encode()).hexdigest()
    identity = hashlib.sha256(f"{trial.identity}-{age}".encode()).hexdigest()[:32]
    return replace(trial, identity=identity, source_hash=source)


def _write_runs(store: Store, sweep_id: int, trials: Sequence[Trial], methods: dict[str, str]) -> int:
    rng = np.random.default_rng(SEED + sweep_id)
    written = 0
    for start in range(0, len(trials), AT_ONCE):
        with store.engine.begin() as connection:
            written += _write_block(connection, sweep_id, trials[start : start + AT_ONCE], methods, rng)
    return written


def _write_block(
    connection: Connection, sweep_id: int, trials: Sequence[Trial], methods: Mapping[str, str], rng: np.random.Generator
) -> int:
    """Write what became of some trials, each a run; return how many samples it has left."""
    keys = find_keys(connection, [trial.identity for trial in trials])
    device_id = connection.scalar(sa.select(sa.func.min(t.device.c.id)))
    first_run, first_timing = (
        1 + (connection.scalar(sa.select(sa.func.max(table.c.id))) or 0) for table in (t.run, t.timing)
    )
    now = time.time()
    runs, timings, samples = [], [], []
    endings = rng.random(len(trials))
    for run_id, (trial, ending) in enumerate(zip(trials, endings, strict=True), first_run):
        state = "ok"
        if ending < WRONG + FAILED:
            state = "wrong_result" if ending < WRONG else "crashed"
        facts = {"id": run_id, "trial_id": keys[trial.identity], "sweep_id": sweep_id, "device_id": device_id}
        told = {
            "state": state,
            "message": "" if state == "ok" else f"{state} at {run_id}",
            "check_passed": state == "ok",
        }
        runs.append({**_RUN, **facts, **told, "recorded_at": now, "started_at": now, "check_seed": str(run_id)})
        if state != "ok":
            continue
        true_ns = _true_ns(trial) * (1 + 0.01 * rng.standard_normal())
        for place, measure in enumerate(MEASURES):
            timing_id = first_timing + len(timings)
            durations = _draw(rng, true_ns * (1 - 0.3 * place))
            timings.append(_timing(timing_id, run_id, measure, methods.get(measure, OTHER_METHOD), durations))
            samples.append((timing_id, durations))
    connection.execute(sa.insert(t.run), runs)
    connection.execute(sa.insert(t.timing), timings)
    _write_profiles(connection, sweep_id, runs, rng)
    _write_samples(connection, samples)
    connection.execute(
        sa.update(t.sweep_trial)
        .where(t.sweep_trial.c.sweep_id == sweep_id, t.sweep_trial.c.trial_id == sa.bindparam("run_trial"))
        .values(run_id=sa.bindparam("id"), reused=False),
        [{"run_trial": run["trial_id"], "id": run["id"]} for run in runs],
    )
    connection.execute(
        sa.update(t.trial).where(t.trial.c.id == sa.bindparam("key")).values(state=sa.bindparam("became")),
        [{"key": run["trial_id"], "became": run["state"]} for run in runs],
    )
    return sum(len(durations) for _, durations in samples)


def _write_profiles(
    connection: Connection, sweep_id: int, runs: Sequence[Mapping[str, Any]], rng: np.random.Generator
) -> None:
    """Write what a profiler said of some of the trials that were right."""
    metrics = dict(connection.execute(sa.select(t.metric.c.name, t.metric.c.id)).all())
    if not metrics:
        connection.execute(
            sa.insert(t.metric), [{"name": name, "unit": "byte", "rollup": "sum", "meaning": ""} for name in METRICS]
        )
        metrics = dict(connection.execute(sa.select(t.metric.c.name, t.metric.c.id)).all())
    chosen = [run for run in runs if run["state"] == "ok" and rng.random() < PROFILED]
    if not chosen:
        return
    ids = (t.profile.c.id, t.launch.c.id)
    profile_id, launch_id = (1 + (connection.scalar(sa.select(sa.func.max(key))) or 0) for key in ids)
    profiles, launches, counters, rolled = [], [], [], []
    for run in chosen:
        profiles.append(
            {
                **_PROFILE,
                "id": profile_id,
                "trial_id": run["trial_id"],
                "sweep_id": sweep_id,
                "recorded_at": run["recorded_at"],
                "started_at": run["recorded_at"],
            }
        )
        values = {key: float(1e6 * rng.random()) for key in metrics.values()}
        rolled += [
            {**_VALUE, "profile_id": profile_id, "trial_id": run["trial_id"], "metric_id": key, "value": value}
            for key, value in values.items()
        ]
        for ordinal in range(LAUNCHES):
            launches.append({**_LAUNCH, "id": launch_id, "profile_id": profile_id, "ordinal": ordinal})
            counters += [
                {**_VALUE, "launch_id": launch_id, "metric_id": key, "value": value / LAUNCHES}
                for key, value in values.items()
            ]
            launch_id += 1
        profile_id += 1
    for table, rows in ((t.profile, profiles), (t.launch, launches), (t.counter, counters), (t.trial_counter, rolled)):
        connection.execute(sa.insert(table), rows)


def _true_ns(trial: Trial) -> float:
    """Return how long a configuration takes: a landscape with one best, slower for a larger problem."""
    block, unroll = trial.tunables["block"], trial.tunables["unroll"]
    shape = 1 + 0.2 * abs(np.log2(block / 256)) + 0.1 * abs(np.log2(unroll / 4))
    return float(3000 + 50 * trial.problem["n"]) * shape * (1 + 0.1 * trial.order)


def _draw(rng: np.random.Generator, true_ns: float) -> np.ndarray:
    """Return durations: mostly 20, seldom up to 200."""
    count = 20 if rng.random() < 0.6 else min(200, int(20 + rng.exponential(60)))
    return true_ns * np.exp(0.01 * rng.standard_normal(count) + 0.002)


def _timing(timing_id: int, run_id: int, measure: str, method: str, durations: np.ndarray) -> dict[str, Any]:
    low, q1, median, q3, high = np.quantile(durations, (0.3, 0.25, 0.5, 0.75, 0.7))
    return {
        "median_ns": float(median), "low_ns": float(low), "high_ns": float(high),
        "q1_ns": float(q1), "q3_ns": float(q3),
        "id": timing_id, "run_id": run_id, "measure": measure, "method": method, "stopped_by": "interval",
        "sample_count": len(durations), "excluded_count": 0, "confidence": 0.95,
        "mean_ns": float(durations.mean()), "stdev_ns": float(durations.std()),
        "min_ns": float(durations.min()), "max_ns": float(durations.max()), "rotation": "", "details": DETAILS,
    }  # fmt: skip


def _write_samples(connection: Connection, samples: Sequence[tuple[int, np.ndarray]]) -> None:
    rows = [
        {
            "timing_id": timing_id,
            "durations_ns": durations.tolist(),
            "rounds": list(range(len(durations))),
            "sm_clocks_mhz": [1966.1] * len(durations),
            "exclusions": None,
        }
        for timing_id, durations in samples
    ]
    connection.execute(sa.insert(t.samples), rows)
