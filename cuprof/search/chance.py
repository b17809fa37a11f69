"""Random search: the baseline of every other strategy."""

from __future__ import annotations

from cuprof.search.strategy import Strategy


class Chance(Strategy):
    """Draw configurations at random, each once."""

    def _choose(self) -> int:
        return self._draw()
