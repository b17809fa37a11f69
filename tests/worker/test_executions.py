"""What executions are given, how many are compared, and who is said to remember: simulated, with seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import Draw, Frame, Reading, Tally
from cuprof.core.records import Check, Measure
from cuprof.families import Point, Tolerance
from cuprof.worker import executions as module
from cuprof.worker.compare import compare
from cuprof.worker.executions import WANTED, Executions, Results
from cuprof.worker.messages import JobTrial
from cuprof.worker.problem import COMPARED_SETS
from cuprof.worker.protection import Protection
from cuprof.worker.trial import Trial

RIGHT, WRONG = np.arange(8.0), np.arange(8.0) + 1
MS = 1_000_000
STATE: Any = SimpleNamespace(put_back=lambda: None)


@dataclass
class Runnable:
    """A variant that is right or wrong, and fast or slow, as it is told to.

    Attributes:
        is_wrong: told the number of an execution, from 0.
        cold_ns: told the number of a set of inputs and how often it has been met, from 0.
    """

    is_wrong: Callable[[int], bool] = lambda number: False
    cold_ns: Callable[[int, int], float] = lambda inputs, met: 10_000.0
    executed: int = 0
    met: Counter[int] = field(default_factory=Counter)
    build: Any = None


class Device:
    """A session whose clock is told, and moves by what is done.

    Args:
        in_place: it compares by itself.
    """

    def __init__(
        self, in_place: bool, execute_ns: int = 10_000, fetch_ns: int = 0, *, has_checksums: bool = False
    ) -> None:
        self.in_place, self.execute_ns, self.fetch_ns, self.has_checksums = (
            in_place,
            execute_ns,
            fetch_ns,
            has_checksums,
        )
        self.now = 0
        self.drawn: list[Draw] = []
        self.tallied = Tally()
        self.known: list[Runnable] = []
        self.last_wrong = False
        self.looked_at: list[int] = []
        """Which of the executions drawn were compared after their outputs were fetched."""
        self.put_back_with: list[bool] = []

    def put_back(self, *, settings: bool) -> bool:
        self.put_back_with.append(settings)
        return False

    def expect(self, runnable: Runnable, tolerances: Sequence[Tolerance | None]) -> Callable[[], Tally] | None:
        return (lambda: self.tallied) if self.in_place else None

    def execute(self, runnable: Runnable, *draws: Draw) -> None:
        for draw in draws:
            self.now += self.execute_ns
            self.drawn.append(draw)
            self.last_wrong = runnable.is_wrong(runnable.executed)
            runnable.executed += 1
            if self.in_place and draw.compare:
                self.tallied = Tally(self.tallied.compared + 1, self.tallied.wrong + self.last_wrong)

    def begin(self, runnable: Runnable, measure: Measure, batch: int, draw: Callable[[], Draw]) -> Frame:
        drawn = draw()
        met = runnable.met[drawn.inputs]
        self.execute(runnable, drawn)
        runnable.met[drawn.inputs] += 1
        reading = Reading(runnable.cold_ns(drawn.inputs, met))
        return lambda: reading

    def checksum(self, runnable: Runnable) -> tuple[int, ...] | None:
        return (int(self.last_wrong),) if self.has_checksums else None

    def fetch(self, runnable: Runnable) -> dict[str, np.ndarray]:
        self.now += self.fetch_ns
        self.looked_at.append(len(self.drawn) - 1)
        return {"y": WRONG if self.last_wrong else RIGHT}


class Desk:
    """Executions of one trial on a device that is simulated: of code on the host, or of a kernel."""

    def __init__(
        self, patch: pytest.MonkeyPatch, runnable: Runnable, *, stocked: int = COMPARED_SETS,
        in_place: bool = True, calls_host: bool = True, **device: int,
    ) -> None:  # fmt: skip
        self.device, self.runnable = Device(in_place, **device), runnable
        patch.setattr(module, "monotonic_ns", lambda: self.device.now)
        self.device.known.append(runnable)
        self.judged: list[int] = []

        def judge(outputs: Any, standard: None, tolerances: Any, look: int) -> Check:
            self.judged.append(look)
            return compare(outputs, {"y": RIGHT}, tolerances)

        problem: Any = SimpleNamespace(
            needs_host=False, compare=judge, family=SimpleNamespace(in_place=()), standards=[None] * COMPARED_SETS,
        )  # fmt: skip
        self.device.stocked = stocked
        session: Any = self.device
        variant: Any = SimpleNamespace(name="v", tolerance=None)
        program: Any = None if calls_host else SimpleNamespace(calls_host=False, setup=())
        self.trial = Trial(0, JobTrial("0" * 32, "v", Point(), ""), variant, program, runnable)  # type: ignore[arg-type]
        runnable.met.update(range(COMPARED_SETS))  # checked and sampled on these
        self.trial.tolerances = [Tolerance()] * COMPARED_SETS
        self.trial.timings = {Measure.COLD: SimpleNamespace(summary=SimpleNamespace(median_ns=0.0))}  # type: ignore[dict-item]
        protection = Protection(session, problem, on_host=False)
        protection.state = STATE
        self.executions = Executions(self.trial, Results(session, problem), protection)

    def sample(self, count: int, spent_ns: int = 100_000) -> None:
        for _ in range(count):
            self.device.execute(self.runnable, self.executions.deal())
            self.executions.settle(spent_ns)

    def examine(self) -> Tally:
        return self.executions.examine()

    def looked_at(self) -> list[int]:
        drawn = self.device.drawn
        return [n for n, draw in enumerate(drawn) if draw.compare] if self.device.in_place else self.device.looked_at


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    return lambda runnable=None, **settings: Desk(monkeypatch, runnable or Runnable(), **settings)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("samples", [0, 20, 400])
def test_so_many_executions_are_compared_as_are_wanted(make: Callable[..., Desk], samples: int, in_place: bool) -> None:
    desk = make(in_place=in_place)
    desk.sample(samples)
    tally = desk.examine()
    assert tally == Tally(len(desk.looked_at()), 0)
    assert WANTED <= tally.compared <= max(WANTED, samples)
    assert len(desk.device.drawn) == max(WANTED, samples)


def test_what_code_on_the_host_left_changed_is_put_back_after_each_execution(make: Callable[..., Desk]) -> None:
    desk = make()
    desk.sample(3)
    desk.trial.changes_settings = True
    desk.sample(2)
    assert desk.device.put_back_with == [True, True, True, False, False]
    kernel = make(calls_host=False)
    kernel.sample(4)
    assert kernel.device.put_back_with == []


def test_kernels_of_a_job_take_turns_on_two_sets_of_inputs_that_stay_for_a_while(make: Callable[..., Desk]) -> None:
    desk = make(calls_host=False)
    desk.sample(100 * module.TURN)
    assert not any(draw.fresh for draw in desk.device.drawn)
    turns = [(number, len([*draws])) for number, draws in groupby(draw.inputs for draw in desk.device.drawn)]
    assert [number for number, _ in turns[:4]] == [0, 1, 0, 1]
    assert {count for _, count in turns[1:-1]} == {module.TURN}
    few = make(calls_host=False)
    few.sample(3)
    few.examine()
    assert {draw.inputs for draw in few.device.drawn if draw.compare} == {0, 1}, "each set is compared at least once"
    host = make()
    host.sample(50)
    assert all(draw.fresh for draw in host.device.drawn)


def test_what_is_wrong_once_in_fifty_is_found_in_99_of_100_sweeps(make: Callable[..., Desk]) -> None:
    assert 1 - (1 - 1 / 50) ** WANTED >= 0.99
    wrong = np.random.default_rng(1).random((200, WANTED)) < 1 / 50
    found = 0
    for each in wrong:
        desk = make(Runnable(is_wrong=each.__getitem__))
        desk.sample(20)
        found += desk.examine().wrong > 0
    assert found / len(wrong) >= 0.99


@pytest.mark.parametrize("in_place", [True, False])
def test_what_is_wrong_at_every_fiftieth_execution_is_always_found(make: Callable[..., Desk], in_place: bool) -> None:
    for offset in range(0, 50, 7):
        desk = make(Runnable(is_wrong=lambda number, offset=offset: number % 50 == offset), in_place=in_place)
        desk.sample(20)
        tally = desk.examine()
        assert tally.compared == WANTED
        assert tally.wrong >= WANTED // 50
        assert ("y[0] = 1.0, expected 0.0" in desk.executions.first_wrong) is not in_place


def test_sets_and_bytes_are_drawn_evenly_and_unmet_sets_are_kept_for_the_end(make: Callable[..., Desk]) -> None:
    desk = make()
    desk.sample(6000)
    numbers = Counter(draw.inputs for draw in desk.device.drawn)
    assert sorted(numbers) == list(range(COMPARED_SETS))
    assert min(numbers.values()) > 2700
    fills = Counter(draw.fill for draw in desk.device.drawn)
    assert len(fills) > 250
    assert set(fills) <= set(range(256))


def test_a_set_comes_again_at_once_seldom_and_now_and_then(make: Callable[..., Desk]) -> None:
    desk = make(in_place=False)
    desk.sample(8000)
    given = [draw.inputs for draw in desk.device.drawn]
    again = sum(one == other for one, other in pairwise(given)) / len(given)  # who keeps its last result gains in these
    assert 0.1 < again < 0.15


def test_draws_cannot_be_foreseen_from_pythons_or_numpys_seeds(make: Callable[..., Desk]) -> None:
    import random

    seen = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        desk = make()
        desk.sample(50)
        seen.append([(draw.inputs, draw.fill) for draw in desk.device.drawn])
    assert seen[0] != seen[1]


def test_the_host_compares_for_no_more_than_its_share_while_sampling(make: Callable[..., Desk]) -> None:
    desk = make(in_place=False, fetch_ns=2 * MS)
    desk.sample(1000, spent_ns=MS)
    compared = len(desk.device.looked_at)
    assert 2 * compared * MS <= module.MOST_SHARE * 1000 * MS + 2 * MS
    assert compared >= 95


def test_a_result_with_the_checksum_of_a_right_one_is_not_fetched(make: Callable[..., Desk]) -> None:
    desk = make(Runnable(is_wrong=lambda number: number % 10 == 9), in_place=False, has_checksums=True)
    desk.sample(200)
    assert desk.judged == list(range(1, 1 + COMPARED_SETS + 20))  # nothing wrong is ever known again
    assert desk.examine() == Tally(WANTED, WANTED // 10)
    host = make(in_place=False)
    host.sample(200)
    assert host.judged == list(range(1, 201)), "without checksums each is compared"


@pytest.mark.parametrize("in_place", [True, False])
def test_of_the_samples_beyond_those_wanted_some_are_compared_at_random(
    make: Callable[..., Desk], in_place: bool
) -> None:
    desk = make(in_place=in_place)
    desk.sample(WANTED + 8000)
    looked_at = desk.looked_at()
    assert looked_at[:WANTED] == list(range(WANTED))
    assert 800 < len(looked_at) - WANTED < 1200
    assert len({number % module.BEYOND for number in looked_at[WANTED:]}) == module.BEYOND


@pytest.mark.parametrize("in_place", [True, False])
def test_further_executions_end_with_the_time_that_they_are_given(make: Callable[..., Desk], in_place: bool) -> None:
    desk = make(in_place=in_place, execute_ns=MS, fetch_ns=4 * MS)
    tally = desk.examine()
    each = 1 if in_place else 5
    least_ns = module.LEAST_SLOW_NS if in_place else module.LEAST_NS
    assert tally.compared == max(COMPARED_SETS - 1, -(-least_ns // (each * MS)))
    slow = make(in_place=in_place, execute_ns=100 * MS)
    assert slow.examine().compared == COMPARED_SETS - 1  # one of each that the check did not have
    sampled = make(in_place=False, execute_ns=MS, fetch_ns=4 * MS)
    sampled.sample(100, spent_ns=10 * MS)  # a fifth of a second may be compared
    compared = len(sampled.looked_at())
    assert compared > 44
    further = sampled.examine().compared - compared  # the last one, of 10 ms perhaps, is not to end too late
    assert (200 - 4 * compared) // 5 - 2 <= further <= (200 - 4 * compared) // 5


@pytest.mark.parametrize(
    ("execute_ns", "beyond"), [(10_000, WANTED - 20), (11_000, WANTED - 20), (20_000, 50), (100_000, 10)]
)
def test_where_time_does_not_do_for_all_a_few_executions_are_added(
    make: Callable[..., Desk], execute_ns: int, beyond: int
) -> None:
    desk = make(execute_ns=execute_ns, calls_host=False)
    desk.sample(20)
    assert desk.examine().compared == 20 + beyond


def test_where_no_set_could_be_stocked_nothing_is_compared(make: Callable[..., Desk]) -> None:
    desk = make(stocked=0)
    desk.sample(5)
    assert not any(draw.compare for draw in desk.device.drawn)
    assert desk.examine() == Tally()
