"""From the legs' samples to verdicts: all legs of a side together, and the noise that the baseline's own legs show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.matching import Match, choose_measures, match
from cuprof.comparison.noise import find_noises, noise_between
from cuprof.comparison.stored import read_entries, read_samples
from cuprof.core.point import Point
from cuprof.core.records import FAILED, NOT_RUN, Measure
from cuprof.judge.report import ACCEPTED, Row
from cuprof.statistics.contrast import Pair, contrast_all
from cuprof.statistics.series import Series
from cuprof.statistics.sweep_noise import SweepNoise
from cuprof.statistics.verdict import Rule, judge
from cuprof.store import Store

DRIFT = 0.05
"""Of the baseline's medians, the largest to the smallest less one, from which on it is told of."""


@dataclass
class Legs:
    """What one side's legs came to.

    Attributes:
        variant: the side's.
        legs: the entries of each leg, in the order of time.
    """

    variant: str
    legs: list[list[Entry]] = field(default_factory=list)

    def read(self, store: Store, sweep_id: int) -> None:
        """Take the entries of one more leg."""
        with store.snapshot() as connection:
            entries = read_entries(connection, [sweep_id], [self.variant])
        read_samples(series for entry in entries for series in entry.series.values())  # before anything else runs
        self.legs.append(entries)

    @property
    def failed(self) -> list[Entry]:
        """Return the entries that failed, of all legs."""
        return [entry for leg in self.legs for entry in leg if entry.state in FAILED]

    @property
    def skipped(self) -> list[Entry]:
        """Return the entries that could not be run."""
        return [entry for leg in self.legs for entry in leg if entry.state in NOT_RUN]

    def pooled(self) -> Side:
        """Return all legs as one side."""
        found: dict[tuple[Point, Point], list[Entry]] = {}
        for leg in self.legs:
            for entry in leg:
                found.setdefault((entry.problem, entry.tunables), []).append(entry)
        return Side(self.variant, "variant", self.variant, [_pool(entries) for entries in found.values()])

    def controls(self) -> Iterator[Match]:
        """Yield the same trial in two legs, each leg once: nothing has changed between them."""
        for one, other in zip(self.legs[::2], self.legs[1::2], strict=False):
            for base in one:
                for new in other:
                    if base.identity == new.identity and base.series and new.series:
                        yield Match(base, new)

    def drifts(self) -> Iterator[str]:
        """Yield where the legs' medians differ a lot."""
        for entry in self.legs[0] if self.legs else ():
            for measure in entry.series:
                medians = [
                    same.series[measure].median_ns
                    for leg in self.legs
                    for same in leg
                    if same.identity == entry.identity and measure in same.series
                ]
                if max(medians) > (1 + DRIFT) * min(medians):
                    shown = ", ".join(f"{median / 1e3:.2f}" for median in medians)
                    yield f"{entry.label}: {measure.value} time in turns: {shown} µs"


@dataclass(frozen=True)
class Comparisons:
    """The rows of each candidate, judged together.

    Args:
        rows: one sequence a candidate, in the order in which they were given.
        problems: of each candidate, why something was not compared.
    """

    rows: tuple[tuple[Row, ...], ...]
    problems: tuple[tuple[str, ...], ...]
    noises: Mapping[str, SweepNoise]


def compare_legs(pairs: Sequence[tuple[Legs, Legs]], rule: Rule, noise: float | None) -> Comparisons:
    """Compare candidates with their baselines by the rule of `compare`.

    Every time is a mean over legs, so the noise from process to process counts by its root.

    Args:
        pairs: (baseline, candidate), each with legs in which nothing failed.
        noise: stated, or None.
    """
    found: list[tuple[int, Match, Measure]] = []
    problems: list[tuple[str, ...]] = []
    for number, (base, new) in enumerate(pairs):
        matching = match(base.pooled(), new.pooled())
        reasons = [*matching.ambiguous, *(f"{entry.label} has no counterpart" for entry in matching.only_new)]
        for pair in matching.matches:
            for measure in choose_measures([pair]):
                if pair.base.methods.get(measure) != pair.new.methods.get(measure):
                    reasons.append(f"{pair.new.label}: its {measure.value} time is not timed as the baseline's is")
                elif measure in pair.base.series and measure in pair.new.series:
                    found.append((number, pair, measure))
        problems.append(tuple(reasons))
    baselines = {id(base): base for base, _ in pairs}.values()
    controls = [(pair, measure) for base in baselines for pair in base.controls() for measure in pair.base.series]
    noises = find_noises([*((pair, measure) for _, pair, measure in found), *controls], noise)
    contrasts = contrast_all([_pair(pairs[number], pair, measure, noises) for number, pair, measure in found])
    choices = sum(pair.choices for _, pair, _ in found)
    judged = zip(found, judge(contrasts, rule, choices), strict=True)
    rows: list[list[Row]] = [[] for _ in pairs]
    for (number, pair, measure), judgement in judged:
        base_ns, new_ns = (side.series[measure].median_ns for side in (pair.base, pair.new))
        trials = pair.base.identity, pair.new.identity
        rows[number].append(Row(pair.new.problem, measure, base_ns, new_ns, judgement, trials))
    return Comparisons(tuple(map(tuple, rows)), tuple(problems), noises)


def is_accepted(rows: Sequence[Row]) -> bool:
    """Return whether a candidate is at least as fast everywhere."""
    return bool(rows) and all(row.judgement.verdict in ACCEPTED for row in rows)


def _pair(pair: tuple[Legs, Legs], matched: Match, measure: Measure, noises: Mapping[str, SweepNoise]) -> Pair:
    fewest = min(len(side.legs) for side in pair)
    noise = noise_between(noises[matched.device], matched, measure).times(1 / math.sqrt(fewest))
    return Pair(matched.base.series[measure], matched.new.series[measure], noise)


def _pool(entries: Sequence[Entry]) -> Entry:
    """Return one entry with the samples of all legs, each leg's brought to the geometric mean of the legs' medians.

    By how much the legs differ is the noise between processes, which is reckoned with by itself. Rounds of different
    legs have nothing in common.
    """
    series = {}
    for measure in entries[0].series:
        parts = [entry.series[measure] for entry in entries if measure in entry.series]
        center = math.exp(sum(math.log(part.median_ns) for part in parts) / len(parts))
        durations = np.concatenate([part.durations * (center / part.median_ns) for part in parts])
        series[measure] = Series(durations, tick_ns=max(part.tick_ns for part in parts))
    return entries[0]._replace(series=series)
