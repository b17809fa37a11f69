"""What the referee of one trial decides, beside real processes."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

from cuprof.core.records import Measure, State
from cuprof.judge.referee import Referee


def test_more_sets_are_prepared_for_as_long_as_more_are_wanted() -> None:
    """Executions that pretend to be long are timed on few sets, which share what a request may hide."""
    job = Mock(methods={Measure.COLD: "method"}, trials=[Mock()])
    referee = Referee(Mock(**{"limits.build_s": 1.0, "limits.check_s": 1.0}), job, is_ready=True)
    job.measure.patience_seconds = 1.0
    timed = []
    referee.suspect = Mock(spins=False)
    referee.sets = Mock(count=4, choose_count=lambda *_: [16, 100, 256, 256][len(timed) - 1])
    referee.clock = Mock(time=lambda _: timed.append(referee.sets.count) or SimpleNamespace(summary=Mock()))
    referee._prepare_sets = lambda count: setattr(referee.sets, "count", count)  # type: ignore[method-assign]
    assert referee.hold().state is State.OK
    assert timed == [4, 16, 100]
