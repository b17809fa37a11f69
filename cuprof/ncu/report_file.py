"""Read Nsight Compute's report files: launches with their ranges, counters, advice and machine instructions.

Reading needs neither ncu nor a GPU: NVIDIA's `ncu_report` package decodes the values. It returns an empty report for a
file that is no report, and some of the launches of a truncated file, so the file's frame is checked first.
Damaged bytes make it return or raise anything: None for a name, a wrong type, an exception of any kind.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Advice, CounterValue, LaunchRecord, SourceCounters
from cuprof.ncu.files import NEWEST_VERSION, check_frame
from cuprof.ncu.metrics import METRICS, get_rule, select
from cuprof.ncu.task import find_identity

Launches = Mapping[str | None, tuple[LaunchRecord, ...]]
"""Launches by the identity of the trial whose range encloses them, or None, in the order they ran; `ordinal` counts
from 0 in each."""
_BACKGROUND = re.compile(
    r"device__attribute_|profiler__|(?:nvlink|numa|c2clink)__|(?:breakdown|group|pmsampling):|smsp__pcsamp_|derived_temp|"
    r"\w+\.Triage|(?!.*__)"
)
"""Values that are no counters: the device's data sheet, the profiler's own notes, the parts of a throughput, samples
over time, and values by line of code (names without "__")."""

_LIMITS = {
    "blocks": "launch__occupancy_limit_blocks",
    "registers": "launch__occupancy_limit_registers",
    "shared_memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
}
_WIDEST = 2**63
"""Whole numbers from here on cannot belong to a launch, and fit no column."""
_LINK = re.compile(r"@(?:url:([^:@]*)[^@]*|(?:section|sass|source):(?:[^@]*:)?([^:@]*))@")
"""Nsight Compute's links in advice: of "@url:text:address@" and "@section:name:text@" the text is shown."""
_WORKLOADS = {1: "range", 2: "command list", 3: "graph"}
"""Workloads that Nsight Compute profiles as a whole, other than a single kernel."""
_SEVERITIES = {0: "none", 1: "ok", 2: "optimization", 3: "warning", 4: "error"}


