"""The first method of contrasts behind the arrays of the second, while comparisons move to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuprof.statistics.contrast import Contrast, Pair, contrast_all
from cuprof.statistics.contrast import Contrasts as First
from cuprof.statistics.noise import Noise
from cuprof.statistics.samples import Samples
from cuprof.statistics.series import Series


class OfFirst:
    """Contrasts by the first method."""

    def __init__(self, found: Sequence[Contrast]) -> None:
        self.found = list(found)
        self._all = First(self.found)
        self.log_ratio = self._all.log_ratios
        self.paired = np.array(self._all.paired, dtype=bool)

    @classmethod
    def none_of(cls, count: int) -> Any:
        return cls([])

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Any:
        return cls([each for part in parts for each in part.found])

    def __len__(self) -> int:
        return len(self.found)

    def take(self, places: np.ndarray) -> Any:
        return OfFirst([self.found[place] for place in places.tolist()])

    def interval(self, error_rate: float) -> tuple[np.ndarray, np.ndarray]:
        return self._all.log_bounds(error_rate)

    def beside_samples(self, error_rate: float) -> np.ndarray:
        return self._all._known(error_rate, np.arange(len(self)))


Contrasts: Any = OfFirst


def contrast(base: Samples, new: Samples, noise: np.ndarray | None = None, *, known: object = None,
             bridges: Any = None, bridge: np.ndarray | None = None) -> Any:  # fmt: skip
    series = [
        [
            Series(
                side.series(n),
                side.rounds[s:e],
                side.rotation[n],
                float(side.standard_error[n]),
                float(side.tick_ns[n]),
            )
            for n, (s, e) in enumerate(zip(side.starts, side.ends, strict=True))
        ]
        for side in (base, new)
    ]
    noises = [Noise()] * len(base) if noise is None else [Noise(*row) for row in noise.tolist()]
    beside = (
        [None] * len(base)
        if bridges is None or bridge is None
        else [None if n < 0 else bridges.found[n] for n in bridge]
    )
    return OfFirst(contrast_all([Pair(*each) for each in zip(*series, noises, beside, strict=True)]))
