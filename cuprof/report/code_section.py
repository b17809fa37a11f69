"""Where in the code: source and machine code of each before/after pair, with what its warps wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from cuprof.builds.sass import compare_code, compare_opcodes
from cuprof.report.counter_section import BYTES, MOST_PAIRS, list_pairs
from cuprof.report.explanation import WORDS, Diagnosis, diagnose, explain_pair
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial
from cuprof.report.units import format_counter
from cuprof.results.counters import LaunchFacts
from cuprof.results.source import KernelSource
from cuprof.statistics.verdict import Verdict

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
    "Occupancy possible, %": "sm__maximum_warps_per_active_cycle_pct",
    "Occupancy achieved, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


@dataclass(frozen=True)
class SourceLine:
    """One line of source with what it costs; a gap stands for lines that are left out.

    Args:
        number: in its file, 0 for instructions that the line table gives no line.
        share: of the kernel's stalled samples.
        reason: the commonest, empty where no warp waited.
        executed: by warps, all its instructions together.
        sass: its instructions, each with its share and executions; empty for a line without any.
        is_cause: it has a load or barrier that the leading reasons wait for.
    """

    number: int
    text: str
    share: float = 0.0
    reason: str = ""
    executed: str = ""
    sass: tuple[str, ...] = ()
    is_cause: bool = False
    is_gap: bool = False

    @property
    def percent(self) -> str:
        """Return the share as text, empty below half a percent."""
        return f"{self.share * 100:.0f}\N{NO-BREAK SPACE}%" if self.share >= 0.005 else ""


@dataclass(frozen=True)
class SourceFile:
    """A file that the line table names, as far as it has instructions."""

    name: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class CodeSide:
    """One kernel of a pair.

    Args:
        notes: which of several launches it is, and why lines or their texts are missing.
        repeated: an earlier pair shows the same code, so that `files` is empty.
    """

    name: str
    anchor: str
    notes: tuple[str, ...]
    files: tuple[SourceFile, ...] = ()
    repeated: bool = False


@dataclass(frozen=True)
class CodePair:
    """Two kernels compared.

    Args:
        text: the explanation, one paragraph; empty where a side has no counters by instruction.
        bars: (reason, share before, share after), the leading ones.
        facts: (name, before, after): registers, shared memory, occupancy, what limits it, opcodes that changed.
        diff: ("-", "+" or "=", text) of the machine code, equal stretches folded.
        changes_left: lines of the diff beyond those shown.
    """

    before: str
    after: str
    text: str
    bars: tuple[tuple[str, float, float], ...]
    facts: tuple[tuple[str, str, str], ...]
    diff: tuple[tuple[str, str], ...]
    changes_left: int
    sides: tuple[CodeSide, ...]
    open: bool = False


def code_section(study: Study) -> tuple[CodePair, ...]:
    """Return the counters' section's pairs that have counters by instruction on a side; () without any."""
    pairs: list[CodePair] = []
    shown: set[int] = set()
    for trials in list_pairs(study)[:MOST_PAIRS]:
        # of several launches the one in which most warps waited: the time goes to it
        kernels = [max(study.kernels(each.id), key=lambda kernel: kernel.stalled, default=None) for each in trials]
        if any(kernels):
            pairs.append(_pair(study, trials, kernels, shown, is_first=not pairs))
    return tuple(pairs)


def _pair(
    study: Study,
    trials: tuple[StudyTrial, StudyTrial],
    kernels: Sequence[KernelSource | None],
    shown: set[int],
    *,
    is_first: bool,
) -> CodePair:
    found = [
        diagnose(trial.contender, kernel) if kernel else None for trial, kernel in zip(trials, kernels, strict=True)
    ]
    both = [each for each in found if each]
    texts = [say_once(WORDS, "same_code")] if study.verdict(*trials) is Verdict.SAME_CODE else []
    facts, diff = _launch_facts(study, trials, kernels), list[tuple[str, str]]()
    if len(both) == 2:
        before, after = (each.kernel.code for each in both)
        counts = list(compare_opcodes(before, after).items())[:MOST_OPCODES]
        sides = (", ".join(f"{each[side]} {name}" for name, each in counts) for side in (0, 1))
        facts["Instructions that changed in number"] = list(sides)
        texts.append(explain_pair(*both))
        for is_equal, group in groupby(compare_code(before, after), lambda row: row[0] == "="):
            rows = list(group)
            diff += [("=", say_once(WORDS, "equal", len(rows)))] if is_equal else rows
    return CodePair(
        before=trials[0].contender,
        after=trials[1].contender,
        text=" ".join(texts),
        bars=_bars(both),
        facts=tuple((name, *fact) for name, fact in facts.items() if any(fact)),  # type: ignore[misc]
        diff=tuple(diff[:MOST_CHANGES]),
        changes_left=len(diff[MOST_CHANGES:]),
        sides=tuple(_side(study, trial, each, shown) for trial, each in zip(trials, found, strict=True)),
        open=is_first,
    )


def describe_kernels(kernels: Sequence[KernelSource]) -> tuple[CodeSide, ...]:
    """Return each kernel by itself, with its source, for a page without a comparison."""
    return tuple(
        CodeSide(
            f"{each.name} · {each.kernel}", f"code-{number}", each.doubts, tuple(_files(diagnose(each.name, each)))
        )
        for number, each in enumerate(kernels)
    )


def _bars(both: Sequence[Diagnosis]) -> tuple[tuple[str, float, float], ...]:
    if len(both) < 2 or not all(each.kernel.stalled for each in both):
        return ()
    before, after = (each.shares for each in both)
    rows = [(reason, before.get(reason, 0.0), after.get(reason, 0.0)) for reason in sorted({*before, *after})]
    return tuple(sorted(rows, key=lambda row: -max(row[1:]))[:MOST_BARS])


def _side(study: Study, trial: StudyTrial, diagnosis: Diagnosis | None, shown: set[int]) -> CodeSide:
    kernel, anchor = diagnosis and diagnosis.kernel, f"code-{trial.id}"
    notes = tuple(say(WORDS, "side_notes", trial, kernel, len(study.kernels(trial.id))))
    if diagnosis is None or kernel is None:
        return CodeSide(trial.contender, anchor, notes)
    name = f"{trial.contender} · {kernel.kernel}"
    if trial.id in shown:
        return CodeSide(name, anchor, notes, repeated=True)
    shown.add(trial.id)
    return CodeSide(name, anchor, notes, tuple(_files(diagnosis)))


def _files(diagnosis: Diagnosis) -> Iterator[SourceFile]:
    """Yield the files; of the lines with most samples, as many as there is room for, with their instructions."""
    kernel = diagnosis.kernel
    ranked = kernel.lines.sort_values(["stalled", "executed"], ascending=False)
    fits = ranked["instructions"].cumsum() <= MOST_INSTRUCTIONS
    opened = set(zip(ranked["file"][fits], ranked["line"][fits], strict=True))
    for file, own in kernel.lines.groupby("file", sort=False):
        rows: Any = own.itertuples()
        known = {int(row.line): _source_line(diagnosis, row, is_open=(file, row.line) in opened) for row in rows}
        yield SourceFile(Path(str(file)).name, tuple(_with_context(kernel, str(file), known)))


def _source_line(diagnosis: Diagnosis, row: Any, *, is_open: bool) -> SourceLine:
    kernel, code = diagnosis.kernel, diagnosis.kernel.instructions
    own: Any = code[(code["file"] == row.file) & (code["line"] == row.line)]
    text = kernel.text(row.file, int(row.line))[:TEXT_WIDTH] if _has_text(kernel, row.file) else ""
    listing = [
        f"{each.offset:5x} {f'{each.share * 100:.1f}' if each.stalled else '':>5} "
        f"{'←' if each.Index in diagnosis.causes else ' '} {each.sass}"
        for each in own.itertuples()
    ]
    is_cause = bool({*own.index} & diagnosis.causes)
    facts = (float(row.share), str(row.reason), _shorten(float(row.executed)))
    return SourceLine(int(row.line), text, *facts, tuple(listing) if is_open else (), is_cause)


def _has_text(kernel: KernelSource, file: str) -> bool:
    """Return whether a page shows a file: the stored one of a trial, and what an imported report's reader has found."""
    return kernel.trial_id is None or file == kernel.source_name


