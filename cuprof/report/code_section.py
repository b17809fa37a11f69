"""Where in the code: source and machine code of each before/after pair, and by rules what its warps wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from cuprof.builds.sass import Instruction, compare_code, compare_opcodes, find_causes
from cuprof.core.text import fold
from cuprof.ncu.report_file import EXCESSIVE as METRICS
from cuprof.report.counter_section import MOST_PAIRS, list_pairs
from cuprof.report.study import Pair, Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial
from cuprof.results.source import FEW_SAMPLES, KernelSource
from cuprof.statistics.verdict import Verdict

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
AROUND = 2
"""Lines of source that are shown above and below one with instructions."""
MOST_INSTRUCTIONS = 700
"""Listed a side, about 40 kB; beyond that, the lines that warps wait least at are not opened."""
MOST_CHANGES = 80
"""Lines of a pair's machine-code diff: a longer diff is of another kernel, and `cuprof diff` shows it whole."""
MOST_OPCODES = 12
MOST_BARS = 6
TEXT_WIDTH = 160
"""Characters of a source line, so that a generated file does not fill the page."""
OCCUPANCY = {
    "possible": "sm__maximum_warps_per_active_cycle_pct",
    "achieved": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


class CodeSide(NamedTuple):
    """One kernel, of a pair or by itself.

    Args:
        notes: which of several launches it is, and why lines or their texts are missing.
        kernel: None where no counters by instruction are stored.
        waits: what it waits for; see `find_waits`.
        repeated: an earlier pair shows the same code, so that `files` is empty.
    """

    variant: str
    anchor: str
    notes: Sequence[str]
    kernel: KernelSource | None
    waits: Sequence[Wait] = ()
    repeated: bool = False

    @property
    def name(self) -> str:
        """Return the variant's name and the kernel's."""
        return f"{self.variant} · {self.kernel.kernel}" if self.kernel else self.variant

    @property
    def files(self) -> list[tuple[str, list[Any]]]:
        """Return name → lines of each file that the line table names: lines with instructions and those around them.

        They are rows of `KernelSource.lines`, None for a gap, with two columns more: `is_cause`, whether there is a
        load or barrier that the leading reasons wait for, and `sass`, the instructions, each with its place and share;
        of the lines with most samples as many have these as there is room for.
        """
        if (kernel := self.kernel) is None or self.repeated:
            return []
        causes, code = {wait.cause for wait in self.waits if wait.cause is not None}, kernel.instructions
        rows: Any = code.itertuples()
        sass = [
            f"{each.offset:5x} {f'{each.share * 100:.1f}' if each.stalled else '':>5} "
            f"{'←' if each.Index in causes else ' '} {each.sass}"
            for each in rows
        ]
        # in the order of `lines`
        own = code.assign(is_cause=code.index.isin(causes), sass=sass).groupby(["file", "line"])
        ranked = kernel.lines.sort_values(["stalled", "executed"], ascending=False)
        fits = ranked["instructions"].cumsum() <= MOST_INSTRUCTIONS
        lines = kernel.lines.assign(is_cause=own["is_cause"].any().to_numpy(), sass=own["sass"].agg(list).to_numpy())
        lines["sass"] = lines["sass"].where(fits, "")
        files = ((str(file), list(of_it.itertuples())) for file, of_it in lines.groupby("file"))  # in that order, too
        return [(Path(file).name, _with_context(kernel, file, of_it)) for file, of_it in files]


def code_section(study: Study) -> list[dict[str, Any]]:
    """Return the counters' section's pairs that have counters by instruction on a side; see `_pair`."""
    pairs: list[dict[str, Any]] = []
    shown: set[int] = set()
    for trials in list_pairs(study)[:MOST_PAIRS]:
        sides = [_side(study, trial, is_repeated=trial.id in shown) for trial in trials]
        if any(side.kernel for side in sides):
            pairs.append(_pair(study, trials, sides))
            shown |= {trial.id for trial, side in zip(trials, sides, strict=True) if side.kernel}
    return pairs


def _side(study: Study, trial: StudyTrial, *, is_repeated: bool) -> CodeSide:
    launches = study.kernels(trial.id)
    # of several launches the one in which most warps waited: the time goes to it
    kernel = max(launches, key=lambda kernel: kernel.stalled, default=None)
    notes = say(WORDS, "side_notes", trial, kernel, len(launches))
    waits = find_waits(kernel) if kernel else ()
    return CodeSide(trial.contender, f"code-{trial.id}", notes, kernel, waits, is_repeated)


def _pair(study: Study, trials: tuple[StudyTrial, StudyTrial], sides: Sequence[CodeSide]) -> dict[str, Any]:
    """Return two kernels compared.

    `text` is the explanation, one paragraph, empty where a side has no counters by instruction; `bars` are the leading
    reasons with their share before and after; `facts` are names with their text before and after; `diff` has rows of
    ("-", "+" or "=", text) of the machine code, equal stretches folded, and `changes_left` counts those not shown.
    """
    kernels = [side.kernel for side in sides]
    codes = [kernel.code for kernel in kernels if kernel]
    texts = [say_once(WORDS, "same_code")] if Pair(study, *trials).verdict is Verdict.SAME_CODE else []
    opcodes, diff = dict[str, tuple[int, int]](), list[tuple[str, str]]()
    if len(codes) == 2:
        opcodes = dict(islice(compare_opcodes(*codes).items(), MOST_OPCODES))
        texts.append(explain_pair(*sides))
        for is_equal, group in groupby(compare_code(*codes), lambda row: row[0] == "="):
            rows = list(group)
            diff += [("=", say_once(WORDS, "equal", len(rows)))] if is_equal else rows
    occupied = {
        name: [study.counters.value_of(trial.id, metric) for trial in trials] for name, metric in OCCUPANCY.items()
    }
    return {
        "before": trials[0].contender,
        "after": trials[1].contender,
        "text": " ".join(texts),
        "bars": _bars(*kernels),
        "facts": [tuple(line.split("\t")) for line in say(WORDS, "launches", kernels, occupied, opcodes)],
        "diff": diff[:MOST_CHANGES],
        "changes_left": len(diff[MOST_CHANGES:]),
        "sides": sides,
    }


def describe_kernels(kernels: Sequence[KernelSource]) -> list[CodeSide]:
    """Return each kernel by itself, with its source, for a page without a comparison."""
    numbered = enumerate(kernels)
    return [CodeSide(each.name, f"code-{number}", each.doubts, each, find_waits(each)) for number, each in numbered]


def _bars(before: KernelSource | None, after: KernelSource | None) -> list[tuple[str, float, float]]:
    if not (before and after and before.stalled and after.stalled):
        return []
    reasons = sorted({*before.shares, *after.shares})
    rows = [(reason, before.shares.get(reason, 0.0), after.shares.get(reason, 0.0)) for reason in reasons]
    return sorted(rows, key=lambda row: -max(row[1:]))[:MOST_BARS]


def _with_context(kernel: KernelSource, file: str, rows: Sequence[Any]) -> list[Any]:
    """Return rows of lines with their texts and, where these are stored, the lines around them."""
    # the stored file of a trial is shown, and what an imported report's reader has found
    texts = kernel.texts.get(file, ()) if kernel.trial_id is None or file == kernel.source_name else ()
    known, shown = {row.line: row for row in rows}, list[Any]()
    around = rows[0]._replace(instructions=0, share=0.0, reason="", sass="", is_cause=False)
    for number, left_out in fold(known, AROUND, 1, len(texts)):
        text = texts[number - 1][:TEXT_WIDTH] if 0 < number <= len(texts) else ""
        shown += [None] if shown and left_out and texts else []
        shown.append(known.get(number, around)._replace(line=number, text=text))
    return shown


class Wait(NamedTuple):
    """One reason that warps of a kernel wait for, where, and what for; instructions by their numbers.

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
    place: int
    place_share: float
    cause: int | None
    pattern: str
    evidence: tuple[str, float]
    line_share: float


def explain_pair(before: CodeSide, after: CodeSide) -> str:
    """Return one paragraph: what dominates before, what dominates after, and what stayed."""
    first, second = (side.kernel.shares if side.kernel and side.kernel.is_sure else {} for side in (before, after))
    both = [(reason, share, second.get(reason, 0.0)) for reason, share in first.items()]
    return say_once(WORDS, "pair", before, after, [each for each in both if min(each[1:]) >= LARGE], FEW_SAMPLES)


def find_waits(kernel: KernelSource) -> list[Wait]:
    """Return the leading reasons with at least a tenth of the samples, hot spots first; none of too few samples."""
    if not kernel.is_sure:
        return []
    first, *others = kernel.reasons.most_common(MOST_WAITS)
    leading = [first, *(each for each in others if each[1] >= LARGE * kernel.stalled)]
    waits = [_find_wait(kernel, reason) for reason, _ in leading]
    return sorted(waits, key=lambda wait: wait.pattern not in HOT_SPOTS)


def _find_wait(kernel: KernelSource, reason: str) -> Wait:
    """Return where most of a reason's samples lie: on the line with most of them, at its instruction with most."""
    samples, code, rows = kernel.counters.stalls[reason], kernel.code, kernel.instructions
    file, line = _by_line(code, samples).most_common(1)[0][0]
    own = {number: count for number, count in samples.items() if (code[number].file, code[number].line) == (file, line)}
    number = max(own, key=lambda each: own[each])
    cause, pattern, evidence = _find_pattern(kernel, reason, find_causes(code, {number: reason}).get(number, number))
    on_line = rows["stalled"][(rows["file"] == file) & (rows["line"] == line)]
    return Wait(
        reason,
        sum(samples.values()) / kernel.stalled,
        number,
        own[number] / sum(samples.values()),
        None if cause == number else cause,
        *(pattern, evidence),
        float(on_line.sum()) / kernel.stalled,
    )


def _by_line(code: Sequence[Instruction], counts: Mapping[int, int]) -> Counter[tuple[str, int]]:
    lines: Counter[tuple[str, int]] = Counter()
    for number, count in counts.items():
        lines[code[number].file, code[number].line] += count
    return lines


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
        by_line = _by_line(code, excess)
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
