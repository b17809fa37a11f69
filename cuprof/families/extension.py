"""A file from elsewhere that adds variants to a family, in memory: the project stays as it is.

A Python file is run as if it lay beside family.py: `family` is there by name, `from .steps import total` reaches the
family's files. A source (.cu, .cl) stands in for the source of one of the family's variants and runs nothing here.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.core.errors import FamilyError
from cuprof.families.loader import FAMILY_FILE, module_name
from cuprof.families.model import Family, Variant
from cuprof.families.trace import describe
from cuprof.families.validation import check_family

LANGUAGES = {".cu": "cuda", ".cl": "opencl"}
"""Ending of a source → the back end that compiles it."""
PYTHON = ".py"


@dataclass(frozen=True)
class Extension:
    """Name a file and what it stands for.

    Args:
        file: a Python file's name in the copy of the family's folder (see `copy_family`), or a source's absolute path.
        beside: the folder that the file comes from, in which sources that a Python file names are looked for first.
        like: the variant whose source a source stands in for; empty for Python files.
        only: the one variant that is taken of a Python file; empty takes all.
    """

    file: str
    beside: Path
    like: str = ""
    only: str = ""


def copy_family(folder: Path, into: Path, file: Path) -> tuple[Path, Extension]:
    """Copy a family's folder with a Python file beside its family.py; return the copy and the file's extension.

    What the file's functions do is then part of their identity, as that of the family's own functions is.
    """
    copy = into / folder.name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    name = file.name
    while (copy / name).exists():
        name = f"candidate_{name}"
    shutil.copyfile(file, copy / name)
    return copy, Extension(name, file.parent.resolve())


def extend(family: Family, extension: Extension) -> tuple[str, ...]:
    """Add a file's variants to a family that was loaded from its folder; return their names.

    A name that the family has already gets "_candidate" at its end. What the family has stays as it is.

    Raises:
        FamilyError: the file cannot be run, adds no variant, or adds one that is not valid or makes rules of its own.
    """
    if extension.like:
        added = [_stand_in(family.variant(extension.like), extension)]
    else:
        added = [_find_source(variant, extension) for variant in _register(family, extension)]
        if not added:
            raise FamilyError(f"{extension.file} adds no variant; register one with @family.cuda, @family.cpu, …")
    taken = [
        replace(variant, name=f"{variant.name}_candidate") if variant.name in family.variants else variant
        for variant in added
    ]
    for variant in taken:
        if variant.tolerance is not None or variant.expected != "right":
            what = "a tolerance" if variant.tolerance is not None else 'expected="wrong"'
            raise FamilyError(f"variant {variant.name} states {what} of its own; the family's rules hold for it")
    chosen = [variant for variant in taken if extension.only in ("", variant.name)]
    check_family(replace(family, variants={variant.name: variant for variant in chosen}, baseline=""))
    family.variants.update({variant.name: variant for variant in chosen})
    return tuple(variant.name for variant in chosen)


def _stand_in(like: Variant, extension: Extension) -> Variant:
    file = Path(extension.file)
    name = re.sub(r"[^A-Za-z0-9_+-]", "_", file.stem).lstrip("_+-") or "candidate"
    return replace(like, name=name, source=str(file), description="", origin="", expected="right", tolerance=None)


def _register(family: Family, extension: Extension) -> list[Variant]:
    """Run a Python file; return what it registered, and put back what it did to the family's own variants."""
    if family.folder is None:
        raise ValueError("the family was not loaded from a folder")
    own = dict(family.variants)
    offered = replace(family, variants={})
    package = module_name(family.folder / FAMILY_FILE)
    file = family.folder / extension.file
    name = f"{package}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise FamilyError(f"{file.name} cannot be imported as Python; check its name")
    module = importlib.util.module_from_spec(spec)
    module.family = offered  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise FamilyError(f"{file.name} raised {describe(error)}") from error
    finally:
        registered = {key: variant for key, variant in family.variants.items() if own.get(key) is not variant}
        family.variants.clear()
        family.variants.update(own)
    return [*{**registered, **offered.variants}.values()]


def _find_source(variant: Variant, extension: Extension) -> Variant:
    if variant.source and (extension.beside / variant.source).is_file():
        return replace(variant, source=str(extension.beside / variant.source))
    return variant
