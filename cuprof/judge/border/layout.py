"""Sets of a problem's arrays in one block of memory: a row for each set, every array between guards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuprof.backends.buffers import GUARD_BYTES, PATTERN
from cuprof.families import Arrays, Signature

ALIGNMENT = 256
"""Bytes; arrays start at multiples of this, as those of the CUDA driver do, and OpenCL's buffers have to."""
PAGE = 4096


@dataclass(frozen=True)
class Place:
    """The place of one array in a row."""

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def end(self) -> int:
        """Return where the array ends."""
        return self.offset + int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """The places of all arrays in a row.

    Args:
        places: "input NAME" or "output NAME" → its place.
        stride: bytes of a row.
    """

    places: Mapping[str, Place]
    stride: int

    @classmethod
    def of(cls, signature: Signature) -> Layout:
        """Lay the arrays of a signature out in their order."""
        places, end = {}, GUARD_BYTES
        named = [*(("input", *each) for each in signature.inputs.items() if each[0] not in signature.outputs)]
        named += [*(("output", *each) for each in signature.outputs.items())]
        for role, name, spec in named:
            place = Place(-(-end // ALIGNMENT) * ALIGNMENT, tuple(spec.shape), spec.type)
            places[f"{role} {name}"], end = place, place.end + GUARD_BYTES
        return cls(places, -(-end // PAGE) * PAGE)

    def select(self, role: str) -> dict[str, Place]:
        """Return name → place of all inputs, or of all outputs."""
        return {label.partition(" ")[2]: place for label, place in self.places.items() if label.startswith(role)}

    def fill(self, row: np.ndarray, contents: Arrays, byte: int) -> None:
        """Write guards, contents and, into outputs without contents, a byte into one row (uint8)."""
        row[:] = np.resize(PATTERN, self.stride)
        for label, place in self.places.items():
            array = contents.get(label.partition(" ")[2])
            given = None if array is None else np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            row[place.offset : place.end] = byte if given is None else given

    def protected(self) -> Iterator[tuple[str, slice]]:
        """Yield what no execution may change: inputs, and the bytes around each array."""
        start = 0
        for label, place in self.places.items():
            yield f"writes outside its {label}", slice(start, place.offset)
            if label.startswith("input"):
                yield f"overwrites its {label}", slice(place.offset, place.end)
            start = place.end
        yield f"writes outside its {label}", slice(start, self.stride)


def cut(row: Any, place: Place) -> np.ndarray:
    """Return an array of a row of bytes in host memory, without a copy."""
    array: np.ndarray = row[place.offset : place.end].view(place.dtype).reshape(place.shape)
    return array
