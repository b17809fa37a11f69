"""Read Nsight Compute's report files: launches with their ranges, counters and advice.

Reading needs neither ncu nor a GPU: NVIDIA's `ncu_report` package decodes the values. It returns an empty report for a
file that is no report, and some of the launches of a truncated file, so the file's frame is checked first.
Damaged bytes make it return or raise anything: None for a name, a wrong type, an exception of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Advice, Conditions, CounterValue, LaunchRecord
from cuprof.ncu.instructions import read_instructions
from cuprof.ncu.metrics import METRICS, get_rule, select
from cuprof.ncu.ranges import find_identity
from cuprof.ncu.report_frame import NEWEST_VERSION, check_frame, find_options

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
_LINK = re.compile(r"@(?:url|section|sass|source):(.*?)@")
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors while a damaged report is decoded, from `ncu_report` or from what it returned."""
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
    frame = check_frame(path)
    module = _load_module()
    found: dict[str | None, list[LaunchRecord]] = {}
    try:
        context = module.load_report(str(path))
        actions = [action for index in range(context.num_ranges()) for action in context.range_by_idx(index)]
        for action in actions:
            ranges = _ranges(action)
            # Counted by identity, so that what another trial launched never shifts an ordinal.
            of_trial = found.setdefault(find_identity(ranges), [])
            of_trial.append(_read_action(module, action, metrics, ranges, len(of_trial)))
    except _DAMAGE as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise ProfilerError(
            f"{path} could not be read ({cause}); it is damaged, or comes from a newer Nsight Compute than the reader "
            "knows: make it again, or pip install --upgrade ncu-report"
        ) from error
    count = sum(map(len, found.values()))
    if not count or count < frame.results:
        holds = f"only {count} of {frame.results} launches" if count else "no launch"
        raise ProfilerError(
            f"{path} holds {holds} that can be read (format version {frame.version}, the reader knows "
            f"{NEWEST_VERSION}); it is damaged, or was made by another Nsight Compute than the reader knows: make it "
            "again with a recent one, or pip install --upgrade ncu-report"
        )
    return {identity: tuple(launches) for identity, launches in found.items()}


def find_conditions(path: Path) -> Conditions:
    """Return how a report's launches were profiled: its command line where it names it, otherwise ncu's defaults."""
    options = find_options(path)
    cache_mode = "hot" if options.get("cache-control") == "none" else "cold"
    return Conditions(cache_mode, options.get("clock-control", "base"), options.get("replay-mode", "kernel"))


def _load_module() -> Any:
    try:
        import ncu_report
    except ImportError as error:
        raise ProfilerError(
            f"the package that reads Nsight Compute's reports is not usable ({error}); pip install ncu-report"
        ) from error
    return ncu_report


def _read_action(
    module: Any, action: Any, metrics: Sequence[str] | None, ranges: Sequence[str], ordinal: int
) -> LaunchRecord:
    return LaunchRecord(
        ordinal=ordinal,
        kernel=_name(action, action.NameBase_FUNCTION),
        grid=_dimensions(action, "launch__grid_dim_"),
        block=_dimensions(action, "launch__block_dim_"),
        registers=_integer(action, "launch__registers_per_thread"),
        shared_static_bytes=_integer(action, "launch__shared_mem_per_block_static"),
        shared_dynamic_bytes=_integer(action, "launch__shared_mem_per_block_dynamic"),
        duration_ns=_number_of(action, "gpu__time_duration.sum"),
        counters=tuple(_counters(module, action, metrics)),
        advice=tuple(_advice(action)),
        details=_details(action, ranges),
        source=read_instructions(action),
    )


def _details(action: Any, ranges: Sequence[str]) -> Mapping[str, Any]:
    limits = {name: _integer(action, metric) for name, metric in _LIMITS.items()}
    details = {
        "occupancy_limits": {name: value for name, value in limits.items() if value is not None},
        "workload": _WORKLOADS.get(action.workload_type()),
        "device": _text(action, "device__attribute_display_name"),
    }
    known = {name: value for name, value in details.items() if value}
    return {"signature": _name(action, action.NameBase_DEMANGLED), "ranges": list(ranges), **known}


