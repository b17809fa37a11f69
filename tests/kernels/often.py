"""Which of many alike cases are run each time; `pytest -m slow tests/kernels` runs the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def seldom(cases: Iterable[Any], often: Collection[Any]) -> list[Any]:
    """Return cases for `parametrize`, all as slow ones but those that are to be run each time.

    Args:
        cases: values of one parameter, or tuples of those of several.
    """
    slow = pytest.mark.slow
    return [
        case if case in often else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=slow)
        for case in cases
    ]
