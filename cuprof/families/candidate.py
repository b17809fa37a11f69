"""Add variants from a foreign file to a family, in memory: the project stays unchanged.

A Python file runs as if it were beside family.py: the name `family` is defined, and `from .steps import total` reaches
the family's files. A source (.cu, .cl) replaces the source of one of the family's variants. A solution in JSON adds
itself to the family of its definition. Sources and solutions run nothing here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.model import Family, Variant
from cuprof.families.origin import FAMILY_FILE, module_name, run_module
from cuprof.families.trace import blame
from cuprof.families.validation import check_family

LANGUAGES = {".cu": "cuda", ".cl": "opencl"}
"""Suffix of a source → the back end that compiles it."""
PYTHON, SOLUTION = ".py", ".json"
LONGEST_NAME, STEM = 100, 80
"""Characters of a variant's name, and of that which a source's file gives it, ahead of what may be put behind."""


@dataclass(frozen=True)
class Extension:
    """A file and its role.

    Args:
        file: a Python file's name in the copy of the family's folder (see `copy_family`); the absolute path of a source
            or a solution.
        beside: the file's original folder, searched first for sources that a Python file names.
        like: the variant whose source a source replaces; empty otherwise.
        only: the one variant to take from a Python file; empty takes all.
    """

    file: str
    beside: Path
    like: str = ""
    only: str = ""


def copy_family(
    folder: Path, into: Path, file: Path, text: bytes, without: Collection[str] = ()
) -> tuple[Path, Extension]:
    """Copy a family's folder with a Python file beside its family.py; return the copy and the file's extension.

    The file is not read again, so that what runs is `text`, whatever has become of it since.
    The text of the file's functions is then part of their identity, as is that of the family's own functions.

    Args:
        without: files that are not copied, by their real paths.
    """
    copy, unneeded = into / folder.name, shutil.ignore_patterns("__pycache__", ".*")

    def leave_out(place: str, names: list[str]) -> set[str]:
        return unneeded(place, names) | {name for name in names if os.path.realpath(Path(place, name)) in without}

    shutil.copytree(folder, copy, ignore=leave_out)
    name = file.name
    while (copy / name).exists():
        name = f"candidate_{name}"
    (copy / name).write_bytes(text)
    return copy, Extension(name, file.parent.resolve())


def extend(family: Family, extension: Extension) -> tuple[str, ...]:
    """Add a file's variants to a family; return their names.

    A name that the family has already gets "_candidate" at its end. The family's own variants stay as they are.

    Raises:
        FamilyError: the file cannot be run, adds no variant, or adds one that is not valid or makes rules of its own.
    """
    if extension.like:
        name = re.sub(r"[^A-Za-z0-9_+-]", "_", Path(extension.file).stem).lstrip("_+-")[:STEM] or "candidate"
        own = {"description": "", "origin": "", "expected": "right", "tolerance": None}
        added = [replace(family.variant(extension.like), name=name, source=extension.file, **own)]  # type: ignore[arg-type]
    elif extension.file.endswith(SOLUTION):
        if family.add_solution is None:
            raise FamilyError(f"family {family.name} has no definition; a solution in JSON belongs to a definition")
        added = [family.add_solution(Path(extension.file))]
    else:
        added = _register(family, extension)
    chosen: dict[str, Variant] = {}
    for variant in added:
        name = f"{variant.name}_candidate" if variant.name in family.variants else variant.name
        if len(name) > LONGEST_NAME:
            raise FamilyError(f"variant {name[:STEM]}… has a name of {len(name)} letters; at most {LONGEST_NAME}")
        if variant.tolerance is not None or variant.expected != "right":
            what = "a tolerance" if variant.tolerance is not None else 'expected="wrong"'
            raise FamilyError(f"variant {name} states {what} of its own; the family's rules hold for it")
        if extension.only in ("", name):
            chosen[name] = replace(variant, name=name)
    check_family(replace(family, variants=chosen, baseline=""), Path(extension.file).name)
    family.variants.update(chosen)
    return tuple(chosen)


def _register(family: Family, extension: Extension) -> list[Variant]:
    """Run a Python file; return the variants it registered, and undo its changes to the family's own variants."""
    assert family.folder is not None  # `copy_family` made it
    own, offered = dict(family.variants), replace(family, variants={})
    file, beside = family.folder / extension.file, extension.beside
    stem = file.stem.replace(".", "-")  # a dot would name a package that is not there
    name = f"{module_name(family.folder / FAMILY_FILE)}.{stem}"
    try:
        run_module(name, file, family=offered)
    except (Exception, SystemExit) as error:
        raise FamilyError(blame(error, family.folder, file.name) + _explain_import(error, beside)) from error
    finally:
        registered = {key: variant for key, variant in family.variants.items() if own.get(key) is not variant}
        family.variants.clear()
        family.variants.update(own)
    added = [*{**registered, **offered.variants}.values()]
    if not added:
        raise FamilyError(f"{extension.file} adds no variant; register one with @family.cuda, @family.cpu, …")
    return [
        replace(one, source=str(beside / one.source)) if one.source and (beside / one.source).is_file() else one
        for one in added
    ]


def _explain_import(error: BaseException, beside: Path) -> str:
    """Return why a Python file that lies beside the candidate is not found; empty for other errors."""
    if isinstance(error, ImportError):
        for name in ((error.name or "").rpartition(".")[2], getattr(error, "name_from", None)):
            if name and (beside / f"{name}{PYTHON}").is_file():
                return f"; Python files beside a candidate are not read: put what it needs of {name}{PYTHON} into it"
    return ""
