"""The variants of one sweep compared with each other, for whoever shows them: a page, a table, a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cuprof.comparison.compare import ComparedTrial, Options, compare, contrast_matched
from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.matching import Match
from cuprof.comparison.noise import noise_within
from cuprof.core.errors import SelectionError
from cuprof.core.records import Measure


class Contender(NamedTuple):
    """A variant, on one device where it is compared with itself or another on a second one.

    Args:
        device: as `Entry.device` names it; empty stands for every device that the variant ran on.
    """

    variant: str
    device: str = ""


class VariantComparisons:
    """The pairs of variants of one sweep, each judged as `cuprof compare A B --sweep ID` does, to the last digit.

    The error rate of a row is that of the whole comparison of its two variants: all problems, devices and kernel times,
    and every choice of tunables. A comparison is made when it is first asked for, then kept. One from NEW to BASE is
    another than from BASE to NEW; of the two, what is shown should be asked for in the direction in which it is said.

    Args:
        entries: the trials of one sweep, as `read_entries` returns them.
        options: those of `cuprof compare` where none are given.
    """

    def __init__(self, entries: Sequence[Entry], options: Options | None = None) -> None:
        self._entries = {entry.identity: entry for entry in entries}
        self._options = options or Options()
        self._rows: dict[tuple[Contender, Contender], tuple[ComparedTrial, ...]] = {}
        self._ratios: dict[tuple[str, str, Measure], float | None] = {}

    def rows(self, base: Contender, new: Contender) -> tuple[ComparedTrial, ...]:
        """Return what comparing two contenders gives: a row a problem, device and measure, or nothing at all."""
        key = (base, new)
        if key not in self._rows:
            try:
                self._rows[key] = compare(self._side(base), self._side(new), self._options).rows
            except SelectionError:
                self._rows[key] = ()
        return self._rows[key]

    def find(self, base: str, new: str, measure: Measure) -> ComparedTrial | None:
        """Return the row that compares two trials; None where their variants are not compared by these two.

        That is so of trials at two problems, of tunables that are not the variant's fastest there, and of a trial that
        is not right. Trials of two devices are compared beside the other trials of their variants on those devices.

        Args:
            base, new: identities.
        """
        if not (base in self._entries and new in self._entries):
            return None
        before, after = self._entries[base], self._entries[new]
        devices = (before.device, after.device) if before.device != after.device else ("", "")
        found = self.rows(Contender(before.variant, devices[0]), Contender(after.variant, devices[1]))
        of_both = (row for row in found if row.match.base is before and row.match.new is after)
        return next((row for row in of_both if row.measure is measure), None)

    def find_ratio(self, base: str, new: str, measure: Measure) -> float | None:
        """Return how many times as long NEW takes as BASE, whatever their problems and tunables.

        It is the ratio of `find` where that finds a row, and the same estimator's where it does not: also of two trials
        whose methods mean something else (two back ends'), of which no verdict is given. It is None where one of them
        was not timed.

        Args:
            base, new: identities.
        """
        self.foresee_ratios([(base, new, measure)])
        return self._ratios[base, new, measure]

    def foresee_ratios(self, asked: Iterable[tuple[str, str, Measure]]) -> None:
        """Reckon what `find_ratio` is to be asked, of many at once in a fraction of the time."""
        left: dict[tuple[str, str, Measure], tuple[Match, Measure]] = {}
        for key in asked:
            if key in self._ratios:
                continue
            base, new, measure = key
            row = self.find(base, new, measure)
            self._ratios[key] = row.judgement.ratio if row else None
            if row is None and base in self._entries and new in self._entries:
                pair = Match(self._entries[base], self._entries[new])
                if not (measure in pair.base.series and measure in pair.new.series):
                    continue
                if base == new:
                    self._ratios[key] = 1.0
                else:
                    left[key] = pair, measure
        contrasts = contrast_matched(list(left.values()), noise_within)
        self._ratios |= {key: contrast.ratio for key, contrast in zip(left, contrasts, strict=True)}

    def _side(self, contender: Contender) -> Side:
        fitting = [
            entry
            for entry in self._entries.values()
            if entry.variant == contender.variant and contender.device in ("", entry.device)
        ]
        return Side(contender.variant, "variant", " @ ".join(filter(None, contender)), fitting)
