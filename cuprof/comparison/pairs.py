"""The variants of one sweep compared with each other, for whoever shows them: a page, a table, a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cuprof.comparison.compare import ComparedTrial, Options, compare
from cuprof.comparison.entries import Entry, Side
from cuprof.comparison.matching import Match, find_bridges
from cuprof.comparison.noise import noise_within
from cuprof.errors import SelectionError
from cuprof.records import Measure
from cuprof.statistics.contrast import contrast


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
        row = self.find(base, new, measure)
        if row is not None:
            return row.judgement.ratio
        if not (base in self._entries and new in self._entries):
            return None
        pair = Match(self._entries[base], self._entries[new])
        if not (measure in pair.base.series and measure in pair.new.series):
            return None
        if base == new:
            return 1.0
        noise = noise_within(pair, measure)
        (bridge,) = find_bridges([(pair, measure)])
        return contrast(pair.base.series[measure], pair.new.series[measure], noise, bridge).ratio

    def _side(self, contender: Contender) -> Side:
        fitting = [
            entry
            for entry in self._entries.values()
            if entry.variant == contender.variant and contender.device in ("", entry.device)
        ]
        return Side(contender.variant, "variant", " @ ".join(filter(None, contender)), fitting)
