"""Which files belong to a definition: beside it, or in the folders of a trace set; and those that are made of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuprof.core.errors import UsageError
from cuprof.core.project import find_project

DEFINITIONS, SOLUTIONS, WORKLOADS = "definitions", "solutions", "workloads"
"""Folders of a trace set: definitions/OP/NAME.json, solutions/**/NAME/*.json, workloads/OP/NAME.jsonl."""


@dataclass(frozen=True)
class Files:
    """The files of one definition; paths of tensors are relative to `root`."""

    definition: Path
    root: Path
    workloads: tuple[Path, ...]
    solutions: tuple[Path, ...]


def find_files(path: Path) -> Files:
    """Return what belongs to a definition's file, or to the one definition of a folder.

    Beside definition.json lie workload*.jsonl and solution*.json (SOL-ExecBench); in a trace set see `DEFINITIONS`.

    Raises:
        UsageError: there is no definition, or several, or none of its workloads.
    """
    path = path.absolute()
    definition = path if path.is_file() else _only(path)
    folder = definition.parent
    root = next((each.parent for each in definition.parents if each.name == DEFINITIONS), None)
    if root is None:
        workloads, solutions = sorted(folder.glob("workload*.jsonl")), sorted(folder.glob("solution*.json"))
    else:
        workloads = sorted((root / WORKLOADS).rglob(f"{definition.stem}.jsonl"))
        solutions = sorted(_solutions(root / SOLUTIONS, definition.stem))
    found = Files(definition, root or folder, tuple(workloads), tuple(solutions))
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
    for file in folder.rglob("*.json"):
        if file.parent.name == name or f'"{name}"' in file.read_text(encoding="utf-8", errors="replace"):
            yield file


def write_made(name: str, text: str) -> Path:
    """Write a Python file that is a family into the project, unless it is there with this text; return its path."""
    file = find_project().made_families / name
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return file
