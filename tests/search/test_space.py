"""The enumerated space: what a model sees of configurations, and which are neighbours."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from cuprof.core.errors import SelectionError
from cuprof.search.space import Space


def test_a_column_of_powers_is_laid_out_by_rank_and_logarithm_alike() -> None:
    space = Space([{"block": block} for block in (32, 64, 128, 256)])
    assert space.features[:, 0] == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_what_two_divides_more_often_is_told_apart_where_order_does_not_tell_it() -> None:
    space = Space([{"block": block, "power": 2**block} for block in (1, 2, 3, 4)])
    assert space.places.shape == (4, 2)
    assert space.features[:, 2:] * 10 == pytest.approx(np.array([[0], [0.5], [0], [1]]))


def test_words_have_a_feature_each_and_a_constant_has_none() -> None:
    space = Space([{"memory": memory, "n": 7} for memory in ("global", "shared", "constant")])
    assert space.features.shape == (3, 3)
    assert np.all(space.features.sum(axis=1) == 1)


def test_true_and_one_are_two_values_as_are_text_and_number() -> None:
    space = Space([{"a": 1}, {"a": True}, {"a": "1"}])
    assert len(np.unique(space.codes)) == 3


def test_what_is_not_finite_has_a_feature_and_spoils_no_others() -> None:
    space = Space([{"a": a} for a in (1.0, 2.0, math.inf, math.nan, math.nan)])
    assert len(np.unique(space.codes)) == 4
    assert np.isfinite(space.features).all()


def test_variants_may_have_columns_of_their_own() -> None:
    space = Space([{"variant": "a", "x": 1}, {"variant": "a", "x": 2}, {"variant": "b"}])
    assert space.codes[:, space.names.index("x")].tolist() == [1, 2, 0], "what lacks a column comes first in it"
    assert np.isfinite(space.features).all()


def test_neighbours_differ_in_one_column_and_are_of_the_same_group() -> None:
    points = [{"x": x, "y": y} for x, y in product(range(3), range(3))]
    space = Space(points * 2, [0] * 9 + [1] * 9)
    assert sorted(space.neighbours(0)) == [1, 2, 3, 6]
    assert sorted(space.neighbours(0, within=2)) == list(range(1, 9))


def test_a_space_without_configurations_is_refused() -> None:
    with pytest.raises(SelectionError, match="there is no configuration to search"):
        Space([])
