"""Find families by path and import their `family.py`.

A family is a folder NAME with a `family.py` whose module attribute `family` is a `Family` of that name. The folder is
imported as a package of a private name, so that `from . import steps` and `from .steps import total` reach Python files
beside `family.py`, and two families may have files of the same name. A plain `import steps` does not reach them.

Importing changes `sys.modules`: load from one thread at a time. Another may import meanwhile, so names are listed
first.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from cuprof.core.errors import CuprofError, FamilyError, UnknownNameError
from cuprof.core.project import find_project
from cuprof.families.model import Family
from cuprof.families.modules import imported_files, parse_file
from cuprof.families.trace import describe, place_of
from cuprof.families.validation import check_family

FAMILY_FILE = "family.py"
PREFIX = "_cuprof_family_"
"""How the name of a family's module begins while it is loaded."""
_SCRIPT_FOLDERS: set[str] = set()


def list_families(folders: Sequence[Path]) -> dict[str, Path]:
    """Return name → folder of every family in the folders, sorted by name; an earlier folder hides a later one.

    Nothing is imported. Folders that do not exist hold no families; names that begin with "." or "_" are passed over.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(Path(folder).glob(f"*/{FAMILY_FILE}")):
            name = file.parent.name
            if not name.startswith((".", "_")):
                found.setdefault(name, file.parent)
    return dict(sorted(found.items()))


def find_family(name: str, folders: Sequence[Path]) -> Path:
    """Return what `load_family` takes: the folder of the family of that name, or the Python file that it names.

    Raises:
        UnknownNameError: no folder holds a family of the name; the message names the nearest ones.
        FamilyError: there is no such file.
    """
    if is_path(name):
        if not Path(name).is_file():
            raise FamilyError(f"there is no file {name}; name a Python file, or a family")
        return Path(name).absolute()
    families = list_families(folders)
    if name not in families:
        raise UnknownNameError("family", name, families, f"in {', '.join(map(str, folders)) or 'no folder'}")
    return families[name]


def is_path(name: str) -> bool:
    """Return whether a family's name is the path of a Python file."""
    return name.endswith(".py")


def family_name(name: str) -> str:
    """Return the name of the family of that name or at that path: the file's, without what no name may have."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", Path(name).stem).lstrip("_.+-") or "comparison"
    return plain if is_path(name) else name


def get_family(name: str, folders: Sequence[Path]) -> Family:
    """Import the family of that name, or at that path, from the first of the folders that holds it.

    Raises:
        UnknownNameError: no folder holds it; the message names the nearest ones.
        FamilyError: its file cannot be imported or is not valid.
    """
    return load_family(find_family(name, folders))


def load_family(path: Path) -> Family:
    """Import a family anew and return it validated, with `folder` and `path` set to absolute paths.

    Args:
        path: a folder with a family.py, or a Python file that is a family by itself. What lies beside that one is
            imported by its plain name, as in a script.

    Raises:
        FamilyError: there is no such file, importing it raises, or what it describes is not valid.
    """
    path = Path(path).resolve()
    file = path if path.is_file() else path / FAMILY_FILE
    if not file.is_file():
        raise FamilyError(f"{path} has no {FAMILY_FILE}; a family is a folder with a {FAMILY_FILE} in it")
    if path.is_file():
        _make_siblings_new(path)
    code = _digest_code(file)  # first: who changes a file from now on is noticed
    module = _import_file(file)
    family = getattr(module, "family", None)
    if not isinstance(family, Family):
        found = f"but `family` is a {type(family).__name__}" if hasattr(module, "family") else "but there is none"
        raise FamilyError(
            f"{file} must define `family = Family(...)`, or call cuprof.compare(...), at module level, {found}"
            f"{_guard_hint(file)}"
        )
    family.folder, family.path, family.code = file.parent, path, code
    check_family(family)
    return family


def _digest_code(file: Path) -> dict[str, str]:
    """Return the digests of a Python file and of those beside and below it that it imports."""
    with suppress(CuprofError, OSError):
        own = imported_files(file)
        return {str(each): hashlib.blake2b(each.read_bytes(), digest_size=16).hexdigest() for each in own}
    return {}


def _make_siblings_new(file: Path) -> None:
    """Let a script's own modules be found beside it, in the state that they are in now."""
    folder = str(file.parent)
    if folder in _SCRIPT_FOLDERS or folder not in sys.path:  # behind what is installed, ahead of those of other scripts
        places = [place for place, each in enumerate(sys.path) if each in _SCRIPT_FOLDERS]
        sys.path[:] = [each for each in sys.path if each != folder or folder not in _SCRIPT_FOLDERS]
        sys.path.insert(min(places, default=len(sys.path)), folder)
        _SCRIPT_FOLDERS.add(folder)
    own = set(imported_files(file))
    for name, module in list(sys.modules.items()):
        place = Path(getattr(module, "__file__", None) or "/")
        is_others = str(place.parent) in _SCRIPT_FOLDERS and file.with_name(place.name) in own
        if name != "__main__" and (place in own or is_others):
            del sys.modules[name]


class _Uncached(SourceFileLoader):
    """Compile from the source each time: a byte-code file may be stale when a file is edited within a second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(file: Path) -> ModuleType:
    name = module_name(file)
    _forget(name)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(
        name, file, loader=_Uncached(name, str(file)), submodule_search_locations=[str(file.parent)]
    )
    if spec is None or spec.loader is None:
        raise FamilyError(f"{file} cannot be imported as Python; check its name")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _as_if_alone(file):
            spec.loader.exec_module(module)
    except CuprofError as error:  # it says what is wrong; where, unless cuprof wrote the file
        _forget(name)
        is_made = file.parent == find_project().made_families
        raise FamilyError(str(error) if is_made else f"{file}: {error}{place_of(error, file.parent)}") from error
    except (Exception, SystemExit) as error:
        _forget(name)
        where = place_of(error, file.parent)
        raise FamilyError(f"{file} raised {describe(error)} on import{where}{_hint(error, file.parent)}") from error
    return module


def module_name(file: Path) -> str:
    """Return the same name for the same path in every process, and another one for another path."""
    digest = hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"{PREFIX}{digest}"


def _forget(name: str) -> None:
    for loaded in [key for key in list(sys.modules) if key == name or key.startswith(f"{name}.")]:
        del sys.modules[loaded]


@contextmanager
def _as_if_alone(file: Path) -> Iterator[None]:
    """Let a script find arguments of its own, none, and not those of the command; leave no byte code beside it."""
    before = sys.argv, sys.dont_write_bytecode
    sys.argv, sys.dont_write_bytecode = [str(file)], True
    try:
        yield
    finally:
        sys.argv, sys.dont_write_bytecode = before


def _guard_hint(file: Path) -> str:
    """Return what to do where a comparison may stand behind `if __name__ == "__main__":`, which holds in no sweep."""
    for node in parse_file(file).tree.body:
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return f"; what stands below `if {ast.unparse(node.test)}:` runs by `python {file.name}` alone"
    return ""


def _hint(error: BaseException, folder: Path) -> str:
    """Return what to write where a file beside family.py was imported by its plain name."""
    if isinstance(error, ModuleNotFoundError) and error.name and (folder / f"{error.name}.py").is_file():
        return f"; write `from . import {error.name}` for a file beside {FAMILY_FILE}"
    return ""
