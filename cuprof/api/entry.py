"""`cuprof.compare`: in a script or a notebook it runs a comparison; in a file that is swept it defines one."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuprof.api.snapshot import find_script, take_snapshot
from cuprof.core.errors import UnknownNameError, UsageError
from cuprof.core.point import Axes, Coordinate
from cuprof.core.processes import MARK
from cuprof.core.project import find_project
from cuprof.core.scratch import ScratchFolder
from cuprof.engine.launch import prestart
from cuprof.families import Family, Verdict
from cuprof.families.calling import list_axes, with_names
from cuprof.families.computation import Computation
from cuprof.families.kernel import Kernel, kernel
from cuprof.families.model import as_names
from cuprof.families.origin import family_name, loading
from cuprof.families.validation import NAME, check_family

LIBRARIES = ("torch", "triton", "cupy", "jax", "numba")
"""Libraries that take seconds to import. The worker imports those of a script while the script's process plans."""


def compare(
    *variants: Callable[..., Any] | Kernel,
    inputs: Any = None,
    reference: Callable[..., Any] | None = None,
    outputs: str | Sequence[str] = (),
    in_place: str | Sequence[str] = (),
    any_order: str | Sequence[str | tuple[str, ...]] = (),
    at_most: str | Sequence[str] | Mapping[str, int | str] = (),
    verify: Callable[..., Verdict] | None = None,
    error_rate: float = Family.error_rate,
    tolerance: Any = None,
    flops: Callable[..., int] | None = None,
    useful_bytes: Callable[..., int] | None = None,
    files: str | Sequence[str] = (),
    name: str = "",
    settings: Sequence[str] = (),
    **axes: Any,
) -> Any:
    """Check, time and compare implementations of one computation; the first is what the others are compared with.

    The same call in FILE.py is what `cuprof sweep FILE.py` runs; there it only defines the comparison.

    Example:
        A parameter of `inputs` with a default is a problem axis::

            def inputs(rng, n=2**20):
                return rng.random(n, np.float32), rng.random(n, np.float32)

            cuprof.compare(np.add, mine, inputs=inputs, n=(2**16, 2**20))

    Args:
        *variants: functions that take the inputs in their order, or what `cuprof.kernel` gives. PyTorch modules, what
            `torch.compile` returns, methods and callable objects are functions, too.
        inputs: returns fresh inputs, arrays of one library (NumPy, CuPy, PyTorch, JAX) and numbers, in a tuple or by
            name; a parameter `rng` is given a seeded generator. Or the inputs themselves, once: their floating-point
            arrays are then permuted for each set that executions are given, whole numbers stay.
        reference: computes what is right from the same inputs in float64; without it, the first function says it.
        outputs: names of the arguments that results are written to; without it, functions return them.
        in_place: names of the arguments that are worked on in place; each execution finds what `inputs` gave.
        any_order: results whose rows may come in any order; those of a tuple of names stay together.
        at_most: results that may have fewer rows than `outputs` have room for, in the reference and in the variants;
            of inputs and of results that are returned, name → rows at most, a number or an axis.
        verify: judges results, which it takes by name beside inputs and axes (`y_before` is what `y` held): None or
            True where they are right, else False, the reason, or the outcome of a test (`cuprof.Chance`). Where there
            is no reference it judges alone.
        error_rate: how often such tests may call a right variant wrong.
        tolerance: a bound relative to the value and to the mean one, (relative, absolute), or a function (problem,
            inputs, expected) -> Tolerance; a dict has one for each result. By default each result's type sets it.
        flops: takes the axes; operations of one execution.
        useful_bytes: takes the axes; bytes that any implementation moves, by which a time is known to be impossible.
            Without it inputs, results and what is worked on in place count, the last once more for being read.
        files: what the implementations read beside their own text; a change of them makes stored results stale.
        name: of the comparison; by default the script's, in a notebook made of the implementations'.
        settings: as for `cuprof sweep`: ["measure=quick", "device.cuda=1"].
        **axes: problem axis → a value or several.

    Returns:
        A `Comparison`: its rows, verdicts and report; a notebook shows its table.

    Raises:
        CuprofError: the comparison cannot be made; one line says why.
    """
    given: dict[str, Any] = locals()
    given = {what: one for what, one in given.items() if what not in ("variants", "name", "settings", "axes")}
    if not variants:
        raise UsageError("name at least one implementation: cuprof.compare(f, g, inputs=…)")
    if inputs is None:
        near = difflib.get_close_matches("inputs", axes, n=1)
        raise UsageError(
            f"give inputs=, a function that returns them{f'; it is written {near[0]}= here' if near else ''}"
        )
    for what in ("reference", "verify", "flops", "useful_bytes"):
        if given[what] is not None and not callable(given[what]):
            raise UsageError(f"{what} is of type {type(given[what]).__name__}; give the function itself")
    if not isinstance(name, str) or (name and not NAME.fullmatch(name)):
        raise UsageError(f"name is {name!r}; make it of letters a-z and A-Z, digits and _.+-")
    kernels = [one if isinstance(one, Kernel) else kernel()(one) for one in variants]
    given |= {what: as_names(what, given[what]) for what in ("outputs", "in_place", "any_order", "files")}
    given["at_most"] = dict(at_most if isinstance(at_most, Mapping) else dict.fromkeys(as_names("at_most", at_most)))
    asked = {axis: _values(axis, value) for axis, value in axes.items()}
    if loaded := loading.get():
        place, families = loaded
        families.append(define(kernels, name, place, given, asked))
        return Defined()
    if MARK in os.environ:  # a worker that imports a module which compares something of its own
        return Defined()
    prestart(modules=[library for library in LIBRARIES if library in sys.modules])
    with ScratchFolder() as scratch:
        joined = re.sub(r"[^A-Za-z0-9_.+-]+", "_", "_vs_".join(one.name for one in with_names(kernels)))
        place = find_script() or Path(scratch, name or joined[:80].rstrip("_.+-"))
        if not place.exists():  # a new folder stands for a notebook, named as the comparison is
            place.mkdir()
        family = define([_with_absolute_paths(one) for one in kernels], name, place, given, asked)
        from cuprof.api.result import run  # late: a wrong argument is told at once

        return run(take_snapshot(family, Path(scratch)), as_names("settings", settings), find_project())


