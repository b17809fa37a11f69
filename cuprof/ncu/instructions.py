"""Read the counters that a report has for each machine instruction: executions, and samples of waiting warps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cuprof.core.records import SourceCounters

STALL = "smsp__pcsamp_warps_issue_stalled_"
"""How the metrics begin that count samples by reason. Those that end in `_not_issued` count a part of them again."""
EXCESSIVE = {
    "shared": "derived__memory_l1_wavefronts_shared_excessive",
    "global": "derived__memory_l2_theoretical_sectors_global_excessive",
}
"""What accesses take beyond what they need: wavefronts of shared memory, sectors of global memory."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
"""An address within the code. Shorter numbers are constants."""


def read_instructions(action: Any) -> SourceCounters | None:
    """Return the counters by instruction of one launch in NVIDIA's reader; None if none were collected."""
    executed = _by_address(action, "inst_executed")
    if not executed:
        return None
    stalls = {
        name.removeprefix(STALL): _by_address(action, name)
        for name in action.metric_names()
        if name.startswith(STALL) and not name.endswith("_not_issued")
    }
    excessive = {kind: _by_address(action, metric) for kind, metric in EXCESSIVE.items()}
    addresses = sorted(executed.keys() | {address for found in stalls.values() for address in found})
    numbers = {address: number for number, address in enumerate(addresses)}
    threads = _by_address(action, "thread_inst_executed")
    places = [_place(action, address) for address in addresses]
    files = tuple(dict.fromkeys(file for file, _ in places if file))
    return SourceCounters(
        sass=tuple(_sass(action, address, addresses[0], addresses[-1]) for address in addresses),
        offsets=tuple(address - addresses[0] for address in addresses),
        files=files,
        file_numbers=tuple(files.index(file) if file else -1 for file, _ in places),
        lines=tuple(line for _, line in places),
        executed=tuple(executed.get(address, 0) for address in addresses),
        threads=tuple(threads.get(address, 0) for address in addresses) if threads else (),
        stalls={
            reason: {numbers[address]: count for address, count in found.items() if count}
            for reason, found in sorted(stalls.items())
            if any(found.values())
        },
        excessive={
            kind: {numbers[address]: count for address, count in found.items() if count and address in numbers}
            for kind, found in excessive.items()
            if found
        },
        sample_count=_whole(action, "smsp__pcsamp_sample_count"),
        interval_cycles=_whole(action, "smsp__pcsamp_interval_cycles"),
        dropped_bytes=_whole(action, "smsp__pcsamp_dropped_bytes"),
    )


def _by_address(action: Any, name: str) -> Mapping[int, int]:
    """Return address → value of a metric that has one for each instruction; empty where it has none."""
    metric = action.metric_by_name(name)
    if metric is None or not metric.num_instances() or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    if addresses.kind(0) == addresses.ValueKind_STRING:
        return {}
    return {int(addresses.as_uint64(i)): int(metric.as_uint64(i)) for i in range(metric.num_instances())}


def _place(action: Any, address: int) -> tuple[str, int]:
    """Return file and line of an instruction; an empty name where the code has no line table."""
    info = action.source_info(address)
    return (str(info.file_name() or ""), int(info.line())) if info is not None else ("", 0)


def _sass(action: Any, address: int, first: int, last: int) -> str:
    """Return an instruction with addresses that count from the first, so that two runs have the same text."""

    def count(match: re.Match[str]) -> str:
        target = int(match[0], 16)
        return f"{target - first:#x}" if first <= target <= last else match[0]

    return _ADDRESS.sub(count, " ".join(str(action.sass_by_pc(address) or "").split()))


def _whole(action: Any, name: str) -> int:
    metric = action.metric_by_name(name)
    return int(metric.as_double()) if metric is not None and metric.has_value() else 0
