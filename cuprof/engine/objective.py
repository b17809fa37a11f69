"""Objectives other than time: counters, read under a profiler as the search needs them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuprof.backends.registry import get_spec
from cuprof.config.model import SearchConfig
from cuprof.core.errors import ProfilerError, UnknownNameError, UsageError, suggest
from cuprof.core.records import CounterValue, Measure, Outcome, Trial
from cuprof.engine.profiling import Profiling
from cuprof.ncu import BACKENDS, TITLE
from cuprof.ncu.metrics import METRICS, list_matches
from cuprof.results.counters import read_newest_counters

Values = Mapping[str, Mapping[str, float]]
"""Identity → counter → value."""
WHOLE_NAME = "__"
"""Every full counter name of the chip contains this; another name must be one with a description."""
LEAST = 1e-3
"""Count a zero counter as this much, since the search works on a logarithmic scale."""


def evaluate(
    factors: Sequence[str], median_ns: float | None, energy_j: float | None, counters: Mapping[str, float]
) -> float:
    """Return the product of the factors, in seconds, joules and counter values; NaN if one is unknown.

    Args:
        factors: "time", "energy" and names of counters.
    """
    known = {name: max(value, LEAST) for name, value in counters.items()}
    known |= {"time": (median_ns or math.nan) * 1e-9, "energy": energy_j or math.nan}
    value = math.prod(known.get(name, math.nan) for name in factors)
    return value if 0 < value < math.inf else math.nan


def check_trials(trials: Sequence[Trial], measure: Measure, settings: SearchConfig) -> None:
    """Refuse trials on a back end that does not measure a factor of the objective.

    Args:
        measure: the time that is to be small.

    Raises:
        UsageError: there is one. For counters the profiler need not be installed.
    """
    for variant, backend in dict.fromkeys((trial.variant, trial.backend) for trial in trials):
        spec, of, leave = get_spec(backend), f"of {variant} ({backend})", f"leave it out with variants=!{variant}"
        if measure not in spec.measures:
            asked = f"a search goes by the first of measure.modes, {measure}, which is not measured {of}"
            raise UsageError(f"{asked}; name another one first, or {leave}")
        if "energy" in settings.factors and "energy" in spec.unheeded:
            asked = f"search.objective asks for energy, which is not measured {of}"
            raise UsageError(f"{asked}; {leave}, or take search.objective=time")
        if settings.counters and backend not in BACKENDS:
            names = ", ".join(settings.counters)
            raise UsageError(f"search.objective asks for {names}, and {TITLE} reads no counters {of}; {leave}")


def check_names(names: Sequence[str]) -> None:
    """Refuse factors that are no counter's names, also where no profiler is installed.

    Raises:
        UnknownNameError: there is one.
    """
    for name in names:
        if name not in METRICS and WHOLE_NAME not in name:
            known = ["time", "energy", *METRICS]
            if not suggest(name, known).startswith("did you mean"):
                del known[2:]  # counters are too many to be listed in a line
            raise UnknownNameError("factor of search.objective", name, known, "(cuprof list metrics has the counters)")


@dataclass(frozen=True)
class ObjectiveCounters:
    """Read the counters of an objective, and have those trials profiled that lack them.

    Args:
        names: of the counters.
        profiling: set up for them.
    """

    names: Sequence[str]
    profiling: Profiling

    def read(self, identities: Sequence[str]) -> Values:
        """Return the stored values of these trials."""
        with self.profiling.store.snapshot() as connection:
            stored = read_newest_counters(connection, identities, self.profiling.collector.setting.request.conditions)
        return {identity: self._pick(stored.get(identity, {})) for identity in identities}

    def collect(self, trials: Sequence[Trial], outcomes: Mapping[str, Outcome]) -> Values:
        """Profile those of the trials that are not yet, and return the values of all.

        Raises:
            ProfilerError: the profiler cannot work, or the chip does not have a counter.
            UsageError: a name stands for several counters.
        """
        result = self.profiling.collect(trials, outcomes)
        if result.missing:
            raise ProfilerError(f"search.objective: {'; '.join(result.missing.values())}")
        return self.read([trial.identity for trial in trials])

    def _pick(self, stored: Mapping[str, CounterValue]) -> dict[str, float]:
        found = {name: each.value for name, each in stored.items() if each.value is not None and each.value >= 0}
        picked: dict[str, float] = {}
        for name in self.names:
            matches = [each for each in list_matches([name], found) if each in found]
            if len(matches) > 1:
                raise UsageError(f"search.objective: {name} stands for {', '.join(matches)}; name one of them")
            if matches:
                picked[name] = found[matches[0]]
        return picked
