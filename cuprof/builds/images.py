"""Read from PTX, a cubin or a fatbin for which devices it was compiled.

A cubin's number is in its ELF flags (LLVM, llvm/BinaryFormat/ELF.h, EF_CUDA_SM); a fatbin is a header and, for each
image in it, a header with its kind and number.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cuprof.core.errors import BuildError

FATBIN = 0xBA55ED50
PTX_KIND = 1
MOVED_FLAGS = 8
"""From this version of the ELF's ABI on the number is in the second byte of the flags."""


@dataclass(frozen=True)
class Target:
    """What one image is for: machine code runs on its own major capability, PTX on all later ones."""

    number: int
    is_ptx: bool
    is_exact: bool = False

    def fits(self, number: int) -> bool:
        """Return whether a device of this number can run it."""
        if self.is_exact:
            return number == self.number
        return self.number <= number and (self.is_ptx or self.number // 10 == number // 10)

    def __str__(self) -> str:
        return f"{'PTX of compute' if self.is_ptx else 'sm'}_{self.number}{'a' if self.is_exact else ''}"


def check_image(name: str, image: bytes, arch: str) -> None:
    """Raise `BuildError` where an image holds nothing for an architecture ("sm_90"); pass over what cannot be read."""
    targets = list(_list_targets(image))
    number = int(re.sub(r"\D", "", arch))
    if targets and not any(each.fits(number) for each in targets):
        there = ", ".join(map(str, targets))
        raise BuildError(f"{name} was compiled for {there}, and the device is {arch}; compile it with -arch={arch}")


def _list_targets(image: bytes) -> Iterator[Target]:
    if image[:4] == b"\x7fELF" and len(image) >= 64:
        flags = struct.unpack_from("<I", image, 48)[0]
        yield Target((flags >> 8 if image[8] >= MOVED_FLAGS else flags) & 0xFF, is_ptx=False)
    elif len(image) >= 16 and struct.unpack_from("<I", image)[0] == FATBIN:
        place, end = struct.unpack_from("<H", image, 6)[0], len(image)
        while place + 32 <= end:
            kind, _, header, size = struct.unpack_from("<HHIQ", image, place)
            if not header:
                return
            yield Target(struct.unpack_from("<I", image, place + 28)[0], is_ptx=kind == PTX_KIND)
            place += header + size
    elif found := re.search(rb"^\s*\.target\s+sm_(\d+)([af]?)", image, re.MULTILINE):
        yield Target(int(found[1]), is_ptx=True, is_exact=found[2] == b"a")
