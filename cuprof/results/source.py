"""Where the time of profiled kernels goes: their counters by instruction, joined with the text of their source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cuprof.builds.sass import Instruction, find_causes
from cuprof.core.errors import SelectionError, UnknownNameError, UsageError, suggest
from cuprof.core.records import SourceCounters, read_opcode
from cuprof.core.text import count, list_first
from cuprof.families.sources import ENCODED, INCLUDING, SEPARATOR
from cuprof.results.counters import select_profiled
from cuprof.results.named_trials import NamedTrial, find_trials
from cuprof.results.sweeps import get_sweep
from cuprof.store import tables as t
from cuprof.store.counters import from_row

NO_STALLS = ("selected", "not_selected")
"""Reasons of samples whose warp could issue (Nsight Compute, "Warp Stall Reasons")."""
READABLE = INCLUDING | {".py", ".inl", ".inc", ".tpp", ".ipp"}
"""Suffixes of files that a line table may name and that are read on this machine."""
MOST_BYTES = 4 << 20
"""Largest source file that is read; a generated one may be larger than any page should be."""
MAIN = "main_.py"
"""The name under which a Triton source is compiled (`cuprof.families.sources.write_python`)."""
_OWN = (".cu", ".cl", ".cpp", ".cc", ".cxx", ".c", "")
_PTX = re.compile(r"^\s*\.version\s", re.MULTILINE)
FEW_SAMPLES = 200
"""Fewer stalled samples than this leave a line's share of 10 % uncertain by a fifth of itself: sqrt(0.1 · 0.9 / n)."""