def read_report(path: Path, metrics: Sequence[str] | None = None) -> Launches:
    """Read a report file.

    Args:
        path: a .ncu-rep file.
        metrics: names of the metrics to read; None reads every counter, but no facts about the device and the profiler
            themselves.

    Raises:
        ProfilerError: the file is absent, foreign, truncated, damaged or of a version that cannot be read.
    """
    version, results = check_frame(path)
    try:
        import ncu_report
    except ImportError as error:
        raise ProfilerError(
            f"the package that reads Nsight Compute's reports is not usable ({error}); pip install ncu-report"
        ) from error
    found: dict[str | None, list[LaunchRecord]] = {}
    try:
        with _quiet():
            context = ncu_report.load_report(str(path))
            actions = [each for index in range(context.num_ranges()) for each in context.range_by_idx(index)]
        for action in actions:
            ranges = list(_ranges(action))
            # Counted by identity, so that what another trial launched never shifts an ordinal.
            of_trial = found.setdefault(find_identity(ranges), [])
            of_trial.append(_read_action(action, metrics, ranges, len(of_trial)))
    except Exception as error:  # of `ncu_report`, or of what it returned for damaged bytes
        cause = " ".join(str(error).split()) or type(error).__name__
        raise ProfilerError(
            f"{path} could not be read ({cause}); it is damaged, or comes from a newer Nsight Compute than the reader "
            "knows: make it again, or pip install --upgrade ncu-report"
        ) from error
    count = sum(map(len, found.values()))
    if not count or count < results:
        holds = f"only {count} of {results} launches" if count else "no launch"
        raise ProfilerError(
            f"{path} holds {holds} that can be read (format version {version}, the reader knows "
            f"{NEWEST_VERSION}); it is damaged, or was made by another Nsight Compute than the reader knows: make it "
            "again with a recent one, or pip install --upgrade ncu-report"
        )
    return {identity: tuple(launches) for identity, launches in found.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop what native code writes to standard error: lines of its own about damaged bytes."""
    with Path(os.devnull).open("wb") as nowhere, os.fdopen(os.dup(2), "wb") as kept:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept.fileno(), 2)


def _read_action(action: Any, metrics: Sequence[str] | None, ranges: Sequence[str], ordinal: int) -> LaunchRecord:
    limits = {name: _whole(action, metric) for name, metric in _LIMITS.items()}
    device = action.metric_by_name("device__attribute_display_name")
    details = {
        "occupancy_limits": {name: value for name, value in limits.items() if value is not None},
        "workload": _WORKLOADS.get(action.workload_type()),
        "device": (device.as_string() or "") if device is not None else "",
    }
    known = {name: value for name, value in details.items() if value}
    return LaunchRecord(
        ordinal=ordinal,
        kernel=_name(action, action.NameBase_FUNCTION),
        grid=_dimensions(action, "launch__grid_dim_"),
        block=_dimensions(action, "launch__block_dim_"),
        registers=_whole(action, "launch__registers_per_thread"),
        shared_static_bytes=_whole(action, "launch__shared_mem_per_block_static"),
        shared_dynamic_bytes=_whole(action, "launch__shared_mem_per_block_dynamic"),
        duration_ns=_number(action, "gpu__time_duration.sum"),
        counters=tuple(_counters(action, metrics)),
        advice=tuple(_advice(action)),
        details={"signature": _name(action, action.NameBase_DEMANGLED), "ranges": list(ranges), **known},
        source=read_instructions(action),
    )


def _ranges(action: Any) -> Iterator[str]:
    state = action.nvtx_state()
    for domain in state.domains() if state is not None else ():
        info = state.domain_by_id(domain)
        yield from info.push_pop_ranges() if info is not None else ()


def _counters(action: Any, metrics: Sequence[str] | None) -> Iterator[CounterValue]:
    """Yield the counters that have a value, or values by name (opcodes); those by program counter are left out."""
    present = action.metric_names()
    if not all(name.isprintable() for name in present):
        raise ValueError("the name of a metric is not text")
    chosen = sorted(name for name in present if not _BACKGROUND.match(name))
    for name in chosen if metrics is None else select(present, metrics):
        if (metric := action.metric_by_name(name)) is None:
            continue
        unit, known, instances = metric.unit(), METRICS.get(name), _instances(metric)
        meaning = known.meaning if known else metric.description()
        value = metric.value() if metric.has_value() else None
        if metric.has_value() and metric.kind() == metric.ValueKind_STRING:
            yield CounterValue(name, None, unit, "none", meaning, text=metric.as_string() or "")
        elif metric.has_value() or instances:
            number = None if value is None else float(value)
            yield CounterValue(name, number, unit, get_rule(name, unit), meaning, instances)


def _instances(metric: Any) -> Mapping[str, float]:
    """Return label → value where the instances are named."""
    found: dict[str, float] = {}
    if metric.num_instances() and metric.has_correlation_ids():
        labels = metric.correlation_ids()
        for index in range(metric.num_instances() if labels.kind(0) == labels.ValueKind_STRING else 0):
            label = labels.as_string(index) or ""
            found[label] = found.get(label, 0.0) + float(metric.value(index))
    return found


def _advice(action: Any) -> Iterator[Advice]:
    for result in action.rule_results():
        message = result.rule_message() if result.has_rule_message() else {"title": "", "message": ""}
        if message["title"] or message["message"]:
            yield Advice(
                rule=result.rule_identifier(),
                severity=_SEVERITIES.get(int(message["type"]), "none"),
                text=_LINK.sub(r"\1\2", message["message"]),
                title=message["title"],
                section=result.section_identifier(),
                speedup=result.speedup_estimation()["speedup"] if result.has_speedup_estimation() else None,
            )


def _name(action: Any, base: int) -> str:
    name = action.name(base)
    if name is None:
        raise ValueError("a launch has no kernel name")
    return str(name)


def _dimensions(action: Any, prefix: str) -> tuple[int, int, int]:
    x, y, z = (_whole(action, prefix + axis) or 0 for axis in "xyz")
    return x, y, z


def _number(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    return float(metric.as_double()) if metric is not None and metric.has_value() else None


def _whole(action: Any, name: str) -> int | None:
    value = _number(action, name)
    if value is not None and abs(value) >= _WIDEST:
        raise ValueError(f"{name} is {value:g}")
    return None if value is None else round(value)


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
        sample_count=_whole(action, "smsp__pcsamp_sample_count") or 0,
        interval_cycles=_whole(action, "smsp__pcsamp_interval_cycles") or 0,
        dropped_bytes=_whole(action, "smsp__pcsamp_dropped_bytes") or 0,
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
