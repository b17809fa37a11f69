"""Load a family from its origin, in any process.

An origin is data: the engine plans with the family that it loads, and passes the same origin to the worker and the
profiled process. A folder NAME with a `family.py` is imported as a package of a private name. So `from . import steps`
reaches the Python files beside it, and two families may have files of the same name. A script finds the files beside it
by their plain names, as when Python runs it.

Importing changes `sys.modules`: load from one thread at a time. Another thread may import at the same time, so names
are listed first.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import linecache
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import msgspec

from cuprof.core.errors import CuprofError, FamilyError, UnknownNameError
from cuprof.core.files import read_regular
from cuprof.families.model import Family, as_names
from cuprof.families.syntax import imported_files, parse_file
from cuprof.families.trace import describe, place_of
from cuprof.families.validation import check_family

FAMILY_FILE = "family.py"
PREFIX = "_cuprof_family_"
"""The prefix of a family's module name while it is loaded."""
_SCRIPT_FOLDERS: set[str] = set()
loading: ContextVar[tuple[Path, list[Family]] | None] = ContextVar("loading", default=None)
"""Set while an origin is loaded, to its folder or script and the families that `cuprof.compare` has defined since.
Otherwise `cuprof.compare` runs a comparison."""


class Origin(msgspec.Struct, frozen=True, tag=True):
    """Where a family comes from: a folder or a file, by its absolute path."""

    path: Path

    @property
    def folder(self) -> Path:
        """Return the folder that the family lies in."""
        return self.path if self.path.is_dir() else self.path.parent

    def load(self) -> Family:
        """Return a new, validated family, with `folder`, `path`, `origin` and `code` set.

        Raises:
            FamilyError: the file is missing, raises, or describes no valid family.
        """
        code = self.digests()  # first: an edit from now on is noticed
        token = loading.set((self.path, []))
        try:
            family = self._make()
        finally:
            loading.reset(token)
        family.origin, family.code = self, code
        check_family(family)
        return family

    def digests(self) -> dict[str, str]:
        """Return file → digest of every file that the family depends on; empty where they cannot be listed."""
        found = {}
        with suppress(CuprofError, OSError):
            for file in filter(Path.is_file, self.list_files()):  # a FIFO or a device would never end
                with file.open("rb") as stream:
                    found[str(file)] = hashlib.file_digest(stream, "sha256").hexdigest()
        return found

    def list_files(self) -> Iterable[Path]:
        """Return the files that the family depends on: a Python file, and those beside and below it that it imports."""
        return imported_files(self.path / FAMILY_FILE if self.path.is_dir() else self.path)

    def _make(self) -> Family:
        raise NotImplementedError


class Folder(Origin, frozen=True, tag=True):
    """A folder with a family.py."""

    def _make(self) -> Family:
        file = self.path / FAMILY_FILE
        if not file.is_file():
            raise FamilyError(f"{self.path} has no {FAMILY_FILE}; a family is a folder with a {FAMILY_FILE} in it")
        return _define_family(file, self.path)


class Script(Origin, frozen=True, tag=True):
    """A Python file that calls `cuprof.compare`, or that is a family by itself."""

    def _make(self) -> Family:
        _make_siblings_new(self.path)
        return _define_family(self.path, self.path)


class Snapshot(Origin, frozen=True, tag=True):
    """What `cuprof.compare` was given in a script or a notebook, pickled by the process that plans.

    Args:
        search: folders to import modules from.
        files: modules of the user's own, which are imported.
    """

    search: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def list_files(self) -> Iterable[Path]:
        """Return the modules that are imported; a pickle of the same call has other bytes each time."""
        return self.files

    def _make(self) -> Family:
        sys.path += [folder for folder in self.search if folder not in sys.path]
        try:
            with self.path.open("rb") as stream:
                cells: dict[str, list[str]] = pickle.load(stream)
                for name, lines in cells.items():
                    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
                family: Family = pickle.load(stream)
        except (Exception, SystemExit) as error:
            raise FamilyError(
                f"the process that measures cannot load the arguments of cuprof.compare: {describe(error)}"
            ) from error
        return family


def restore_code(make: Callable[..., CodeType], arguments: tuple[Any, ...], file: str) -> CodeType:
    """Return the unpickled code of a function, with the name of its file."""
    return make(*arguments).replace(co_filename=file)


def list_families(folders: Sequence[Path]) -> dict[str, Path]:
    """Return name → folder of every family in the folders, sorted by name; an earlier folder hides a later one.

    Nothing is imported. Missing folders have no families; names that begin with "." or "_" are skipped.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(Path(folder).glob(f"*/{FAMILY_FILE}")):
            name = file.parent.name
            if not name.startswith((".", "_")):
                found.setdefault(name, file.parent)
    return dict(sorted(found.items()))


def find_folder(name: str, folders: Sequence[Path]) -> Folder:
    """Return the family of that name; raise `UnknownNameError`, which names the nearest ones, where there is none."""
    families = list_families(folders)
    if name not in families:
        raise UnknownNameError("family", name, families, f"in {', '.join(map(str, folders)) or 'no folder'}")
    return Folder(families[name])


def load_family(path: Path) -> Family:
    """Return the family of a folder with a family.py, or of a Python file; see `Origin.load`."""
    path = Path(path).resolve()
    return (Script(path) if path.is_file() else Folder(path)).load()


def is_path(name: str) -> bool:
    """Return whether a family's name is a path: a Python file, a definition's JSON, or a folder."""
    return name.endswith((".py", ".json")) or "/" in name


def family_name(script: Path) -> str:
    """Return the name of a script's family: the file's, without what no name may have."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", script.stem).lstrip("_.+-") or "comparison"


