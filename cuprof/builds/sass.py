"""Machine instructions as text: disassembled from a cubin, read into registers and jumps, and compared."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

from cuprof.core.errors import BuildError, MissingDependencyError
from cuprof.core.records import INSTRUCTION_BYTES, read_opcode
from cuprof.families.toolchain import find_in_toolkit

_LINE = re.compile(r'^\t//## File "([^"]*)", line (\d+)')
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_REGISTER = re.compile(r"\b(?:UR\d+|R\d+|UP\d|P\d)\b")
_WIDTHS = {"64": 2, "128": 4, "96": 3}
_JUMPS = ("BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "BREAK", "CALL", "BSYNC", "WARPSYNC")
"""Operations that end a basic block."""
_STORES = ("ST", "STG", "STS", "STL", "RED", "BAR", "MEMBAR", "EXIT", "BRA", "NOP", "DEPBAR", "BSYNC", "BSSY", "UBLKCP")
"""Operations that write no register."""
_PREDICATED = ("ISETP", "FSETP", "HSETP2", "DSETP", "PLOP3", "LOP3", "R2P")
"""Operations that may write two operands."""
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
    kernels = re.split(r"^\t\.section\t\.text\.([^,\s]+).*$", done.stdout, flags=re.MULTILINE)[1:]
    return {name: _read_kernel(text) for name, text in zip(kernels[::2], kernels[1::2], strict=True)}


@cache
def find_nvdisasm() -> str:
    """Return nvdisasm's path: beside the package nvidia-cuda-nvdisasm, or of a toolkit.

    Raises:
        MissingDependencyError: there is none.
    """
    spec = find_spec("nvidia")
    folders = map(Path, (spec and spec.submodule_search_locations) or ())
    beside = (str(found) for folder in folders for found in folder.glob("*/bin/nvdisasm"))
    if place := next(beside, None) or find_in_toolkit("nvdisasm"):
        return place
    raise MissingDependencyError("nvdisasm", "pip install nvidia-cuda-nvdisasm")


def _read_kernel(listing: str) -> tuple[Instruction, ...]:
    file, line = "", 0
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for text in listing.splitlines():
        if match := _LINE.match(text):
            file, line = match[1], int(match[2])
        elif match := _LABEL.match(text):
            labels[match[1]] = code[-1].offset + INSTRUCTION_BYTES if code else 0
        elif match := _INSTRUCTION.match(text):
            code.append(Instruction(int(match[1], 16), " ".join(match[2].split()), file, line))
    while code and code[-1].operation == "NOP":  # padding, behind a jump to itself
        code.pop()
    found = [
        replace(one, text=re.sub(r"`\((\.L_x_\d+)\)", lambda match: f"{labels.get(match[1], 0):#x}", one.text))
        for one in code
    ]
    is_trap = len(found) > 1 and found[-1].operation == "BRA" and found[-1].text.endswith(f"{found[-1].offset:#x}")
    return tuple(found[:-1] if is_trap else found)


def compare_opcodes(base: Sequence[Instruction], new: Sequence[Instruction]) -> dict[str, tuple[int, int]]:
    """Return operation → how many instructions of each code have it, where they differ; the largest change first."""
    before, after = (Counter(one.opcode for one in code) for code in (base, new))
    names = [name for name in {**before, **after} if before[name] != after[name]]
    names.sort(key=lambda name: (-abs(after[name] - before[name]), name))
    return {name: (before[name], after[name]) for name in names}


def find_blocks(code: Sequence[Instruction]) -> list[range]:
    """Return the basic blocks as ranges of indices: they begin at targets of jumps, and end at jumps."""
    starts = {0}
    numbers = {one.offset: number for number, one in enumerate(code)}
    for number, one in enumerate(code):
        if one.operation in _JUMPS:
            starts |= {number + 1, *([numbers[target]] if (target := _target(one)) in numbers else [])}
    edges = [*sorted(start for start in starts if start < len(code)), len(code)]
    return [range(*pair) for pair in pairwise(edges)]


def _target(one: Instruction) -> int | None:
    found = re.search(r"\b0x([0-9a-f]+)$", one.text)
    return int(found[1], 16) if found and one.operation in ("BRA", "JMP", "BSSY") else None


@lru_cache(4096)
def read_registers(one: Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers, predicates among them, that an instruction writes and reads, as far as its text shows."""
    words = one.text.split(None, 1)
    predicate = frozenset(_REGISTER.findall(words[0])) if words and words[0].startswith("@") else frozenset()
    rest = one.text[one.text.index(one.opcode) + len(one.opcode) :]
    operands = [each.strip() for each in re.split(r",(?![^\[]*\])", rest) if each.strip()]
    if not operands or one.operation in _STORES:
        return frozenset(), predicate | frozenset(_REGISTER.findall(rest))
    results = 2 if one.operation in _PREDICATED else 1
    writes = {register for operand in operands[:results] for register in _widen(operand, one.opcode)}
    reads = {register for operand in operands[1:] for register in _widen(operand, "")}
    return frozenset(writes), predicate | frozenset(reads)


