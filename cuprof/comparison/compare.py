"""Compare two sides: match trials, form intervals, judge them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.matching import Match, Matching, choose_measures, find_bridges, match
from cuprof.comparison.noise import find_noises, noise_between, noise_within
from cuprof.comparison.shared import contrasts_of
from cuprof.comparison.stored import forget_samples, read_samples
from cuprof.core.errors import SelectionError
from cuprof.core.records import FAILED, Measure
from cuprof.core.text import list_first
from cuprof.statistics.contrast import Contrast, Contrasts, Pair, contrast_all
from cuprof.statistics.noise import PREPARED, Noise
from cuprof.statistics.sweep_noise import SweepNoise
from cuprof.statistics.verdict import Judgement, Rule, Verdict, judge

AT_ONCE = 1_500_000
"""About how many samples are held at one time, in pairs."""


@dataclass(frozen=True)
class Options:
    """Say what is compared and by which rule.

    Args:
        measures: empty takes the kernel times that both sides have.
        noise: relative standard deviation of any time from sweep to sweep; None estimates it from unchanged trials, or
            assumes it by the kind of time and its length.
        tunables: "best" or "equal"; see `cuprof.comparison.matching`.
    """

    rule: Rule = field(default_factory=Rule)
    measures: tuple[Measure, ...] = ()
    noise: float | None = None
    tunables: str = "best"

    def __post_init__(self) -> None:
        if self.noise is not None and not 0 <= self.noise < 1:
            raise SelectionError(f"the noise is {self.noise:g}; give a share from 0 up to 1, such as 0.2% or 0.002")


class ComparedTrial(NamedTuple):
    """One measure of one matched trial with its verdict; times in ns."""

    match: Match
    measure: Measure
    base_ns: float
    new_ns: float
    judgement: Judgement

    @property
    def verdict(self) -> Verdict:
        """Return the verdict."""
        return self.judgement.verdict

    @property
    def label(self) -> str:
        """Return the trial for people; of two variants, both names and each one's tunables."""
        base, new = self.match.base, self.match.new
        if (base.family, base.variant, base.tunables) == (new.family, new.variant, new.tunables):
            return base.label
        parts = [each.name + (f" ({each.tunables.label})" if each.tunables else "") for each in (base, new)]
        return f"{parts[0]} → {parts[1]} · {base.problem.label or new.problem.label}"


