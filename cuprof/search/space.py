"""The configurations that a search may ask for: all of them, enumerated, after constraints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cuprof.core.errors import SelectionError
from cuprof.core.point import Coordinate

LEAST_LOGARITHMIC = 4.0
"""Place positive numbers that span at least this factor by their logarithms: 16, 32, …, 256 are powers."""
ALIGNMENT_WEIGHT = 0.1
"""A small weight: alignment matters little until many observations show it; few are better spent on the levels."""
MOST_ALIGNED = 6
"""Multiples of more than 64 are no better aligned."""


class Space:
    """Hold n configurations of named columns; the index of one is from 0 to n - 1.

    A configuration need not have every column: a variant has its own tunables.

    Args:
        configurations: name → value, for each configuration.
        groups: for each configuration, the number of its problem, whose best it competes for; one for all by default.
        supposed: for each configuration, a guess before anything is known: the logarithm of its time relative to
            others; 0 by default.

    Raises:
        SelectionError: there is no configuration.
    """

    def __init__(
        self,
        configurations: Sequence[Mapping[str, Coordinate]],
        groups: Sequence[int] | None = None,
        supposed: Sequence[float] | None = None,
    ) -> None:
        if not configurations:
            raise SelectionError("there is no configuration to search; the selection and its constraints leave none")
        self.size = len(configurations)
        self.names = list(dict.fromkeys(name for each in configurations for name in each))
        self.groups = np.zeros(self.size, np.int64) if groups is None else np.asarray(groups, np.int64)
        self.group_count = int(self.groups.max()) + 1
        self.supposed = np.zeros(self.size) if supposed is None else np.asarray(supposed, float)
        columns = [[each.get(name) for each in configurations] for name in self.names]
        self._levels = [_levels(column) for column in columns]
        orders = [{value: code for code, value in enumerate(levels)} for levels in self._levels]
        self.codes = np.array(
            [[order[_key(value)] for value in column] for order, column in zip(orders, columns, strict=True)], np.int64
        ).T.reshape(self.size, len(self.names))

    @cached_property
    def features(self) -> np.ndarray:
        """Return the configurations as a model sees them, (n, features): their places, and how levels are aligned."""
        aligned = [
            ALIGNMENT_WEIGHT * found[codes]
            for levels, codes in zip(self._levels, self.codes.T, strict=True)
            if (found := _alignment(levels)) is not None
        ]
        return np.column_stack([self.places, *aligned])

    @cached_property
    def places(self) -> np.ndarray:
        """Return the configurations as points in a cube, (n, places).

        A column of numbers is one feature, halfway between the numbers' ranks and the numbers themselves, or their
        logarithms if they span a large factor; any other column has a feature for each value.
        """
        features = []
        for levels, codes in zip(self._levels, self.codes.T, strict=True):
            known = [level for level in levels if level is not None]
            if len(levels) < 2:
                continue
            if len(levels) == 2 or not all(isinstance(level, int | float) for level in known):
                picked = levels[1:] if len(levels) == 2 else levels
                features += [(codes == levels.index(level)).astype(float) for level in picked]
            else:
                if len(known) < len(levels):
                    features.append((codes == levels.index(None)).astype(float))
                features.append(_positions(levels)[codes])
        return np.array(features).T if features else np.zeros((self.size, 1))

    def neighbours(self, index: int, *, within: int = 1) -> np.ndarray:
        """Return the configurations of the same group that differ from one in at most `within` columns."""
        differing = (self.codes != self.codes[index]).sum(axis=1)
        near = (differing <= within) & (differing > 0) & (self.groups == self.groups[index])
        return np.flatnonzero(near)


def _key(value: Coordinate | None) -> Any:
    """Return a key that distinguishes values: True is not 1, and a value that is not finite is not a number."""
    return str(value) if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)) else value


def _levels(column: Sequence[Coordinate | None]) -> list[Any]:
    values = dict.fromkeys(map(_key, column))
    numbers = sorted(value for value in values if isinstance(value, int | float))
    texts = sorted(value for value in values if isinstance(value, str))
    return [None] * (None in values) + numbers + texts


def _alignment(levels: Sequence[Any]) -> np.ndarray | None:
    """Return how often 2 divides each level, from 0 to 1; None if that says no more than the levels' order.

    Warps, vectors and cache lines are powers of two: among 16, 32, 48, 64 the even multiples behave alike.
    """
    if not all(isinstance(level, int) and level > 0 for level in levels):
        return None
    powers = [min((level & -level).bit_length() - 1, MOST_ALIGNED) for level in levels]
    if powers == sorted(powers) or powers == sorted(powers, reverse=True):
        return None
    numbers = np.array(powers, float)
    return np.asarray((numbers - numbers.min()) / (numbers.max() - numbers.min()))


def _positions(levels: Sequence[Any]) -> np.ndarray:
    """Return the place of each level from 0 to 1; the absent one is in the middle."""
    known = [level for level in levels if level is not None]
    numbers = np.array(known, float)
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= LEAST_LOGARITHMIC:
        numbers = np.log(numbers)
    spread = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    places = 0.5 * spread + 0.5 * np.arange(len(known)) / (len(known) - 1)
    return np.concatenate([np.full(len(levels) - len(known), 0.5), places])
