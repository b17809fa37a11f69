"""What the change of a counter means, in a sentence: what was counted, never why the time changed.

Metric names are Nsight Compute's (Nsight Compute documentation, "Metrics Reference"). A name that no rule
knows gets the plain change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from cuprof.analysis.quantities import format_ratio

Rule = Callable[[float, float], str]
SECTOR_BYTES = 32
"""A sector, the smallest unit that moves between L1, L2 and DRAM."""
SMALL = 0.02
"""A relative change below this is called "about the same": counters differ by as much from run to run."""


def describe_change(metric: str, before: float | None, after: float | None) -> str:
    """Return one sentence on what the change of a counter means; empty where one of the values is missing.

    Args:
        metric: Nsight Compute's name.
        before, after: values of the two trials in the metric's own unit.
    """
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return ""
    for pattern, rule in RULES:
        if re.search(pattern, metric):
            return rule(before, after)
    return f"It {_moved(before, after)}."


def format_counter(value: float | None, text: str | None = None) -> str:
    """Return a counter's value with the digits that matter, whole numbers whole."""
    if value is None or math.isnan(value):
        return text or "–"
    if math.isinf(value):
        return "∞"
    if float(value).is_integer():
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    if abs(value) >= 100_000:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.4g}"


def format_change(before: float | None, after: float | None) -> str:
    """Return the change of a counter as text: "÷ 4.00", "× 1.21", "=", "0 → 256"."""
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return "–"
    if before == after:
        return "="
    if before == 0 or after == 0 or (before < 0) != (after < 0):
        return f"{'+' if after > before else '−'}{format_counter(abs(after - before))}"
    ratio = after / before
    if abs(ratio - 1) < 0.0005:  # three decimals would show no change
        return "≈"
    return f"×\N{NO-BREAK SPACE}{format_ratio(ratio)}" if ratio > 1 else f"÷\N{NO-BREAK SPACE}{format_ratio(1 / ratio)}"


def _moved(before: float, after: float) -> str:
    if before == after:
        return "did not change"
    if before == 0:
        return f"appeared: there was none before, now {format_counter(after)}"
    if after == 0:
        return f"is gone: {format_counter(before)} before, none now"
    if before < 0 or after < 0:
        return f"went from {format_counter(before)} to {format_counter(after)}"
    if abs(after / before - 1) < SMALL:
        percent = f"{(after / before - 1) * 100:+.1f}"
        if float(percent) == 0:
            return "stayed about the same"
        return f"stayed about the same ({percent}\N{NO-BREAK SPACE}%)".replace("-", "−")
    ratio = after / before
    word = "rose" if ratio > 1 else "fell"
    if 0.5 < ratio < 2:
        return f"{word} by {abs(ratio - 1) * 100:.0f} %"
    return f"{word} by a factor of {format_ratio(max(ratio, 1 / ratio))}"


def _subject(name: str, more: str = "", less: str = "") -> Rule:
    """Return a rule: "<name> <moved>", then what more or less of it means."""

    def rule(before: float, after: float) -> str:
        same = before == after or (before > 0 and abs(after / before - 1) < SMALL)
        meaning = "" if same else more if after > before else less
        return f"{name} {_moved(before, after)}{f': {meaning}' if meaning else ''}."

    return rule


def _grid_depth(before: float, after: float) -> str:
    if after == before:
        return f"The grid keeps its depth of {before:.0f}."
    if after == 1:
        return f"The grid is flat in z now ({before:.0f} → 1): no axis of the problem is spread over grid z any more."
    depth, count = ("deeper", "more") if after > before else ("shallower", "fewer")
    return f"The grid is {depth}, {before:.0f} → {after:.0f} layers: work along z is split into {count} blocks."


def _shared(kind: str) -> Rule:
    def rule(before: float, after: float) -> str:
        if before == after:
            return (
                f"{kind} shared memory a block is unchanged."
                if before
                else f"Neither uses {kind.lower()} shared memory."
            )
        if before == 0:
            return f"Blocks now use {kind.lower()} shared memory, {format_counter(after)} byte each; none before."
        if after == 0:
            return f"Blocks no longer use {kind.lower()} shared memory ({format_counter(before)} byte before)."
        return (
            f"{kind} shared memory a block {_moved(before, after)}: it bounds how many blocks fit on a multiprocessor."
        )

    return rule


def _sector_use(what: str) -> Rule:
    def rule(before: float, after: float) -> str:
        shares = f"{before / SECTOR_BYTES:.0%} → {after / SECTOR_BYTES:.0%} of each {SECTOR_BYTES}-byte sector".replace(
            "%", " %"
        )
        if before and abs(after / before - 1) < SMALL:
            return f"Global {what} use their sectors as well as before ({shares})."
        if after > before:
            return f"Global {what} are better coalesced: {shares} is used."
        return f"Global {what} are less well coalesced: {shares} is used."

    return rule


def _percent_of_peak(what: str) -> Rule:
    def rule(before: float, after: float) -> str:
        moved = _moved(before, after)
        text = f"{what} {moved}, from {before:.3g} % to {after:.3g} % of its peak"
        if max(before, after) < 30:
            return f"{text}; both are far from the peak, so this unit was not the limit in either."
        if after >= 80:
            return f"{text}; the after version runs close to this unit's limit."
        return f"{text}."

    return rule


