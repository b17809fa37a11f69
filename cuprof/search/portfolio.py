"""The fewest configurations that are good enough for every problem."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from cuprof.core.errors import SelectionError


def find_portfolio(times: np.ndarray, within: float) -> list[int]:
    """Return the fewest columns that have, for each row, a time within a share of the row's best.

    This is the set cover problem, solved exactly; among covers of the same size it takes the one with smaller times.

    Args:
        times: (problems, configurations), NaN where there is none.
        within: share of the best time, 0.05 for 5 %.

    Raises:
        SelectionError: a problem without any time.
    """
    best = np.nanmin(np.where(np.isnan(times), np.inf, times), axis=1, keepdims=True)
    if not np.isfinite(best).all():
        raise SelectionError("a problem has no time of any configuration")
    ratios = times / best
    good = np.nan_to_num(ratios, nan=np.inf) <= 1 + within
    excess = np.where(good, ratios - 1, within).mean(axis=0)
    share = 0.5 / (good.shape[1] * max(within, 1e-9))  # all together count less than one configuration
    found = milp(
        c=1 + share * excess,
        integrality=np.ones(good.shape[1]),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(good.astype(float), lb=1),
    )
    return [int(each) for each in np.flatnonzero(found.x > 0.5)]


def assign(times: np.ndarray, chosen: list[int]) -> list[int]:
    """Return for each row the chosen column with the smallest time."""
    return [chosen[int(each)] for each in np.argmin(np.nan_to_num(times[:, chosen], nan=np.inf), axis=1)]
