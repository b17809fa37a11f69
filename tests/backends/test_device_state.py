"""The device's state as a stand-in for NVML tells it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.backends import device_state
from cuprof.backends.device_state import REFRESH_NS, StateMonitor, find_uuid


class RefusedError(Exception):
    """What NVML raises."""


class FakeNvml:
    """Answer what `pynvml` answers for two devices; anything else is an AttributeError."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    def __init__(self) -> None:
        self.reasons, self.celsius, self.milliwatts, self.millijoules = 0, 61, 345_600, 12_345
        self.megahertz = 1980
        self.pids: list[int] = []
        self.asked = 0
        self.refuses: set[str] = set()
        self.mig = 0

    def _answer(self, question: str, value: Any) -> Any:
        self.asked += 1
        if question in self.refuses:
            raise RefusedError(question)
        return value

    def nvmlInit(self) -> None:  # noqa: N802
        self._answer("init", None)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        handles = {
            "GPU-00000000-1111-2222-3333-444444444444": "handle 0",
            "GPU-99999999-1111-2222-3333-444444444444": "handle 1",
            "MIG-77777777-1111-2222-3333-444444444444": "part of 1",
        }
        return self._answer(uuid, handles[uuid])

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part: str) -> str:  # noqa: N802
        return {"part of 1": "handle 1"}[part]

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        return self._answer("mig", [self.mig, self.mig])

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> str:  # noqa: N802
        return self._answer("address", {"00000000:c4:00.0": "handle 1"}[address])

    def nvmlDeviceGetUUID(self, handle: str) -> str:  # noqa: N802
        first = {"handle 0": "00000000", "handle 1": "99999999"}[handle]
        return f"GPU-{first}-1111-2222-3333-444444444444"

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: N802
        return int(self._answer("reasons", self.reasons))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: N802
        return int(self._answer("throttle", self.reasons))

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:  # noqa: N802
        assert sensor == self.NVML_TEMPERATURE_GPU
        return int(self._answer("temperature", self.celsius))

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:  # noqa: N802
        assert clock == self.NVML_CLOCK_SM
        return int(self._answer("clock", self.megahertz))

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        return int(self._answer("power", self.milliwatts))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:  # noqa: N802
        return int(self._answer("energy", self.millijoules))

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self._answer("processes", self.pids)]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=10**9)
    monkeypatch.setattr(device_state, "time", SimpleNamespace(monotonic_ns=lambda: clock.now))
    return clock


@pytest.fixture
def monitor(nvml: FakeNvml, clock: SimpleNamespace) -> StateMonitor:
    found = StateMonitor.find("99999999111122223333444444444444")
    assert found is not None
    return found


def test_a_device_is_found_by_its_uuid(nvml: FakeNvml, monitor: StateMonitor) -> None:
    assert monitor._handle == "handle 1"
    assert StateMonitor.find("f" * 32) is None
    nvml.refuses |= {"mig", "GPU-00000000-1111-2222-3333-444444444444"}
    assert StateMonitor.find("00000000111122223333444444444444") is None
    other = StateMonitor.find("99999999111122223333444444444444")  # though NVML refuses its neighbour
    assert other is not None
    assert other.energy_mj() == 12_345


@pytest.mark.parametrize(("uuid", "mig"), [("7" * 8, 0), ("9" * 8, 1)])
def test_a_part_of_a_device_has_its_state_and_not_its_energy(nvml: FakeNvml, uuid: str, mig: int) -> None:
    nvml.mig = mig
    monitor = StateMonitor.find(f"{uuid}111122223333444444444444")
    assert monitor is not None
    assert monitor._handle == "handle 1"
    monitor.refresh()
    nvml.pids = [30]
    assert (monitor.state["temperature_c"], monitor.state["power_w"]) == (61, None)
    assert monitor.energy_mj() is None
    assert monitor.other_processes(set()) == []


def test_older_drivers_name_the_reasons_otherwise(monitor: StateMonitor, nvml: FakeNvml) -> None:
    nvml.refuses.add("reasons")
    nvml.reasons = 0x40
    monitor.refresh()
    assert monitor.throttled == "throttled: hardware thermal slowdown"