class Defined:
    """Stand for a comparison in a file that is loaded to be swept: whatever the file does with it does nothing.

    What the file reads of it, and computes from that, is the same object. It prints as the empty text and has no
    items, and every comparison of it is true, so that a script's assertions about its results pass.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy and others ask for protocols by such names
            raise AttributeError(name)
        return self

    def _itself(self, *arguments: Any, **named: Any) -> Any:
        return self

    def _true(self, other: object) -> bool:
        return True

    __call__ = __getitem__ = _itself
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __round__ = _itself
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _true
    __eq__ = __ne__ = _true
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __float__(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return ""

    def __format__(self, specification: str) -> str:
        return ""


def define(kernels: Sequence[Kernel], name: str, place: Path, given: Mapping[str, Any], asked: Axes) -> Family:
    """Return the family of a call, which lies in a folder or is a script."""
    own_name = family_name(place) if place.suffix == ".py" else place.name
    known = [axis.name for axis in list_axes(given["inputs"])]
    for axis in asked:  # first: a misspelt outputs= is not a missing one
        if axis not in known:
            raise UnknownNameError("argument or problem axis", axis, [*known, *_WORDS], f"of family {name or own_name}")
    family = Computation(name or own_name, kernels, place, **given).make_family()
    family.usual = {**family.usual, "problem": asked}
    family.folder, family.path = (place, None) if place.is_dir() else (place.parent, place)
    check_family(family)
    return family


def _with_absolute_paths(one: Kernel) -> Kernel:
    """Return an implementation whose files are found from anywhere: a script names them from the current folder."""
    source = str(Path(one.source).absolute()) if one.source and not one.is_text else one.source
    return replace(one, source=source, files=tuple(str(Path(file).absolute()) for file in one.files))


def _values(axis: str, given: Any) -> tuple[Coordinate, ...]:
    values = tuple(given) if isinstance(given, list | tuple | range) else (given,)
    if not values or not all(isinstance(value, int | str) for value in values):
        near = difflib.get_close_matches(axis, _WORDS, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        if values and isinstance(values[0], Mapping):
            hint = "; give each axis by its name: rows=[64, 128], columns=1000"
        raise UsageError(
            f"{axis} is {given!r}; a problem axis takes whole numbers and names, one or a list of them{hint}"
        )
    return values


_WORDS = [name for name, one in inspect.signature(compare).parameters.items() if one.kind is one.KEYWORD_ONLY]