@dataclass(frozen=True)
class Comparison:
    """What the comparison of two sides came to.

    Args:
        broken: right in BASE, failed in NEW.
        one_run: matched trials that are one and the same measurement on both sides; not compared.
        skipped: matched trials that could run on neither side.
        incomparable: trials that are not compared, each with the reason: one side has no time of it, the methods or
            measures differ, or which of several devices is meant cannot be told.
        noises: device → noise from sweep to sweep; empty where every pair was taken together.
        nothing_changed: every matched trial is the same on both sides: source, device and software.
        warnings: what a reader must know before believing the verdicts.
    """

    base: Side
    new: Side
    options: Options
    rows: tuple[ComparedTrial, ...]
    only_base: tuple[Entry, ...] = ()
    only_new: tuple[Entry, ...] = ()
    broken: tuple[Entry, ...] = ()
    one_run: tuple[Match, ...] = ()
    skipped: tuple[Match, ...] = ()
    incomparable: tuple[str, ...] = ()
    noises: Mapping[str, SweepNoise] = field(default_factory=dict)
    nothing_changed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """Return how often each verdict was given."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def noise_within(self) -> str:
        """Return what is assumed beside `noises` of times that were taken together; empty where nothing is."""
        within = [row for row in self.rows if row.match.is_together(row.measure)]
        return PREPARED.text() if any(noise_within(row.match, row.measure).value for row in within) else ""

    @property
    def undecided(self) -> tuple[ComparedTrial, ...]:
        """Return the rows without a verdict."""
        return tuple(row for row in self.rows if row.verdict is Verdict.UNDECIDED)

    @property
    def exit_code(self) -> int:
        """Return 1 where something that changed is slower, or something does not work any more, else 0.

        A trial in which nothing has changed is not slower, however its times fell out.
        """
        slower = any(row.verdict is Verdict.SLOWER and not row.match.is_unchanged for row in self.rows)
        return 1 if slower or self.broken else 0


def compare(base: Side, new: Side, options: Options | None = None) -> Comparison:
    """Compare every trial of BASE with its counterpart in NEW.

    Raises:
        SelectionError: no trial of one side has a counterpart in the other, or none can be compared.
    """
    options = options or Options()
    matching = match(base, new, options.tunables)
    if not matching.matches:
        raise SelectionError(
            f"no trial of {base.description} has a counterpart in {new.description} (BASE has "
            f"{_names(base.entries)}; NEW has {_names(new.entries)})"
            + (f"; {matching.ambiguous[0]}" if matching.ambiguous else "")
        )
    broken = tuple(pair.new for pair in matching.matches if pair.base.series and pair.new.state in FAILED)
    one_run = tuple(pair for pair in matching.matches if pair.is_one_run)
    pairs, incomparable = _pairs(matching, options)
    incomparable = (*incomparable, *matching.ambiguous)
    if not pairs and not broken and (incomparable or not one_run):  # what was measured anew cannot be judged
        raise SelectionError(
            f"no matched trial can be compared: {incomparable[0] if incomparable else 'none is timed'}"
        )
    noises = find_noises(pairs, options.noise)
    choices = sum(pair.choices for pair, _ in pairs)

    def make(start: int, end: int) -> Contrasts:
        return Contrasts(contrast_matched(pairs[start:end], partial(_noise, noises)))

    with contrasts_of(make, len(pairs)) as contrasts:
        judgements = judge(contrasts, options.rule, choices)
    rows = tuple(
        ComparedTrial(pair, measure, pair.base.series[measure].median_ns, pair.new.series[measure].median_ns, judgement)
        for (pair, measure), judgement in zip(pairs, judgements, strict=True)
    )
    return Comparison(
        base=base,
        new=new,
        options=options,
        rows=rows,
        only_base=matching.only_base,
        only_new=matching.only_new,
        broken=broken,
        one_run=one_run,
        skipped=tuple(pair for pair in matching.matches if pair.is_skipped),
        incomparable=incomparable,
        noises=noises,
        nothing_changed=all(pair.is_unchanged for pair in matching.matches),
        warnings=_warnings(base, new, matching, rows),
    )


def judge_anew(comparison: Comparison, later: Comparison) -> Comparison:
    """Return a comparison with the rows that a later one decided anew in place of its own."""
    anew = {_key_of(row, comparison.options): row for row in later.rows}
    rows = tuple(
        anew.get(_key_of(row, comparison.options), row) if row.verdict is Verdict.UNDECIDED else row
        for row in comparison.rows
    )
    return replace(
        comparison,
        rows=rows,
        broken=(*comparison.broken, *later.broken),
        warnings=tuple(dict.fromkeys((*comparison.warnings, *later.warnings))),
    )


def _key_of(row: ComparedTrial, options: Options) -> Hashable:
    """Return what a row of a comparison of two variants is about; the best tunables may be others a second time."""
    base, new = row.match.base, row.match.new
    tunables = () if options.tunables == "best" else (base.tunables, new.tunables)
    return (base.problem, base.device, new.device, tunables, row.measure)


def _pairs(matching: Matching, options: Options) -> tuple[list[tuple[Match, Measure]], tuple[str, ...]]:
    """Return what can be compared, and why the rest cannot."""
    open_matches = [pair for pair in matching.matches if not (pair.is_one_run or pair.is_skipped)]
    measures = choose_measures(open_matches, options.measures)
    pairs, reasons = [], []
    for pair in open_matches:
        if not (pair.base.series and pair.new.series):
            if not (pair.base.series and pair.new.state in FAILED):
                bad, side = (pair.base, "BASE") if not pair.base.series else (pair.new, "NEW")
                why = f": {bad.message}" if bad.message else ""
                reasons.append(f"{bad.label}: {bad.state.value} in {side}{why}")
            continue
        shared = [measure for measure in measures if measure in pair.base.series and measure in pair.new.series]
        if not shared:
            asked = ", ".join(measure.value for measure in measures) or "any"
            reasons.append(f"{pair.base.label}: the sides do not both have {asked} time")
        for measure in shared:
            reason = _method_difference(pair, measure)
            if reason:
                reasons.append(f"{pair.base.label}: {reason}")
            else:
                pairs.append((pair, measure))
    return pairs, tuple(reasons)


def contrast_matched(
    pairs: Sequence[tuple[Match, Measure]], noise: Callable[[Match, Measure], Noise]
) -> list[Contrast]:
    """Return the contrast of each pair; of the samples of very many a part is held at a time."""
    found: list[Contrast] = []
    for start, end in pairwise(_bounds(pairs)):
        part = pairs[start:end]
        series = [side.series[measure] for pair, measure in part for side in (pair.base, pair.new)]
        read_samples(series)
        found += contrast_all(
            [
                Pair(pair.base.series[measure], pair.new.series[measure], noise(pair, measure), bridge)
                for (pair, measure), bridge in zip(part, find_bridges(part), strict=True)
            ]
        )
        if end < len(pairs):  # of few they may be wanted again
            forget_samples(series)
    return found


def _bounds(pairs: Sequence[tuple[Match, Measure]]) -> Iterator[int]:
    """Yield where the parts begin whose samples are held at one time, and where the last one ends."""
    held = AT_ONCE
    for place, (pair, measure) in enumerate(pairs):
        size = pair.base.series[measure].size + pair.new.series[measure].size
        held += size
        if held > AT_ONCE:
            yield place
            held = size
    if pairs:
        yield len(pairs)


def _noise(noises: Mapping[str, SweepNoise], pair: Match, measure: Measure) -> Noise:
    if pair.is_together(measure):
        return noise_within(pair, measure)
    return noise_between(noises[pair.device], pair, measure)


def _method_difference(pair: Match, measure: Measure) -> str:
    """Return how the timing methods differ; times of different methods are never compared."""
    base, new = pair.base.settings.get(measure, {}), pair.new.settings.get(measure, {})
    if "tool" in base or "tool" in new:  # another tool's method is another by nature; the side's note says so
        return ""
    if pair.base.backend != pair.new.backend:  # their versions and settings may be equal by chance
        both = f"{pair.base.backend} and {pair.new.backend}"
        return f"timed by different methods, those of {both}; the sweep's page has their ratio"
    if pair.base.methods.get(measure) == pair.new.methods.get(measure):
        return ""
    differing = [name for name in sorted({*base, *new}) if base.get(name) != new.get(name)]
    if not differing:
        return ""
    if "version" in differing:
        return f"timed by versions {base.get('version')} and {new.get('version')} of the method; time BASE again"
    return "timed by different methods: " + ", ".join(
        f"measure.{name} {base.get(name)} and {new.get(name)}" for name in differing
    )


def _warnings(base: Side, new: Side, matching: Matching, rows: Sequence[ComparedTrial]) -> tuple[str, ...]:
    texts = [*base.notes, *new.notes]
    for pair in matching.matches:
        if pair.base.device != pair.new.device:
            texts.append(
                f"this compares across devices: {pair.base.device or 'unknown'} and {pair.new.device or 'unknown'}"
            )
        elif pair.base.device_identity != pair.new.device_identity and not (base.is_foreign or new.is_foreign):
            texts.append(f"driver or library versions of {pair.base.device} differ between the sides")
    methods = {
        row.measure for row in rows if row.match.base.methods.get(row.measure) != row.match.new.methods.get(row.measure)
    }
    if methods and not (base.is_foreign or new.is_foreign):
        names = " and ".join(sorted(measure.value for measure in methods))
        texts.append(f"{names} times were sampled to different bounds, or warmed up differently")
    if any(row.match.choices > 1 for row in rows):
        texts.append("each variant stands with its fastest tunables; every choice counts as a comparison of its own")
    odd = sum(row.match.is_unchanged and row.verdict in (Verdict.SLOWER, Verdict.FASTER) for row in rows)
    if odd and not all(pair.is_unchanged for pair in matching.matches):
        texts.append(
            f"{odd} called slower or faster although nothing has changed in {'it' if odd == 1 else 'them'}: the noise "
            "between the sides is larger than reckoned with, so doubt the other differences too"
        )
    return tuple(dict.fromkeys(texts))


def _names(entries: Sequence[Entry]) -> str:
    return list_first([entry.label for entry in entries], 3, "; ") or "none"
