"""What is known of Nsight Compute's metrics, those included that are known by their name alone.

metrics.csv describes metrics, a row each: name and unit are Nsight Compute's; the sentences follow NVIDIA's Kernel
Profiling Guide ("Metrics Reference"). A rule stands where the name does not imply the right one (`cuprof.ncu.rules`).
kinds.csv says what the change of a metric means, for all whose name has a pattern in it: the first one counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuprof.ncu.metric import Catalog, Kind, Metric
from cuprof.ncu.rules import derive_rule

TOPICS = ("Grid", "DRAM traffic", "Shared memory", "Coalescing", "Instructions", "Occupancy")
"""What an analysis goes through, in this order."""

ORDER = (
    r"^launch__grid",
    r"dram",
    r"^launch__shared",
    r"bytes_per_sector|sectors_per_request",
    r"^launch__",
    r"^lts",
    r"^l1tex",
)
"""Metrics are listed in this order: geometry, DRAM traffic, shared memory, coalescing, then the rest by name."""


def _read(name: str) -> Iterator[dict[str, Any]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _metric(row: dict[str, Any]) -> Metric:
    rule = row.pop("rule") or derive_rule(row["name"], row["unit"])
    return Metric(rule=rule, telling=int(row.pop("telling") or 0), **row)


CATALOG = Catalog(
    tuple(map(_metric, _read("metrics.csv"))), tuple(Kind(**row) for row in _read("kinds.csv")), TOPICS, ORDER
)


def get_rule(name: str, unit: str = "") -> str:
    """Return the roll-up rule of any metric: the catalog's, else the one its name implies."""
    known = CATALOG.by_name.get(name)
    return known.rule if known else derive_rule(name, unit)


def companions(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the metrics collected beside those asked for, because they weigh them.

    They cost no pass of their own: a weight is part of what its ratio is computed from, and ncu collects the duration
    anyway.
    """
    weights = {get_rule(name).partition(":")[2] for name in metrics}
    return tuple(sorted(weights - {"", *metrics}))