@dataclass(frozen=True)
class KernelSource:
    """One launch of a kernel with its counters by instruction, and the source that its line table names.

    Args:
        name: the trial's label, or the foreign profile's name.
        trial_id: None of a foreign profile.
        ordinal: the launch's place among those of its profile.
        texts: file as the line table names it → its lines; a file whose text is not known is absent.
        source_name: the file whose text the database holds; empty of a foreign profile.
        threads: a block.
        limits: resource → blocks that it lets a multiprocessor hold.
    """

    name: str
    trial_id: int | None
    kernel: str
    ordinal: int
    cache_mode: str
    duration_ns: float | None
    counters: SourceCounters
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    source_name: str = ""
    threads: int = 0
    registers: float | None = None
    shared_static: int | None = None
    shared_dynamic: int | None = None
    limits: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def instructions(self) -> pd.DataFrame:
        """Return a row an instruction: offset, sass, opcode, file, line, executed, stalled, share and reason.

        `file` is empty and `line` 0 without a line table; `share` is of all stalled samples of the kernel; `reason` is
        the commonest, empty where no warp waited.
        """
        counters = self.counters
        reasons: list[dict[str, int]] = [{} for _ in counters.sass]
        for reason in self.reasons:
            for number, samples in counters.stalls[reason].items():
                reasons[number][reason] = samples
        stalled, total = [sum(each.values()) for each in reasons], max(1, self.stalled)
        return pd.DataFrame(
            {
                "offset": counters.offsets,
                "sass": counters.sass,
                "opcode": [read_opcode(text) for text in counters.sass],
                "file": [counters.files[number] if number >= 0 else "" for number in counters.file_numbers],
                "line": counters.lines,
                "executed": counters.executed,
                "stalled": stalled,
                "share": [samples / total for samples in stalled],
                "reason": [_leading(each) for each in reasons],
                "reasons": reasons,
            }
        )

    @cached_property
    def lines(self) -> pd.DataFrame:
        """Return a row a line that has instructions, by file and line.

        Columns: file, line, text (empty where it is not known), instructions, executed, stalled, share, reason, and
        reasons (reason → samples).
        """
        instructions = self.instructions
        by_line = instructions.groupby(["file", "line"])
        found = by_line.agg(instructions=("sass", "size"), executed=("executed", "sum"), stalled=("stalled", "sum"))
        reasons = [dict(sum(map(Counter, own), Counter[str]())) for _, own in by_line["reasons"]]
        found["reasons"] = pd.Series(reasons, index=found.index, dtype=object)
        found = found.reset_index()
        texts = [self.text(file, line) for file, line in zip(found["file"], found["line"], strict=True)]
        found.insert(2, "text", pd.Series(texts, dtype=object))
        return found.assign(share=found["stalled"] / max(1, self.stalled), reason=found["reasons"].map(_leading))

    @cached_property
    def causes(self) -> dict[int, int]:
        """Return instruction that waits → the load or barrier that it waits for, where its operands lead to one."""
        return find_causes(self.code, dict(enumerate(self.instructions["reason"])))

    @cached_property
    def code(self) -> list[Instruction]:
        """Return the instructions as the comparison of machine code takes them."""
        rows = self.instructions
        facts = zip(rows["offset"], rows["sass"], rows["file"], rows["line"], strict=True)
        return [Instruction(*each) for each in facts]

    @cached_property
    def reasons(self) -> Counter[str]:
        """Return reason → samples of warps that waited for it."""
        stalls = self.counters.stalls.items()
        return Counter({reason: sum(found.values()) for reason, found in stalls if reason not in NO_STALLS})

    @property
    def stalled(self) -> int:
        """Return the samples of warps that waited."""
        return self.reasons.total()

    @property
    def is_sure(self) -> bool:
        """Return whether there are samples enough to say what its warps wait for."""
        return self.stalled >= FEW_SAMPLES

    @property
    def shares(self) -> dict[str, float]:
        """Return each reason's share of the samples of warps that waited, the largest first."""
        return {reason: samples / self.stalled for reason, samples in self.reasons.most_common()}

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what a reader must know before believing the shares."""
        found = []
        if not self.is_sure:
            found.append(f"only {self.stalled} samples of waiting warps: shares are rough; profile a larger problem")
        if self.counters.dropped_bytes:
            found.append(f"{self.counters.dropped_bytes:,} bytes of samples were dropped, so shares may be one-sided")
        return tuple(found)

    def found_in(self, folder: Path) -> KernelSource:
        """Return the same with the text of files that are in a folder, found by name; it stands where none is known."""
        names = {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}
        here = [file for file in self.counters.files if file not in self.texts and Path(file).name in names]
        return replace(self, texts={**self.texts, **{file: read_lines(str(names[Path(file).name])) for file in here}})

    @property
    def has_lines(self) -> bool:
        """Return whether the machine code came with a line table."""
        return bool(self.counters.files)

    def text(self, file: str, line: int) -> str:
        """Return one line of source; empty where it is not known."""
        lines = self.texts.get(file, ())
        return lines[line - 1] if 0 < line <= len(lines) else ""


def find_sources(
    connection: Connection, text: str, settings: Sequence[str] = (), *, of_all: bool = False
) -> list[KernelSource]:
    """Return the launches of the newest profile with counters by instruction that a name means.

    Args:
        of_all: return those of every profile of an imported report, instead of asking which one is meant.

    Raises:
        UnknownNameError: nothing of this name is stored.
        SelectionError: it has no counters by instruction; the message says how to collect them.
    """
    of_trials, foreign = list_profiles(connection)
    within = [name for name in foreign if name == text] or [name for name in foreign if name.startswith(f"{text}/")]
    if len(within) == 1 or (within and of_all):
        return [each for name in within for each in read_sources(connection, foreign[name])]
    if within:
        kernels = {name: read_sources(connection, foreign[name])[0].kernel for name in within}
        named = list_first([f"{name} ({kernel})" for name, kernel in kernels.items()], 12)
        raise UsageError(f"{text} is {count(len(within), 'profile')}; name one: {named}")
    try:
        trials = find_trials(connection, text, settings)
    except UnknownNameError as error:
        known = [*error.known, *foreign]
        raise UsageError(f"no variant or imported profile is named {text!r}: {suggest(text, known)}") from None
    newest = max((of_trials[trial.id] for trial in trials if trial.id in of_trials), default=None)
    if newest is None:
        raise SelectionError(f"{trials[0].label} has no counters by instruction{_advise(connection, trials[0])}")
    return read_sources(connection, newest)


def _advise(connection: Connection, trial: NamedTrial) -> str:
    """Return how to collect a trial's counters, or an empty string for code that does not run on a GPU."""
    if trial.kind == "cpu":
        return ": it runs on a processor, and Nsight Compute profiles kernels on a GPU"
    selection = get_sweep(connection, "", trial.sweep_id).selection if trial.sweep_id else f"family={trial.family}"
    return f"; collect them: cuprof ncu-collect {selection} variants={trial.variant} ncu=source"


