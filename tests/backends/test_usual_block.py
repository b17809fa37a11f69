"""What the threads of a block let suppose."""

from __future__ import annotations

import pytest

from cuprof.backends.spec import BROKEN, DOUBLING, UsualBlock

USUAL = UsualBlock(128, 512, multiple=32)


@pytest.mark.parametrize(
    ("threads", "doublings"),
    [(None, 0), (128, 0), (512, 0), (192, 0), (64, 1), (32, 2), (1024, 1), (200, BROKEN), (16, 3 + BROKEN)],
)
def test_blocks_are_supposed_worse_by_doublings_beyond_the_usual_ones(threads: int | None, doublings: float) -> None:
    assert USUAL.suppose(threads) == pytest.approx(DOUBLING * doublings)


@pytest.mark.parametrize("threads", [None, 0, 1, 31, 1024, 10**6])
def test_where_any_number_is_usual_nothing_is_supposed(threads: int | None) -> None:
    assert UsualBlock().suppose(threads) == 0
