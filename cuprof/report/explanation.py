"""What the warps of two kernels wait for, by rules: every statement rests on a counter, a line and an instruction."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cuprof.builds.sass import find_causes
from cuprof.ncu.instructions import EXCESSIVE as METRICS
from cuprof.report.templates import say_once
from cuprof.results.source import FEW_SAMPLES, KernelSource

WORDS = "explanation.txt"
HOT_SPOTS = ("bank_conflicts", "uncoalesced", "barrier_in_loop")
"""Patterns that cost time; waits that show one come first."""
EXCESSIVE = {
    "shared": ("bank_conflicts", ("short_scoreboard", "mio_throttle")),
    "global": ("uncoalesced", ("long_scoreboard", "lg_throttle", "mio_throttle")),
}
"""Kind of excessive accesses → the pattern that they are, and the waits that they make longer: all accesses of a kind
go through one pipe, so that one line's excess delays the others."""
LARGE = 0.1
"""Reasons below this share of the stalled samples go unmentioned."""
MOST_WAITS = 3
GLOBAL_LOADS = ("LDG", "LD", "LDGSTS")


@dataclass(frozen=True)
class Place:
    """An instruction and the line that it is of.

    Args:
        where: "line 22", with the file's name where the kernel is of several; empty without a line table.
        text: the line's source, empty where it is not stored.
    """

    number: int
    where: str
    sass: str
    text: str


@dataclass(frozen=True)
class Wait:
    """One reason that warps of a kernel wait for, where, and what for.

    Args:
        share: of the kernel's stalled samples.
        place_share: of the samples of this reason, those at this place.
        cause: the load or barrier that the instruction waits for, where its operands lead back to one.
        pattern: "bank_conflicts", "uncoalesced", "coalesced" or "barrier_in_loop" where a rule holds, else empty.
        evidence: the counter that the rule rests on, and its value.
        line_share: of the stalled samples, those of the place's line, for whatever reason.
    """

    reason: str
    share: float
    place: Place
    place_share: float
    cause: Place | None = None
    pattern: str = ""
    evidence: tuple[str, float] = ("", 0.0)
    line_share: float = 0.0


@dataclass(frozen=True)
class Diagnosis:
    """What one kernel waits for.

    Args:
        waits: the leading reasons with at least a tenth of the samples, the largest first.
    """

    name: str
    kernel: KernelSource
    waits: tuple[Wait, ...] = ()
    is_sure: bool = True

    @cached_property
    def shares(self) -> dict[str, float]:
        """Return each reason's share of the stalled samples, the largest first."""
        counts = self.kernel.reasons
        return {reason: samples / self.kernel.stalled for reason, samples in counts.most_common()}

    @property
    def causes(self) -> frozenset[int]:
        """Return the instructions that others wait for: loads and barriers."""
        return frozenset(wait.cause.number for wait in self.waits if wait.cause)


def explain_pair(before: Diagnosis, after: Diagnosis) -> str:
    """Return one paragraph: what dominates before, what dominates after, and what stayed."""
    stayed = [
        (reason, share, after.shares[reason])
        for reason, share in before.shares.items()
        if min(share, after.shares.get(reason, 0.0)) >= LARGE
    ]
    sure = before.is_sure and after.is_sure
    return say_once(WORDS, "pair", before, after, stayed if sure else [], FEW_SAMPLES)


def diagnose(name: str, kernel: KernelSource) -> Diagnosis:
    """Return what a kernel waits for; no reasons where its samples are too few to tell.

    Args:
        name: the variant's, for sentences.
    """
    if kernel.stalled < FEW_SAMPLES:
        return Diagnosis(name, kernel, is_sure=False)
    leading = [(reason, samples) for reason, samples in kernel.reasons.most_common(MOST_WAITS)]
    waits = [
        _find_wait(kernel, reason)
        for place, (reason, samples) in enumerate(leading)
        if place == 0 or samples >= LARGE * kernel.stalled
    ]
    return Diagnosis(name, kernel, tuple(sorted(waits, key=lambda wait: wait.pattern not in HOT_SPOTS)))


def _find_wait(kernel: KernelSource, reason: str) -> Wait:
    """Return where most of a reason's samples lie: on the line with most of them, at its instruction with most."""
    samples, code = kernel.counters.stalls[reason], kernel.code
    lines: Counter[tuple[str, int]] = Counter()
    for number, count in samples.items():
        lines[code[number].file, code[number].line] += count
    line = lines.most_common(1)[0][0]
    own = {number: count for number, count in samples.items() if (code[number].file, code[number].line) == line}
    number = max(own, key=lambda each: own[each])
    cause = find_causes(code, {number: reason}).get(number)
    cause, pattern, evidence = _find_pattern(kernel, reason, number if cause is None else cause)
    stalled = kernel.instructions["stalled"]
    on_line = (kernel.instructions["file"] == line[0]) & (kernel.instructions["line"] == line[1])
    return Wait(
        reason,
        sum(samples.values()) / kernel.stalled,
        _place(kernel, number),
        own[number] / sum(samples.values()),
        None if cause == number else _place(kernel, cause),
        pattern,
        evidence,
        float(stalled[on_line].sum()) / kernel.stalled,
    )


def _find_pattern(kernel: KernelSource, reason: str, cause: int) -> tuple[int, str, tuple[str, float]]:
    """Return what makes a wait long, which known pattern it shows, and the counter that proves it.

    Of accesses beyond what they need it is the worst one on the line with most excess, if it takes at least one
    wavefront or sector more each time; else what is waited for.

    Args:
        cause: the instruction that is waited for, or that waits.
    """
    code, counters = kernel.code, kernel.counters
    for kind, (pattern, reasons) in EXCESSIVE.items():
        excess = counters.excessive.get(kind, {}) if reason in reasons else {}
        by_line: Counter[tuple[str, int]] = Counter()
        for number, count in excess.items():
            by_line[code[number].file, code[number].line] += count
        worst = max(excess, key=lambda each: (by_line[code[each].file, code[each].line], excess[each]), default=-1)
        if worst >= 0 and excess[worst] >= counters.executed[worst]:
            return worst, pattern, (METRICS[kind], float(sum(excess.values())))
    operation = code[cause].operation
    if reason in ("long_scoreboard", "lg_throttle") and operation in GLOBAL_LOADS and "global" in counters.excessive:
        return cause, "coalesced", (METRICS["global"], float(counters.excessive["global"].get(cause, 0)))
    times = counters.executed[cause] / max(1, counters.executed[0])
    if reason == "barrier" and operation == "BAR" and times > 1:
        return cause, "barrier_in_loop", ("inst_executed", times)
    return cause, "", ("", 0.0)


def _place(kernel: KernelSource, number: int) -> Place:
    row = kernel.instructions.iloc[number]
    file, line = str(row["file"]), int(row["line"])
    where = f"line {line}" if line else ""
    if line and len(kernel.counters.files) > 1:
        where += f" of {Path(file).name}"
    return Place(number, where, str(row["sass"]), kernel.text(file, line).strip())
