"""What identifies a measuring method, so that timings of different methods are never mixed or compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cuprof.backends.contract import ReadingOptions
from cuprof.backends.registry import find_spec, get_spec
from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure
from cuprof.plan.identity import hash_content

METHOD_VERSION = 4
"""Raise this whenever sampling, rotation, exclusion or summary changes the meaning of a number."""

BORDER_VERSION = 5
"""Raise this whenever a change to the timing across the border changes the meaning of a number."""

RELEVANT: dict[Measure, tuple[str, ...]] = {
    Measure.COLD: ("flush", "blocking", "graph", "timer", "interleave", "energy", "energy_seconds"),
    Measure.HOT: ("blocking", "graph", "timer", "interleave", "energy", "energy_seconds"),
    Measure.TOTAL: ("host_memory", "interleave", "energy", "energy_seconds"),
}
"""Settings that decide the meaning of a measure's numbers, or that record more with them."""
SAMPLING = (
    "target", "confidence", "min_samples", "max_samples", "max_seconds", "patience_seconds", "warmup",
    "settle_seconds", "clock_tolerance", "race",
)  # fmt: skip
"""Settings that decide how precise a number is, and which samples count."""


def methods(config: MeasureConfig, backend: str, *, over_border: bool = False) -> dict[Measure, str]:
    """Return the method's hash, 16 hexadecimal digits, for every requested measure that the back end offers.

    Args:
        over_border: timed by another process than the one that executes; total times are not.
    """
    spec, found = get_spec(backend), dict[Measure, str]()
    border = {"border": BORDER_VERSION} if over_border else {}
    for measure in map(Measure, config.modes):
        if measure in spec.measures and not (over_border and measure is Measure.TOTAL):
            names = {*RELEVANT[measure], *SAMPLING} - spec.unheeded
            settings = _in_effect({name: getattr(config, name) for name in names})
            version = [METHOD_VERSION, spec.timing_version]
            found[measure] = hash_content({"measure": measure.value, "version": version, **settings, **border})[:16]
    return found


def version(backend: str) -> str:
    """Return the version of the method on a back end, as it is stored in the details of every timing."""
    return f"{METHOD_VERSION}.{get_spec(backend).timing_version}"


def ignored_settings(config: MeasureConfig, backends: Iterable[str]) -> tuple[str, ...]:
    """Return the settings that were changed from their defaults and that none of these back ends heeds."""
    unused = [get_spec(backend).unheeded for backend in backends]
    unheeded = frozenset.intersection(*unused) if unused else frozenset()
    usual = vars(MeasureConfig())
    return tuple(name for name, value in vars(config).items() if name in unheeded and value != usual[name])


def relevant_settings(measure: Measure, settings: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """Return the sweep's settings that decide the meaning of this measure's numbers on a back end."""
    spec = find_spec(backend)  # none of a package that is not installed any more
    unheeded = spec.unheeded if spec else frozenset()
    return _in_effect({name: settings[name] for name in RELEVANT[measure] if name in settings.keys() - unheeded})


def _in_effect(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without the length of a loop for energy that is not measured, and a race that is not run."""
    unused = {"race": not settings.get("race"), "energy_seconds": not settings.get("energy")}
    return {name: value for name, value in settings.items() if not unused.get(name)}


def reading_options(config: MeasureConfig) -> ReadingOptions:
    """Return how single executions are timed."""
    return ReadingOptions(
        flush=config.flush,
        blocking=config.blocking,
        pinned=config.host_memory == "pinned",
        graph=config.graph,
        cupti=config.timer == "cupti",
    )
