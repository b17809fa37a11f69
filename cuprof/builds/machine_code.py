"""The identity of a program's machine code: equal for builds that do the same, instruction by instruction.

It is computed from the cubin, which takes less than a millisecond and no other program. Left out are all that two
builds of one code may differ in: the names of kernels and files, the line table, where code and data lie (the linker's
relocations hold addresses; the instructions hold zeros in their place, or distances), and the control bits of an
instruction: how long the scheduler waits after it and which barriers it sets, from bit 105 on.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from cuprof.families import Program

INSTRUCTION_WORDS = 2
"""An instruction has two words of 64 bits, on every GPU since Volta (CUDA Binary Utilities, "Instruction Set")."""
MEANING_BITS = np.uint64((1 << 41) - 1)
"""Bits of the second word before the scheduler's."""
WIDTH, CODE_DIGITS = 64, 40
"""Characters of a stored hash, which a column of the database holds, and of the part that is of the code alone."""
_CODE, _SHARED = ".text.", ".nv.shared."
_CONSTANTS = (".nv.constant2", ".nv.constant3", ".nv.constant4", ".rodata")
"""Sections with tables of the source's own; bank 0 holds the launch's arguments."""
_ENTRY = re.compile(rb"\.nv\.constant0\.([\w$]+)")
"""The section that holds the arguments of a kernel's launch, by its name."""


def hash_code(cubin: bytes) -> str:
    """Return the hash of a cubin's machine code; empty where it is no cubin that can be read."""
    try:
        parts = sorted(filter(None, (_describe(*section) for section in _read_sections(cubin))))
    except (struct.error, LookupError, OverflowError, ValueError):
        return ""
    if not any(part.startswith(b"code") for part in parts):
        return ""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def hash_launched(cubin: bytes, kernels: Iterable[str]) -> str:
    """Return `hash_code`, of a cubin with several kernels together with the names of those that are launched."""
    code = hash_code(cubin)
    if not code or len(set(_ENTRY.findall(cubin))) < 2:
        return code
    return hashlib.sha256(" ".join([code, *sorted(kernels)]).encode()).hexdigest()


def hash_program(code: str, program: Program) -> str:
    """Return one hash of a program's machine code and of its launches, but for the kernels' names.

    Equal ones of one problem are of equal work: grid, block, shared memory and arguments are those of its steps.

    Args:
        code: the hash of its machine code; empty where that cannot be seen.
    """
    text = repr(replace(program, defines={}, options=()))
    for number, kernel in enumerate(dict.fromkeys(launch.kernel for launch in program.launches)):
        text = text.replace(repr(kernel), f"kernel {number}")
    launches = hashlib.sha256(text.encode()).hexdigest()
    return f"{code[:CODE_DIGITS]}-{launches[: WIDTH - CODE_DIGITS - 1]}" if code else ""


def names_launches(found: str) -> bool:
    """Return whether a stored hash is of the launches, too: until 0.3 it was of the machine code alone."""
    return "-" in found


def _describe(name: str, size: int, data: bytes) -> bytes:
    """Return the part of the code's identity that a section contributes, without its name; empty for most sections."""
    if name.startswith(_CODE):
        words = np.frombuffer(data, np.uint64).reshape(-1, INSTRUCTION_WORDS).copy()
        words[:, 1] &= MEANING_BITS
        return b"code" + hashlib.sha256(words.tobytes()).digest()
    if name.startswith(_SHARED) and size:
        return b"shared" + size.to_bytes(8, "little")
    if name.startswith(_CONSTANTS) and data:
        return b"constants" + hashlib.sha256(data).digest()
    return b""


def _read_sections(image: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Yield (name, size, content in the file) of each section of a 64-bit little-endian ELF file.

    The format is that of the System V ABI, chapter 4; shared memory has a size and no content.
    """
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", image, 40)
    entry_size, count, names_index = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + number * entry_size) for number in range(count)]
    names = image[headers[names_index][4] :]
    for name, kind, _, _, offset, size, *_ in headers:
        text = names[name : names.index(b"\0", name)].decode()
        in_file = kind != 8  # SHT_NOBITS
        yield text, size, image[offset : offset + size] if in_file else b""
