"""Contents that processes get: new to each, and to all strangers'."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.errors import LaunchError
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.families.origin import Folder
from cuprof.judge.border.layout import Layout
from cuprof.judge.sets import Draw, Pool
from cuprof.worker.messages import Job
from cuprof.worker.problem import Problem
from tests.judge.conftest import FAMILIES

COUNT = 6


@pytest.fixture
def pool() -> Pool:
    origin = Folder(FAMILIES / "vector")
    point = Point({"n": 100, "dtype": "float32"})
    job = Job(origin, "cpu", point, (), 1, MeasureConfig(), {Measure.COLD: "0"})
    return Pool(Problem.make(origin.load(), job))


class Process:
    """One that takes contents."""

    def __init__(self, pool: Pool, *, is_stranger: bool) -> None:
        self.pool, self.is_stranger, self.seen = pool, is_stranger, 0
        self.layout = Layout.of(pool.problem.signature)

    def take(self, count: int = COUNT) -> tuple[Draw, bytes]:
        draw = self.pool.take(self.seen, count, self.layout, np, is_stranger=self.is_stranger)
        self.seen = self.pool.number
        return draw, draw.contents.tobytes()


def test_a_baseline_and_one_stranger_share_contents_and_no_other_stranger_gets_them(pool: Pool) -> None:
    baseline, one, other = (Process(pool, is_stranger=is_stranger) for is_stranger in (False, True, True))
    had = [process.take()[1] for process in (baseline, one, other, baseline, one, one)]
    assert had[0] == had[1]
    assert had[2] == had[3]
    assert len({*had}) == 4
    assert len({*had[1:3], *had[4:]}) == 4  # no stranger's twice


def test_contents_of_more_and_of_fewer_sets_lie_in_the_same_memory(pool: Pool) -> None:
    """A stranger may have taken all that was left of a device's since the first were drawn."""
    process = Process(pool, is_stranger=True)
    draws = [process.take(count)[0] for count in (COUNT, COUNT - 2, COUNT)]
    assert [len(draw.contents) for draw in draws] == [COUNT, COUNT - 2, COUNT]
    assert all(np.shares_memory(draws[0].contents, draw.contents) for draw in draws)


def test_all_contents_of_a_draw_differ_and_have_their_right_results(pool: Pool) -> None:
    process = Process(pool, is_stranger=True)
    draw, _ = process.take()
    assert len({row.tobytes() for row in draw.contents}) == COUNT
    place = process.layout.inputs["x"]
    for number in range(COUNT):
        x = draw.contents[number].view(np.uint8)[place.offset : place.end].view(np.float32)
        assert np.array_equal(draw.find_right(number, pool.problem, process.layout).expected["y"], 2.0 * x)


def test_rows_with_fewer_elements_and_with_all_have_their_right_results(pool: Pool) -> None:
    lengths = cycle([40, 100, 7])
    problem: Any = SimpleNamespace(
        signature=pool.problem.signature,
        draw=lambda: {"x": np.arange(next(lengths), dtype=np.float32)},
        find_right=lambda inputs: len(inputs["x"]),
    )
    process = Process(Pool(problem), is_stranger=True)
    draw, _ = process.take()
    found = [draw.find_right(number, problem, process.layout) for number in range(COUNT)]
    assert sorted(found) == [7, 7, 40, 40, 100, 100]


def test_a_machine_that_has_no_thread_left_ends_one_trial(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    with pytest.raises(LaunchError, match="no thread can be started"):
        Process(pool, is_stranger=True).take()
