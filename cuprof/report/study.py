"""A study: one sweep as a frame of its trials, with its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from cuprof.backends.registry import is_host
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import Side
from cuprof.config.model import MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import Calibration, DeviceFacts, Measure, State
from cuprof.core.text import count, describe_tried
from cuprof.report.counters import Counters
from cuprof.report.experiment import Experiment
from cuprof.report.published import PublishedValue
from cuprof.report.trials import RANKING, WIDEST, StudyTrial, Timed
from cuprof.report.units import describe_age, format_ratio, format_value, moment
from cuprof.results.source import KernelSource
from cuprof.results.sweeps import SweepRow, is_search
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Verdict
from cuprof.store.types import plain

COLUMNS = tuple(each.name for each in fields(StudyTrial) if each.name != "timings")


@dataclass(frozen=True, eq=False)
class Device:
    """One device of the sweep.

    Args:
        label: unique among the sweep's devices.
        calibration: as measured at the start of the sweep, or last before; None where it never was.
    """

    label: str
    facts: DeviceFacts
    calibration: Calibration | None

    @property
    def theoretical_bandwidth(self) -> float | None:
        """Return bytes a second by the data sheet; None where the device does not tell."""
        gigabytes = self.facts.details.get("theoretical_bandwidth_gbs")
        return float(gigabytes) * 1e9 if gigabytes else None

    @property
    def read_bandwidth(self) -> float | None:
        """Return bytes a second, the roof; None where it was not measured."""
        return self.calibration.read_bandwidth if self.calibration else None

    @property
    def provenance(self) -> dict[str, Any]:
        """Return what is known of it, for people."""
        facts: dict[str, Any] = {"Back end": self.facts.backend}
        if self.facts.memory_bytes:
            facts["Memory"] = f"{self.facts.memory_bytes / 2**30:.1f} GiB"
        if self.read_bandwidth:
            facts["Read bandwidth, measured"] = format_value("bandwidth", self.read_bandwidth)
        if self.calibration and self.calibration.event_overhead_ns:
            facts["Event overhead, measured"] = format_value("time", self.calibration.event_overhead_ns)
        known = {**self.facts.identity, **self.facts.details}
        known = {name.replace("_", " ").capitalize(): value for name, value in known.items() if name.lower() != "name"}
        return facts | known


class Pair(NamedTuple):
    """Two trials as `cuprof compare` compares them, each fact found when it is asked for."""

    study: Study
    base: StudyTrial
    new: StudyTrial

    @property
    def is_apart(self) -> bool:
        """Return whether two sweeps that are not known to agree measured them.

        The machine may have been quieter or hotter in one of them: no speed-up is given across such a gap.
        """
        own, sweeps = self.study.sweep.id, {each.run_sweep_id for each in (self.base, self.new) if each.run_id}
        return len({own if each in self.study.agreeing else each for each in sweeps}) > 1

    @property
    def key(self) -> tuple[str, str, Measure] | None:
        """Return both identities and the ranking measure that both have samples of and may be compared by, or None."""
        measures = (each for each in RANKING if each in self.base.sampled and each in self.new.sampled)
        measure = None if self.is_apart else next(measures, None)
        return (self.base.identity, self.new.identity, measure) if measure else None

    @property
    def compared(self) -> Any | None:
        """Return what `cuprof compare` says of two variants' best trials at one problem; None where it says nothing."""
        return self.study.comparisons.find(*key) if (key := self.key) else None

    @property
    def ratio(self) -> float | None:
        """Return how many times as long `new` takes as `base`, see `VariantComparisons.find_ratio`.

        It is None without samples of a common measure, and across a gap (`is_apart`).
        """
        return self.study.comparisons.find_ratio(*key) if (key := self.key) else None

    @property
    def speedup(self) -> float | None:
        """Return how many times as fast `new` is."""
        return 1 / ratio if (ratio := self.ratio) else None

    @property
    def total_speedup(self) -> float | None:
        """Return that of the times with transfers."""
        return self.base.total_ns / self.new.total_ns if self.base.total_ns and self.new.total_ns else None

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict on `new`, None where `cuprof compare` says nothing of the two."""
        return Verdict(row.verdict) if (row := self.compared) else None

    @property
    def is_level(self) -> bool:
        """Return whether the two times are not shown to differ."""
        return self.verdict not in (None, Verdict.FASTER, Verdict.SLOWER)

    @property
    def doubt(self) -> str:
        """Return "±58 %", the wider of two intervals where it is too wide for a speed-up without a mark."""
        return max(self.base, self.new, key=lambda trial: trial.half_width).doubt

    @property
    def remark(self) -> str:
        """Return that doubt; of two narrow intervals the speed-up's own one where it is too wide; else nothing."""
        row = self.compared
        if self.doubt or row is None or row.high - row.low <= 2 * WIDEST * row.ratio:
            return self.doubt
        if not (row.low and 1 / row.high):
            return "no interval"
        return f"interval {format_ratio(1 / row.high)} to {format_ratio(1 / row.low)}"


