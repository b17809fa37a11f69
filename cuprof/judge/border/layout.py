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
        inputs, outputs: name → its place; what is worked on in place is an output.
        stride: bytes of a row.
    """

    inputs: Mapping[str, Place]
    outputs: Mapping[str, Place]
    stride: int

    @classmethod
    def of(cls, signature: Signature) -> Layout:
        """Lay the arrays of a signature out in their order."""
        inputs = {name: spec for name, spec in signature.inputs.items() if name not in signature.outputs}
        places, end = {}, GUARD_BYTES
        for name, spec in {**inputs, **signature.outputs}.items():
            places[name] = Place(-(-end // ALIGNMENT) * ALIGNMENT, tuple(spec.shape), spec.type)
            end = places[name].end + GUARD_BYTES
        outputs = {name: places.pop(name) for name in signature.outputs}
        return cls(places, outputs, -(-end // PAGE) * PAGE)

    @property
    def places(self) -> dict[str, Place]:
        """Return name → place of all arrays, in the order of a row."""
        return {**self.inputs, **self.outputs}

    def fill(self, row: np.ndarray, contents: Arrays, byte: int) -> None:
        """Write guards, contents and, into outputs without contents, a byte into one row (uint8)."""
        row[:] = np.resize(PATTERN, self.stride)
        for name, place in self.places.items():
            array = contents.get(name)
            given = None if array is None else np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            row[place.offset : place.end] = byte if given is None else given

    def protected(self) -> Iterator[tuple[str, slice]]:
        """Yield what no execution may change: inputs, and the bytes around each array."""
        start = 0
        for name, place in self.places.items():
            label = f"{'input' if name in self.inputs else 'output'} {name}"
            yield f"writes outside its {label}", slice(start, place.offset)
            if name in self.inputs:
                yield f"overwrites its {label}", slice(place.offset, place.end)
            start = place.end
        yield f"writes outside its {label}", slice(start, self.stride)


def cut(row: Any, place: Place) -> np.ndarray:
    """Return an array of a row of bytes in host memory, without a copy."""
    array: np.ndarray = row[place.offset : place.end].view(place.dtype).reshape(place.shape)
    return array
