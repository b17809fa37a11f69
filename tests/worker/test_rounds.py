"""When a device is brought up to its clocks before it is sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure
from cuprof.worker.held import Held
from cuprof.worker.rounds import IDLE_NS, Rounds

SETTLE_S = 0.2
Begin = Callable[[Held, str], tuple[Rounds, Callable[[], bool]]]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A clock that only the test moves, in ns."""
    clock = SimpleNamespace(ns=10**12)
    monkeypatch.setattr("cuprof.worker.rounds.time", SimpleNamespace(monotonic_ns=lambda: clock.ns))
    return clock


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begin a job: its rounds, and what samples nothing and says whether the device was settled for that."""
    given: list[float] = []

    def sampler(**arguments: Any) -> SimpleNamespace:
        given.append(arguments["settle_ns"])
        return SimpleNamespace(sample=lambda pairs, measure: ())

    monkeypatch.setattr("cuprof.worker.rounds.Sampler", sampler)

    def start(held: Held, backend: str = "cuda") -> tuple[Rounds, Callable[[], bool]]:
        job = SimpleNamespace(measure=MeasureConfig(settle_seconds=SETTLE_S), methods={Measure.COLD: "a method"})
        bench = SimpleNamespace(job=job, session=None, integrity=SimpleNamespace(hide=lambda: None))
        spec = SimpleNamespace(name=backend)
        rounds = Rounds(bench, SimpleNamespace(spec=spec), None, SimpleNamespace(count=0), held)  # type: ignore[arg-type]

        def settles() -> bool:
            list(rounds.sample((), Measure.COLD))
            assert given[-1] in (0.0, SETTLE_S * 1e9)
            return given[-1] > 0

        return rounds, settles

    return start


def test_a_device_is_settled_at_first_and_after_a_rest(now: SimpleNamespace, begin: Begin) -> None:
    rounds, settles = begin(Held(), "cuda")
    assert settles()
    rounds.keep_warm()
    now.ns += IDLE_NS
    assert not settles()
    now.ns += 1
    assert settles()


def test_checks_keep_a_device_at_work_and_do_not_end_its_rest(now: SimpleNamespace, begin: Begin) -> None:
    rounds, settles = begin(Held(), "cuda")
    rounds.stay_warm()
    assert settles(), "a check before the first samples is too short"
    rounds.keep_warm()
    for _ in range(20):
        now.ns += IDLE_NS // 2
        rounds.stay_warm()
    assert not settles()
    now.ns += IDLE_NS + 1  # a build that nobody has done ahead
    rounds.stay_warm()
    assert settles()


def test_the_next_job_knows_whether_its_own_device_has_rested(now: SimpleNamespace, begin: Begin) -> None:
    held = Held()
    begin(held, "cuda")[0].keep_warm()
    now.ns += IDLE_NS // 2
    assert not begin(held, "cuda")[1]()
    assert begin(held, "opencl")[1]()
