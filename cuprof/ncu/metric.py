"""What is known of a metric, and of metrics that are alike: the rows of a profiler's table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """Describe a metric.

    Args:
        name: the profiler's own name.
        unit: as the profiler writes base units; empty for plain counts.
        meaning: one sentence.
        rule: how launches become a trial: "sum", "max", "min", "mean:WEIGHT", "mean" or "none".
        heading: short, for tables and figures that name it often; the name stands where it is empty.
        topic: of an analysis, that it speaks of; empty for none.
        telling: place in the table of those that tell most of a kernel, from 1; 0 for all others.
        absence: what stands in place of a ratio of it where it is zero: a ratio of nothing.
        exempt: what runs on the device without being counted in it, so that its absence is not misread.
    """

    name: str
    unit: str
    meaning: str
    rule: str = ""
    heading: str = ""
    topic: str = ""
    telling: int = 0
    absence: str = ""
    exempt: str = ""


Sentence = Literal[
    "amount", "share_of_peak", "sector_use", "sectors_per_request", "block_memory", "grid_depth", "active_threads"
]
"""How the change of a metric is said; `cuprof.report.counter_sentences` writes each."""


@dataclass(frozen=True)
class Kind:
    """Metrics that are alike, described or not: a part of their name says what their change means.

    Args:
        subject: what the sentence is about: a quantity, a unit of the chip, a kind of shared memory, or accesses.
        more, less: of an amount: what more or less of it means.
    """

    pattern: str
    sentence: Sentence
    subject: str = ""
    more: str = ""
    less: str = ""


@dataclass(frozen=True)
class Catalog:
    """All that is known of a profiler's metrics.

    Args:
        metrics: those that are described, each once.
        kinds: the first whose pattern is in a name says what a change means.
        topics: what an analysis goes through, in this order.
        order: patterns, in the order in which metrics are listed; the rest follow by name.
    """

    metrics: tuple[Metric, ...]
    kinds: tuple[Kind, ...]
    topics: tuple[str, ...]
    order: tuple[str, ...]

    @cached_property
    def by_name(self) -> dict[str, Metric]:
        """Return the described metrics by name, in order of their names."""
        return {metric.name: metric for metric in sorted(self.metrics, key=lambda metric: metric.name)}

    def find_kind(self, name: str) -> Kind | None:
        """Return what is known of metrics like this one, or None where no kind fits."""
        return next((kind for kind in self.kinds if re.search(kind.pattern, name)), None)

    def rank(self, name: str) -> int:
        """Return the place of a metric among those listed together."""
        return next((i for i, pattern in enumerate(self.order) if re.search(pattern, name)), len(self.order))
