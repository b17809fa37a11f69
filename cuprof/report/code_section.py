"""Where in the code: source and machine code of each before/after pair, with what its warps wait for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cuprof.builds.sass import Instruction, align, compare_opcodes
from cuprof.report.counter_section import BYTES, MOST_PAIRS, list_pairs
from cuprof.report.explanation import WORDS, Diagnosis, diagnose, explain_pair
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial
from cuprof.report.units import format_counter
from cuprof.results.counters import LaunchFacts
from cuprof.results.source import KernelSource
from cuprof.statistics import Verdict

AROUND = 2
"""Lines of source that are shown above and below one with instructions."""
MOST_INSTRUCTIONS = 700
"""Listed a side, about 40 kB; beyond that, the lines that warps wait least at are not opened."""
MOST_CHANGES = 80
"""Lines of a pair's machine-code diff: what is longer is another kernel, and `cuprof diff` shows it whole."""
MOST_OPCODES = 12
MOST_BARS = 6
TEXT_WIDTH = 160
"""Characters of a source line, so that a generated file does not fill the page."""
ACHIEVED, POSSIBLE = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct"


@dataclass(frozen=True)
class SourceLine:
    """One line of source with what it costs.

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
        diff: ("-", "+" or "=", text) of the machine code.
        changes_left: lines of the diff beyond those shown.
    """

    before: str
    after: str
    text: str
    bars: tuple[tuple[str, float, float], ...]
    facts: tuple[tuple[str, str, str], ...]
    diff: tuple[tuple[str, str], ...]
    changes_left: int
    sides: tuple[CodeSide, CodeSide]
    open: bool = False


def code_section(study: Study) -> tuple[CodePair, ...]:
    """Return the pairs of the counters' section of which a side has counters by instruction; () without any."""
    pairs: list[CodePair] = []
    shown: set[int] = set()
    for before, after in list_pairs(study)[:MOST_PAIRS]:
        kernels = [_longest(study, trial) for trial in (before, after)]
        if any(kernels):
            pairs.append(_pair(study, (before, after), kernels, shown, is_first=not pairs))
    return tuple(pairs)


def _longest(study: Study, trial: StudyTrial) -> KernelSource | None:
    """Return the launch in which most warps waited: of several, the one that the time goes to."""
    return max(study.kernels(trial.id), key=lambda kernel: kernel.stalled, default=None)


def _pair(
    study: Study,
    trials: tuple[StudyTrial, StudyTrial],
    kernels: Sequence[KernelSource | None],
    shown: set[int],
    *,
    is_first: bool,
) -> CodePair:
    before, after = trials
    found = [
        diagnose(trial.contender, kernel, partial(study.counters.value_of, trial.id)) if kernel else None
        for trial, kernel in zip(trials, kernels, strict=True)
    ]
    both = tuple(each for each in found if each)
    codes = [each.kernel.code for each in both]
    diff = list(_diff(*codes)) if len(both) == 2 else []
    same = say_once(WORDS, "same_code") if study.verdict(before, after) is Verdict.SAME_CODE else ""
    sides = [_side(study, trial, each, shown) for trial, each in zip(trials, found, strict=True)]
    facts = [*_launch_facts(study, trials, kernels), *([_opcodes(*codes)] if len(both) == 2 else [])]
    return CodePair(
        before=before.contender,
        after=after.contender,
        text=" ".join(filter(None, (same, explain_pair(*both) if len(both) == 2 else ""))),
        bars=_bars(both),
        facts=tuple(fact for fact in facts if fact[1] != fact[2] or fact[1]),
        diff=tuple(diff[:MOST_CHANGES]),
        changes_left=len(diff[MOST_CHANGES:]),
        sides=(sides[0], sides[1]),
        open=is_first,
    )


def _bars(both: Sequence[Diagnosis]) -> tuple[tuple[str, float, float], ...]:
    if len(both) < 2 or not all(each.kernel.stalled for each in both):
        return ()
    before, after = (each.shares for each in both)
    reasons = sorted({*before, *after}, key=lambda reason: -max(before.get(reason, 0), after.get(reason, 0)))
    return tuple((reason, before.get(reason, 0.0), after.get(reason, 0.0)) for reason in reasons[:MOST_BARS])


def _side(study: Study, trial: StudyTrial, diagnosis: Diagnosis | None, shown: set[int]) -> CodeSide:
    launches = study.kernels(trial.id)
    notes = tuple(say(WORDS, "side_notes", trial, diagnosis and diagnosis.kernel, len(launches)))
    name = f"{trial.contender} · {diagnosis.kernel.kernel}" if diagnosis else trial.contender
    anchor = f"code-{trial.id}"
    if diagnosis is None or trial.id in shown:
        return CodeSide(name, anchor, notes, repeated=diagnosis is not None)
    shown.add(trial.id)
    return CodeSide(name, anchor, notes, tuple(_files(diagnosis)))


