"""What a CUDA device's data sheet says, from a driver that stands in for NVIDIA's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.backends.cuda import presence
from cuprof.backends.device_state import StateMonitor

TESLA_T4 = {
    "MEMORY_CLOCK_RATE": 5_001_000,  # kHz
    "GLOBAL_MEMORY_BUS_WIDTH": 256,
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_MULTIPROCESSOR": 1024,
}


def refuse(*_: Any) -> None:
    raise RuntimeError("not supported")


@pytest.fixture
def t4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "read_attribute", lambda index, name: TESLA_T4[name])


def monitor(limit: Any) -> StateMonitor:
    return StateMonitor(object(), SimpleNamespace(nvmlDeviceGetPowerManagementLimit=limit))


@pytest.mark.usefixtures("t4")
def test_a_t4_has_the_figures_of_its_data_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence.StateMonitor, "find", lambda uuid: monitor(lambda handle: 70_000))
    limits = presence.read_limits(0, "0" * 32)
    assert limits["theoretical_bandwidth_gbs"] == pytest.approx(320, rel=1e-3)  # the published card's peak
    assert (limits["memory_bus_bits"], limits["warps_per_multiprocessor"]) == (256, 32)
    assert limits["power_limit_w"] == 70.0


@pytest.mark.usefixtures("t4")
@pytest.mark.parametrize("found", [None, monitor(refuse)], ids=["no NVML", "not supported"])
def test_a_power_limit_that_is_not_known_is_none(monkeypatch: pytest.MonkeyPatch, found: StateMonitor | None) -> None:
    monkeypatch.setattr(presence.StateMonitor, "find", lambda uuid: found)
    assert presence.read_limits(0, "0" * 32)["power_limit_w"] is None


@pytest.mark.gpu
def test_this_device_knows_its_data_sheet() -> None:
    details = presence.find_facts().details
    assert details["theoretical_bandwidth_gbs"] > 50
    assert details["memory_bus_bits"] % 32 == 0
    assert details["warps_per_multiprocessor"] in (32, 48, 64)
