"""What is known of a metric, and of metrics that are alike: the rows of a profiler's table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


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

    @property
    def weight(self) -> str:
        """Return the metric that weighs the launches, or empty."""
        return self.rule.partition(":")[2]


@dataclass(frozen=True)
class Amount:
    """The change of a quantity is said by its subject, and what more or less of it means."""

    subject: str
    more: str = ""
    less: str = ""


@dataclass(frozen=True)
class ShareOfPeak:
    """The change of a unit's use is said in percent of its peak.

    Args:
        far: below this share in both trials, the unit was not the limit in either.
        near: from this share on, the unit's limit is close.
    """

    unit: str
    far: float = 30.0
    near: float = 80.0


@dataclass(frozen=True)
class SectorUse:
    """The change of how many bytes of each sector are used is said as coalescing of accesses ("loads", "stores")."""

    accesses: str
    sector_bytes: int = 32


@dataclass(frozen=True)
class SectorsPerRequest:
    """The change of how many sectors a warp's request touches is said as how its accesses lie."""


@dataclass(frozen=True)
class BlockMemory:
    """The change of a kind of shared memory a block is said with its bound on resident blocks."""

    kind: str


@dataclass(frozen=True)
class GridDepth:
    """The change of the grid's depth is said as work along z."""


@dataclass(frozen=True)
class ActiveThreads:
    """The change of threads active in an instruction is said as divergence."""

    warp_threads: int = 32


Sentence = Amount | ShareOfPeak | SectorUse | SectorsPerRequest | BlockMemory | GridDepth | ActiveThreads
"""What is said of a metric's change; `cuprof.analysis.counter_sentences` writes it."""


@dataclass(frozen=True)
class Kind:
    """Metrics that are alike, described or not: a part of their name says what their change means."""

    pattern: str
    sentence: Sentence


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

    def find_sentence(self, name: str) -> Sentence | None:
        """Return what is said of a metric's change, or None where no kind fits."""
        return next((kind.sentence for kind in self.kinds if re.search(kind.pattern, name)), None)

    def rank(self, name: str) -> int:
        """Return the place of a metric among those listed together."""
        return next((i for i, pattern in enumerate(self.order) if re.search(pattern, name)), len(self.order))