def _files(diagnosis: Diagnosis) -> Iterator[SourceFile]:
    kernel = diagnosis.kernel
    opened = _opened_lines(kernel)
    for file in dict.fromkeys(kernel.lines["file"]):
        rows: Any = kernel.lines[kernel.lines["file"] == file].itertuples()
        known = {int(row.line): _source_line(diagnosis, row, is_open=(file, row.line) in opened) for row in rows}
        yield SourceFile(Path(file).name, tuple(_with_context(kernel, file, known)))


def _source_line(diagnosis: Diagnosis, row: Any, *, is_open: bool) -> SourceLine:
    kernel, code = diagnosis.kernel, diagnosis.kernel.instructions
    own = code[(code["file"] == row.file) & (code["line"] == row.line)]
    return SourceLine(
        int(row.line),
        kernel.text(row.file, int(row.line))[:TEXT_WIDTH] if row.file == kernel.source_name else "",
        float(row.share),
        str(row.reason),
        _shorten(float(row.executed)),
        tuple(_listing(own, diagnosis.causes)) if is_open else (),
        is_cause=bool({*own.index} & diagnosis.causes),
    )


def _shorten(number: float) -> str:
    """Return a large number with three digits: "1.44 M"."""
    sign, size = next(each for each in reversed(BYTES) if number >= each[1] or not each[0])
    return f"{number / size:.3g}\N{NO-BREAK SPACE}{sign}".strip() if sign else f"{number:g}"


def _opened_lines(kernel: KernelSource) -> set[tuple[str, int]]:
    """Return the lines whose instructions are listed: those with most samples, as many as there is room for."""
    ranked = kernel.lines.sort_values(["stalled", "executed"], ascending=False)
    fits = ranked["instructions"].cumsum() <= MOST_INSTRUCTIONS
    return set(zip(ranked["file"][fits], ranked["line"][fits], strict=True))


def _listing(rows: Any, causes: frozenset[int]) -> Iterator[str]:
    for row in rows.itertuples():
        share = f"{row.share * 100:.1f}" if row.stalled else ""
        mark = "←" if row.Index in causes else " "
        yield f"{row.offset:5x} {share:>5} {mark} {row.sass}"


def _with_context(kernel: KernelSource, file: str, known: dict[int, SourceLine]) -> Iterator[SourceLine]:
    """Yield lines with instructions and those around them; a gap stands for what is left out between."""
    texts = kernel.texts.get(file, ()) if file == kernel.source_name else ()
    wanted = {each for number in known for each in range(number - AROUND, number + AROUND + 1)}
    numbers = sorted(known if not texts else (wanted & {*range(1, len(texts) + 1)}) | known.keys())
    last = numbers[0] - 1 if numbers else 0
    for number in numbers:
        if number != last + 1 and texts:
            yield SourceLine(0, "", is_gap=True)
        last = number
        yield known.get(number) or SourceLine(number, texts[number - 1][:TEXT_WIDTH])


def _launch_facts(
    study: Study, trials: Sequence[StudyTrial], kernels: Sequence[KernelSource | None]
) -> list[tuple[str, str, str]]:
    """Return what the launches were given, and how many warps that let run."""
    launches = [study.launch(kernel.launch_id) if kernel else None for kernel in kernels]
    rows = {
        "Threads a block": [str(launch.threads) if launch else "–" for launch in launches],
        "Registers a thread": [format_counter(launch.registers) if launch else "–" for launch in launches],
        "Shared memory a block, byte": [_shared(launch) if launch else "–" for launch in launches],
        "Blocks fit by": [_limiter(launch) if launch else "–" for launch in launches],
    }
    for name, metric in (("Occupancy possible, %", POSSIBLE), ("Occupancy achieved, %", ACHIEVED)):
        values = [study.counters.value_of(trial.id, metric) for trial in trials]
        if any(value is not None for value in values):
            rows[name] = [format_counter(value) for value in values]
    return [(name, *texts) for name, texts in rows.items()]  # type: ignore[misc]


def _shared(launch: LaunchFacts) -> str:
    return f"{launch.shared_static or 0} static, {launch.shared_dynamic or 0} dynamic"


def _limiter(launch: LaunchFacts) -> str:
    """Return what allows the fewest blocks on a multiprocessor, with how many."""
    limits = {name: value for name, value in launch.limits.items() if value}
    if not limits:
        return "–"
    least = min(limits.values())
    names = " and ".join(name.replace("_", " ") for name, value in limits.items() if value == least)
    return f"{names}: {least:g}"


def _opcodes(before: Sequence[Instruction], after: Sequence[Instruction]) -> tuple[str, str, str]:
    """Return the operations whose number changed most, in the code, before and after."""
    counts = list(compare_opcodes(before, after).items())[:MOST_OPCODES]
    first, second = (", ".join(f"{each[side]} {name}" for name, each in counts) for side in (0, 1))
    return "Instructions that changed in number", first, second


def _diff(before: Sequence[Instruction], after: Sequence[Instruction]) -> Iterator[tuple[str, str]]:
    """Yield the machine code's changes, with equal stretches folded; other registers are no change."""
    for change in align(before, after):
        if change.kind == "equal":
            yield "=", say_once(WORDS, "equal", len(change.base))
        else:
            yield from (("-", before[number].text) for number in change.base)
            yield from (("+", after[number].text) for number in change.new)
