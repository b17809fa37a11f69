"""Where a family comes from that another tool's file describes, and what a name on the command line means.

What reads those files is imported when a family comes from one: it needs NumPy, which takes longer to import than a
command takes to compose.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.core.errors import FamilyError
from cuprof.core.files import open_regular, read_regular
from cuprof.families import Family
from cuprof.families.origin import FAMILY_FILE, Folder, Origin, Script, Snapshot, family_name, find_folder, is_path
from cuprof.families.syntax import imported_names, parse_file
from cuprof.interop.schema import find_inside

if TYPE_CHECKING:
    from cuprof.interop.definition import DefinitionFamily

TUNER = "kernel_tuner"
"""The module that a script of Kernel Tuner imports."""


class Definition(Origin, frozen=True, tag=True):
    """A definition of FlashInfer-Bench or SOL-ExecBench: its JSON, its folder, or a trace set with one definition."""

    def list_files(self) -> Iterable[Path]:
        """Return the JSON files and the tensors that they name."""
        read = self.read()
        return [*read.files, *read.tensors.values()]

    def read(self, *, with_solutions: bool = True) -> DefinitionFamily:
        """Return the definition, its workloads and solutions; raise `UsageError` where a file is not one."""
        from cuprof.interop.definition import DefinitionFamily

        return DefinitionFamily(self.path, with_solutions=with_solutions)

    def _make(self) -> Family:
        definition = self.read()
        family = definition.make_family()
        family.folder, family.path = definition.path.parent, definition.path
        return family


class TunerScript(Origin, frozen=True, tag=True):
    """A script that calls Kernel Tuner's `tune_kernel`; a kernel's file counts as a source."""

    def _make(self) -> Family:
        from cuprof.interop.kernel_tuner import read_script

        family = read_script(self.path).make_family()
        family.folder, family.path = self.path.parent, self.path
        return family


AnyOrigin = Folder | Script | Snapshot | Definition | TunerScript
"""Origins that one process can send to another."""


def define(path: str | Path) -> Family:
    """Return the family of a definition of FlashInfer-Bench or SOL-ExecBench: `family = cuprof.define(PATH)`.

    Args:
        path: the definition's JSON, its folder, or the folder of a trace set with one definition.

    Raises:
        UsageError: a file of it cannot be read, or asks for what is not taken in.
    """
    return Definition(Path(path).absolute()).read().make_family()


def copy_alone(word: str, into: Path) -> Definition:
    """Copy a definition with its workloads and their tensors into a new folder, without the solutions; return it."""
    read = Definition(Path(word).absolute()).read(with_solutions=False)
    into.mkdir(parents=True)
    (into / "definition.json").write_bytes(read_regular(read.path))
    (into / "workload.jsonl").write_bytes(b"\n".join(read_regular(each) for each in read.traces))
    for name, path in read.tensors.items():
        target = find_inside(into, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(path) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    return Definition(into / "definition.json")


def find_origin(name: str, folders: Sequence[Path]) -> AnyOrigin:
    """Return where a family comes from: a folder of that name, a Python file, a tuner's script or a definition.

    Raises:
        UnknownNameError: no folder holds a family of the name; the message names the nearest ones.
        FamilyError: there is no such file.
    """
    path = Path(name).absolute()
    if name.endswith(".py"):
        if not path.is_file():
            raise FamilyError(f"there is no file {name}; name a Python file, or a family")
        tree = parse_file(path).tree if TUNER.encode() in read_regular(path) else ast.Module([], [])
        roots = {name.partition(".")[0] for node in ast.walk(tree) for name in imported_names(node)}
        return TunerScript(path) if TUNER in roots and "cuprof" not in roots else Script(path)
    if name.endswith(".json") or (is_path(name) and path.is_dir()):
        return Folder(path) if (path / FAMILY_FILE).is_file() else Definition(path)
    return find_folder(name, folders)


def name_family(name: str) -> str:
    """Return the name of the family of that name, or at that path."""
    if name.endswith(".py"):
        return family_name(Path(name))
    return Definition(Path(name).absolute()).read(with_solutions=False).name if is_path(name) else name
