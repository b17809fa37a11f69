"""Read a selection against a family: which variants, which problems, which tunables of each variant."""

from __future__ import annotations

import fnmatch
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuprof.core.errors import SelectionError, UnknownNameError
from cuprof.core.point import Axes, Coordinate, Point
from cuprof.families.model import Family, Variant
from cuprof.plan.axes import ALL, axis_values, tunable_values
from cuprof.plan.model import Exclusion, Selection

MAX_COMBINATIONS = 1_000_000
"""More than any sweep measures; a typing error must not plan for hours."""


def points_of(axes: Axes) -> Iterator[Point]:
    """Yield the combinations of the values, the last axis varying fastest."""
    names = tuple(axes)
    for combination in itertools.product(*axes.values()):
        yield Point(zip(names, combination, strict=True))


@dataclass(frozen=True)
class Choice:
    """A selection read against a family, before constraints.

    Args:
        problems: the points, each with the name of its first preset ("" for none).
        tunables: chosen variant → the grid of its tunables, both in the order of the family.
        excluded: requested tunable values that a variant does not allow.
        notes: what was given and is not used.
    """

    problems: Mapping[Point, str]
    tunables: Mapping[str, Axes]
    excluded: tuple[Exclusion, ...]
    notes: tuple[str, ...] = ()


def read_selection(family: Family, selection: Selection) -> Choice:
    """Return what a selection chooses from a family.

    Raises:
        UnknownNameError: a variant, axis, preset or tunable that does not exist.
        SelectionError: a value that is not allowed, or more than `MAX_COMBINATIONS` combinations.
    """
    variants = select_variants(family, selection.variants)
    axes, notes = _problem_axes(family, selection)
    grids, excluded = _tunable_axes(variants, selection, family)
    problems = sum(math.prod(map(len, values.values())) for _, values in axes)
    count = problems * sum(math.prod(map(len, grid.values())) for grid in grids.values())
    if count > MAX_COMBINATIONS:
        raise SelectionError(
            f"the selection has {count:,} combinations, and at most {MAX_COMBINATIONS:,} are planned at once; narrow it"
        )
    points: dict[Point, str] = {}
    for preset, values in axes:
        for point in points_of(values):
            points.setdefault(point, preset)
    return Choice(points, grids, excluded, tuple(notes))


def select_variants(family: Family, wanted: Sequence[str]) -> tuple[Variant, ...]:
    """Return the variants that names, patterns, kinds, back ends or "all" choose, in the order of the family.

    A leading "!" excludes what the word would choose; if every word excludes, all other variants are chosen.

    Raises:
        UnknownNameError: a word that chooses nothing.
        SelectionError: nothing is left after the exclusions.
    """
    found = {word: _matching(family, word.removeprefix("!")) for word in wanted}
    for word, names in found.items():
        if not names:
            known = [*family.variants, ALL]
            raise UnknownNameError("variant", word.removeprefix("!"), known, f"of family {family.name}")
    included = [found[word] for word in wanted if not word.startswith("!")] or [set(family.variants)]
    chosen = set().union(*included).difference(*(found[word] for word in wanted if word.startswith("!")))
    if not chosen:
        raise SelectionError(f"variants={','.join(wanted)} leaves no variant of family {family.name}")
    return tuple(variant for name, variant in family.variants.items() if name in chosen)


def _matching(family: Family, word: str) -> set[str]:
    if word in family.variants:
        return {word}
    if word == ALL:
        return set(family.variants)
    if any(sign in word for sign in "*?["):
        return {name for name in family.variants if fnmatch.fnmatchcase(name, word)}
    return {variant.name for variant in family.variants.values() if word in (variant.kind, variant.backend)}


def _problem_axes(family: Family, selection: Selection) -> tuple[Sequence[tuple[str, Axes]], list[str]]:
    """Return the values by axis for each preset (without presets for the name ""), and notes."""
    given = {name: axis_values(family.axis(name), values) for name, values in selection.problem.items()}
    for preset in selection.presets:
        if preset not in family.presets:
            raise UnknownNameError("preset", preset, family.presets, f"of family {family.name}")
    usual = {axis.name: (axis.default,) for axis in family.axes}
    presets = selection.presets or ("",)
    fixed = [{name: (value,) for name, value in family.presets.get(preset, {}).items()} for preset in presets]
    found = [(preset, {**usual, **given, **values}) for preset, values in zip(presets, fixed, strict=True)]
    unused = [name for name in given if all(name in values for values in fixed)]
    return found, [f"problem.{name} is not used: every preset chosen fixes it" for name in unused]


def _tunable_axes(
    variants: Sequence[Variant], selection: Selection, family: Family
) -> tuple[Mapping[str, Axes], tuple[Exclusion, ...]]:
    """Return each variant's values by tunable, and the requested values that it does not allow."""
    grids: dict[str, dict[str, tuple[Coordinate, ...]]] = {
        variant.name: {tunable.name: (tunable.default,) for tunable in variant.tunables} for variant in variants
    }
    excluded: list[Exclusion] = []
    for name, given in selection.tune.items():
        if not any(variant.tunable(name) for variant in variants):
            if name in selection.optional and any(variant.tunable(name) for variant in family.variants.values()):
                continue
            raise _unknown_tunable(name, variants, family)
        for variant, (taken, refused) in tunable_values(name, given, variants).items():
            grids[variant][name] = taken
            if refused:
                reason = f"{name} = {', '.join(map(str, refused))} is not among the values it allows"
                excluded.append(Exclusion(f"{family.name}/{variant}", reason))
    return grids, tuple(excluded)


def _unknown_tunable(name: str, variants: Sequence[Variant], family: Family) -> UnknownNameError:
    elsewhere = [variant.name for variant in family.variants.values() if variant.tunable(name)]
    known = {tunable.name for variant in variants for tunable in variant.tunables}
    chosen = ", ".join(variant.name for variant in variants[:4]) + (" …" if len(variants) > 4 else "")
    where = f"of variant {chosen}" if len(variants) == 1 else f"of variants {chosen}"
    if elsewhere:
        where += f" (variant {elsewhere[0]} has it)"
    return UnknownNameError("tunable", name, known, where)
