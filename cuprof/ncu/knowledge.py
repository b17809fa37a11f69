"""What is known of metrics and of what has them, whichever profiler it is of."""

from __future__ import annotations

from cuprof.ncu.metric import Catalog, Kind, Metric
from cuprof.ncu.registry import list_profilers


def list_metrics() -> list[Metric]:
    """Return every metric that is described, by name."""
    return [metric for catalog in _catalogs() for metric in catalog.by_name.values()]


def list_telling() -> list[Metric]:
    """Return the metrics that tell most of a kernel, in the order in which they are shown."""
    return sorted((metric for metric in list_metrics() if metric.telling), key=lambda metric: metric.telling)


def list_topics() -> list[str]:
    """Return what an analysis of counters goes through, in order."""
    return list(dict.fromkeys(topic for catalog in _catalogs() for topic in catalog.topics))


def find_metric(name: str) -> Metric | None:
    """Return a metric's description, or None where there is none."""
    return next((catalog.by_name[name] for catalog in _catalogs() if name in catalog.by_name), None)


def find_kind(name: str) -> Kind | None:
    """Return what is known of metrics like this one, or None where nothing but its change can be said."""
    return next(filter(None, (catalog.find_kind(name) for catalog in _catalogs())), None)


def is_profiled(backend: str) -> bool:
    """Return whether some profiler reads hardware counters of a back end's trials."""
    return any(backend in profiler.backends for profiler in list_profilers())


def heading_of(name: str) -> str:
    """Return the heading of a counter: a short one where there is one, else the metric's name."""
    metric = find_metric(name)
    return metric.heading or name if metric else name


def listing_order(name: str) -> tuple[int, str]:
    """Return what metrics are sorted by where many are listed: geometry, memory, and so on, then by name."""
    return min(catalog.rank(name) for catalog in _catalogs()), name


def _catalogs() -> list[Catalog]:
    return [profiler.catalog for profiler in list_profilers()]