def read_settings(script: Path) -> tuple[str, ...]:
    """Return the settings that a script's call of `cuprof.compare` names, without running it.

    Raises:
        FamilyError: they are no list of texts that stands in the script.
    """
    source = parse_file(script)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "compare":
            given = next((one.value for one in node.keywords if one.arg == "settings"), None)
            if isinstance(given, ast.Name):
                made = [one for one in ast.walk(source.tree) if isinstance(one, ast.Assign)]
                given = next((one.value for one in made if ast.unparse(one.targets[0]) == given.id), given)
            with suppress(ValueError):
                return as_names("settings", ast.literal_eval(given)) if given is not None else ()
            raise FamilyError(
                f"{script}, line {node.lineno}: settings= must be a list of texts: the file is not run yet"
            )
    return ()


def _make_siblings_new(file: Path) -> None:
    """Make a script's own modules importable from beside it, freshly loaded: not those of another script's folder."""
    folder, own = str(file.parent), {*imported_files(file)}
    if folder in _SCRIPT_FOLDERS or folder not in sys.path:  # behind installed packages, before other scripts' folders
        plain = [each for each in sys.path if each not in _SCRIPT_FOLDERS]
        others = [each for each in sys.path if each in _SCRIPT_FOLDERS and each != folder]
        sys.path[:] = [*plain, folder, *others]
        _SCRIPT_FOLDERS.add(folder)
    for name, module in list(sys.modules.items()):
        place = Path(getattr(module, "__file__", None) or "/")
        is_others = str(place.parent) in _SCRIPT_FOLDERS and file.with_name(place.name) in own
        if name != "__main__" and (place in own or is_others):
            del sys.modules[name]


def _define_family(file: Path, place: Path) -> Family:
    """Run a file; return the one family that it has defined."""
    name = module_name(file)
    _take_modules({name})
    importlib.invalidate_caches()
    try:
        with as_if_alone(file):
            module = run_module(name, file)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _take_modules({name})
        where = place_of(error, file.parent)
        if isinstance(error, CuprofError):  # it says what is wrong; here, where
            raise FamilyError(f"{file}: {str(error).removeprefix(f'{file}: ')}{where}") from error
        raise FamilyError(f"{file} raised {describe(error)} on import{where}{_hint(error, file.parent)}") from error
    family, (_, found) = getattr(module, "family", None), loading.get() or (place, [])
    if isinstance(family, Family) and not any(family is one for one in found):
        found.append(family)
    if len(found) > 1:
        raise FamilyError(f"{file} makes two comparisons; one that is swept makes one, in a file of its own")
    if not found:
        said = f"but `family` is a {type(family).__name__}" if hasattr(module, "family") else "but there is none"
        tests = [ast.unparse(node.test) for node in parse_file(file).tree.body if isinstance(node, ast.If)]
        for guard in (each for each in tests if "__name__" in each):  # a comparison behind it is made in no sweep
            said += f"; what stands below `if {guard}:` runs by `python {file.name}` alone"
        needed = "must define `family = Family(...)`, or call cuprof.compare(...), at module level"
        raise FamilyError(f"{file} {needed}, {said}")
    found[0].folder, found[0].path = file.parent, place
    return found[0]


def run_module(name: str, file: Path, **names: object) -> ModuleType:
    """Run a Python file, with `names` defined, as a module: anew, since byte code may be stale just after an edit."""
    folders = [str(file.parent)] if "." not in name else None
    loader = SourceFileLoader(name, str(file))  # of a file with any ending
    spec = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)
    assert spec is not None  # a loader is given
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    try:
        exec(compile(read_regular(file), file, "exec", dont_inherit=True), vars(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def module_name(file: Path) -> str:
    """Return the same name for the same path in every process, and another one for another path."""
    return PREFIX + hashlib.sha256(os.fsencode(file)).hexdigest()[:12]


@contextmanager
def own_imports(folders: Sequence[Path], roots: Iterable[str]) -> Iterator[None]:
    """Look for modules in these folders first, import those of these names anew, and put the former ones back."""
    places = [*map(str, folders)]
    sys.path[:0] = places
    importlib.invalidate_caches()
    hidden = _take_modules({*roots})
    try:
        yield
    finally:
        _take_modules({*roots})
        sys.modules.update(hidden)
        for place in places:
            with suppress(ValueError):  # whoever set another path took it away
                sys.path.remove(place)


def _take_modules(roots: set[str]) -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in roots}


@contextmanager
def as_if_alone(file: Path) -> Iterator[None]:
    """Run a script with no arguments instead of the command's, and without leaving byte code beside it."""
    before = sys.argv, sys.dont_write_bytecode
    sys.argv, sys.dont_write_bytecode = [str(file)], True
    try:
        yield
    finally:
        sys.argv, sys.dont_write_bytecode = before


def _hint(error: BaseException, folder: Path) -> str:
    """Return how to import a file beside family.py that was imported by its plain name."""
    if isinstance(error, ModuleNotFoundError) and error.name and (folder / f"{error.name}.py").is_file():
        return f"; write `from . import {error.name}` for a file beside {FAMILY_FILE}"
    return ""
