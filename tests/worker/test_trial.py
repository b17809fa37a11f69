"""What a trial comes to by what was raised in it."""

from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.backends.contract import DeviceLostError
from cuprof.core.errors import BuildError, DeviceMemoryError, ImpossibleError, LaunchError, MissingDependencyError
from cuprof.core.records import FAILED, State
from cuprof.worker.status_page import Phase
from cuprof.worker.trial import Trial


@pytest.mark.parametrize(
    ("raised", "state", "lost"),
    [
        (ImpossibleError("threads a block 2,048 > 1,024"), State.IMPOSSIBLE, False),
        (LaunchError("launch scale: invalid argument"), State.LAUNCH_ERROR, False),
        (DeviceMemoryError("prepare scale", "no more"), State.LAUNCH_ERROR, False),
        (DeviceLostError("execute: illegal address"), State.LAUNCH_ERROR, True),
        (BuildError("refused", "log"), State.COMPILE_ERROR, False),
        (MissingDependencyError("PyTorch", "pip install torch"), State.SKIPPED, False),
    ],
)
def test_states(raised: Exception, state: State, lost: bool) -> None:
    trial: Any = SimpleNamespace(identity="0")
    variant: Any = SimpleNamespace(name="v")
    finished = Trial(0, trial, variant).fail(Phase.CHECK, raised)
    assert (finished.outcome.state, finished.outcome.message, finished.lost) == (state, str(raised), lost)
    assert finished.starved == isinstance(raised, DeviceMemoryError)
    assert (state in FAILED) == (state not in (State.IMPOSSIBLE, State.SKIPPED))
