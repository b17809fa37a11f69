"""Check that a family is complete and consistent before anything is planned with it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.core.point import Coordinate, Point
from cuprof.families.model import Axis, Family, Tunable, Variant
from cuprof.families.toolchain import COMPILERS

RESERVED = frozenset(name for name in dir(Point) if not name.startswith("_")) | {"preset"}
"""Names that no axis or tunable may have: `problem.items` is a method, and `problem.preset` chooses presets."""

COMPILED = " (compiled)"
"""The suffix for the name of what `torch.compile`, `jax.jit` or Numba made of a function that is there too."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
"""The names that families, presets and variants may have."""


def check_family(family: Family) -> None:
    """Raise `FamilyError` with the first fault of a family whose `folder` is set."""
    for problem in _list_faults(family):
        raise FamilyError(f"{family.path or family.folder or family.name}: {problem}")


def _list_faults(family: Family) -> Iterable[str]:
    folder = family.folder
    alone = family.path is not None and family.path.is_file()
    if folder is not None and not alone and family.name != folder.name:
        yield f"the family is named {family.name!r} but its folder {folder.name!r}; give both one name"
    if not NAME.fullmatch(family.name):
        yield f"family name {family.name!r} is not made of letters a-z and A-Z, digits and _.+-; give another name"
    for part in ("signature", "generate", "reference", "tolerance", "useful_bytes"):
        function: object = getattr(family, part)
        if not callable(function):
            yield f"{part} is not a function"
    for part in ("constants", "in_place", "any_order", "at_most"):
        names: Any = getattr(family, part)
        if isinstance(names, str):
            yield f'{part} is the text {names!r}, and must be a tuple of names: ("{names}",)'
    verify: object = family.verify
    if verify is not None and not callable(verify):
        yield "verify is not a function (problem, inputs, outputs, reference)"
    if not 0 < family.error_rate < 1:
        yield f"error_rate is {family.error_rate!r}, and must lie between 0 and 1"
    if fault := _lacks_comma("axes", family.axes, Axis):
        yield fault
        return
    yield from _axis_faults(family)
    yield from _preset_faults(family)
    if not family.variants:
        yield "the family has no variants; register one with @family.cuda, @family.cpu, …"
    if family.baseline and family.baseline not in family.variants:
        yield f"baseline {family.baseline!r} is no variant; there are {', '.join(family.variants)}"
    axes = {axis.name for axis in family.axes}
    for variant in family.variants.values():
        for fault in _variant_faults(variant, axes, folder):
            yield f"variant {variant.name}: {fault}"


def _lacks_comma(what: str, given: object, kind: type) -> str:
    """Return the fault of something that should be a tuple of a kind, or an empty text."""
    name = kind.__name__
    if isinstance(given, kind):
        return f"{what} is one {name}; write {what}=({name}(...),) with a comma"
    if not isinstance(given, tuple | list) or not all(isinstance(one, kind) for one in given):
        return f"{what} is {given!r}; it takes a tuple: {what}=({name}(...), {name}(...))"
    return ""


def _axis_faults(family: Family) -> Iterable[str]:
    if not family.axes:
        yield "the family has no axes; a family has at least one problem axis"
    yield from _duplicates("problem axis", (axis.name for axis in family.axes))
    for axis in family.axes:
        what = f"problem axis {axis.name}"
        yield from _name_faults(what, axis.name)
        if not axis.choices and not axis.is_integer:
            yield f"{what} has a default that is no whole number, so it needs choices"
        elif axis.low is not None and axis.high is not None and axis.low > axis.high:
            yield f"{what} has low {axis.low} above high {axis.high}"
        elif not allows(axis, axis.default):
            yield f"{what} has the default {axis.default!r}, but takes {axis.domain()}"
        yield from _repeated(what, axis.choices)


def _preset_faults(family: Family) -> Iterable[str]:
    axes = {axis.name: axis for axis in family.axes}
    for preset, values in family.presets.items():
        if not NAME.fullmatch(preset):
            yield f"preset name {preset!r} is not made of letters, digits and _.+-"
        for name, value in values.items():
            if name not in axes:
                yield f"preset {preset} sets {name}, which is no problem axis; there are {', '.join(axes)}"
            elif not allows(axes[name], value):
                yield f"preset {preset} sets {name} = {value!r}, but {name} takes {axes[name].domain()}"


def _variant_faults(variant: Variant, axes: set[str], folder: Path | None) -> Iterable[str]:
    if not NAME.fullmatch(variant.name.removesuffix(COMPILED)) or variant.name == "all":
        yield "a variant's name is made of letters, digits and _.+- and is not all"
    make: object = variant.make
    tolerance: object = variant.tolerance
    if not callable(make):
        yield "what it registers is not a function"
    if tolerance is not None and not callable(tolerance):
        yield "its tolerance is not a function (problem, inputs, reference) -> Tolerance"
    if variant.kind == "kernel":
        if not (variant.source or variant.text):
            yield "a kernel variant needs source=, the name of a file beside family.py"
        elif variant.source and not variant.text and folder is not None and not (folder / variant.source).is_file():
            near = sorted(file.name for file in folder.iterdir() if file.suffix == Path(variant.source).suffix)
            yield f"source {variant.source} does not exist; beside family.py there are {', '.join(near) or 'none'}"
    if variant.compiler and variant.compiler not in COMPILERS:
        yield f"compiler {variant.compiler!r} is not known; there are {', '.join(COMPILERS)}"
    if variant.expected not in ("right", "wrong"):
        yield f'expected is {variant.expected!r}, and must be "right" or "wrong"'
    if fault := _lacks_comma("tunables", variant.tunables, Tunable):
        yield fault
        return
    yield from _duplicates("tunable", (tunable.name for tunable in variant.tunables))
    for tunable in variant.tunables:
        yield from _tunable_faults(tunable, axes)


def _tunable_faults(tunable: Tunable, axes: set[str]) -> Iterable[str]:
    what = f"tunable {tunable.name}"
    yield from _name_faults(what, tunable.name)
    if tunable.name in axes:
        yield f"{what} has the name of a problem axis; rename one of them"
    if not tunable.values:
        yield f"{what} has no values"
    elif not any(_same(tunable.default, value) for value in tunable.values):
        yield f"{what} has the default {tunable.default!r}, which is not among {_listing(tunable.values)}"
    yield from _repeated(what, tunable.values)


def allows(axis: Axis, value: Coordinate) -> bool:
    """Return whether a value of a family.py is on an axis; 1, 1.0 and True are three different values there."""
    return any(_same(value, choice) for choice in axis.choices) if axis.choices else axis.allows(value)


def _name_faults(what: str, name: str) -> Iterable[str]:
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        yield f"{what} needs a name that can be read as problem.name: letters, digits and _, not beginning with _"
    elif name in RESERVED:
        yield f"{what} cannot have that name; reserved are {', '.join(sorted(RESERVED))}"


def _duplicates(what: str, names: Iterable[str]) -> Iterable[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"{what} {name} is declared twice"
        seen.add(name)


def _repeated(what: str, values: tuple[Coordinate, ...]) -> Iterable[str]:
    if len(set(values)) != len(values):
        yield f"{what} lists a value twice: {_listing(values)}"


def _same(one: Coordinate, other: Coordinate) -> bool:
    return type(one) is type(other) and one == other


def _listing(values: tuple[Coordinate, ...]) -> str:
    return ", ".join(map(str, values))