def test_a_device_is_found_by_its_pci_address(nvml: FakeNvml) -> None:
    uuid = find_uuid(0, 0xC4, 0)
    assert uuid == "99999999111122223333444444444444"
    assert StateMonitor.find(uuid) is not None
    assert find_uuid(0, 0xC5, 0) == ""
    nvml.refuses.add("address")
    assert find_uuid(0, 0xC4, 0) == ""


def test_without_nvml_there_is_no_monitor(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.refuses.add("init")
    assert StateMonitor.find("99999999111122223333444444444444") is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert StateMonitor.find("99999999111122223333444444444444") is None


def test_state_of_a_device_at_ease(monitor: StateMonitor) -> None:
    monitor.refresh()
    assert monitor.throttled == ""
    assert monitor.state == {"temperature_c": 61, "power_w": 345.6, "throttle_reasons": []}
    assert monitor.sm_clock_mhz == 1980.0


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (0x08, "hardware slowdown"), (0x20, "software thermal slowdown"), (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)  # fmt: skip
def test_what_slows_a_busy_device_is_throttling(
    monitor: StateMonitor, nvml: FakeNvml, clock: SimpleNamespace, mask: int, reason: str
) -> None:
    nvml.reasons = mask
    monitor.refresh()
    assert monitor.throttled == f"throttled: {reason}"
    nvml.reasons = 0
    clock.now += REFRESH_NS
    monitor.refresh()
    assert monitor.throttled == ""
    assert monitor.state["throttle_reasons"] == [reason]


def test_several_reasons_are_all_named(monitor: StateMonitor, nvml: FakeNvml) -> None:
    nvml.reasons = 0x08 | 0x40
    monitor.refresh()
    assert monitor.throttled == "throttled: hardware slowdown, hardware thermal slowdown"
    assert monitor.state["throttle_reasons"] == ["hardware slowdown", "hardware thermal slowdown"]


@pytest.mark.parametrize("mask", [0x1, 0x2, 0x10, 0x100])
def test_idle_and_chosen_clocks_are_no_throttling(monitor: StateMonitor, nvml: FakeNvml, mask: int) -> None:
    nvml.reasons = mask
    monitor.refresh()
    assert (monitor.throttled, monitor.state["throttle_reasons"]) == ("", [])


def test_the_power_cap_is_noted_and_leaves_nothing_out(monitor: StateMonitor, nvml: FakeNvml) -> None:
    nvml.reasons = 0x4
    monitor.refresh()
    assert (monitor.throttled, monitor.state["throttle_reasons"]) == ("", ["software power cap"])


def test_nvml_is_not_asked_more_often_than_it_answers_anew(
    monitor: StateMonitor, nvml: FakeNvml, clock: SimpleNamespace
) -> None:
    monitor.refresh()
    asked = nvml.asked
    clock.now += REFRESH_NS - 1
    monitor.refresh()
    assert nvml.asked == asked
    clock.now += 1
    monitor.refresh()
    assert nvml.asked > asked


def test_what_a_board_does_not_support_is_unknown(monitor: StateMonitor, nvml: FakeNvml) -> None:
    nvml.refuses |= {"reasons", "throttle", "temperature", "power", "clock", "energy", "processes"}
    monitor.refresh()
    assert (monitor.throttled, monitor.sm_clock_mhz) == ("", None)
    assert monitor.state == {"temperature_c": None, "power_w": None, "throttle_reasons": None}
    assert monitor.energy_mj() is None
    assert monitor.other_processes(set()) == []


def test_energy_and_other_processes(monitor: StateMonitor, nvml: FakeNvml) -> None:
    nvml.pids = [30, 10, 20, 10]
    assert monitor.other_processes({20}) == [10, 30]
    assert monitor.energy_mj() == 12_345


def test_reasons_once_told_stay_known(monitor: StateMonitor, nvml: FakeNvml, clock: SimpleNamespace) -> None:
    nvml.reasons = 0x08
    monitor.refresh()
    nvml.refuses |= {"reasons", "throttle"}
    clock.now += REFRESH_NS
    monitor.refresh()
    assert monitor.state["throttle_reasons"] == ["hardware slowdown"]
