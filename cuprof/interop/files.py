"""Which files belong to a definition, and reading files that a stranger wrote: regular ones, inside, of bounded size.

Beside definition.json lie workload*.jsonl and solution*.json (SOL-ExecBench). A trace set (FlashInfer-Bench) has
definitions/OP/NAME.json, solutions/**/NAME/*.json and workloads/OP/NAME.jsonl.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from cuprof.core.errors import UsageError
from cuprof.core.text import list_first

MOST_BYTES = 64 << 20
"""Largest JSON file to read: a solution holds sources, which are far smaller."""


TUNER = "kernel_tuner"
"""The module that a script of Kernel Tuner imports."""


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
        path = path.absolute()
        definition = path if path.is_file() else _find_only(path)
        folder = definition.parent
        root = next((each.parent for each in definition.parents if each.name == "definitions"), None)
        if root is None:
            workloads, solutions = [*folder.glob("workload*.jsonl")], [*folder.glob("solution*.json")]
        else:
            workloads = [*(root / "workloads").rglob(f"{definition.stem}.jsonl")]
            files = [file for file in (root / "solutions").rglob("*.json") if with_solutions and file.is_file()]
            # those in a folder of the definition's name, and those elsewhere that hold the name
            name, said = definition.stem, f'"{definition.stem}"'.encode()
            solutions = [file for file in files if file.parent.name == name or said in read_bytes(file)]
        chosen = sorted(solutions) if with_solutions else []
        found = Files(definition, root or folder, tuple(sorted(workloads)), tuple(chosen))
    except (OSError, ValueError, RuntimeError) as error:  # names that are too long, links in a circle
        raise UsageError(f"{path} cannot be searched: {error}") from None
    if not found.workloads:
        raise UsageError(f"{definition} has no workload*.jsonl beside it, nor in the folders of a trace set")
    return found


def _find_only(folder: Path) -> Path:
    alone = folder / "definition.json"
    found = [alone] if alone.is_file() else sorted((folder / "definitions").rglob("*.json"))
    if not found:
        raise UsageError(
            f"{folder} has no definition.json; name a Python file, a family of the project or a definition"
        )
    if len(found) > 1:
        names = list_first([str(each) for each in found], 4)
        raise UsageError(f"{folder} has {len(found)} definitions; name one: {names}")
    return found[0]


def find_inside(root: Path, name: str) -> Path:
    """Return the path of a file below a folder; raise `UsageError` where it lies elsewhere, also behind links."""
    try:
        path, top = (root / name).resolve(), root.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{name[:200]} is not a path of a file: {error}") from None
    if not path.is_relative_to(top):
        raise UsageError(f"{name[:200]} lies outside of {root}; a file that a definition names lies in its folder")
    return path


def open_regular(path: Path, most: int = 0) -> BufferedReader:
    """Open a file for reading; a FIFO or a device would never end.

    Args:
        most: bytes that it may have; 0 for any number.

    Raises:
        UsageError: it cannot be opened, is no regular file or is larger.
    """
    try:
        stream: BufferedReader = open(  # noqa: SIM115
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        )
    except (OSError, ValueError) as error:  # of a folder, of a name with a zero byte
        raise UsageError(f"{str(path)[:200]} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    found = os.fstat(stream.fileno())
    if stat.S_ISREG(found.st_mode) and not 0 < most < found.st_size:
        return stream
    stream.close()
    what = f"has {found.st_size} bytes; at most {most} are read" if stat.S_ISREG(found.st_mode) else "is not a file"
    raise UsageError(f"{path} cannot be read: it {what}")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what a file holds; raises as `open_regular` does."""
    with open_regular(path, most) as stream:
        return stream.read()
