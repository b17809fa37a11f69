"""Check that a family is complete and consistent before anything is planned with it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuprof.core.errors import FamilyError
from cuprof.core.point import Coordinate, Point
from cuprof.families.model import Axis, Family, Tunable, Variant, is_among
from cuprof.families.toolchain import COMPILERS

RESERVED = frozenset(name for name in dir(Point) if not name.startswith("_")) | {"preset"}
"""Names that no axis or tunable may have: `problem.items` is a method, and `problem.preset` chooses presets."""

COMPILED = " (compiled)"
"""The suffix for the name of what `torch.compile`, `jax.jit` or Numba made of a function that is there too."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
"""The names that families, presets and variants may have."""


def check_family(family: Family, file: str = "") -> None:
    """Raise `FamilyError` with the first fault of a family whose `folder` is set.

    Args:
        file: the error names it in place of the family's own.
    """
    for fault in _list_faults(family):
        raise FamilyError(f"{file or family.path or family.folder or family.name}: {fault}")


def _list_faults(family: Family) -> Iterator[str]:
    folder = family.folder
    is_file = family.path is not None and family.path.is_file()
    if folder is not None and not is_file and family.name != folder.name:
        yield f"the family is named {family.name!r} but its folder {folder.name!r}; give both one name"
    if not NAME.fullmatch(family.name):
        yield f"family name {family.name!r} is not made of letters a-z and A-Z, digits and _.+-; give another name"
    for part in ("signature", "generate", "reference", "tolerance", "useful_bytes", "verify"):
        if not callable(getattr(family, part)) and (part, family.verify) != ("verify", None):
            yield f"{part} is not a function{' (problem, inputs, outputs, reference)' if part == 'verify' else ''}"
    for part in ("constants", "in_place", "any_order", "at_most"):
        names: Any = getattr(family, part)
        if isinstance(names, str):
            yield f'{part} is the text {names!r}, and must be a tuple of names: ("{names}",)'
    if not 0 < family.error_rate < 1:
        yield f"error_rate is {family.error_rate!r}, and must lie between 0 and 1"
    yield from _name_faults("axes", "problem axis", family.axes, Axis)
    axes = {axis.name: axis for axis in family.axes}
    if not axes:
        yield "the family has no axes; a family has at least one problem axis"
    for axis in family.axes:
        yield from (f"problem axis {axis.name} {fault}" for fault in _axis_faults(axis))
    yield from _preset_faults(family.presets, axes)
    if not family.variants:
        yield "the family has no variants; register one with @family.cuda, @family.cpu, …"
    if family.baseline and family.baseline not in family.variants:
        yield f"baseline {family.baseline!r} is no variant; there are {', '.join(family.variants)}"
    for variant in family.variants.values():
        yield from (f"variant {variant.name}: {fault}" for fault in _variant_faults(variant, {*axes}, folder))


def _name_faults(part: str, what: str, given: Any, kind: type) -> Iterator[str]:
    """Yield the faults of something that should be a tuple of a kind, and of the names in it."""
    name = kind.__name__
    if isinstance(given, kind):
        yield f"{part} is one {name}; write {part}=({name}(...),) with a comma"
    elif not isinstance(given, tuple | list) or not all(isinstance(one, kind) for one in given):
        yield f"{part} is {given!r}; it takes a tuple: {part}=({name}(...), {name}(...))"
    names = [one.name for one in given]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield f"{what} {name} is declared twice"
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            need = "needs a name that can be read as problem.name: letters, digits and _, not beginning with _"
            yield f"{what} {name} {need}"
        elif name in RESERVED:
            yield f"{what} {name} cannot have that name; reserved are {', '.join(sorted(RESERVED))}"


def _axis_faults(axis: Axis) -> Iterator[str]:
    if not axis.choices and not axis.is_integer:
        yield "has a default that is no whole number, so it needs choices"
    elif axis.low is not None and axis.high is not None and axis.low > axis.high:
        yield f"has low {axis.low} above high {axis.high}"
    elif not axis.allows(axis.default):
        yield f"has the default {axis.default!r}, but takes {axis.domain()}"
    yield from _repeated(axis.choices)


def _preset_faults(presets: Mapping[str, Mapping[str, Coordinate]], axes: Mapping[str, Axis]) -> Iterator[str]:
    for preset, values in presets.items():
        if not NAME.fullmatch(preset):
            yield f"preset name {preset!r} is not made of letters, digits and _.+-"
        for name, value in values.items():
            if name not in axes:
                yield f"preset {preset} sets {name}, which is no problem axis; there are {', '.join(axes)}"
            elif not axes[name].allows(value):
                yield f"preset {preset} sets {name} = {value!r}, but {name} takes {axes[name].domain()}"


def _variant_faults(variant: Variant, axes: set[str], folder: Path | None) -> Iterator[str]:
    if not NAME.fullmatch(variant.name.removesuffix(COMPILED)) or variant.name == "all":
        yield "a variant's name is made of letters, digits and _.+- and is not all"
    given: Mapping[str, object] = vars(variant)
    if not callable(given["make"]):
        yield "what it registers is not a function"
    if given["tolerance"] is not None and not callable(given["tolerance"]):
        yield "its tolerance is not a function (problem, inputs, reference) -> Tolerance"
    if variant.kind == "kernel" and not variant.text:
        if not variant.source:
            yield "a kernel variant needs source=, the name of a file beside family.py"
        elif folder is not None and not (source := folder / variant.source).is_file():
            near = sorted(file.name for file in source.parent.glob("*") if file.suffix == source.suffix)
            there = ", ".join(near) or f"no {source.suffix or 'such'} file"
            fault = "is no regular file; name another" if source.exists() else f"does not exist; its folder has {there}"
            yield f"source {variant.source} {fault}"
    if variant.compiler and variant.compiler not in COMPILERS:
        yield f"compiler {variant.compiler!r} is not known; there are {', '.join(COMPILERS)}"
    if variant.expected not in ("right", "wrong"):
        yield f'expected is {variant.expected!r}, and must be "right" or "wrong"'
    yield from _name_faults("tunables", "tunable", variant.tunables, Tunable)
    for tunable in variant.tunables:
        yield from (f"tunable {tunable.name} {fault}" for fault in _tunable_faults(tunable, axes))


def _tunable_faults(tunable: Tunable, axes: set[str]) -> Iterator[str]:
    if tunable.name in axes:
        yield "has the name of a problem axis; rename one of them"
    if not tunable.values:
        yield "has no values"
    elif not is_among(tunable.default, tunable.values):
        yield f"has the default {tunable.default!r}, which is not among {', '.join(map(str, tunable.values))}"
    yield from _repeated(tunable.values)


def _repeated(values: Sequence[Coordinate]) -> Iterator[str]:
    if len({*values}) != len(values):
        yield f"lists a value twice: {', '.join(map(str, values))}"
