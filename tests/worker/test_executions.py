"""What executions are given, how many are compared, and who is said to remember: simulated, with seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuprof.backends.contract import Draw, Frame, InputSet, Reading, Tally
from cuprof.backends.sealed import Sealed
from cuprof.core.records import Check, Measure
from cuprof.families import Array, Point, Signature, Tolerance
from cuprof.families.origin import Folder
from cuprof.worker import executions as module
from cuprof.worker.bench import Bench
from cuprof.worker.candidate import Candidate
from cuprof.worker.check import compare
from cuprof.worker.executions import MEETINGS, TIMES_LONGER, WANTED, Executions
from cuprof.worker.messages import Job, JobTrial
from cuprof.worker.process_state import ProcessState
from cuprof.worker.workload import COMPARED_SETS, UNSEEN_SETS

RIGHT, WRONG = np.arange(8.0), np.arange(8.0) + 1
MS = 1_000_000
STATE = ProcessState()  # of all simulations: thousands are made, and none changes it
UNCHANGED: Any = SimpleNamespace(mend=lambda: ())
"""That the clock is a simulated one is no tampering here."""


@dataclass
class Runnable:
    """A variant that is right or wrong, and fast or slow, as it is told to.

    Attributes:
        is_wrong: told the number of an execution, from 0.
        cold_ns: told the number of a set of inputs and how often it has been met, from 0.
        at_once_ns: what it takes where the clock starts as soon as inputs are written; 0 for as long as else.
        again_ns: what it takes on the inputs of the execution before.
    """

    is_wrong: Callable[[int], bool] = lambda number: False
    cold_ns: Callable[[int, int], float] = lambda inputs, met: 10_000.0
    at_once_ns: float = 0.0
    again_ns: float = 10_000.0
    last: Any = None
    executed: int = 0
    met: Counter[int] = field(default_factory=Counter)
    build: Any = None


class Device:
    """A session whose clock is told, and moves by what is done.

    Args:
        in_place: it compares by itself.
    """

    def __init__(self, in_place: bool, execute_ns: int = 10_000, fetch_ns: int = 0) -> None:
        self.in_place, self.execute_ns, self.fetch_ns = in_place, execute_ns, fetch_ns
        self.now = 0
        self.drawn: list[Draw] = []
        self.sets: list[dict[str, np.ndarray]] = []
        self.tallied = Tally()
        self.restocked: list[int] = []
        self.known: list[Runnable] = []
        self.last_wrong = False
        self.looked_at: list[int] = []
        """Which of the executions drawn were compared after their outputs were fetched."""
        self.put_back_with: list[bool] = []

    def put_back(self, *, settings: bool) -> bool:
        self.put_back_with.append(settings)
        return False

    def expect(self, runnable: Runnable, tolerances: Sequence[Tolerance | None]) -> bool:
        return self.in_place

    def tally(self, runnable: Runnable) -> Tally:
        return self.tallied

    def execute(self, runnable: Runnable, *draws: Draw) -> None:
        for draw in draws:
            self.now += self.execute_ns
            self.drawn.append(draw)
            self.last_wrong = runnable.is_wrong(runnable.executed)
            runnable.last = self.sets[draw.inputs] if draw.inputs < len(self.sets) else None
            runnable.executed += 1
            if self.in_place and draw.compare:
                self.tallied = Tally(self.tallied.compared + 1, self.tallied.wrong + self.last_wrong)

    def begin(self, runnable: Runnable, measure: Measure, batch: int, draw: Callable[[], Draw]) -> Frame:
        drawn = draw()
        met = runnable.met[drawn.inputs]
        self.execute(runnable, drawn)
        runnable.met[drawn.inputs] += 1
        at_once = runnable.at_once_ns if measure is Measure.HOT else 0.0
        return Frame.ended(Reading(at_once or runnable.cold_ns(drawn.inputs, met)))

    def restock(self, number: int, inputs: dict[str, np.ndarray]) -> None:
        self.restocked.append(int(inputs["number"]))
        for runnable in self.known:
            runnable.met[number] = 0

    def restore_inputs(self, inputs: dict[str, np.ndarray]) -> None:
        self.given = inputs

    def clocked(self, runnable: Runnable) -> float:
        last, runnable.last = runnable.last, self.given
        return runnable.again_ns if last is self.given else 10_000.0

    def fetch(self, runnable: Runnable) -> dict[str, np.ndarray]:
        self.now += self.fetch_ns
        self.looked_at.append(len(self.drawn) - 1)
        return {"y": WRONG if self.last_wrong else RIGHT}


class Desk:
    """Executions of one candidate on a device that is simulated."""

    def __init__(
        self, patch: pytest.MonkeyPatch, runnable: Runnable, *, unseen: int = UNSEEN_SETS, stocked: int | None = None,
        on_host: bool = False, in_place: bool = True, looks_late: bool = True, isolated: bool = False,
        size: int = 8,
        **device: int,
    ) -> None:  # fmt: skip
        self.device, self.runnable = Device(in_place, **device), runnable
        patch.setattr(module, "monotonic_ns", lambda: self.device.now)
        sets = tuple(
            InputSet({}, Sealed({"y": RIGHT}) if number < COMPARED_SETS else None)
            for number in range(COMPARED_SETS + unseen)
        )
        self.device.known.append(runnable)
        self.device.sets = [each.inputs for each in sets]
        further = iter(range(len(sets), 1 << 30))
        redraw = lambda number: {"number": np.array(next(further))}  # noqa: E731
        self.judged: list[int] = []

        def judge(outputs: Any, number: int, tolerances: Any, look: int) -> Check:
            self.judged.append(look)
            return compare(outputs, {"y": RIGHT}, tolerances)

        def judge_unseen(outputs: Any, *_: object) -> Check:
            return compare(outputs, {"y": RIGHT}, Tolerance())

        workload = SimpleNamespace(
            sets=sets, compared=COMPARED_SETS, redraw=redraw, needs_host=False, judge=judge, judge_unseen=judge_unseen,
            family=SimpleNamespace(in_place=()), looks_late=looks_late,
            signature=Signature({}, {"y": Array((size,), "float32")}),
        )  # fmt: skip
        job = Job(Folder(Path()), "cpu", Point(), (), 1, None, {}, isolated=isolated)  # type: ignore[arg-type]
        count = len(sets) if stocked is None else stocked
        seen = (lambda *_: None) if on_host else None
        bench = Bench(job, workload, self.device, lambda *_: None, count, on_host, STATE, UNCHANGED, seen)  # type: ignore[arg-type]
        self.executions = Executions(bench, count)
        self.candidate = Candidate(0, JobTrial("0" * 32, "v", Point(), ""), SimpleNamespace(name="v", tolerance=None))  # type: ignore[arg-type]
        self.candidate.runnable = runnable
        runnable.met.update(range(COMPARED_SETS))  # checked and sampled on these
        self.candidate.tolerances = [Tolerance() if each.reference else None for each in sets]
        self.candidate.timings = {Measure.COLD: SimpleNamespace(summary=SimpleNamespace(median_ns=0.0))}  # type: ignore[dict-item]
        self.executions.enter(self.candidate)

    def sample(self, count: int, spent_ns: int = 100_000) -> None:
        for _ in range(count):
            self.device.execute(self.runnable, self.executions.deal(0))
            self.executions.settle(0, self.runnable, spent_ns)

    def examine(self) -> Tally:
        return self.executions.examine(self.candidate)

    def looked_at(self) -> list[int]:
        drawn = self.device.drawn
        return [n for n, draw in enumerate(drawn) if draw.compare] if self.device.in_place else self.device.looked_at

    def find_memory(self) -> str:
        return self.executions.find_memory(self.candidate)


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
    desk.candidate.changes_settings = True
    desk.sample(2)
    desk.candidate.program = SimpleNamespace(calls_host=False)  # type: ignore[assignment]
    desk.sample(4)
    assert desk.device.put_back_with == [True, True, True, False, False]


def test_what_is_wrong_once_in_fifty_is_found_in_99_of_100_sweeps(make: Callable[..., Desk]) -> None:
    assert 1 - (1 - 1 / 50) ** WANTED >= 0.99
    wrong = np.random.default_rng(1).random((500, WANTED)) < 1 / 50
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
        assert ("y[0] = 1.0, expected 0.0" in desk.executions.first_wrong(desk.candidate)) is not in_place


def test_sets_and_bytes_are_drawn_evenly_and_unseen_sets_are_kept_for_the_end(make: Callable[..., Desk]) -> None:
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


def test_the_same_result_is_compared_once_a_set_and_any_other_anew(
    make: Callable[..., Desk],
) -> None:
    desk = make(Runnable(is_wrong=lambda number: number % 10 == 9), in_place=False)
    desk.sample(200)
    assert desk.judged == list(range(1, 1 + COMPARED_SETS + 20))  # nothing wrong is ever known again
    assert desk.examine() == Tally(WANTED, WANTED // 10)


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
    assert tally.compared == max(COMPARED_SETS - 1, -(-module.LEAST_NS // (each * MS)))
    slow = make(in_place=in_place, execute_ns=100 * MS)
    assert slow.examine().compared == COMPARED_SETS - 1  # one of each that the check did not have
    sampled = make(in_place=False, execute_ns=MS, fetch_ns=4 * MS)
    sampled.sample(100, spent_ns=10 * MS)  # a fifth of a second may be compared
    compared = len(sampled.looked_at())
    assert compared > 44
    further = sampled.examine().compared - compared  # the last one, of 10 ms perhaps, is not to end too late
    assert (200 - 4 * compared) // 5 - 2 <= further <= (200 - 4 * compared) // 5


def test_where_no_set_could_be_stocked_nothing_is_compared(make: Callable[..., Desk]) -> None:
    desk = make(stocked=0)
    desk.sample(5)
    assert not any(draw.compare for draw in desk.device.drawn)
    assert desk.examine() == Tally()
    assert desk.find_memory() == ""


@pytest.mark.parametrize("kept_ns", [3_000.0, 30_000.0])
def test_a_variant_that_remembers_is_found(make: Callable[..., Desk], kept_ns: float) -> None:
    rng = np.random.default_rng(3)
    factor = 2 * TIMES_LONGER
    for _ in range(300):
        remembers = Runnable(
            cold_ns=lambda inputs, met: (kept_ns if met else factor * kept_ns) * float(rng.lognormal(0, 0.02))
        )
        found = make(remembers).find_memory()
        assert found.startswith(f"it remembers: {MEETINGS} new sets of inputs took ")
        assert remembers.met[COMPARED_SETS] == 1  # the others were met once before they were replaced


def test_a_variant_that_remembers_from_the_third_meeting_on_is_found(make: Callable[..., Desk]) -> None:
    remembers = Runnable(cold_ns=lambda inputs, met: 30_000.0 if met < 3 else 10_000.0)
    remembers.met.update(dict.fromkeys(range(COMPARED_SETS), 4))
    found = make(remembers).find_memory()
    assert found.startswith(f"it remembers: {MEETINGS} new sets of inputs took 30.00 µs")


def test_a_variant_that_remembers_some_of_the_inputs_that_are_compared_is_found(make: Callable[..., Desk]) -> None:
    half = make(Runnable(cold_ns=lambda inputs, met: 30_000.0 if inputs else 10_000.0))
    half.candidate.timings[Measure.COLD].summary.median_ns = 20_000.0
    message = half.find_memory()
    assert message.startswith("it remembers: ")
    assert message.endswith("known ones 20.00 µs")


def test_further_inputs_are_drawn_for_those_alone_who_took_longer_on_the_first(make: Callable[..., Desk]) -> None:
    honest = make(Runnable(cold_ns=lambda inputs, met: 5e4))
    assert honest.find_memory() == ""
    assert honest.device.restocked == []
    remembers = make(Runnable(cold_ns=lambda inputs, met: 1e4 if met else 5e4))
    for number in range(2):  # what one variant was given is given to none again
        assert remembers.find_memory()
        remembers.device.known[0].met[COMPARED_SETS] = 0
        assert remembers.device.restocked == [
            COMPARED_SETS + each for each in range(1, 1 + (MEETINGS - 1) * (number + 1))
        ]


def test_who_has_a_process_of_its_own_is_given_inputs_that_were_not_there_when_it_began(
    make: Callable[..., Desk],
) -> None:
    desk = make(isolated=True)
    assert desk.find_memory() == ""
    assert len(desk.device.restocked) == 1
    kernel = make(isolated=True)
    kernel.candidate.program = SimpleNamespace(calls_host=False)  # type: ignore[assignment]
    assert kernel.find_memory() == ""
    assert kernel.device.restocked == []


def test_who_is_slow_after_inputs_were_drawn_is_not_said_to_remember(make: Callable[..., Desk]) -> None:
    drawn = [-1]

    def cold_ns(inputs: int, met: int) -> float:
        is_disturbed = drawn[-1] < len(desk.device.restocked)
        drawn.append(len(desk.device.restocked))
        return 14_000.0 if is_disturbed else 7_000.0

    desk = make(Runnable(cold_ns=cold_ns))
    assert desk.find_memory() == ""
    assert len(desk.device.restocked) == 1


def test_a_variant_that_works_ahead_is_found_on_the_host(make: Callable[..., Desk]) -> None:
    ahead = Runnable(at_once_ns=21_500.0 + 1)
    found = make(ahead, unseen=UNSEEN_SETS + 1, on_host=True)
    found.candidate.timings[Measure.COLD].summary.median_ns = 10_000.0
    message = found.find_memory()
    assert message.startswith(f"it works ahead: {MEETINGS} executions took 21.50 µs")
    assert message.endswith("10.00 µs when it started later")
    assert len(found.device.restocked) == len({*found.device.restocked}) == MEETINGS - 1
    assert COMPARED_SETS + 1 not in found.device.restocked  # which the variant met first
    for honest in (Runnable(at_once_ns=21_500.0), Runnable(at_once_ns=2_000.0)):
        desk = make(honest, unseen=UNSEEN_SETS + 1, on_host=True)
        desk.candidate.timings[Measure.COLD].summary.median_ns = 10_000.0
        assert desk.find_memory() == ""
        assert desk.device.restocked == []
    assert make(ahead, unseen=UNSEEN_SETS + 1).find_memory() == ""  # a device's queue has no such gap


@pytest.mark.parametrize(("unseen", "on_host"), [(UNSEEN_SETS, False), (UNSEEN_SETS + 1, True)])
def test_who_does_no_work_on_inputs_that_it_does_not_know_is_wrong(
    make: Callable[..., Desk], unseen: int, on_host: bool
) -> None:
    for spared in range(unseen):
        skipping = Runnable(is_wrong=lambda number, spared=spared: number == spared)
        desk = make(skipping, unseen=unseen, on_host=on_host)
        desk.candidate.timings[Measure.COLD].summary.median_ns = 10_000.0
        assert desk.find_memory() == ""
        found = []
        for looked_at in range(COMPARED_SETS, COMPARED_SETS + unseen):  # drawn by chance, so nobody spares any
            desk.executions._looked_at = looked_at
            found.append(desk.executions.find_unseen_wrong(desk.candidate))
        assert found[spared].startswith("y[0] = 1.0, expected 0.0")
        assert [bool(each) for each in found].count(True) == 1
    drawn = {make(unseen=unseen, on_host=on_host).executions._looked_at for _ in range(40)}
    assert drawn == {*range(COMPARED_SETS, COMPARED_SETS + unseen)}
    honest = make(unseen=unseen, on_host=on_host)
    assert honest.find_memory() == honest.executions.find_unseen_wrong(honest.candidate) == ""


def test_who_works_on_the_first_unknown_inputs_and_on_no_further_ones_is_wrong(make: Callable[..., Desk]) -> None:
    sly = Runnable(
        is_wrong=lambda number: number > 5,  # a first meeting and all known sets, twice: then it knows what goes on
        cold_ns=lambda inputs, met: 30_000.0 if not met and sly.executed <= 6 else 10_000.0,
    )
    desk = make(sly)
    desk.candidate.timings[Measure.COLD].summary.median_ns = 10_000.0
    assert desk.find_memory() == ""
    assert desk.executions.find_unseen_wrong(desk.candidate)


def test_where_it_takes_too_long_to_know_what_is_right_nothing_is_said_of_results(make: Callable[..., Desk]) -> None:
    for settings in ({"looks_late": False}, {"size": 1 << 24}):  # on a device much would have to be fetched, too
        desk = make(Runnable(is_wrong=lambda number: True), **settings)
        assert desk.find_memory() == desk.executions.find_unseen_wrong(desk.candidate) == ""
        assert not desk.looked_at()
    host = make(Runnable(is_wrong=lambda number: True), size=1 << 24, on_host=True)
    assert host.find_memory() == ""
    assert host.executions.find_unseen_wrong(host.candidate)


@pytest.mark.parametrize(("again_ns", "batch", "on_host", "is_found"), [
    (2_000.0, 8, True, True), (2_200.0, 8, True, False), (2_000.0, 1, True, False), (2_000.0, 8, False, False),
])  # fmt: skip
def test_who_keeps_its_last_result_is_found_where_it_was_timed_back_to_back(
    make: Callable[..., Desk], again_ns: float, batch: int, on_host: bool, is_found: bool
) -> None:
    desk = make(Runnable(again_ns=again_ns), on_host=on_host)
    usual = SimpleNamespace(summary=SimpleNamespace(median_ns=10_000.0), details={"batch": batch})
    desk.candidate.timings = {Measure.HOT: usual}  # type: ignore[dict-item]
    found = desk.find_memory()
    kept = f"it keeps its last result: {MEETINGS} executions took 2.00 µs on the inputs of the one before, 10.00 µs"
    assert found.startswith(kept) is is_found
    assert bool(found) is is_found


def test_where_arrays_stay_in_the_caches_less_tells_who_works_ahead_and_may_be_quick_once(
    make: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    for fits, quick, is_found in ((True, 1, True), (True, 2, False), (False, 0, False)):
        monkeypatch.setattr(Bench, "fits_caches", fits)
        desk = make(Runnable(), unseen=UNSEEN_SETS + 1, on_host=True)
        desk.candidate.timings[Measure.COLD].summary.median_ns = 10_000.0
        hot = iter([*[3_000.0] * quick, *[14_500.0] * MEETINGS])
        monkeypatch.setattr(
            desk.device,
            "begin",
            lambda runnable, measure, *_, hot=hot: Frame.ended(
                Reading(next(hot) if measure is Measure.HOT else 10_000.0)
            ),
        )
        assert bool(desk.find_memory()) is is_found


NOISES: dict[str, Callable[[np.random.Generator], float]] = {
    "device": lambda rng: float(rng.lognormal(0, 0.03)),
    "device, 1 in 20 disturbed": lambda rng: float(rng.lognormal(0, 0.03)) * (1 + 2 * (rng.random() < 0.05)),
    "host": lambda rng: float(rng.lognormal(0, 0.15)),
    "host, 1 in 20 disturbed": lambda rng: float(rng.lognormal(0, 0.1)) * (1 + 9 * (rng.random() < 0.05)),
    "host, 1 in 10 disturbed": lambda rng: float(rng.lognormal(0, 0.1)) * (1 + 9 * (rng.random() < 0.1)),
    "host, 1 in 4 twice as long": lambda rng: float(rng.lognormal(0, 0.1)) * (1 + (rng.random() < 0.25)),
}


@pytest.mark.parametrize("noise", list(NOISES))
def test_an_honest_variant_is_accused_less_than_once_in_a_thousand_sweeps(
    make: Callable[..., Desk], noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bench, "fits_caches", True)
    draw = NOISES[noise]
    rng = np.random.default_rng(4)
    honest = Runnable(cold_ns=lambda inputs, met: 20_000 * draw(rng))
    desk = make(honest, unseen=UNSEEN_SETS + 1, on_host=True)
    median_ns = 20_000 * float(np.median([draw(rng) for _ in range(1000)]))
    usual = SimpleNamespace(summary=SimpleNamespace(median_ns=median_ns))
    desk.candidate.timings = {Measure.COLD: usual}  # type: ignore[dict-item]
    accused = sum(bool(desk.find_memory()) for _ in range(5000))
    assert accused < 5


def test_without_room_for_a_further_set_nothing_is_concluded(make: Callable[..., Desk]) -> None:
    assert make(Runnable(cold_ns=lambda inputs, met: 1e3 if met else 1e6), unseen=0).find_memory() == ""
    stocked = COMPARED_SETS
    assert make(Runnable(cold_ns=lambda inputs, met: 1e3 if met else 1e6), stocked=stocked).find_memory() == ""


def test_only_trials_with_kernel_time_are_asked_whether_they_remember(make: Callable[..., Desk]) -> None:
    desk = make(Runnable(cold_ns=lambda inputs, met: 1e3 if met else 1e6))
    desk.candidate.timings = {Measure.TOTAL: None}  # type: ignore[dict-item]
    assert desk.find_memory() == ""
