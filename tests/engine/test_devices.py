"""Which GPUs take part in a sweep: those that are equal and work."""

from __future__ import annotations

from typing import Any

import pytest

from cuprof.config.model import DeviceConfig, LimitsConfig, SweepConfig
from cuprof.core.errors import CuprofError, UsageError
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.engine import devices
from cuprof.engine.devices import enroll, make_executors
from cuprof.engine.executor import Executor
from cuprof.worker.messages import WorkerSettings

BACKENDS = ("cuda", "cpu")
BROKEN = Unavailable("the worker could not open it: an illegal instruction")


def make_card(ordinal: int, name: str = "NVIDIA H200") -> DeviceFacts:
    return DeviceFacts("cuda", ordinal, name, f"{ordinal:032x}", 2**36, {"name": name})


def take_part(
    monkeypatch: pytest.MonkeyPatch, cuda: str, *cards: DeviceFacts | Unavailable
) -> tuple[list[int | None], list[str]]:
    """Return the numbers of the GPUs that take part, the first one's first, and what is said of the others."""

    def describe(config: SweepConfig, executors: list[object], backends: tuple[str, ...]) -> None:
        for executor in executors:
            number = executor.settings.numbers["cuda"] or 0  # type: ignore[attr-defined]
            executor.devices = {"cuda": cards[number], "cpu": DeviceFacts("cpu", 0, "a processor")}  # type: ignore[attr-defined]

    monkeypatch.setattr(devices, "describe_all", describe)
    monkeypatch.setattr(devices, "count_devices", lambda backend: len(cards))
    config = SweepConfig("", "any", device=DeviceConfig(cuda=tuple(cuda.split(","))))
    executors = make_executors(config)
    assert {executor.settings.workers for executor in executors} == {len(executors)}
    notes = enroll(config, executors, BACKENDS)
    return [executor.settings.numbers["cuda"] for executor in executors], notes


def test_equal_cards_all_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_part(monkeypatch, "all", make_card(0), make_card(1)) == ([0, 1], [])
    assert take_part(monkeypatch, "1", make_card(0), make_card(1)) == ([1], [])


@pytest.mark.parametrize("other", [make_card(1, "NVIDIA L4"), BROKEN])
def test_another_model_or_a_broken_card_is_left_out_or_refused_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch, other: DeviceFacts | Unavailable
) -> None:
    why = "NVIDIA L4 is not equal to the first device, NVIDIA H200" if isinstance(other, DeviceFacts) else str(BROKEN)
    left_out = f"device.cuda=1 takes no part: {why}"
    assert take_part(monkeypatch, "all", make_card(0), other, make_card(2)) == ([0, 2], [left_out])
    with pytest.raises(UsageError) as raised:
        take_part(monkeypatch, "0,1", make_card(0), other)
    assert str(raised.value) == f"{left_out}; leave it out of device.cuda"


def test_a_broken_first_card_leaves_the_sweep_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_part(monkeypatch, "all", BROKEN, make_card(1), make_card(2)) == (
        [1, 2],
        [f"device.cuda=0 takes no part: {BROKEN}"],
    )
    with pytest.raises(UsageError, match=r"device\.cuda=0 takes no part: .*; leave it out of device\.cuda"):
        take_part(monkeypatch, "0,1", BROKEN, make_card(1))


def test_where_no_card_works_the_plan_tells_why(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, notes = take_part(monkeypatch, "all", BROKEN, BROKEN)
    assert (len(numbers), notes) == (1, [])


@pytest.mark.parametrize(
    ("cuda", "count", "found"), [("9", 2, "there are 2 GPUs, 0 to 1"), ("0,1", 1, "there is one GPU, 0")]
)
def test_a_number_that_no_card_has_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, cuda: str, count: int, found: str
) -> None:
    with pytest.raises(UsageError) as raised:
        take_part(monkeypatch, cuda, *map(make_card, range(count)))
    assert str(raised.value) == f"device.cuda={cuda}: {found}"


def test_without_a_driver_a_number_is_left_to_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(backend: str) -> int:
        raise CuprofError("no NVIDIA driver on this machine")

    monkeypatch.setattr(devices, "count_devices", fail)
    assert len(make_executors(SweepConfig("", "any", device=DeviceConfig(cuda=("3",))))) == 1


def test_a_worker_that_was_started_in_a_thread_that_ends_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux ends a worker with the thread that started it."""

    class Begun(Executor):
        def __init__(self) -> None:
            super().__init__(WorkerSettings(), LimitsConfig())
            self.began, self.replaced = object(), 0

        @property
        def worker(self) -> Any:
            return self.began

        def drop_worker(self) -> None:
            self.replaced += 1

    def find(config: SweepConfig, workers: Begun, backends: tuple[str, ...]) -> dict[str, DeviceFacts]:
        if workers is executors[1]:
            workers.began = object()  # the first one died while it described its devices
        return {}

    executors = [Begun(), Begun()]
    monkeypatch.setattr(devices, "find_devices", find)
    devices.describe_all(SweepConfig("", "any"), executors, ("cuda",))
    assert [executor.replaced for executor in executors] == [0, 1]
