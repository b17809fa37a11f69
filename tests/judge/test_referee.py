"""What the referee of one trial decides, beside real processes."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from cuprof.core.point import Point
from cuprof.core.records import Measure, State
from cuprof.judge import referee as module
from cuprof.judge.border.signals import Refusal
from cuprof.judge.border.suspect import RefusedError
from cuprof.judge.examiner import FoundError
from cuprof.judge.referee import BorderExecutor, Referee
from cuprof.worker.messages import Job


def test_more_sets_are_prepared_for_as_long_as_more_are_wanted() -> None:
    """Executions that pretend to be long are timed on few sets, which share what a request may hide."""
    job = Mock(methods={Measure.COLD: "method"}, trials=[Mock()])
    referee = Referee(Mock(**{"limits.build_s": 1.0, "limits.check_s": 1.0}), job, is_ready=True)
    job.measure.patience_seconds = 1.0
    timed = []
    referee.suspect = Mock(spins=False)
    referee.sets = Mock(count=4, choose_count=lambda *_: [16, 100, 256, 256][len(timed) - 1])
    referee.clock = Mock(
        time=lambda _: timed.append(referee.sets.count) or SimpleNamespace(summary=Mock()), is_crowded=lambda: False
    )
    referee._prepare_sets = lambda count: setattr(referee.sets, "count", count)  # type: ignore[method-assign]
    assert referee.hold().state is State.OK
    assert timed == [4, 16, 100]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), "no memory is left for the inputs; its process, or other programs, may have taken it"),
        (
            RefusedError(Refusal("skipped", "there is no cupy", "")),
            "there is no cupy, although the baseline ran; it sees the packages that cuprof's own Python has",
        ),
    ],
    ids=["memory", "package"],
)
def test_what_is_missing_is_told_to_those_who_can_mend_it(error: BaseException, expected: str) -> None:
    job = Mock(methods={Measure.COLD: "method"}, trials=[Mock()], **{"measure.patience_seconds": 1.0})
    referee = Referee(Mock(**{"limits.build_s": 1.0, "limits.check_s": 1.0}), job, is_ready=True)
    referee.suspect, referee.sets = Mock(), Mock()
    referee.clock = Mock(time=Mock(side_effect=error))
    ended = referee.hold()
    assert (ended.state, ended.message) == (State.SKIPPED, expected)


def make_referee(*, is_crowded: bool, is_shared: bool) -> Referee:
    """Return the referee of a process beside which something works on the device, and maybe after it."""
    referee = Referee(Mock(), Mock(extension=Mock()))
    referee.suspect = Mock()
    referee.clock = Mock(is_crowded=lambda: is_crowded, is_shared=lambda: is_shared)
    return referee


def test_what_ends_with_its_process_was_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREE_S", 0.0)
    referee = make_referee(is_crowded=True, is_shared=False)
    with pytest.raises(FoundError, match="the device works while nothing is asked of it"):
        referee._require_idle()
    assert referee.lingers
    referee.suspect.close.assert_called_once()  # type: ignore[attr-defined]


def test_what_goes_on_after_its_process_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREE_S", 0.0)
    referee = make_referee(is_crowded=True, is_shared=True)
    referee._require_idle()
    assert (referee.has_ended, referee.lingers) == (True, False)


def test_a_process_on_an_idle_device_goes_on() -> None:
    referee = make_referee(is_crowded=False, is_shared=False)
    referee._require_idle()
    assert not referee.has_ended


@pytest.mark.parametrize(
    ("lingers", "state"),
    [([False], State.OK), ([True, True, False], State.OK), ([True, True, True], State.SKIPPED)],
    ids=["never", "twice, as others may", "each time"],
)
def test_it_is_not_judged_where_work_ends_with_it_each_time(
    monkeypatch: pytest.MonkeyPatch, lingers: list[bool], state: State
) -> None:
    turns = [
        Mock(lingers=each, has_ended=each, hold=lambda each=each: Mock(state=State.SKIPPED if each else State.OK))
        for each in lingers
    ]
    given = iter(turns)
    monkeypatch.setattr(module, "Referee", lambda *_: next(given))
    executor = BorderExecutor.__new__(BorderExecutor)
    executor.border, executor.judge = Mock(waiting={}), lambda outcome: outcome  # type: ignore[method-assign]
    executor._has_room = lambda referee: True  # type: ignore[method-assign]
    (outcome,) = executor.measure(Job(Mock(), "cuda", Point(n=1), (Mock(),), 0))
    assert outcome.state is state
    assert len(executor.border.waiting) == (state is State.OK)
    assert [each.close.call_count > 0 for each in turns] == lingers
