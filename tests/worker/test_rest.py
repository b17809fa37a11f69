"""When a device is brought up to its clocks before it is sampled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.backends.cpu.backend import CpuBackend
from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure
from cuprof.worker import rotation
from cuprof.worker.rotation import IDLE_NS, Rotations

SETTLE_S = 0.2


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that only the test moves, in ns."""
    clock = SimpleNamespace(ns=10**12)
    monkeypatch.setattr(rotation, "time", SimpleNamespace(monotonic_ns=lambda: clock.ns))
    return clock


def begin(backend: CpuBackend) -> Rotations:
    job: Any = SimpleNamespace(measure=MeasureConfig(settle_seconds=SETTLE_S), methods={Measure.COLD: "a method"})
    session: Any = SimpleNamespace(backend=backend)
    none: Any = None
    return Rotations(none, job, session, none)


def settles(rotations: Rotations) -> bool:
    settle_ns = rotations._sampler(Measure.COLD).settle_ns
    assert settle_ns in (0.0, SETTLE_S * 1e9)
    return settle_ns > 0


def test_a_device_is_settled_at_first_and_after_a_rest(now: SimpleNamespace) -> None:
    rotations = begin(CpuBackend(1))
    assert settles(rotations)
    rotations._note_work()
    now.ns += IDLE_NS
    assert not settles(rotations)
    now.ns += 1
    assert settles(rotations)


def test_the_next_job_knows_whether_its_own_device_has_rested(now: SimpleNamespace) -> None:
    backend = CpuBackend(1)
    begin(backend)._note_work()
    now.ns += IDLE_NS // 2
    assert not settles(begin(backend))
    assert settles(begin(CpuBackend(1)))
