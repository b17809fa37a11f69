"""The trials of one side as a data frame, and the samples behind it."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import finalize

import numpy as np
import pandas as pd
from sqlalchemy.engine import Connection, Engine

from cuprof.backends.registry import is_host
from cuprof.comparison.noise import ONE_LAUNCH, add_models
from cuprof.core.point import Point, format_coordinate
from cuprof.core.records import Measure, State
from cuprof.results.samples import read_pool, read_references, read_samples
from cuprof.results.sweeps import list_devices, read_configurations
from cuprof.statistics.contrasts import Known, learn
from cuprof.statistics.correlation import Pools
from cuprof.statistics.samples import Samples
from cuprof.store.connection import reading
from cuprof.worker.method import relevant_settings

COLUMNS: Mapping[str, Any] = {
    "family": "", "variant": "", "backend": "", "problem": Point(), "tunables": Point(), "device": "",
    "device_key": "", "device_id": 0, "device_number": "", "device_repeats": False, "on_host": False, "identity": "",
    "state": State.OK.value, "message": "", "expected": "right", "run_id": 0, "run_sweep_id": 0, "started_at": 0.0,
    "duration_ns": 0, "job": "", "code": "", "measure": "", "method": "", "version": "", "tool": "", "batch": 1,
    "samples": 0, "median_ns": np.nan, "timing_id": -1, "tick_ns": 0.0, "rotation": "", "reference": "",
    "reference_id": -1, "model": ONE_LAUNCH,
}  # fmt: skip
"""Of a side's trials, with the values that stand where nothing is known.

They are those of the results frame, and beside them:

- `trial`: a number, equal in the rows of one trial
- `device_number`: the device's on its machine, as another tool tells it: equal names may be several devices
- `device_repeats`: another tool has timings of several devices of this name
- `on_host`: the device is the host's processor
- `tool`: the other tool that measured it
- `timing_id`: what `Source.read` finds samples by; of a trial without a time, `measure` is empty
- `reference`, `reference_id`: identity and timing of the trial that several jobs of the sweep measured, its own among
  them
- `model`: how its time is assumed to vary
"""
KERNEL_TIMES = (Measure.COLD, Measure.HOT)
RANKED = (*KERNEL_TIMES, Measure.TOTAL)
"""The fastest tunables are those of the shortest time, by the first of these measures that a trial has."""


class Source:
    """Where the samples of trials come from: here, samples that are at hand and form one pool."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._learned: Known | None = None

    def read(self, rows: pd.DataFrame) -> Samples:
        """Return the samples of timed rows, a series a row."""
        return self._samples.take(rows["timing_id"].to_numpy())

    def learn(self, rows: pd.DataFrame) -> Known:
        """Return the correlation, for each row, in its series and in differences within its rounds."""
        self._learned = self._learned or learn(self._samples)
        return self._learned.take(np.zeros(len(rows), np.int64))

    def settings(self, sweep_id: int, measure: Measure, backend: str) -> Mapping[str, Any]:
        """Return the settings of the sweep that decide what a number of a measure on a back end means."""
        return {}


class Stored(Source):
    """Samples of a database; the runs that one sweep made of one measure on one device are a pool."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pools: dict[tuple[int, str, int], Known] = {}
        self._settings: dict[int, Mapping[str, Any]] = {}
        finalize(self, engine.dispose)

    def read(self, rows: pd.DataFrame) -> Samples:
        """Return the samples of timed rows, read in few queries."""
        with reading(self._engine) as connection:
            return read_samples(connection, rows)

    def learn(self, rows: pd.DataFrame) -> Known:
        """Return what the sweep that made each row's run says: of all its runs, whichever are compared."""
        keys = list(zip(rows["run_sweep_id"], rows["measure"], rows["device_id"], strict=True))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        missing = [key for key in numbers if key not in self._pools]
        if missing:
            with reading(self._engine) as connection:
                self._pools |= {key: learn(read_pool(connection, *key)) for key in missing}
        places = np.array([numbers[key] for key in keys], dtype=np.int64)
        learned = zip(*(self._pools[key] for key in numbers), strict=True)
        return Known(*(Pools(*map(np.concatenate, zip(*each, strict=True))) for each in learned)).take(places)

    def settings(self, sweep_id: int, measure: Measure, backend: str) -> Mapping[str, Any]:
        if sweep_id not in self._settings:
            with reading(self._engine) as connection:
                configuration = read_configurations(connection, [sweep_id]).get(sweep_id, {})
            self._settings[sweep_id] = configuration.get("measure") or {}
        return relevant_settings(measure, self._settings[sweep_id], backend)