def _shorten(number: float) -> str:
    """Return a large number with three digits: "1.44 M"."""
    sign, size = next(each for each in reversed(BYTES) if number >= each[1] or not each[0])
    return f"{number / size:.3g}\N{NO-BREAK SPACE}{sign}".strip() if sign else f"{number:g}"


def _with_context(kernel: KernelSource, file: str, known: dict[int, SourceLine]) -> Iterator[SourceLine]:
    """Yield lines with instructions and, where their text is stored, those around them, with gaps between."""
    texts = kernel.texts.get(file, ()) if _has_text(kernel, file) else ()
    around = {near for number in known for near in range(number - AROUND, number + AROUND + 1)}
    numbers = sorted(known.keys() | (around & set(range(1, len(texts) + 1))))
    for last, number in zip([numbers[0] - 1, *numbers], numbers, strict=False):
        if number != last + 1 and texts:
            yield SourceLine(0, "", is_gap=True)
        yield known.get(number) or SourceLine(number, texts[number - 1][:TEXT_WIDTH])


def _launch_facts(
    study: Study, trials: Sequence[StudyTrial], kernels: Sequence[KernelSource | None]
) -> dict[str, list[str]]:
    """Return what the launches were given, and how many warps that let run."""
    rows: dict[str, list[str]] = {}
    for kernel in kernels:
        launch = study.launch(kernel.launch_id) if kernel else None
        for name, text in _describe(launch).items():
            rows.setdefault(name, []).append(text)
    for name, metric in OCCUPANCY.items():
        values = [study.counters.value_of(trial.id, metric) for trial in trials]
        if any(value is not None for value in values):
            rows[name] = [format_counter(value) for value in values]
    return rows


def _describe(launch: LaunchFacts | None) -> dict[str, str]:
    names = ("Threads a block", "Registers a thread", "Shared memory a block, byte", "Blocks fit by")
    if launch is None:
        return dict.fromkeys(names, "–")
    limits = {name.replace("_", " "): value for name, value in launch.limits.items() if value}
    least = min(limits.values(), default=0.0)  # what allows the fewest blocks on a multiprocessor
    fit = f"{' and '.join(name for name, value in limits.items() if value == least)}: {least:g}" if limits else "–"
    shared = f"{launch.shared_static or 0} static, {launch.shared_dynamic or 0} dynamic"
    return dict(zip(names, (str(launch.threads), format_counter(launch.registers), shared, fit), strict=True))
