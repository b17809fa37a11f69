"""The step in which a timer reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def smallest_step(durations: Sequence[float]) -> float:
    """Return the step in which a timer reads, from many readings of about the same; 0 where no two are equal."""
    values = np.unique(np.round(durations, 1))
    steps = np.diff(values)
    steps = steps[steps >= 1.0]  # a smaller one is rounding
    return float(steps.min()) if values.size < len(durations) and steps.size else 0.0
