"""Samples over the phases of the launch queue, on a timer that counts launches in place of a device."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from cuprof.backends.contract import Frame, Reading
from cuprof.backends.cuda.timing import LAUNCH_PHASES, CudaTimer, Work


class Counted(CudaTimer):
    """A timer whose executions take 1 µs more in the second half of the phases, and nothing else."""

    def __init__(self, launched: int) -> None:
        self.launched = launched
        self.begun: list[int] = []
        self.stream = SimpleNamespace(ptr=0)
        self._empty = lambda stream: self.launch()
        self._random = Random(1)

    def launch(self, count: int = 1) -> None:
        self.launched += count

    def cold(self, work: Work, flush: str = "clean") -> Frame:
        self.launch(1 + (flush == "clean") + len(work.before))  # the stream is held, if only for a moment
        phase = self.launched % LAUNCH_PHASES
        self.begun.append(phase)
        work.enqueue()
        self.launch(len(work.after))
        return lambda: Reading(4000.0 + 1000.0 * (phase >= LAUNCH_PHASES // 2), 1980.0)


@pytest.mark.parametrize("launched", range(3))
@pytest.mark.parametrize("launches", [2, 3, 4, 9])
@pytest.mark.parametrize("flush", ["clean", "none"])
@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (2, 3)])
def test_a_sample_has_every_phase_once(launched: int, launches: int, flush: str, before: int, after: int) -> None:
    timer = Counted(launched)
    work = Work(lambda: timer.launch(launches), 0, (print,) * before, (print,) * after)
    reading = timer.cold_over_phases(lambda: work, launches, flush)()
    assert sorted(timer.begun) == list(range(LAUNCH_PHASES))
    assert reading == Reading(4500.0, 1980.0)


@pytest.mark.parametrize(("launches", "flush"), [(None, "clean"), (2, "dirty")])
def test_phases_are_drawn_where_launches_cannot_be_counted(launches: int | None, flush: str) -> None:
    timer = Counted(0)
    for _ in range(50):
        timer.cold_over_phases(lambda: Work(lambda: timer.launch(6)), launches, flush)()
    counts = [timer.begun.count(phase) for phase in range(LAUNCH_PHASES)]
    assert sum(counts) == 400
    assert min(counts) > 20  # 50 each on average


def test_one_suspect_execution_makes_the_sample_suspect() -> None:
    timer = Counted(0)
    answers = iter([Reading(1.0), Reading(2.0, None, "it synchronises"), *[Reading(3.0)] * 6])
    timer.cold = lambda *given: lambda: next(answers)  # type: ignore[method-assign]
    assert timer.cold_over_phases(lambda: Work(lambda: None), 1)() == Reading(21 / 8, None, "it synchronises")