def _active_threads(before: float, after: float) -> str:
    text = f"On average {before:.1f} → {after:.1f} of a warp's 32 threads take part in an instruction"
    if before and abs(after / before - 1) < SMALL:
        return f"{text}: divergence is about the same."
    return f"{text}: {'less' if after > before else 'more'} divergence."


def _sectors_per_request(before: float, after: float) -> str:
    text = f"A warp's request touches {before:.3g} → {after:.3g} sectors"
    if before and abs(after / before - 1) < SMALL:
        return f"{text}, about the same."
    if after > before:
        return f"{text}: a loss where the threads use no more bytes of them, none where each thread asks for more."
    return f"{text}: a warp's accesses lie closer together, or each thread asks for less."


RULES: tuple[tuple[str, Rule], ...] = (
    (r"^launch__grid_dim_z$", _grid_depth),
    (
        r"^launch__grid_(dim_[xy]|size)$",
        _subject("The number of blocks", "the work is cut finer", "each block does more"),
    ),
    (r"^launch__block_(dim_[xyz]|size)$", _subject("The number of threads a block")),
    (r"^launch__thread_count$", _subject("The number of threads", "each thread does less", "each thread does more")),
    (r"^launch__waves_per_multiprocessor", _subject("The number of waves of blocks a multiprocessor runs")),
    (
        r"^launch__registers_per_thread$",
        _subject(
            "Registers a thread", "fewer warps may fit on a multiprocessor", "more warps may fit on a multiprocessor"
        ),
    ),
    (r"^launch__occupancy_limit_", _subject("The number of blocks this resource allows on a multiprocessor")),
    (r"^launch__shared_mem_per_block_dynamic$", _shared("Dynamic")),
    (r"^launch__shared_mem_per_block_static$", _shared("Static")),
    (r"^launch__shared_mem_per_block(_allocated)?$", _shared("Allocated")),
    (r"dram__?_?throughput.*pct", _percent_of_peak("DRAM throughput")),
    (r"^lts__.*throughput.*pct|^lts__t_sectors.*pct_of_peak", _percent_of_peak("L2 throughput")),
    (r"^l1tex__.*throughput.*pct", _percent_of_peak("L1 throughput")),
    (r"^(sm|smsp)__throughput.*pct|compute_memory_throughput.*pct", _percent_of_peak("Throughput")),
    (r"^sm__(inst_executed_)?pipe_.*pct", _percent_of_peak("The pipe's use")),
    (r"^dram__bytes_read", _subject("What is read from DRAM", "more data travels in", "less data travels in")),
    (r"^dram__bytes_write", _subject("What is written to DRAM", "more data travels out", "less data travels out")),
    (r"^dram__(bytes|sectors)", _subject("DRAM traffic", "more data travels", "less data travels")),
    (
        r"^lts__t_(bytes|sectors)(?!.*hit_rate)",
        _subject("L2 traffic", "the L1 caches pass more on", "the L1 caches pass less on"),
    ),
    (r"^lts__.*hit_rate", _subject("The L2 hit rate", "more requests end in L2", "more requests go on to DRAM")),
    (r"^l1tex__.*hit_rate", _subject("The L1 hit rate", "more requests end in L1", "more requests go on to L2")),
    (r"bytes_per_sector_mem_global_op_ld", _sector_use("loads")),
    (r"bytes_per_sector_mem_global_op_st", _sector_use("stores")),
    (r"sectors_per_request|sectors.*per.*(LDG|STG)", _sectors_per_request),
    (
        r"data_bank_conflicts|bank_conflict",
        _subject("Shared-memory bank conflicts", "more accesses are serialised", "fewer accesses are serialised"),
    ),
    (r"thread_inst_executed_per_inst_executed", _active_threads),
    (
        r"^sm__warps_active.*pct",
        _subject("Achieved occupancy", "more warps are there to hide latency", "fewer warps are there to hide latency"),
    ),
    (r"^sm__maximum_warps", _subject("Theoretical occupancy")),
    (r"inst_executed.*(ldg|LDG|op_global_ld|global_loads)", _subject("Warp instructions that load from global memory")),
    (r"inst_executed.*(stg|STG|op_global_st|global_stores)", _subject("Warp instructions that store to global memory")),
    (r"inst_executed.*(lds|LDS|op_shared_ld)", _subject("Warp instructions that load from shared memory")),
    (r"inst_executed.*(sts|STS|op_shared_st)", _subject("Warp instructions that store to shared memory")),
    (
        r"^(sm|smsp)__(sass_)?inst_executed(\.|$)|^smsp__inst_issued",
        _subject(
            "Warp instructions in all",
            "more instructions for the same result",
            "fewer instructions for the same result",
        ),
    ),
    (r"latency_per_inst|cycles_per_inst|warp_cycles", _subject("Cycles a warp spends for an instruction")),
    (
        r"op_f(add|mul|fma)|flop",
        _subject("Floating-point work", "more operations are executed", "fewer operations are executed"),
    ),
    (
        r"^gpu__time_duration",
        _subject("The kernels' time under the profiler (whose clocks and caches differ from the timed runs)"),
    ),
    (r"energy", _subject("Energy")),
)
