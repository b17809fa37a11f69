"""The arrays of a problem as the files that programs read and write."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.backends.buffers import Content, Contents, Memory
from cuprof.core.errors import LaunchError, UsageError
from cuprof.core.files import MOST_BYTES, open_regular
from cuprof.core.scratch import ScratchFolder, remove
from cuprof.families import Array, File

NUMBER = re.compile(r"[-+]?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)", re.IGNORECASE)
ENDINGS = {"raw": "bin", "npy": "npy", "text": "txt"}


@dataclass(eq=False)
class Slot:
    """What the files of one array are to hold: values, bytes, or nothing yet."""

    nbytes: int
    content: np.ndarray | bytes | None = None


class FileMemory(Memory[Slot]):
    """Files in a folder, one for each array and format that a program asks for, written as it is started."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self._owner = ScratchFolder()
        self.folder = self._owner.path
        self._written: dict[Path, tuple[object, bytes]] = {}
        """For each file: what its array was to hold, and the bytes that were written."""

    def allocate(self, label: str, array: Array) -> Slot:
        """Return a slot; its files come later, and have no guards: their size is checked when they are read."""
        return Slot(array.nbytes)

    def write(self, buffer: Slot, content: Content, start: int = 0) -> None:
        """Note what the files are to hold."""
        buffer.content = content.host

    def fill(self, buffer: Slot, byte: int, start: int = 0, size: int | None = None) -> None:
        """Note that the files are to hold this byte alone."""
        buffer.content = bytes([byte]) * buffer.nbytes

    def path(self, file: File) -> Path:
        """Return where a file is."""
        return self.folder / f"{file.buffer}.{ENDINGS[file.format]}"

    def provide(self, slot: Slot, file: File) -> None:
        """Write a file, unless it holds what it is to hold; a program may have left anything in its place."""
        path, (known, content) = self.path(file), self._written.get(self.path(file), (None, b""))
        if slot.content is not None and known is not slot.content:
            content = slot.content if isinstance(slot.content, bytes) else _encode(slot.content, file.format)
            self._written[path] = slot.content, content
        if slot.content is not None and not _holds(path, content):
            if path.is_dir() and not path.is_symlink():
                remove(path)
            path.unlink(missing_ok=True)
            path.write_bytes(content)

    def read_file(self, file: File, array: Array, name: str) -> np.ndarray:
        """Return what a program of this name has left in a file.

        Raises:
            LaunchError: there is no file, or its content does not fit the array.
        """
        try:
            with open_regular(self.path(file), flags=os.O_NOFOLLOW) as stream:
                size, most = os.fstat(stream.fileno()).st_size, MOST_BYTES + 25 * array.nbytes
                stream.seek(max(0, size - most) if file.format == "text" else 0)  # its last numbers count
                content = stream.read(most)
        except UsageError:
            raise LaunchError(f"{name} left no file of output {file.buffer}; a link or folder is none") from None
        where = f"{name} wrote to the file of output {file.buffer}"
        if file.format == "text":
            return read_numbers(content.decode(errors="replace"), array, where)
        if file.format == "npy":
            try:
                found = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
            except Exception:  # NumPy evaluates a header, and does not list what that raises
                raise LaunchError(f"{where} something that is not a NumPy file") from None
            if found.dtype != array.type or found.shape != array.shape:
                raise LaunchError(f"{where} {found.dtype} of shape {found.shape}, not {array.dtype} of {array.shape}")
            return np.asarray(found)
        if size != array.nbytes:
            raise LaunchError(f"{where} {size} bytes, not {array.nbytes} ({array.size} × {array.dtype})")
        return np.frombuffer(content, array.type).reshape(array.shape).copy()

    def holds(self, buffers: Mapping[str, Slot], contents: Contents) -> Iterator[tuple[str, bool]]:
        """Compare each file with what was written."""
        for name in buffers:
            yield name, all(_holds(path, content) for path, (_, content) in self._written.items() if path.stem == name)

    def mend(self) -> None:
        """Have all files written again."""
        self._written = {}

    def free(self) -> None:
        """Remove the folder."""
        self._owner.cleanup()


def _encode(array: np.ndarray, format: str) -> bytes:
    if format == "npy":
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        return stream.getvalue()
    if format == "text":
        return ("\n".join(map(repr, array.reshape(-1).tolist())) + "\n").encode()
    return array.tobytes()


def read_numbers(text: str, array: Array, where: str) -> np.ndarray:
    """Return the last numbers of a text as an array; raise `LaunchError` if they are too few or do not fit."""
    numbers = NUMBER.findall(text)
    if len(numbers) < array.size:
        raise LaunchError(f"{where} {len(numbers)} numbers, and {array.size} are expected")
    chosen = numbers[-array.size :]
    read = int if array.type.kind in "iu" else float
    try:
        return np.array([read(each) for each in chosen], array.type).reshape(array.shape)
    except (ValueError, OverflowError):
        raise LaunchError(f"{where} {', '.join(chosen[:3])} …, which is not {array.dtype}") from None


def _holds(path: Path, content: bytes) -> bool:
    with suppress(UsageError), open_regular(path, flags=os.O_NOFOLLOW) as stream:
        return stream.read(len(content) + 1) == content
    return False
