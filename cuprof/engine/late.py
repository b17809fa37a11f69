"""Track the builds of a search that are still running while other trials are timed, and their durations."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from cuprof.engine.station import Station

STUCK_S, STUCK_TIMES = 5.0, 10
"""Give up on a build that takes this long and this many times the median build; some sources take minutes."""


class Late:
    """Keep the deferred trials of each station, by their place among all trials.

    Args:
        clock: seconds.

    Attributes:
        stuck_s: how long the abandoned builds had been running.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.stuck_s: list[float] = []
        self._of: dict[Station, list[int]] = defaultdict(list)
        self._since: dict[int, float] = {}
        self._lasted_s: list[float] = []

    def __bool__(self) -> bool:
        return any(self._of.values())

    def begin(self, indices: Iterable[int]) -> None:
        """Note that these are under way, if they have not been before."""
        for index in indices:
            self._since.setdefault(index, self.clock())

    def end(self, index: int) -> None:
        """Note that a trial has an outcome."""
        if (since := self._since.pop(index, None)) is not None:
            self._lasted_s.append(self.clock() - since)

    def put_off(self, station: Station, indices: Iterable[int]) -> None:
        """Add the deferred trials of a station's job."""
        self._of[station] += sorted(indices)

    def list_of(self, station: Station) -> list[int]:
        """Return a station's deferred trials."""
        return list(self._of[station])

    def take(self, station: Station, indices: Iterable[int] | None = None) -> list[int]:
        """Keep these of a station's no longer, or all of them, and return them."""
        taken = self.list_of(station) if indices is None else list(indices)
        left = {*taken}
        self._of[station] = [index for index in self._of[station] if index not in left]
        return taken

    def give_up(self, station: Station, most_s: float) -> Mapping[int, float]:
        """Abandon a station's builds that have been running far too long, or longer than `most_s`.

        Returns:
            The abandoned trials with their seconds.
        """
        usual_s = statistics.median(self._lasted_s) if self._lasted_s else math.inf
        most_s = min(max(STUCK_S, STUCK_TIMES * usual_s), most_s)
        lasted_s = {index: self.clock() - self._since[index] for index in self._of[station]}
        stuck = {index: each_s for index, each_s in lasted_s.items() if each_s > most_s}
        self.take(station, stuck)
        self.stuck_s += stuck.values()
        return stuck
