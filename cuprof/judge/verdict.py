"""Turn the legs' samples into verdicts: pool all legs of a side, and estimate the noise from the baseline's own
legs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from cuprof.comparison.compare import contrast_rows, pair_up
from cuprof.comparison.match import match
from cuprof.comparison.noise import find_noises, model_border, noise_between
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import COLUMNS, KERNEL_TIMES, Source, Stored, each, label_of, make_trials, read_trials
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.judge.report import Row
from cuprof.results.read import read_results
from cuprof.statistics.contrasts import Contrasts
from cuprof.statistics.noise import SweepNoise
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict, judge, list_judgements
from cuprof.store.store import Store

DRIFT = 0.05
"""Warn of drift when the baseline's largest median exceeds its smallest by more than this fraction."""
Compared = tuple[tuple[Row, ...], tuple[str, ...]]
"""The rows of a candidate, and why some were not compared."""
ACCEPTED = (Verdict.FASTER, Verdict.SAME, Verdict.SAME_CODE)


@dataclass(frozen=True)
class Leg:
    """One leg of one side: its trials, and the samples of the rows that are timed."""

    trials: pd.DataFrame
    samples: Samples

    def timed(self) -> Iterator[tuple[Any, Samples]]:
        """Yield each timed row with its samples."""
        for row in each(self.trials[self.trials["measure"] != ""]):
            yield row, self.samples.take([row.timing_id])


@dataclass
class Legs:
    """All legs of one side.

    Attributes:
        variant: the side's variant.
        legs: in the order of time.
        over_border: timed by the judge's own clock.
        omitted: problem → why it has no trial there, where that is known.
    """

    variant: str
    legs: list[Leg] = field(default_factory=list)
    over_border: bool = False
    omitted: Mapping[Point, str] = field(default_factory=dict)

    def read(self, store: Store, sweep_id: int) -> None:
        """Read one more leg with its samples, before anything else runs."""
        with store.snapshot() as connection:
            results = read_results(connection, [sweep_id], [self.variant])
            trials, source = read_trials(connection, results), Stored(connection.engine)
        is_timed = trials["measure"] != ""
        samples = source.read(trials[is_timed])
        self.legs.append(Leg(trials.assign(timing_id=is_timed.cumsum() - 1), samples))

    def pooled(self) -> Side:
        """Return all legs as one side, each leg's samples brought to the geometric mean of the legs' medians.

        The difference between legs is the noise between processes, which counts separately. Rounds of different legs
        have nothing in common.
        """
        facts: dict[Any, dict[str, Any]] = {}
        parts: dict[Any, dict[Measure, list[Samples]]] = {}
        for leg in self.legs:
            for row in each(leg.trials):
                facts.setdefault((row.problem, row.tunables), {name: getattr(row, name) for name in COLUMNS})
            for row, samples in leg.timed():
                of_trial = parts.setdefault((row.problem, row.tunables), {})
                of_trial.setdefault(Measure(row.measure), []).append(samples)
        records = [
            {**known, "series": {measure: _pool(legs) for measure, legs in parts.get(key, {}).items()}}
            for key, known in facts.items()
        ]
        return Side(self.variant, "variant", self.variant, *make_trials(records))

    def controls(self) -> Iterator[tuple[Side, Side, pd.DataFrame]]:
        """Yield pairs of legs with the rows of the same trials, each leg once: nothing has changed between them."""
        for one, other in zip(self.legs[::2], self.legs[1::2], strict=False):
            base, new = (Side("", "variant", "", leg.trials, Source(leg.samples)) for leg in (one, other))
            pairs = base.once.reset_index(names="base").merge(new.once.reset_index(names="new"), on="identity")
            rows = self.share(pairs[["base", "new"]].assign(choices=1, group=0), base, new)
            if len(rows):
                yield base, new, rows

    def share(self, pairs: pd.DataFrame, base: Side, new: Side) -> pd.DataFrame:
        """Return the rows of both sides' times, with the noise of their clock."""
        paired = pair_up(pairs, base, new)
        rows = paired[paired["measure"] != ""]
        return model_border(rows) if self.over_border else rows

    def drifts(self) -> Iterator[str]:
        """Yield a line for each row whose legs' medians differ by more than `DRIFT`."""
        found: dict[tuple[str, str], list[Any]] = {}
        for leg in self.legs:
            for row, _ in leg.timed():
                found.setdefault((row.identity, row.measure), []).append(row)
        for first, *others in found.values():
            medians = [row.median_ns for row in (first, *others)]
            if max(medians) > (1 + DRIFT) * min(medians):
                shown = ", ".join(f"{median / 1e3:.2f}" for median in medians)
                yield f"{label_of(first)}: {first.measure} time in turns: {shown} µs"