def list_profiles(connection: Connection, *conditions: sa.ColumnElement[bool]) -> tuple[dict[int, int], dict[str, int]]:
    """Return trial's number → newest profile with counters by instruction, and name → that of a kernel of no trial."""
    columns = (t.profile.c.id, t.profile.c.trial_id, t.profile.c.name)
    rows = connection.execute(select_profiled(t.source_counters, *columns).where(*conditions)).all()
    of_trials = {trial_id: number for number, trial_id, _ in rows if trial_id is not None}
    return of_trials, {str(name): number for number, trial_id, name in rows if trial_id is None}


def list_trial_sources(connection: Connection, trial_id: int) -> list[KernelSource]:
    """Return the launches of the trial's newest profile with counters by instruction; empty where there is none."""
    newest = list_profiles(connection, t.profile.c.trial_id == trial_id)[0].get(trial_id)
    return read_sources(connection, newest) if newest is not None else []


def read_sources(connection: Connection, profile_id: int) -> list[KernelSource]:
    """Return the launches of one profile."""
    about = (t.profile.c.name, t.profile.c.cache_mode, t.trial.c.id.label("trial_id"), t.trial.c.label)
    columns = (t.launch, t.source_counters, *about, t.variant.c.source_text)
    query = select_profiled(t.source_counters, *columns).where(t.profile.c.id == profile_id)
    query = query.outerjoin(t.trial, t.trial.c.id == t.profile.c.trial_id)
    query = query.outerjoin(t.variant, t.variant.c.id == t.trial.c.variant_id)
    return [_make(row, from_row(row._asdict())) for row in connection.execute(query)]


def _make(row: Any, counters: SourceCounters) -> KernelSource:
    text, files = row.source_text, counters.files
    own = _own_texts(text, files) if text and files else {}
    texts = {file: own[file].split("\n") if file in own else read_lines(file) for file in files}
    return KernelSource(
        *(row.label or row.name, row.trial_id, row.kernel, row.ordinal, row.cache_mode, row.duration_ns, counters),
        texts={file: lines for file, lines in texts.items() if lines},
        source_name=next(iter(own), ""),
        threads=row.block_x * row.block_y * row.block_z,
        registers=row.registers,
        shared_static=row.shared_static_bytes,
        shared_dynamic=row.shared_dynamic_bytes,
        limits=msgspec.convert((row.details or {}).get("occupancy_limits") or {}, dict[str, float]),
    )


def _own_texts(text: str, files: Sequence[str]) -> dict[str, str]:
    """Return the files among these that a trial's stored text holds, with their text.

    Local includes are expanded, so one file holds all of a CUDA source; its name ends in .cu, or is a variant's name.
    A Triton source is a package whose first file is `MAIN`. Compiled images, PTX among them, hold no source.
    """
    if text.startswith(ENCODED) or _PTX.search(text):
        return {}
    main = next((file for file in files if Path(file).name == MAIN), "")
    if main:
        first, *others = text.split(SEPARATOR)
        named = {str(Path(main).parent / name): rest for name, _, rest in (other.partition("\n") for other in others)}
        return {main: first} | {file: rest for file, rest in named.items() if file in files}
    own = min(files, key=lambda file: _OWN.index(Path(file).suffix) if Path(file).suffix in _OWN else len(_OWN))
    return {own: text}


def read_lines(file: str) -> list[str]:
    """Return the lines of a source file on this machine; empty where it cannot be read, or is no source.

    A report names its files itself: what else lies on this machine is not shown.
    """
    path = Path(file)
    try:
        if path.suffix not in READABLE or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return []
        return path.read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []


def _leading(reasons: Mapping[str, int]) -> str:
    """Return the commonest reason, of equal ones the first by name; empty without any."""
    return min(reasons, key=lambda reason: (-reasons[reason], reason), default="")
