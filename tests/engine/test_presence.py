"""The thread that shows a process's executors in the store."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig
from cuprof.engine import running
from cuprof.engine.executor import Executor
from cuprof.engine.running import present
from cuprof.worker.messages import WorkerSettings


class Stopped:
    """Stand in for a store whose first write is asked to stop; pytest fails if that ends a thread."""

    def __init__(self) -> None:
        self.beats, self.again, self.left = 0, Event(), list[int]()

    def beat(self, doing: dict[int, str]) -> None:
        self.beats += 1
        if self.beats == 1:
            raise KeyboardInterrupt
        self.again.set()

    def leave(self, numbers: list[int]) -> None:
        self.left += numbers


def test_a_request_to_stop_does_not_end_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BEAT_S", 0.01)
    executor, store = Executor(WorkerSettings(), LimitsConfig()), Stopped()
    executor.number = 7
    kept: Any = store
    with present(kept, [executor]):
        assert store.again.wait(60.0)
    assert store.left == [7]