@dataclass(frozen=True, eq=False)
class Study:
    """Hold everything a page says about one sweep; only samples are still read from the database.

    Attributes:
        configuration: the sweep's, as composed.
        frame: a row a trial in the sweep's order: the fields of `StudyTrial`, numbers that are not known as NaN, words
            in place of `State` and `Measure`; and `at`, a number that is equal for equal problems.
        timings: the fields of `Timed` and `measure`, a row a timing, under the place of its trial in the frame.
        reference: the problem at which variants are compared.
        earlier_finished: number of the newest earlier sweep of the same experiment that was finished.
        agreeing: numbers of earlier sweeps whose times agree with this one's, as was tried by timing some trials again.
        looked_again: of a search: how many trials it has looked at more than once.
        side: the sweep as `cuprof compare` reads it.
        database: its place, for the provenance.
        kernels: gives a trial's launches that have counters by instruction.
    """

    experiment: Experiment
    sweep: SweepRow
    configuration: Mapping[str, Any]
    devices: tuple[Device, ...]
    frame: pd.DataFrame
    timings: pd.DataFrame
    reference: Point
    published: tuple[PublishedValue, ...]
    counters: Counters
    earlier_finished: int | None
    agreeing: frozenset[int]
    looked_again: int
    side: Side
    database: str
    kernels: Callable[[int], list[KernelSource]]
    _made: dict[int, StudyTrial] = field(default_factory=dict, init=False)

    @property
    def is_search(self) -> bool:
        """Return whether the sweep chose what it tried."""
        return is_search(self.configuration)

    @property
    def size(self) -> str:
        """Return how many trials there are, or how many a search has tried."""
        tried = describe_tried(len(self.frame), self.looked_again)
        return tried if self.is_search else count(len(self.frame), "trial")

    @property
    def confidence(self) -> float:
        """Return the level of the intervals of medians, as the sweep asked for it."""
        settings = self.configuration.get("measure") or {}
        return float(settings.get("confidence", MeasureConfig.confidence))

    @property
    def title(self) -> str:
        """Return the page's heading."""
        return self.experiment.title or self.sweep.experiment or self.sweep.name or self.sweep.family

    @property
    def has_gpu(self) -> bool:
        """Return whether the sweep ran, or was to run, on anything but the host's processor."""
        return any(not is_host(device.facts) for device in self.devices)

    @property
    def findings(self) -> str:
        """Return the author's findings, as Markdown; nothing where they are about devices that the sweep lacks."""
        return self.experiment.findings if self.has_gpu or self.experiment.findings_about != "gpu" else ""

    def rows(self, chosen: pd.DataFrame) -> list[StudyTrial]:
        """Return rows of the frame as trials; the same row is always the same object, kept by its place."""
        missing = [place for place in chosen.index if place not in self._made]
        if missing:
            timed: dict[int, dict[Measure, Timed]] = {place: {} for place in missing}
            rows: Any = self.timings[self.timings.index.isin(missing)].itertuples(name=None)
            for place, measure, *facts in rows:
                timed[place][Measure(measure)] = Timed(*facts)
            at = self.frame.index.get_indexer(pd.Index(missing))
            known = (column[at].tolist() for column in self._columns)
            records = zip(*([None if each != each else each for each in column] for column in known), strict=True)
            for place, own in zip(missing, records, strict=True):
                trial = StudyTrial(**dict(zip(COLUMNS, own, strict=True)), timings=timed[place])
                trial.state, trial.measure = State(trial.state), Measure(trial.measure) if trial.measure else None
                self._made[place] = trial
        return [self._made[place] for place in chosen.index]

    @cached_property
    def _columns(self) -> list[np.ndarray]:
        return [self.frame[name].to_numpy() for name in COLUMNS]

    @cached_property
    def trials(self) -> list[StudyTrial]:
        """Return all trials; pages take rows of the frame instead, as there may be 100,000 trials."""
        return self.rows(self.frame)

    @cached_property
    def here(self) -> pd.DataFrame:
        """Return the rows of the reference problem."""
        return self.frame[[problem == self.reference for problem in self.frame["problem"]]]

    @cached_property
    def standings(self) -> pd.DataFrame:
        """Return a row a contender and problem, see `one_each`."""
        return one_each(self.frame)

    @cached_property
    def fastest(self) -> list[StudyTrial]:
        """Return the fastest choice of tunables of every contender at every problem, in the family's order."""
        right = self.standings[self.standings["is_right"]].sort_index()
        return self.rows(right.sort_values("order", kind="stable"))

    @cached_property
    def best(self) -> list[StudyTrial]:
        """Return those at the reference problem."""
        return [trial for trial in self.fastest if trial.problem == self.reference]

    @cached_property
    def profiled(self) -> list[StudyTrial]:
        """Return the fastest trial with counters of every contender at every problem."""
        return self.rows(one_each(self.frame[self.frame["id"].isin([*self.counters.of])]))

    @cached_property
    def baseline(self) -> str:
        """Return the variant that others are compared with, whether it ran or not.

        It is the one that the sweep was told, else the study's, else the family's.
        """
        typed = str(self.configuration.get("baseline") or "")
        return typed or self.experiment.baseline or self.sweep.baseline

    @cached_property
    def stand_in(self) -> str:
        """Return the contender that replaces a baseline without a right result here, or the empty text."""
        if not self.best or any(trial.variant == self.baseline for trial in self.best):
            return ""
        return self.best[0].contender

    @cached_property
    def libraries(self) -> list[StudyTrial]:
        """Return the library variants among `best`, the fastest first."""
        names = self.experiment.libraries
        chosen = [trial for trial in self.best if (trial.variant in names if names else trial.kind == "library")]
        return sorted(chosen, key=lambda trial: trial.sure_ns)

    def baseline_of(self, trial: StudyTrial, against: str = "") -> StudyTrial | None:
        """Return the best trial of the baseline or of `against` at this problem, on the same device if there is one."""
        found = self._fastest_of.get((trial.problem, against or self.stand_in or self.baseline), {})
        return found.get(trial.device) or next(iter(found.values()), None)

    def pair_of(self, trial: StudyTrial, against: str = "") -> Pair | None:
        """Return a right trial beside its `baseline_of`, None where one of the two is missing."""
        base = self.baseline_of(trial, against) if trial.is_right else None
        return Pair(self, base, trial) if base else None

    def speedup(self, trial: StudyTrial) -> float | None:
        """Return how many times as fast a right trial is as the baseline, None where one is missing."""
        pair = self.pair_of(trial, self.baseline)
        return pair.speedup if pair else None

    def foresee(self, pairs: Iterable[Pair | None]) -> None:
        """Compare many pairs at once, for their verdicts and ratios to find; that is faster than one by one."""
        self.comparisons.foresee(key for pair in pairs if pair and (key := pair.key))

    @cached_property
    def comparisons(self) -> VariantComparisons:
        """Return the comparisons of the sweep's variants, each made when it is asked for."""
        return VariantComparisons(self.side)

    def samples(self, trials: Iterable[StudyTrial]) -> list[Samples]:
        """Return the samples that trials are ranked by, one series for each; all have to have some."""
        keys = [(trial.identity, trial.measure) for trial in trials]
        timed = self.side.trials.set_index(["identity", "measure"])
        found = self.side.source.read(timed.loc[keys].reset_index())
        return [found.take([place]) for place in range(len(keys))]

    def age(self, trial: StudyTrial) -> str:
        """Return "measured 18 min earlier" of a trial taken over from an earlier sweep, else the empty text."""
        if not trial.is_reused:
            return ""
        seconds = self.age_s(trial)
        when = f"in sweep {trial.run_sweep_id}" if seconds is None else f"{describe_age(seconds)} earlier"
        return f"measured {when}"

    def age_s(self, trial: StudyTrial) -> float | None:
        """Return by how much a trial was measured before this sweep started; None where that is not known."""
        if trial.started_at is None or self.sweep.started_at is None:
            return None
        return max(0.0, self.sweep.started_at - trial.started_at)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Return what somebody needs to judge the numbers or to measure them again: groups of facts, a configuration.

        There is nothing of the environment in it, and no password.
        """
        sweep, frame, known = self.sweep, self.frame, self.configuration
        own, reused = frame[frame["run_sweep_id"] == sweep.id], int(frame["is_reused"].sum())
        timed, samples = (own["measure"] != "").sum(), self.timings["samples"][self.timings.index.isin(own.index)].sum()
        trials = f"{len(frame)}, {timed} timed with {samples} samples"
        about = {
            "Command": sweep.command_line,
            "Sweep": f"{sweep.id}, {sweep.state}",
            "Database": self.database,
            "Started": moment(sweep.started_at),
            "Finished": moment(sweep.finished_at),
            "Host": sweep.host,
            "Trials": trials + (f", {reused} taken over from earlier sweeps" if reused else ""),
        }
        git = {name.capitalize(): sweep.git[name] for name in ("commit", "branch", "dirty") if name in sweep.git}
        groups = [("Sweep", about), ("Git", git), *((device.label, device.provenance) for device in self.devices)]
        groups.append(("Software", dict(sorted(sweep.software.items()))))
        told = [
            (title, [(name, _text(each)) for name, each in facts.items() if _text(each)]) for title, facts in groups
        ]
        return {
            "groups": [(title, facts) for title, facts in told if facts],
            "configuration": yaml.safe_dump(plain(known), sort_keys=True, allow_unicode=True) if known else "",
        }

    @cached_property
    def _fastest_of(self) -> dict[tuple[Point, str], dict[str, StudyTrial]]:
        """Return problem and variant or contender → device → its fastest right trial, the fastest device first."""
        found: dict[tuple[Point, str], dict[str, StudyTrial]] = {}
        for trial in sorted(self.fastest, key=lambda trial: trial.sure_ns):
            for name in (trial.variant, trial.contender):
                found.setdefault((trial.problem, name), {}).setdefault(trial.device, trial)
        return found


def one_each(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each contender at each problem: its fastest right trial, else its first.

    They come in the order in which the contenders appear among the trials.
    """
    place = trials.groupby(["at", "contender"], sort=False).ngroup()
    time = trials["sure_ns"].where(trials["is_right"], np.inf)
    ranked = trials.assign(place=place, time=time).sort_values("time", kind="stable")
    return ranked.drop_duplicates("place").sort_values("place").drop(columns=["place", "time"])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = [f"{name} {each}" for name, each in value.items()]
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str("" if value is None else value)
