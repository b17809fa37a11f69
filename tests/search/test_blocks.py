"""What names of tunables say of a block's size."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cuprof.search.blocks import expect_of_blocks
from cuprof.search.registry import DEFAULT, make_strategy
from cuprof.search.space import Space

SIZES = (1, 4, 16, 64, 256, 1024)


@pytest.mark.parametrize(
    "names", [("block_size_x", "block_size_y"), ("BX", "BY"), ("MDIMC", "NDIMC"), ("block_x", "block_y")]
)
def test_blocks_of_some_hundred_threads_are_expected_to_be_fast(names: tuple[str, str]) -> None:
    space = Space([dict(zip(names, sizes, strict=True)) for sizes in product(SIZES, SIZES)])
    expected = expect_of_blocks(space).reshape(6, 6)
    assert expected[4, 0] == expected.min()  # 256 x 1
    assert expected[3, 1] < expected[2, 1] < expected[1, 1] < expected[0, 0]
    assert expected[5, 1] > expected[5, 0] > expected[4, 0]
    assert expected.mean() == pytest.approx(0)


def test_warps_are_32_threads_each() -> None:
    expected = expect_of_blocks(Space([{"num_warps": warps} for warps in (1, 4, 8, 32)]))
    assert expected[1] == expected[2] == expected.min()
    assert expected.argmax() == 0


@pytest.mark.parametrize("name", ["BLOCK_SIZE_M", "BLOCK_M", "blocks_per_sm", "tile", "threads"])
def test_other_names_and_sizes_that_are_no_blocks_say_nothing(name: str) -> None:
    assert not expect_of_blocks(Space([{name: size} for size in (1, 2, 4, 16)])).any()


def test_a_space_where_it_is_the_other_way_round_is_searched_all_the_same() -> None:
    space = Space(
        [{"block_x": x, "tile": t, "unroll": u} for x, t, u in product(range(32, 1025, 32), range(8), (1, 2, 4))]
    )
    x, tile, unroll = space.codes.T
    times = np.exp(0.05 * (31 - x) + 0.2 * np.abs(tile - 6) + 0.1 * unroll)
    strategy = make_strategy(DEFAULT, space, 1)
    for _ in range(40):
        (index,) = strategy.ask()
        strategy.tell(index, float(times[index]), 1.0)
    assert times[strategy.best()] == times.min()
