"""What the change of a counter means, in a sentence: what was counted, never why the time changed.

Which sentence a metric gets is part of what its profiler knows of it (`cuprof.ncu.metrics`). A name that no kind
fits gets the plain change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from cuprof.ncu.metrics import METRICS, Kind, Sentence, find_kind
from cuprof.report.units import format_ratio

FAR, NEAR = 30.0, 80.0
"""Percent of a unit's peak: below the first in both trials it was not the limit in either, from the second on it is
close."""
SECTOR_BYTES, WARP_THREADS = 32, 32
SMALL = 0.02
"""A relative change below this is called "about the same": counters differ by as much from run to run."""


def describe_change(metric: str, before: float | None, after: float | None) -> str:
    """Return one sentence on what the change of a counter means; empty where one of the values is missing.

    Args:
        metric: the profiler's name.
        before, after: values of the two trials in the metric's own unit.
    """
    if before is None or after is None or not (math.isfinite(before) and math.isfinite(after)):
        return ""
    kind = find_kind(metric)
    return _SENTENCES[kind.sentence](kind, before, after) if kind else f"It {_moved(before, after)}."


def format_counter(value: float | None, text: str | None = None) -> str:
    """Return a counter's value with the digits that matter, whole numbers whole."""
    if value is None or math.isnan(value):
        return text or "–"
    if math.isinf(value):
        return "∞"
    if float(value).is_integer() or abs(value) >= 100_000:
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


def _amount(amount: Kind, before: float, after: float) -> str:
    """Return "<subject> <moved>", then what more or less of it means."""
    same = before == after or (before > 0 and abs(after / before - 1) < SMALL)
    meaning = "" if same else amount.more if after > before else amount.less
    return f"{amount.subject} {_moved(before, after)}{f': {meaning}' if meaning else ''}."


def _grid_depth(kind: Kind, before: float, after: float) -> str:
    if after == before:
        return f"The grid keeps its depth of {before:.0f}."
    if after == 1:
        return f"The grid is flat in z now ({before:.0f} → 1): no axis of the problem is spread over grid z any more."
    depth, count = ("deeper", "more") if after > before else ("shallower", "fewer")
    return f"The grid is {depth}, {before:.0f} → {after:.0f} layers: work along z is split into {count} blocks."


def _block_memory(memory: Kind, before: float, after: float) -> str:
    kind = memory.subject
    if before == after:
        return (
            f"{kind} shared memory a block is unchanged." if before else f"Neither uses {kind.lower()} shared memory."
        )
    if before == 0:
        return f"Blocks now use {kind.lower()} shared memory, {format_counter(after)} byte each; none before."
    if after == 0:
        return f"Blocks no longer use {kind.lower()} shared memory ({format_counter(before)} byte before)."
    return f"{kind} shared memory a block {_moved(before, after)}: it bounds how many blocks fit on a multiprocessor."


def _sector_use(use: Kind, before: float, after: float) -> str:
    size = SECTOR_BYTES
    shares = f"{before / size:.0%} → {after / size:.0%} of each {size}-byte sector".replace("%", " %")
    if before and abs(after / before - 1) < SMALL:
        return f"Global {use.subject} use their sectors as well as before ({shares})."
    if after > before:
        return f"Global {use.subject} are better coalesced: {shares} is used."
    return f"Global {use.subject} are less well coalesced: {shares} is used."


def _share_of_peak(unit: Kind, before: float, after: float) -> str:
    text = f"{unit.subject} {_moved(before, after)}, from {before:.3g} % to {after:.3g} % of its peak"
    if max(before, after) < FAR:
        return f"{text}; both are far from the peak, so this unit was not the limit in either."
    if after >= NEAR:
        return f"{text}; the after version runs close to this unit's limit."
    return f"{text}."


def _active_threads(kind: Kind, before: float, after: float) -> str:
    text = f"On average {before:.1f} → {after:.1f} of a warp's {WARP_THREADS} threads take part in an instruction"
    if before and abs(after / before - 1) < SMALL:
        return f"{text}: divergence is about the same."
    return f"{text}: {'less' if after > before else 'more'} divergence."


def _sectors_per_request(kind: Kind, before: float, after: float) -> str:
    text = f"A warp's request touches {before:.3g} → {after:.3g} sectors"
    if before and abs(after / before - 1) < SMALL:
        return f"{text}, about the same."
    if after > before:
        return f"{text}: a loss where the threads use no more bytes of them, none where each thread asks for more."
    return f"{text}: a warp's accesses lie closer together, or each thread asks for less."


_SENTENCES: dict[Sentence, Callable[[Kind, float, float], str]] = {
    "amount": _amount,
    "share_of_peak": _share_of_peak,
    "sector_use": _sector_use,
    "sectors_per_request": _sectors_per_request,
    "block_memory": _block_memory,
    "grid_depth": _grid_depth,
    "active_threads": _active_threads,
}


def explain(texts: Iterable[str]) -> str:
    """Return what the texts of undefined ratios mean, each meaning once; empty for any other texts."""
    meanings = {metric.absence: metric.exempt for metric in METRICS.values() if metric.exempt}
    return " ".join(dict.fromkeys(meanings[text] for text in texts if text in meanings))