def read_trials(connection: Connection, results: pd.DataFrame) -> pd.DataFrame:
    """Return the trials in rows of `read_results` as a side has them; of a trial in several sweeps, the last one's.

    A measure without a sample that has a logarithm is none; a measure counts for a right trial alone.
    """
    on_host = {device.id: is_host(device.facts) for device in list_devices(connection)}
    names = ["sweep_id", "trial_id", "min_ns", "max_ns", *(name for name in COLUMNS if name in results)]
    nowhere = is_host(None)
    frame = results[names].assign(on_host=[on_host.get(key, nowhere) for key in results["device_id"]])
    (trial,) = number_keys(frame, by=("family", "variant", "backend", "problem", "tunables", "device"))
    (member,) = number_keys(frame, by=("sweep_id", "trial_id"))
    last = np.zeros(trial.size, dtype=np.int64)
    last[trial] = member  # of equal places the last one stands
    frame = frame.assign(trial=trial)[member == last[trial]]
    timed = frame[is_timed(frame)].copy()
    partly = timed["min_ns"].isna() | (timed["min_ns"] <= 0) | timed["median_ns"].isna()
    if partly.any():  # the stored median is of samples without a logarithm, too
        timed.loc[partly, "median_ns"] = read_samples(connection, timed[partly]).medians()
    # one that is nearly 0 cannot be divided by
    if not ((timed["median_ns"] >= np.finfo(np.float64).tiny) & np.isfinite(timed["median_ns"])).all():
        raise ValueError("timing.median_ns is not a duration, though there are samples")
    untimed = frame[~frame["trial"].isin(timed["trial"])].drop_duplicates("trial").copy()
    untimed = untimed.assign(measure="", timing_id=-1, median_ns=np.nan, samples=0)
    every: pd.DataFrame = pd.concat([timed, untimed]).sort_index(kind="stable")
    missing = [name for name in COLUMNS if name not in every]
    frame = every.assign(**{name: pd.Series(COLUMNS[name], every.index, _dtype(name)) for name in missing})
    references = read_references(connection, frame["run_sweep_id"].unique().tolist())
    jobs = zip(frame["run_sweep_id"], frame["job"], frame["measure"], strict=True)
    if references:
        found = [references.get(job, ("", -1)) for job in jobs]
        frame["reference"], frame["reference_id"] = map(list, zip(*found, strict=True))
    frame["trial"] = pd.factorize(frame["trial"])[0]
    return add_models(frame[["trial", *COLUMNS]].reset_index(drop=True)).copy()  # rows of a copy are taken faster


def is_timed(results: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of the results frame have a time of a right run, with a sample that has a logarithm."""
    return (results["state"] == State.OK.value) & (results["samples"] > 0) & (results["max_ns"] > 0)


def make_trials(records: Iterable[Mapping[str, Any]]) -> tuple[pd.DataFrame, Source]:
    """Return trials that are in no database, and their samples.

    Args:
        records: columns by name, and under "series" the samples of each measure, one series of `Samples` each.
    """
    rows: list[dict[str, Any]] = []
    parts: list[Samples] = []
    for number, record in enumerate(records):
        facts = {**record, "trial": number}
        series: Mapping[Measure, Samples] = facts.pop("series", {})
        numbered = enumerate(series, len(parts))
        rows += [facts | {"measure": each.value, "timing_id": number} for number, each in numbered] or [facts]
        parts += series.values()
    names = ["trial", *COLUMNS]
    frame = pd.DataFrame(
        {name: pd.Series([row.get(name, COLUMNS.get(name)) for row in rows], dtype=_dtype(name)) for name in names}
    )
    samples, timed = Samples.joined(parts), frame["timing_id"] >= 0
    frame.loc[timed, "median_ns"], frame.loc[timed, "samples"] = samples.medians(), samples.counts
    frame.loc[timed, "tick_ns"], frame.loc[timed, "rotation"] = samples.tick_ns, samples.rotation
    return add_models(frame), Source(samples)


def each(rows: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a frame, their columns as attributes."""
    # As `itertuples` does, which makes the class anew: that takes 5 ms where there are 80 names.
    return map(_row_class(tuple(rows)), rows.index, *(column for _, column in rows.items())) if len(rows) else iter(())


@lru_cache(maxsize=32)
def _row_class(names: tuple[str, ...]) -> Callable[..., Any]:
    return namedtuple("Row", ["Index", *names], rename=True)


def label_of(trial: Any) -> str:
    """Return a row of a side's trials for people, with the device's number where its name does not tell it."""
    number = f"device {trial.device_number}" if trial.device_repeats else ""
    return " · ".join(part for part in (name_of(trial), trial.problem.label, trial.tunables.label, number) if part)


def name_of(trial: Any) -> str:
    """Return "family/variant" of a row of a side's trials."""
    return f"{trial.family}/{trial.variant}" if trial.variant else str(trial.family)


def ending_of(trial: Any) -> str:
    """Return in one line how a trial ended."""
    return f"{label_of(trial)}: {trial.state}: {trial.message or 'no message'}"


def coordinates_of(trial: Any) -> dict[str, str]:
    """Return problem and tunables as text, for matching with other tools."""
    return {name: format_coordinate(value) for name, value in {**trial.problem, **trial.tunables}.items()}


def number_keys(*frames: pd.DataFrame, by: Sequence[str]) -> list[np.ndarray]:
    """Return a number for each row of some frames, equal where the columns are; points ignore their axes' order."""
    ends = np.cumsum([len(frame) for frame in frames])
    numbers = np.zeros(ends[-1], np.int64)
    for name in by:  # not by groupby, which writes keys as Arrow's text: half of a surrogate pair has none
        values = np.concatenate([frame[name].to_numpy(object) for frame in frames])
        codes = pd.factorize(values, use_na_sentinel=False)[0]
        numbers = pd.factorize(numbers * (len(values) + 1) + codes)[0]
    return np.split(numbers, ends[:-1])


def _dtype(name: str) -> Any:
    kind = type(COLUMNS.get(name, 0))
    return kind if kind in (int, float, bool) else object