def _widen(operand: str, opcode: str) -> Iterator[str]:
    """Yield the registers of an operand: four for a load of 128 bits."""
    width = 2 if ".64" in operand else next((_WIDTHS[part] for part in opcode.split(".") if part in _WIDTHS), 1)
    for name in _REGISTER.findall(operand):
        letters = name.rstrip("0123456789")
        yield from (f"{letters}{int(name[len(letters) :]) + step}" for step in range(width if "R" in letters else 1))


def find_causes(code: Sequence[Instruction], reasons: Mapping[int, str]) -> dict[int, int]:
    """Return instruction → the load or barrier that it waits for, by their indices, where their blocks show it.

    Samples name the instruction that waits. The operand is followed back to the instruction that writes it, in the
    same basic block and its predecessors; a loop's block is its own predecessor.

    Args:
        reasons: instruction → why warps stall at it.
    """
    blocks = find_blocks(code)
    predecessors = _find_predecessors(code, blocks)
    found = {}
    for index, reason in reasons.items():
        wanted = None if reason == "barrier" else read_registers(code[index])[1]
        for path in _paths_back(blocks, predecessors, index) if reason in LOADS else ():
            if (cause := _find_in(code, path, LOADS[reason], wanted)) is not None:
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
    code: Sequence[Instruction], path: range, causes: Sequence[str], wanted: frozenset[str] | None
) -> int | None:
    """Return the last of these operations on a path that writes a wanted register, or the last where none is wanted."""
    for number in reversed(path):
        written = read_registers(code[number])[0]
        if code[number].operation in causes and (wanted is None or wanted & written):
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
        last = code[block[-1]]
        runs_on = last.text.startswith("@") or last.operation not in ("BRA", "EXIT")
        jumps = last.operation in ("BRA", "JMP")
        for other in (following.get(block) if runs_on else None, starts.get(_target(last)) if jumps else None):
            if other is not None:
                found[other].append(block)
    return found


def compare_code(base: Sequence[Instruction], new: Sequence[Instruction]) -> Iterator[tuple[str, str]]:
    """Yield how two codes correspond: ("=", text) of an instruction that both have, "-" or "+" of one alone.

    Blocks with the same operations are aligned first, then instructions between those; other registers are no change.
    """
    before, after = ([code[block.start : block.stop] for block in find_blocks(code)] for code in (base, new))
    keys = [[tuple(one.opcode for one in block) for block in blocks] for blocks in (before, after)]
    for kind, first, last, start, end in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        left = [one.text for block in before[first:last] for one in block]
        right = [one.text for block in after[start:end] for one in block]
        if kind == "equal":
            yield from (("=", text) for text in right)
        else:
            yield from compare_texts(left, right, read_opcode)


def compare_texts(base: Sequence[str], new: Sequence[str], key: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield how two texts correspond, line by line; lines with the same `key` are the same."""
    matcher = SequenceMatcher(None, list(map(key, base)), list(map(key, new)), autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            yield from (("=", text) for text in new[start:end])
        else:
            yield from (("-", text) for text in base[first:last])
            yield from (("+", text) for text in new[start:end])
