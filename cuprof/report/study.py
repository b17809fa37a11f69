"""A study: one sweep as typed rows that tables, figures and conclusions are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cuprof.backends.registry import is_host
from cuprof.comparison.compare import Options
from cuprof.comparison.pairs import VariantComparisons
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import make_trials
from cuprof.config.model import MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import Calibration, DeviceFacts, Measure
from cuprof.core.text import count, describe_tried
from cuprof.report.counters import Counters
from cuprof.report.experiment import Experiment
from cuprof.report.published import PublishedValue
from cuprof.report.trials import RANKING, StudyTrial, best_of_tunables, by_sure_time
from cuprof.report.units import describe_age
from cuprof.results.sweeps import SweepRow, is_search
from cuprof.statistics import Verdict


@dataclass(frozen=True, eq=False)
class Device:
    """One device of the sweep.

    Args:
        label: unique among the sweep's devices.
        calibration: as measured at the start of the sweep, or last before; None where it never was.
    """

    label: str
    facts: DeviceFacts
    calibration: Calibration | None = None

    @property
    def read_bandwidth(self) -> float | None:
        """Return bytes a second, the roof; None where it was not measured."""
        return self.calibration.read_bandwidth if self.calibration else None

    @property
    def theoretical_bandwidth(self) -> float | None:
        """Return bytes a second by the data sheet; None where the device does not tell."""
        gigabytes = self.facts.details.get("theoretical_bandwidth_gbs")
        return float(gigabytes) * 1e9 if gigabytes else None


@dataclass(frozen=True)
class Study:
    """Hold everything a page says about one sweep; only samples are still read from the database.

    Attributes:
        configuration: the sweep's, as composed.
        trials: in the sweep's order.
        looked_again: of a search: how many of them it has looked at more than once.
        reference: the problem at which variants are compared.
        reference_note: why that problem, when it is not the study's own.
        earlier_finished: number of the newest earlier sweep of the same experiment that was finished.
        database: its place, for the provenance.
        agreeing: numbers of earlier sweeps whose times agree with this one's, as was tried by timing some trials again.
        options: the rule for comparing variants: the default one of `cuprof compare`.
        side: the sweep as `cuprof compare` reads it; without it no variants are compared.
    """

    experiment: Experiment
    sweep: SweepRow
    configuration: Mapping[str, Any]
    devices: tuple[Device, ...]
    trials: tuple[StudyTrial, ...]
    reference: Point
    reference_note: str = ""
    published: tuple[PublishedValue, ...] = ()
    counters: Counters = field(default_factory=Counters)
    earlier_finished: int | None = None
    looked_again: int = 0
    database: str = ""
    agreeing: frozenset[int] = frozenset()
    options: Options = field(default_factory=Options)
    side: Side | None = None

    @property
    def is_search(self) -> bool:
        """Return whether the sweep chose what it tried."""
        return is_search(self.configuration)

    @property
    def size(self) -> str:
        """Return how many trials there are, or how many a search has tried."""
        tried = describe_tried(len(self.trials), self.looked_again)
        return tried if self.is_search else count(len(self.trials), "trial")

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

    @cached_property
    def right(self) -> list[StudyTrial]:
        """Return the trials that may be ranked."""
        return [trial for trial in self.trials if trial.is_right]

    @cached_property
    def right_here(self) -> list[StudyTrial]:
        """Return those of them at the reference problem."""
        return [trial for trial in self.right if trial.problem == self.reference]

    @cached_property
    def best(self) -> list[StudyTrial]:
        """Return the fastest choice of tunables of every contender at the reference problem, in the family's order."""
        return best_of_tunables(self.right_here)

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
        return sorted(chosen, key=by_sure_time)

    def baseline_of(self, trial: StudyTrial, against: str = "") -> StudyTrial | None:
        """Return the best trial of the baseline or of `against` at this problem, on the same device if there is one."""
        name = against or self.stand_in or self.baseline
        found = self._fastest.get((trial.problem, name), {})
        return found.get(trial.device) or min(found.values(), key=by_sure_time, default=None)

    def speedup(self, trial: StudyTrial, against: str = "") -> float | None:
        """Return how many times as fast a right trial is as the baseline (or `against`), None where one is missing."""
        base = self.baseline_of(trial, against or self.baseline) if trial.is_right else None
        return 1 / ratio if base and (ratio := self.ratio(base, trial)) else None

    def total_speedup(self, trial: StudyTrial, against: str = "") -> float | None:
        """Return the ratio of `speedup` for the times with transfers."""
        base = self.baseline_of(trial, against or self.baseline) if trial.is_right else None
        return base.total_ns / trial.total_ns if base and base.total_ns and trial.total_ns else None

    def foresee_speedups(self, trials: Iterable[StudyTrial]) -> None:
        """Compute the speedups of many trials at once, for `speedup` to find; that is faster than one by one."""
        right = [trial for trial in trials if trial.is_right]
        pairs = [(self.baseline_of(trial, self.baseline), trial) for trial in right]
        self.comparisons.foresee_ratios(
            (base.identity, new.identity, measure)
            for base, new in pairs
            if base and (measure := self._shared_measure(base, new))
        )

    def ratio(self, base: StudyTrial, new: StudyTrial) -> float | None:
        """Return how many times as long `new` takes as `base`, as `cuprof compare` estimates it.

        Two back ends' times are not compared by methods that mean something else, but their ratio is still told: by the
        same estimator, without an interval or a verdict. It is None without samples of a common measure, and across a
        gap (`are_apart`).
        """
        measure = self._shared_measure(base, new)
        return self.comparisons.find_ratio(base.identity, new.identity, measure) if measure else None

    def compare(self, base: StudyTrial, new: StudyTrial) -> Any | None:
        """Return what `cuprof compare` says of two variants' best trials at one problem; None where it says nothing."""
        measure = self._shared_measure(base, new)
        return self.comparisons.find(base.identity, new.identity, measure) if measure else None

    def verdict(self, base: StudyTrial, new: StudyTrial) -> Verdict | None:
        """Return the verdict on `new`, None where `cuprof compare` says nothing of the two."""
        compared = self.compare(base, new)
        return Verdict(compared.verdict) if compared else None

    @cached_property
    def comparisons(self) -> VariantComparisons:
        """Return the comparisons of the sweep's variants, each made when it is asked for."""
        side = self.side or Side("", "sweep", "", *make_trials([]))
        return VariantComparisons(side, self.options)

    @cached_property
    def _fastest(self) -> dict[tuple[Point, str], dict[str, StudyTrial]]:
        """Return problem and variant or contender → device → its fastest right trial."""
        found: dict[tuple[Point, str], dict[str, StudyTrial]] = {}
        for trial in sorted(self.right, key=by_sure_time):
            for name in (trial.variant, trial.contender):
                found.setdefault((trial.problem, name), {}).setdefault(trial.device, trial)
        return found

    def _shared_measure(self, base: StudyTrial, new: StudyTrial) -> Measure | None:
        """Return the ranking measure that both have samples of and may be compared by, None without one."""
        ours, theirs = (each.entry.measures if each.entry else () for each in (base, new))
        shared = (measure for measure in RANKING if measure in ours and measure in theirs)
        return None if self.are_apart(base, new) else next(shared, None)

    def are_apart(self, base: StudyTrial, new: StudyTrial) -> bool:
        """Return whether two trials were measured by two sweeps that are not known to agree.

        The machine may have been quieter or hotter in one of them: no speed-up is given across such a gap.
        """
        sweeps = {each.run_sweep_id for each in (base, new) if each.run_id}
        return len({self.sweep.id if each in self.agreeing else each for each in sweeps}) > 1

    def age(self, trial: StudyTrial) -> str:
        """Return "measured 18 min earlier" of a trial taken over from an earlier sweep, else the empty text."""
        if not trial.is_reused:
            return ""
        seconds = self.age_s(trial)
        return (
            f"measured in sweep {trial.run_sweep_id}"
            if seconds is None
            else f"measured {describe_age(seconds)} earlier"
        )

    def age_s(self, trial: StudyTrial) -> float | None:
        """Return by how much a trial was measured before this sweep started; None where that is not known."""
        if trial.started_at is None or self.sweep.started_at is None:
            return None
        return max(0.0, self.sweep.started_at - trial.started_at)
