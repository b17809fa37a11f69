"""What is known of Nsight Compute's metrics, those included that are known by their name alone."""

from __future__ import annotations

from dataclasses import replace

from cuprof.ncu.catalog import METRICS, TOPICS
from cuprof.ncu.kinds import KINDS, ORDER
from cuprof.ncu.rules import derive_rule
from cuprof.profiling.metric import Catalog, Metric

CATALOG = Catalog(
    tuple(replace(metric, rule=metric.rule or derive_rule(metric.name, metric.unit)) for metric in METRICS),
    KINDS,
    TOPICS,
    ORDER,
)


def find_metric(name: str) -> Metric | None:
    """Return the metric's description, or None where cuprof has none."""
    return CATALOG.by_name.get(name)


def get_rule(name: str, unit: str = "") -> str:
    """Return the roll-up rule of any metric: the catalog's, else the one its name implies."""
    known = find_metric(name)
    return known.rule if known else derive_rule(name, unit)


def companions(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics collected beside those asked for, because they weigh them.

    They cost no pass of their own: a weight is part of what its ratio is computed from, and ncu collects the duration
    anyway.
    """
    weights = {get_rule(name).partition(":")[2] for name in metrics}
    return tuple(sorted(weights - {"", *metrics}))
