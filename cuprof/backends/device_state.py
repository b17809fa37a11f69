"""The state of an NVIDIA device while it is measured: throttling, temperature, power. Read only, never set."""

from __future__ import annotations

import os
import time
from typing import Any
from uuid import UUID

REFRESH_NS = 50_000_000
"""Refresh at most this often: NVML's own figures change no faster than every 20 to 100 ms."""

POWER_CAP = 0x0000000000000004
"""Boards run at their power limit by design. It is noted, and its effect on a sample shows in the sample's clock."""
SLOWING = {
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""NVML's clock event reasons that lower the clock of a busy device (NVML API Reference, nvmlClocksEventReasons)."""


class StateMonitor:
    """Ask NVML about one device, at most every `REFRESH_NS`.

    Args:
        is_part: the process has a part of the device (MIG), so NVML's counts for the whole device are not its own.

    Attributes:
        state: its last temperature and power, and all reasons so far for which the device slowed itself, as the entries
            for a timing's details; None where NVML does not say.
        throttled: why the device slows itself now, or empty.
        sm_clock_mhz: the SM clock at the last refresh, for samples whose back end reads none on the device.
    """

    def __init__(self, handle: Any, nvml: Any, is_part: bool = False) -> None:
        self._handle, self._nvml, self._is_part = handle, nvml, is_part
        self._next_ns = 0
        self.state: dict[str, Any] = {"temperature_c": None, "power_w": None, "throttle_reasons": None}
        self.throttled = ""
        self.sm_clock_mhz: float | None = None

    @classmethod
    def find(cls, uuid: str) -> StateMonitor | None:
        """Return a monitor of the device, or None where NVML does not know it.

        Args:
            uuid: the device's, 32 hexadecimal digits without dashes; empty where it has none, as a host's processor.
        """
        nvml = find_nvml() if uuid else None
        if nvml is None:
            return None
        handle = ask(nvml.nvmlDeviceGetHandleByUUID, f"GPU-{UUID(uuid)}")
        if handle is not None:
            mode = ask(nvml.nvmlDeviceGetMigMode, handle)  # CUDA 12 gives a part the whole device's UUID
            return cls(handle, nvml, is_part=bool(mode and mode[0]))
        part = ask(nvml.nvmlDeviceGetHandleByUUID, f"MIG-{UUID(uuid)}")
        whole = None if part is None else ask(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, part)
        return None if whole is None else cls(whole, nvml, is_part=True)

    def _ask(self, question: str, *given: Any) -> Any:
        return ask(getattr(self._nvml, f"nvmlDeviceGet{question}"), self._handle, *given)

    def refresh(self) -> None:
        """Read the state if it is time to."""
        now = time.monotonic_ns()
        if now < self._next_ns:
            return
        self._next_ns = now + REFRESH_NS
        mask = self._ask("CurrentClocksEventReasons")
        if mask is None:  # drivers before R535 have it by its old name
            mask = self._ask("CurrentClocksThrottleReasons")
        present = [name for bit, name in SLOWING.items() if (mask or 0) & bit]
        self.throttled = f"throttled: {', '.join(present)}" if present else ""
        if mask is not None:
            capped = ["software power cap"] if mask & POWER_CAP else []
            self.state["throttle_reasons"] = sorted({*(self.state["throttle_reasons"] or ()), *present, *capped})
        self.state["temperature_c"] = self._ask("Temperature", self._nvml.NVML_TEMPERATURE_GPU)
        clock = self._ask("ClockInfo", self._nvml.NVML_CLOCK_SM)
        self.sm_clock_mhz = float(clock) if clock else None
        milliwatts = None if self._is_part else self._ask("PowerUsage")
        self.state["power_w"] = milliwatts / 1000 if milliwatts is not None else None

    def energy_mj(self) -> int | None:
        """Return the device's energy counter in millijoules, or None where it has none, or counts for others too."""
        value = None if self._is_part else self._ask("TotalEnergyConsumption")
        return None if value is None else int(value)

    def power_limit_w(self) -> float | None:
        """Return the device's power limit in W, or None if NVML does not report it."""
        milliwatts = self._ask("PowerManagementLimit")
        return None if milliwatts is None else milliwatts / 1000

    def other_processes(self, own: set[int]) -> list[int]:
        """Return the process ids of others that compute on the device; none where it is a part, which has its own."""
        running = () if self._is_part else self._ask("ComputeRunningProcesses") or ()
        return sorted({process.pid for process in running} - own)


def find_other_processes(uuid: str) -> list[int]:
    """Return the ids of other processes that compute on a device; none if NVML cannot say."""
    monitor = StateMonitor.find(uuid)
    return monitor.other_processes({os.getpid()}) if monitor else []


def find_uuid(domain: int, bus: int, slot: int) -> str:
    """Return the UUID of the device at a PCI address, for `StateMonitor.find`; empty if NVML has none.

    APIs without a UUID, such as OpenCL, give the address.
    """
    nvml = find_nvml()
    handle = ask(nvml.nvmlDeviceGetHandleByPciBusId, f"{domain:08x}:{bus:02x}:{slot:02x}.0") if nvml else None
    uuid = None if handle is None else ask(nvml.nvmlDeviceGetUUID, handle)
    return str(uuid or "").removeprefix("GPU-").replace("-", "")


def find_nvml() -> Any:
    """Return the module pynvml, ready to be asked; None where NVML is absent or refuses, as in some containers."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        return None
    return pynvml


def ask(function: Any, *arguments: Any) -> Any:
    """Return NVML's answer, or None where the device does not support the question."""
    try:
        return function(*arguments)
    except Exception:  # NVMLError_NotSupported and its kin, one class a status
        return None
