"""The memory of a device, as the buffers of a session need it: between guards, written, read and compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from cuprof.families import Array, Arrays

GUARD_BYTES = 4096
"""Guard bytes on either side of an array. Writes further away than that hit other memory unseen."""
PATTERN = np.random.default_rng(0x6A7D).integers(0, 256, GUARD_BYTES, dtype=np.uint8)
"""The content of guards: no repeated byte, so neither a fill nor a copy from guard to guard looks intact."""

B = TypeVar("B")
"""What kernels and functions are bound to: an array, or a buffer of OpenCL."""


@dataclass
class Content:
    """What an array of one set holds.

    Args:
        host: the values.
        copy: the same in the device's own memory, where `Memory.keep` has put it.
        checksum: of the values, where the device compares by checksums.
    """

    host: np.ndarray
    copy: Any = None
    checksum: int | None = None


Contents = dict[str, Content]


class Memory(ABC, Generic[B]):
    """The memory of one device. Every method waits, or runs before any later work."""

    @abstractmethod
    def allocate(self, label: str, shape: tuple[int, ...], dtype: np.dtype) -> B:
        """Return new memory between guards of `GUARD_BYTES`, its elements undefined.

        Args:
            label: its name in `find_damaged` ("output y").

        Raises:
            DeviceMemoryError: there is not enough.
        """

    def keep(self, contents: Sequence[Content]) -> None:
        """Copy a set's contents into the device's memory, outside any guard.

        Raises:
            DeviceMemoryError: there is no room for it beside what executions need.
        """

    @abstractmethod
    def write(self, buffer: B, content: Content) -> None:
        """Give a buffer a content, from the device's copy if there is one."""

    @abstractmethod
    def fill(self, buffer: B, byte: int) -> None:
        """Let every byte of a buffer be this one."""

    @abstractmethod
    def read(self, buffer: B, array: Array) -> np.ndarray:
        """Return a buffer's elements as a host array of its own."""

    @abstractmethod
    def holds(self, buffers: Mapping[str, B], contents: Contents) -> Iterable[tuple[str, bool]]:
        """Yield the name of each buffer, and whether its bytes are those of the content of this name."""

    @abstractmethod
    def find_damaged(self) -> tuple[str, ...]:
        """Return the labels of what has been written outside of, since it was allocated or mended."""

    @abstractmethod
    def mend(self) -> None:
        """Rewrite all guards."""

    def wait(self) -> None:
        """Wait for what has been written."""

    @abstractmethod
    def free(self) -> None:
        """Give all back."""


class HostArrays:
    """Host arrays that inputs are copied from, and outputs to, when total time is taken; each is made at first use.

    Args:
        make: returns an array of a shape and type in page-locked or plain memory.
    """

    def __init__(self, make: Callable[[tuple[int, ...], np.dtype], np.ndarray]) -> None:
        self._make = make
        self._inputs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._outputs: dict[tuple[str, Array], np.ndarray] = {}

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield every array made so far."""
        return chain((copy for _, copy in self._inputs.values()), self._outputs.values())

    def get_input(self, values: np.ndarray) -> np.ndarray:
        """Return a copy of these values, the same for the same array."""
        if id(values) not in self._inputs:
            copy = self._make(values.shape, values.dtype)
            copy[...] = values
            self._inputs[id(values)] = values, copy  # the array is kept, so that no other gets its id
        return self._inputs[id(values)][1]

    def get_output(self, name: str, spec: Array) -> np.ndarray:
        """Return the array of an output."""
        if (name, spec) not in self._outputs:
            self._outputs[name, spec] = self._make(spec.shape, spec.type)
        return self._outputs[name, spec]


def make_contents(arrays: Arrays) -> Contents:
    """Return what each array of a set holds."""
    return {name: Content(np.ascontiguousarray(array)) for name, array in arrays.items()}
