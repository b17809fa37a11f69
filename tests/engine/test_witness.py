"""The engine's own clock around executions, and what it says against a time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cuprof.core.records import Measure, Outcome, Sample, State, Timing
from cuprof.engine import witness as module
from cuprof.engine.witness import LEAST_NS, MOST_ROUNDS, ROUNDS, Witness
from cuprof.statistics.median import summarise
from cuprof.worker.messages import Execute, Executed, Finished, Ready


def outcome(claimed_ns: float, state: State = State.OK) -> Finished:
    samples = tuple(Sample(number, claimed_ns, None, "") for number in range(9))
    return Finished(
        0, Outcome("0" * 32, state, timings=(Timing(Measure.COLD, "m", samples, summarise(samples), "interval"),))
    )


def watch(
    patch: pytest.MonkeyPatch,
    real_ns: float,
    claimed_ns: float,
    *,
    answer_ns: int = 100_000,
    write_ns: float = 5e3,
    said_ns: float | None = None,
    delay: Callable[[], float] = lambda: 1.0,
    cores: float = 1.0,
) -> tuple[Witness, int]:
    """Let a witness see executions that take so long; return it and how often it looked."""
    now, looks = [0], 0
    patch.setattr(module, "perf_counter_ns", lambda: now[0])
    seen = Witness()
    asked = seen.answer(Ready(0, claimed_ns))
    while asked.count:
        looks += not asked.only_write
        lasted_ns = int(delay() * asked.count * (write_ns + (0 if asked.only_write else real_ns))) + answer_ns
        now[0] += lasted_ns
        own_ns = 0.0 if asked.only_write else asked.count * (claimed_ns if said_ns is None else said_ns)
        asked = seen.answer(Executed(asked.count, own_ns, int(cores * lasted_ns)))
    return seen, looks


@pytest.mark.parametrize("real_ns", [20.0, 3e3, 3e5, 3e8])
def test_a_true_time_is_believed(monkeypatch: pytest.MonkeyPatch, real_ns: float) -> None:
    seen, looks = watch(monkeypatch, real_ns, real_ns)
    assert seen.judge(outcome(real_ns)).state is State.OK
    assert looks <= 8 + ROUNDS


def test_a_long_execution_is_looked_at_once_where_writing_is_a_small_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [watch(monkeypatch, 3e9, 3e9, write_ns=write_ns)[1] for write_ns in (1e8, 3e8)]
    assert looks == [1, ROUNDS]


@pytest.mark.parametrize(("said_ns", "state"), [(3e9, State.OK), (1e9, State.IMPLAUSIBLE)])
def test_one_execution_is_seen_and_looked_at_anew_where_it_was_not_long(
    monkeypatch: pytest.MonkeyPatch, said_ns: float, state: State
) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "perf_counter_ns", lambda: int(now[0]))
    seen = Witness()
    assert seen.answer(Ready(0, 0.0, once=True)) == Execute(1)
    now[0] += 3.1e9
    assert seen.answer(Executed(1, said_ns)) == Execute(0)
    assert seen.judge(outcome(said_ns)).state is state
    seen.answer(Ready(0, said_ns))
    assert seen.judge(outcome(said_ns)).message == "its time could not be seen from outside its process"


@pytest.mark.parametrize(
    ("cores", "real_ns", "state"), [(1, 6e4, "implausible"), (3, 6e4, "ok"), (3, 1e5, "implausible")]
)
def test_who_keeps_several_cores_busy_makes_the_writing_slower(
    monkeypatch: pytest.MonkeyPatch, cores: float, real_ns: float, state: str
) -> None:
    seen, _ = watch(monkeypatch, real_ns, 18e3, said_ns=16e3, cores=cores)
    assert seen.judge(outcome(18e3)).state.value == state


@pytest.mark.parametrize("real_ns", [3e4, 3e5, 3e8])
def test_a_time_that_is_shorter_than_what_it_took_is_not(monkeypatch: pytest.MonkeyPatch, real_ns: float) -> None:
    seen, looks = watch(monkeypatch, real_ns, real_ns / 1000)
    found = seen.judge(outcome(real_ns / 1000))
    assert found.state is State.IMPLAUSIBLE
    assert found.message.startswith("two clocks disagree: ")
    assert looks >= MOST_ROUNDS


def test_a_clock_is_caught_by_these_very_executions_where_cold_ones_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, _ = watch(monkeypatch, 1e5, 6e4, said_ns=2e4)
    found = seen.judge(outcome(6e4))
    assert found.message == "two clocks disagree: 20 µs by its own process, 100 µs by the engine's clock"


def test_a_busy_host_is_looked_at_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    seen, looks = watch(monkeypatch, 1e5, 3e4, said_ns=3e4, delay=lambda: chance.uniform(1.0, 6.0))
    assert looks > 2 * ROUNDS
    assert seen.judge(outcome(3e4)).state is State.IMPLAUSIBLE


def test_what_was_not_to_be_seen_is_not_believed() -> None:
    assert Witness().judge(outcome(1e6)).state is State.IMPLAUSIBLE
    assert Witness().judge(outcome(1e6, State.WRONG_RESULT)).state is State.WRONG_RESULT
    assert LEAST_NS >= 10 * 100_000
