"""What the workers of a search are compiling still while others are timed, and for how long it has been under way."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from cuprof.engine.station import Station

STUCK_S, STUCK_TIMES = 5.0, 10
"""Give up on a build that takes this long and this many times the median build; some sources take minutes."""


class Late:
    """Keep what stations have put off, by its place among all trials.

    Args:
        clock: seconds.

    Attributes:
        stuck_s: how long what was given up had been under way.
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
        """Note that one has been told."""
        if (since := self._since.pop(index, None)) is not None:
            self._lasted_s.append(self.clock() - since)

    def put_off(self, station: Station, indices: Iterable[int]) -> None:
        """Keep what a station's job has left."""
        self._of[station] += sorted(indices)

    def list_of(self, station: Station) -> list[int]:
        """Return what a station has put off."""
        return list(self._of[station])

    def take(self, station: Station, indices: Iterable[int] | None = None) -> list[int]:
        """Keep these of a station's no longer, or all of them, and return them."""
        taken = self.list_of(station) if indices is None else list(indices)
        left = {*taken}
        self._of[station] = [index for index in self._of[station] if index not in left]
        return taken

    def give_up(self, station: Station, most_s: float) -> Mapping[int, float]:
        """Keep no longer what a station has had under way for far too long, or longer than `most_s`.

        Returns:
            Each with its seconds.
        """
        usual_s = statistics.median(self._lasted_s) if self._lasted_s else math.inf
        most_s = min(max(STUCK_S, STUCK_TIMES * usual_s), most_s)
        lasted_s = {index: self.clock() - self._since[index] for index in self._of[station]}
        stuck = {index: each_s for index, each_s in lasted_s.items() if each_s > most_s}
        self.take(station, stuck)
        self.stuck_s += stuck.values()
        return stuck
