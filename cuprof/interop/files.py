"""Which files belong to a definition, and reading files that a stranger wrote: regular ones, inside, of bounded size.

Beside definition.json lie workload*.jsonl and solution*.json (SOL-ExecBench). A trace set (FlashInfer-Bench) has
definitions/OP/NAME.json, solutions/**/NAME/*.json and workloads/OP/NAME.jsonl.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from cuprof.core.errors import UsageError

DEFINITIONS, SOLUTIONS, WORKLOADS = "definitions", "solutions", "workloads"
"""Folders of a trace set."""
MOST_BYTES = 64 << 20
"""Of a JSON file: a solution holds sources, which are far smaller."""
MOST_FILES = 20_000
"""Of a folder that is looked through for solutions."""


@dataclass(frozen=True)
class Files:
    """The files of one definition; paths of tensors are relative to `root`."""

    definition: Path
    root: Path
    workloads: tuple[Path, ...]
    solutions: tuple[Path, ...]


def find_files(path: Path, *, with_solutions: bool = True) -> Files:
    """Return what belongs to a definition's file, or to the one definition of a folder.

    Raises:
        UsageError: there is no definition, or several, or none of its workloads.
    """
    try:
        return _find_files(path.absolute(), with_solutions)
    except (OSError, ValueError, RuntimeError) as error:  # names that are too long, links in a circle
        raise UsageError(f"{_short(path)} cannot be looked through: {error}") from None


def _find_files(path: Path, with_solutions: bool) -> Files:
    definition = path if path.is_file() else _only(path)
    folder = definition.parent
    root = next((each.parent for each in definition.parents if each.name == DEFINITIONS), None)
    if root is None:
        workloads, solutions = sorted(folder.glob("workload*.jsonl")), sorted(folder.glob("solution*.json"))
    else:
        workloads = sorted((root / WORKLOADS).rglob(f"{definition.stem}.jsonl"))
        solutions = sorted(_solutions(root / SOLUTIONS, definition.stem)) if with_solutions else []
    found = Files(definition, root or folder, tuple(workloads), tuple(solutions) if with_solutions else ())
    if not found.workloads:
        raise UsageError(f"{definition} has no workload*.jsonl beside it, nor in the folders of a trace set")
    return found


def _only(folder: Path) -> Path:
    alone = folder / "definition.json"
    found = [alone] if alone.is_file() else sorted((folder / DEFINITIONS).rglob("*.json"))
    if len(found) != 1:
        if not found:
            raise UsageError(
                f"{folder} has no definition.json; name a Python file, a family of the project or a definition"
            )
        names = ", ".join(str(each) for each in found[:4]) + (" …" if len(found) > 4 else "")
        raise UsageError(f"{folder} has {len(found)} definitions; name one: {names}")
    return found[0]


def _solutions(folder: Path, name: str) -> Iterator[Path]:
    for number, file in enumerate(folder.rglob("*.json")):
        if number >= MOST_FILES:
            raise UsageError(f"{folder} has more than {MOST_FILES} files; name a definition in a folder of its own")
        if file.is_file() and (file.parent.name == name or f'"{name}"'.encode() in read_bytes(file)):
            yield file


def copy_definition(files: Files, tensors: Iterable[str], into: Path) -> Path:
    """Copy a definition with its workloads and tensors into a new folder; return the definition's file there."""
    into.mkdir(parents=True)
    (into / "definition.json").write_bytes(read_bytes(files.definition))
    (into / "workload.jsonl").write_bytes(b"\n".join(read_bytes(each) for each in files.workloads))
    for name in tensors:
        target = inside(into, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(inside(files.root, name)) as source, target.open("wb") as copy:
            while part := source.read(1 << 20):
                copy.write(part)
    return into / "definition.json"


def inside(root: Path, name: str) -> Path:
    """Return the path of a file below a folder.

    Raises:
        UsageError: it lies elsewhere, also where links lead there.
    """
    try:
        path, top = (root / name).resolve(), root.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{_short(name)} is not a path of a file: {error}") from None
    if not path.is_relative_to(top):
        raise UsageError(f"{_short(name)} lies outside of {root}; a file that a definition names lies in its folder")
    return path


def open_regular(path: Path, most: int = 0) -> BufferedReader:
    """Open a file for reading; a FIFO or a device would never come to an end.

    Args:
        most: bytes that it may have; 0 for any number.

    Raises:
        UsageError: it cannot be opened, is no regular file or is larger.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise UsageError(f"{_short(path)} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found = os.fstat(handle)
    stream = os.fdopen(handle, "rb") if stat.S_ISREG(found.st_mode) and not 0 < most < found.st_size else None
    if stream is None:
        os.close(handle)
        what = f"has {found.st_size} bytes, and {most} are taken" if stat.S_ISREG(found.st_mode) else "is not a file"
        raise UsageError(f"{_short(path)} cannot be read: it {what}")
    return stream


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what a file holds; raises as `open_regular` does."""
    with open_regular(path, most) as stream:
        return stream.read()


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= 200 else f"{text[:199]}…"