def _ranges(action: Any) -> tuple[str, ...]:
    state = action.nvtx_state()
    if state is None:
        return ()
    names: list[str] = []
    for domain in state.domains():
        info = state.domain_by_id(domain)
        names += list(info.push_pop_ranges()) if info is not None else []
    return tuple(names)


def _counters(module: Any, action: Any, metrics: Sequence[str] | None) -> Iterator[CounterValue]:
    present = action.metric_names()
    if not all(name.isprintable() for name in present):
        raise ValueError("the name of a metric is not text")
    chosen = sorted(name for name in present if not _BACKGROUND.match(name))
    for name in chosen if metrics is None else select(present, metrics):
        metric = action.metric_by_name(name)
        if metric is not None and (value := _counter(module, name, metric)) is not None:
            yield value


def _counter(module: Any, name: str, metric: Any) -> CounterValue | None:
    kinds = module.IMetric
    unit = metric.unit()
    known = METRICS.get(name)
    rule, meaning = get_rule(name, unit), known.meaning if known else metric.description()
    instances = _instances(kinds, metric)
    if not metric.has_value():
        return CounterValue(name, None, unit, rule, meaning, instances) if instances else None
    if metric.kind() == kinds.ValueKind_STRING:
        return CounterValue(name, None, unit, "none", meaning, text=metric.as_string() or "")
    value = metric.value()
    return CounterValue(name, None if value is None else float(value), unit, rule, meaning, instances)


def _instances(kinds: Any, metric: Any) -> Mapping[str, float]:
    """Return label → value where the instances are named (opcodes); values by program counter are left out."""
    count = metric.num_instances()
    if not count or not metric.has_correlation_ids():
        return {}
    labels = metric.correlation_ids()
    if labels.kind(0) != kinds.ValueKind_STRING:
        return {}
    found: dict[str, float] = {}
    for index in range(count):
        label = labels.as_string(index) or ""
        found[label] = found.get(label, 0.0) + float(metric.value(index))
    return found


def _advice(action: Any) -> Iterator[Advice]:
    for result in action.rule_results():
        if not result.has_rule_message():
            continue
        message = result.rule_message()
        if not (message["title"] or message["message"]):
            continue
        speedup = result.speedup_estimation()["speedup"] if result.has_speedup_estimation() else None
        yield Advice(
            rule=result.rule_identifier(),
            severity=_SEVERITIES.get(int(message["type"]), "none"),
            text=_LINK.sub(_link_text, message["message"]),
            title=message["title"],
            section=result.section_identifier(),
            speedup=speedup,
        )


def _link_text(match: re.Match[str]) -> str:
    """Return the visible text of one of Nsight Compute's links: "@url:text:address@" shows "text"."""
    kind, inner = match.group(0)[1:].partition(":")[0], match.group(1)
    if kind == "url":
        return inner.partition(":")[0]
    return inner.rpartition(":")[2]


def _name(action: Any, base: int) -> str:
    name = action.name(base)
    if name is None:
        raise ValueError("a launch has no kernel name")
    return str(name)


def _dimensions(action: Any, prefix: str) -> tuple[int, int, int]:
    x, y, z = (_integer(action, prefix + axis) or 0 for axis in "xyz")
    return x, y, z


def _number_of(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    return float(metric.as_double()) if metric is not None and metric.has_value() else None


def _integer(action: Any, name: str) -> int | None:
    value = _number_of(action, name)
    if value is not None and abs(value) >= _WIDEST:
        raise ValueError(f"{name} is {value:g}")
    return None if value is None else round(value)


def _text(action: Any, name: str) -> str:
    metric = action.metric_by_name(name)
    return (metric.as_string() or "") if metric is not None else ""
