"""What is known of the back end for the host's processor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuprof.backends.spec import BackendSpec, ListedDevice, SweepNoise
from cuprof.records import Measure

if TYPE_CHECKING:
    from cuprof.backends.cpu.backend import CpuBackend


def _open(threads: int | None) -> CpuBackend:
    from cuprof.backends.cpu.backend import CpuBackend

    return CpuBackend(threads)


def _list_devices() -> Iterator[ListedDevice]:
    from cuprof.backends.cpu.processor import cpu_count, cpu_name

    yield ListedDevice(0, cpu_name(), f"{cpu_count()} cores usable")


SPEC = BackendSpec(
    name="cpu",
    title="CPU",
    timing_version=2,
    measures=(Measure.COLD, Measure.HOT),  # there is no transfer that total time could include
    setting="cpu_threads",
    open=_open,
    list_devices=_list_devices,
    unheeded=frozenset({"blocking", "graph", "timer", "clock_tolerance", "energy"}),
    is_host=True,
    runs_in_process=True,
    builds_ahead=False,  # functions compile when they are prepared
    noise=SweepNoise.HOST,
)
