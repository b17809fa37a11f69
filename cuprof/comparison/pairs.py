"""The variants of one sweep compared with each other, for a page, a table or a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from cuprof.comparison.compare import compare_within, contrast_rows
from cuprof.comparison.match import MATCHED_BY
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import each
from cuprof.core.records import Measure

Contenders = tuple[str, str, tuple[str, str]]
"""Two variants, and the device of each where they are compared on two; else empty, for all that they ran on."""


class VariantComparisons:
    """The pairs of variants of one sweep, each judged as `cuprof compare A B --sweep ID` does, to the last digit.

    The error rate of a row is that of the whole comparison of its two variants: all problems, devices and kernel times,
    and every choice of tunables. A comparison is made when it is first asked for, then kept. One from NEW to BASE is
    another than from BASE to NEW; of the two, what is shown should be asked for in the direction in which it is said.
    Trials are asked for by their identities.
    """

    def __init__(self, sweep: Side) -> None:
        self._sweep = sweep
        self._matched_by = sweep.trials[[*MATCHED_BY]]
        self._timed = sweep.trials[sweep.trials["measure"] != ""].set_index(["identity", "measure"], drop=False)
        first = each(sweep.trials.drop_duplicates("identity"))
        self._places = {trial.identity: (trial.variant, trial.device, trial.backend) for trial in first}
        self._rows: dict[Contenders, dict[tuple[str, str, str], Any]] = {}
        self._sides: dict[tuple[str, str], Side] = {}
        self._ratios: dict[tuple[str, str, Measure], float | None] = {}

    def rows(self, base: str, new: str, on: tuple[str, str] = ("", "")) -> Mapping[tuple[str, str, str], Any]:
        """Return (identity, identity, measure) → row of comparing two variants; none where they are not compared."""
        self._make([(base, new, on)])
        return self._rows[base, new, on]

    def _make(self, pairs: Iterable[Contenders]) -> None:
        """Make the comparisons that are missing, together: one by one they would take several times as long."""
        left = [pair for pair in dict.fromkeys(pairs) if pair not in self._rows]
        self._rows |= {pair: {} for pair in left}
        if left:
            sides = [(self._side(base, on[0]), self._side(new, on[1])) for base, new, on in left]
            found = compare_within(self._sweep, sides)
            for row in each(found):  # in one pass: looking one up in a frame takes milliseconds
                self._rows[left[row.group]][row.base_identity, row.new_identity, row.measure] = row

    def find(self, base: str, new: str, measure: Measure) -> Any | None:
        """Return the row that compares two trials; None where their variants are not compared by these two.

        That is so of trials at two problems or of two back ends, of tunables that are not the variant's fastest there,
        and of a trial that is not right. Trials of two devices are compared beside the other trials of their variants
        on those devices.
        """
        contenders = self._contenders(base, new)
        return self.rows(*contenders).get((base, new, measure.value)) if contenders else None

    def _contenders(self, base: str, new: str) -> Contenders | None:
        """Return which two are compared to compare two trials; None where none are."""
        if not (base in self._places and new in self._places):
            return None
        (before, on, backend), (after, elsewhere, other_backend) = self._places[base], self._places[new]
        if backend != other_backend or (before, on) == (after, elsewhere):
            return None  # of a variant on one device the fastest is one and the same trial
        return before, after, (on, elsewhere) if on != elsewhere else ("", "")

    def find_ratio(self, base: str, new: str, measure: Measure) -> float | None:
        """Return how many times as long NEW takes as BASE, whatever their problems and tunables.

        It is the ratio of `find` where that finds a row, and the same estimator's where it does not: also of two trials
        whose methods mean something else (two back ends'), of which no verdict is given. It is None where one of them
        was not timed.
        """
        self.foresee([(base, new, measure)])
        return self._ratios[base, new, measure]

    def foresee(self, asked: Iterable[tuple[str, str, Measure]]) -> None:
        """Make what `find` and `find_ratio` are to be asked for, of many pairs at once in a fraction of the time."""
        left, missing = [], [key for key in dict.fromkeys(asked) if key not in self._ratios]
        self._make(filter(None, (self._contenders(base, new) for base, new, _ in missing)))
        for key in missing:
            base, new, measure = key
            row = self.find(*key)
            timed = all((identity, measure.value) in self._timed.index for identity in (base, new))
            self._ratios[key] = float(row.ratio) if row else 1.0 if timed and base == new else None
            if row is None and timed and base != new:
                left.append(key)
        if left:
            log_ratio = contrast_rows(self._matched(left), self._sweep, self._sweep).log_ratio
            self._ratios |= dict(zip(left, np.exp(log_ratio).tolist(), strict=True))

    def _matched(self, keys: list[tuple[str, str, Measure]]) -> pd.DataFrame:
        """Return rows with what finds the samples of pairs of timed trials, whatever stands against a verdict."""
        bases, news, measures = zip(*keys, strict=True)
        words = [*map(str, measures)]
        sides = [
            self._timed.loc[[*zip(identities, words, strict=True)]].reset_index(drop=True).add_prefix(prefix)
            for identities, prefix in ((bases, "base_"), (news, "new_"))
        ]
        return pd.concat(sides, axis=1).assign(measure=words)

    def _side(self, variant: str, device: str) -> Side:
        if (variant, device) not in self._sides:
            trials = self._matched_by
            fits = (trials["variant"] == variant) & ((trials["device"] == device) | (not device))
            self._sides[variant, device] = Side(variant, "variant", variant, trials[fits], self._sweep.source)
        return self._sides[variant, device]