def compare_legs(
    pairs: Sequence[tuple[Legs, Legs]], rule: Rule, noise: float | None
) -> tuple[list[Compared], Mapping[str, SweepNoise]]:
    """Compare candidates with their baselines by the rule of `compare`, and judge them together.

    Every time is a mean over legs, so the noise from process to process is divided by the root of their number.

    Args:
        pairs: (baseline, candidate), each with legs in which nothing failed.
        noise: stated, or None.

    Returns:
        What became of each pair, in the order in which they were given; device → noise.
    """
    sides = [(base.pooled(), new.pooled()) for base, new in pairs]
    matched, problems = zip(*(_match(*both, *pair) for both, pair in zip(sides, pairs, strict=True)), strict=True)
    baselines = {id(base): base for base, _ in pairs}.values()
    controls = [control for base in baselines for control in base.controls()]
    unchanged = Contrasts.joined([contrast_rows(rows, base, new) for base, new, rows in controls])
    numbered = [rows.assign(match=rows["match"] + (place << 32)) for place, (*_, rows) in enumerate(controls)]
    apart = pd.concat([*numbered, *matched], ignore_index=True)
    noises = find_noises(apart.assign(unchanged=np.arange(len(apart)) < len(unchanged)), noise, unchanged)
    contrasts = [
        contrast_rows(rows, *of_pair, _noise(noises, rows, min(len(side.legs) for side in pair)))
        for rows, of_pair, pair in zip(matched, sides, pairs, strict=True)
    ]
    choices = sum(int(rows["choices"].sum()) for rows in matched)
    judged = iter(list_judgements(judge(Contrasts.joined(contrasts), rule, choices)))
    found = [
        tuple(
            Row(row.new_problem, Measure(row.measure), row.base_median_ns, row.new_median_ns, next(judged),
                (row.base_identity, row.new_identity))
            for row in each(rows)
        )
        for rows in matched
    ]  # fmt: skip
    return [*zip(found, problems, strict=True)], noises


def is_accepted(rows: Sequence[Row]) -> bool:
    """Return whether a candidate is at least as fast everywhere."""
    return bool(rows) and all(row.judgement.verdict in ACCEPTED for row in rows)


def _match(base: Side, new: Side, legs: Legs, others: Legs) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the rows that can be compared, and why others cannot: all problems of the baseline count.

    Args:
        legs, others: of the base and of the new side.
    """
    matching = match(base, new)
    lonely = each(matching.news.loc[list(matching.only_new)])
    reasons = [*matching.ambiguous, *(f"{label_of(trial)} has no counterpart" for trial in lonely)]
    for trial in each(matching.bases.loc[list(matching.only_base)]):
        why = f": {reason}" if (reason := others.omitted.get(trial.problem)) else ""
        reasons.append(f"it has no time at {trial.problem.label}, where the baseline has one{why}")
    rows = legs.share(matching.pairs, base, new)
    kernel = rows["measure"].isin([measure.value for measure in KERNEL_TIMES])
    rows = rows[kernel | ~kernel.groupby(rows["match"]).transform("any")]
    other = rows["base_method"] != rows["new_method"]
    for row in each(rows[other]):
        label = label_of(matching.news.loc[row.new])
        reasons.append(f"{label}: its {row.measure} time was measured differently from the baseline's")
    return rows[~other].reset_index(drop=True), tuple(reasons)


def _noise(noises: Mapping[str, SweepNoise], rows: pd.DataFrame, legs: int) -> np.ndarray:
    """Return the noise of means over some legs, for each row; see `Contrasts`."""
    found = noise_between(noises, rows)
    found[:, [0, 2]] /= math.sqrt(legs)  # the deviations; their degrees of freedom stay
    return found


def _pool(parts: Sequence[Samples]) -> Samples:
    """Return the samples of all legs as one series."""
    medians = [float(part.medians()[0]) for part in parts]
    center = math.exp(sum(map(math.log, medians)) / len(medians))
    durations = [part.values * (center / median) for part, median in zip(parts, medians, strict=True)]
    return Samples.of([np.concatenate(durations)], tick_ns=max(float(part.tick_ns[0]) for part in parts))
