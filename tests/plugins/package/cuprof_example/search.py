"""A search strategy."""

from __future__ import annotations

import numpy as np

from cuprof.search.strategy import Strategy


class Backwards(Strategy):
    """Try configurations from the last to the first."""

    def _choose(self) -> int:
        return int(np.flatnonzero(~self.is_taken)[-1])
