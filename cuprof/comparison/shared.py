"""Contrasts of very many pairs, each part of them reckoned and kept by a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import numpy as np

from cuprof.comparison.helper import Helper, count_helpful
from cuprof.statistics.contrast import Contrasts

WORTH_SHARING = 20_000
"""Pairs from which on processes of their own, each of which copies what it touches, take less time than one."""
MOST_SHARERS = 4

Make = Callable[[int, int], Contrasts]
"""Reckon the contrasts from one place up to another."""


@contextmanager
def contrasts_of(make: Make, count: int) -> Iterator[Contrasts]:
    """Give so many contrasts; of very many the cores of the machine hold a part each."""
    if (sharers := _sharers(count)) == 1:
        yield make(0, count)
        return
    with closing(SharedContrasts(make, count, sharers)) as contrasts:
        yield contrasts


def _sharers(count: int) -> int:
    """Return how many processes are to share so many pairs."""
    return 1 if count < WORTH_SHARING else min(MOST_SHARERS, count_helpful())


class SharedContrasts(Contrasts):
    """Contrasts in parts: this process makes the first, and forks one for each of the others."""

    def __init__(self, make: Make, count: int, sharers: int) -> None:
        ends = [count * (sharer + 1) // sharers for sharer in range(sharers)]
        self._starts = [0, *ends[:-1]]
        make(0, 1)  # what is loaded at a first use is then loaded once, and held by all together
        self._helpers = [Helper(partial(make, *part), _facts) for part in zip(self._starts[1:], ends[1:], strict=True)]
        try:
            self._own = make(0, ends[0])
            found = [_facts(self._own), *(helper.answer() for helper in self._helpers)]
        except BaseException:
            self.close()
            raise
        self.log_ratios = np.concatenate([log_ratios for log_ratios, _ in found])
        self.paired = [each for _, paired in found for each in paired]

    def log_bounds(self, error_rate: float, places: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the intervals of the contrasts at some ascending places, else of all."""
        found = self._ask(
            Contrasts.log_bounds, error_rate, np.arange(self.log_ratios.size) if places is None else places
        )
        low, high = map(np.concatenate, zip(*found, strict=True))
        return low, high

    def find_differing(self, error_rate: float, places: np.ndarray) -> np.ndarray:
        """Return those of some ascending places at which the interval excludes equal times."""
        found = self._ask(Contrasts.find_differing, error_rate, places)
        return np.concatenate([part + start for part, start in zip(found, self._starts, strict=True)])

    def close(self) -> None:
        """Let the other processes end."""
        for helper in self._helpers:
            helper.close()

    def _ask(self, question: Callable[..., Any], error_rate: float, places: np.ndarray) -> list[Any]:
        """Return what each part answers of its own places."""
        shares = np.split(places, np.searchsorted(places, self._starts[1:]))
        own, *others = (share - start for share, start in zip(shares, self._starts, strict=True))
        for helper, share in zip(self._helpers, others, strict=True):
            helper.ask(question, error_rate, share)
        return [question(self._own, error_rate, own), *(helper.answer() for helper in self._helpers)]


def _facts(contrasts: Contrasts) -> tuple[np.ndarray, list[bool]]:
    return contrasts.log_ratios, contrasts.paired
