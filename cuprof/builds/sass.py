"""Machine instructions as text: disassembled from a cubin, read into registers and jumps, and compared."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

from cuprof.core.errors import BuildError, MissingDependencyError
from cuprof.core.records import read_opcode

_SECTION = re.compile(r"^\t\.section\t\.text\.([^,\s]+)")
_LINE = re.compile(r'^\t//## File "([^"]*)", line (\d+)')
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_REGISTER = re.compile(r"\b(?:UR\d+|R\d+|UP\d|P\d)\b")
_WIDTHS = {"64": 2, "128": 4, "96": 3}
_JUMPS = ("BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "BREAK", "CALL", "BSYNC", "WARPSYNC")
"""Operations that end a basic block."""
_STORES = ("ST", "STG", "STS", "STL", "RED", "BAR", "MEMBAR", "EXIT", "BRA", "NOP", "DEPBAR", "BSYNC", "BSSY", "UBLKCP")
"""Operations that write no register."""
LOADS = {
    "long_scoreboard": ("LDG", "LD", "LDL", "ATOM", "ATOMG", "TEX", "TLD", "TLD4", "SULD", "LDGSTS", "LDGDEPBAR"),
    "short_scoreboard": ("LDS", "LDSM", "ATOMS", "MUFU", "S2R", "S2UR", "SHFL", "I2F", "F2I", "F2F", "LDC", "POPC"),
    "barrier": ("BAR",),
}
"""What a warp waits for at an instruction that stalls for this reason (Nsight Compute, "Warp Stall Reasons")."""
PREDECESSORS = 3
"""Blocks to look back through for a load's instruction; further ones would be guesses."""


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    Args:
        offset: bytes from the kernel's first instruction.
        text: predicate, operation and operands; a jump's target is an offset.
        file: source file by the line table, empty without one.
        line: line in it, 0 without one.
    """

    offset: int
    text: str
    file: str = ""
    line: int = 0

    @property
    def opcode(self) -> str:
        """Return the operation with its modifiers, "LDG.E.CONSTANT"."""
        return read_opcode(self.text)

    @property
    def operation(self) -> str:
        """Return the operation alone, "LDG"."""
        return self.opcode.partition(".")[0]

    @property
    def is_padding(self) -> bool:
        """Return whether it never runs: what follows the last instruction of a kernel."""
        return self.operation == "NOP"


def disassemble(cubin: bytes) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each kernel by its symbol, without the padding behind them.

    Raises:
        MissingDependencyError: nvdisasm is not installed.
        BuildError: nvdisasm refuses the file.
    """
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [find_nvdisasm(), "-c", "-g", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode:
        raise BuildError(f"nvdisasm cannot read the machine code: {' '.join(done.stderr.split())[:300]}", done.stderr)
    return dict(_read_listing(done.stdout.splitlines()))


@cache
def find_nvdisasm() -> str:
    """Return nvdisasm's path: beside the package nvidia-cuda-nvdisasm, or of a toolkit.

    Raises:
        MissingDependencyError: there is none.
    """
    try:
        import nvidia

        folders = [Path(each) for each in nvidia.__path__]
    except ImportError:
        folders = []
    for folder in folders:
        for found in folder.glob("*/bin/nvdisasm"):
            return str(found)
    for place in (shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm"):
        if place and Path(place).is_file():
            return place
    raise MissingDependencyError("nvdisasm", "pip install nvidia-cuda-nvdisasm")


def _read_listing(lines: Sequence[str]) -> Iterator[tuple[str, tuple[Instruction, ...]]]:
    name, file, line = "", "", 0
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for text in [*lines, "\t.section\t.text.end,"]:
        if match := _SECTION.match(text):
            if name:
                yield name, tuple(_without_padding([_resolve(each, labels) for each in found]))
            name, file, line = match[1], "", 0
            found, labels, waiting = [], {}, []
        elif match := _LINE.match(text):
            file, line = match[1], int(match[2])
        elif match := _LABEL.match(text):
            waiting.append(match[1])
        elif match := _INSTRUCTION.match(text):
            offset = int(match[1], 16)
            labels.update(dict.fromkeys(waiting, offset))
            waiting = []
            found.append(Instruction(offset, " ".join(match[2].split()), file, line))


def _resolve(one: Instruction, labels: dict[str, int]) -> Instruction:
    """Return the instruction with labels replaced by offsets."""
    text = re.sub(r"`\((\.L_x_\d+)\)", lambda match: f"{labels.get(match[1], 0):#x}", one.text)
    return Instruction(one.offset, text, one.file, one.line)


def _without_padding(code: list[Instruction]) -> list[Instruction]:
    """Leave out the padding, and the jump to itself in front of it."""
    while code and code[-1].is_padding:
        code.pop()
    if len(code) > 1 and code[-1].operation == "BRA" and code[-1].text.endswith(f"{code[-1].offset:#x}"):
        code.pop()
    return code


def count_opcodes(code: Sequence[Instruction]) -> Counter[str]:
    """Return operation with modifiers → how many instructions have it."""
    return Counter(one.opcode for one in code)


def compare_opcodes(base: Sequence[Instruction], new: Sequence[Instruction]) -> dict[str, tuple[int, int]]:
    """Return operation → how many instructions of each code have it, where they differ; the largest change first."""
    before, after = count_opcodes(base), count_opcodes(new)
    names = [name for name in {**before, **after} if before[name] != after[name]]
    names.sort(key=lambda name: (-abs(after[name] - before[name]), name))
    return {name: (before[name], after[name]) for name in names}


def find_blocks(code: Sequence[Instruction]) -> list[range]:
    """Return the basic blocks as ranges of indices: they begin at targets of jumps, and end at jumps."""
    starts = {0}
    numbers = {one.offset: number for number, one in enumerate(code)}
    for number, one in enumerate(code):
        if one.operation in _JUMPS:
            starts.add(number + 1)
            if (target := _target(one)) in numbers:
                starts.add(numbers[target])
    edges = [*sorted(start for start in starts if start < len(code)), len(code)]
    return [range(*pair) for pair in pairwise(edges)]


def _target(one: Instruction) -> int | None:
    found = re.search(r"\b0x([0-9a-f]+)$", one.text)
    return int(found[1], 16) if found and one.operation in ("BRA", "JMP", "BSSY") else None


@dataclass(frozen=True)
class Registers:
    """The registers that an instruction writes and reads, predicates among them."""

    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()


def read_registers(one: Instruction) -> Registers:
    """Return the registers of an instruction, as far as its text shows them."""
    words = one.text.split(None, 1)
    predicate = frozenset(_REGISTER.findall(words[0])) if words and words[0].startswith("@") else frozenset()
    rest = one.text[one.text.index(one.opcode) + len(one.opcode) :]
    operands = [each.strip() for each in re.split(r",(?![^\[]*\])", rest) if each.strip()]
    if not operands or one.operation in _STORES:
        return Registers(reads=predicate | frozenset(_REGISTER.findall(rest)))
    written = [operands[0]]
    if one.operation in ("ISETP", "FSETP", "HSETP2", "DSETP", "PLOP3", "LOP3", "R2P") and len(operands) > 1:
        written.append(operands[1])
    writes = {register for operand in written for register in _widen(operand, one.opcode)}
    reads = {register for operand in operands[1:] for register in _widen(operand, "")}
    return Registers(frozenset(writes), predicate | frozenset(reads))


def _widen(operand: str, opcode: str) -> list[str]:
    """Return the registers of an operand: four for a load of 128 bits."""
    width = next((_WIDTHS[part] for part in opcode.split(".") if part in _WIDTHS), 1)
    if ".64" in operand:
        width = 2
    found = []
    for name in _REGISTER.findall(operand):
        letters, number = re.match(r"(\D+)(\d+)", name).groups()  # type: ignore[union-attr]
        found += [f"{letters}{int(number) + step}" for step in range(width if "R" in letters else 1)]
    return found


def find_cause(code: Sequence[Instruction], index: int, reason: str) -> int | None:
    """Return the index of the load or barrier that an instruction waits for; see `find_causes`."""
    return find_causes(code, {index: reason}).get(index)


def find_causes(code: Sequence[Instruction], reasons: Mapping[int, str]) -> dict[int, int]:
    """Return instruction → the load or barrier that it waits for, by their indices, where their blocks show it.

    Samples name the instruction that waits. The operand is followed back to the instruction that writes it, in the
    same basic block and its predecessors; a loop's block is its own predecessor.

    Args:
        reasons: instruction → why warps stall at it.
    """
    blocks = find_blocks(code)
    predecessors = _find_predecessors(code, blocks)
    registers = cache(lambda number: read_registers(code[number]))
    found = {}
    for index, reason in reasons.items():
        causes = LOADS.get(reason, ())
        for path in _paths_back(blocks, predecessors, index) if causes else ():
            cause = _find_in(code, path, causes, registers, None if reason == "barrier" else registers(index).reads)
            if cause is not None:
                found[index] = cause
                break
    return found


def _paths_back(blocks: Sequence[range], predecessors: Mapping[range, Sequence[range]], index: int) -> list[range]:
    """Return the stretches before an instruction: of its own block, then whole blocks, the nearest first."""
    own = next(block for block in blocks if index in block)
    paths, seen, at = [range(own.start, index)], {own}, {own}
    for _ in range(PREDECESSORS):
        at = {block for other in at for block in predecessors[other]}
        paths += [block for block in sorted(at, key=lambda block: block.start) if block not in seen or block == own]
        seen |= at
    return paths


def _find_in(
    code: Sequence[Instruction],
    path: range,
    causes: Sequence[str],
    registers: Callable[[int], Registers],
    wanted: frozenset[str] | None,
) -> int | None:
    """Return the last of these operations on a path that writes a wanted register, or the last where none is wanted."""
    for number in reversed(path):
        written = registers(number).writes & wanted if wanted is not None else frozenset()
        if code[number].operation in causes and (wanted is None or written):
            return number
        if wanted is not None and not code[number].text.startswith("@"):
            wanted -= written  # what was loaded before it is not what the instruction reads
    return None


def _find_predecessors(code: Sequence[Instruction], blocks: Sequence[range]) -> dict[range, list[range]]:
    """Return block → the blocks that run into it or jump to it."""
    starts: dict[int | None, range] = {code[block.start].offset: block for block in blocks}
    following = dict(pairwise(blocks))
    found: dict[range, list[range]] = {block: [] for block in blocks}
    for block in blocks:
        last, after = code[block[-1]], list[range | None]()
        if last.text.startswith("@") or last.operation not in ("BRA", "EXIT"):
            after.append(following.get(block))
        if last.operation in ("BRA", "JMP"):
            after.append(starts.get(_target(last)))
        for other in filter(None, after):
            found[other].append(block)
    return found


@dataclass(frozen=True)
class Change:
    """A stretch of two codes: equal ("equal"), or one replaced by the other.

    Args:
        base: indices in the first code.
        new: indices in the second.
    """

    kind: str
    base: range = field(default_factory=lambda: range(0))
    new: range = field(default_factory=lambda: range(0))


def align(base: Sequence[Instruction], new: Sequence[Instruction]) -> list[Change]:
    """Return how two codes correspond: blocks with the same operations first, then instructions between those."""
    base_blocks, new_blocks = find_blocks(base), find_blocks(new)
    whole = SequenceMatcher(None, _keys(base, base_blocks), _keys(new, new_blocks), autojunk=False)
    changes: list[Change] = []
    for kind, first, last, new_first, new_last in whole.get_opcodes():
        left = _span(base_blocks, first, last, len(base))
        right = _span(new_blocks, new_first, new_last, len(new))
        if kind == "equal":
            changes.append(Change("equal", left, right))
        else:
            changes += _align_instructions(base, new, left, right)
    return changes


def _keys(code: Sequence[Instruction], blocks: Sequence[range]) -> list[tuple[str, ...]]:
    return [tuple(code[number].opcode for number in block) for block in blocks]


def _span(blocks: Sequence[range], first: int, last: int, size: int) -> range:
    start = blocks[first].start if first < len(blocks) else size
    return range(start, blocks[last - 1].stop) if last > first else range(start, start)


def _align_instructions(
    base: Sequence[Instruction], new: Sequence[Instruction], left: range, right: range
) -> Iterator[Change]:
    matcher = SequenceMatcher(None, [base[n].opcode for n in left], [new[n].opcode for n in right], autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        yield Change(kind, left[first:last], right[new_first:new_last])
