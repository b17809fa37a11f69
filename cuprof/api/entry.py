"""`cuprof.compare`: in a script or a notebook it runs a comparison; in a file that is swept it defines it."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuprof.api.capture import Capture
from cuprof.api.comparison import Comparison, Defined
from cuprof.api.computation import Computation, with_names
from cuprof.api.kernels import Kernel, kernel
from cuprof.core.errors import FamilyError, UnknownNameError, UsageError
from cuprof.core.point import Coordinate
from cuprof.core.processes import MARK
from cuprof.core.project import Project, find_project
from cuprof.families import Family, Verdict
from cuprof.families.loader import FAMILY_FILE, PREFIX, family_name
from cuprof.families.model import as_names
from cuprof.families.validation import NAME


def compare(
    *variants: Callable[..., Any] | Kernel,
    inputs: Any,
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

        def inputs(rng, n=2**20):                       # a parameter with a default is a problem axis
            return rng.random(n, np.float32), rng.random(n, np.float32)

        cuprof.compare(np.add, mine, inputs=inputs, n=(2**16, 2**20))

    The same call in FILE.py is what `cuprof sweep FILE.py` runs; there it only defines the comparison.

    Args:
        *variants: functions that take the inputs in their order, or what `cuprof.kernel` gives.
        inputs: returns fresh inputs, arrays of one library (NumPy, CuPy, PyTorch) and numbers, in a tuple or by name;
            a parameter `rng` is given a seeded generator. Or the inputs themselves, once: their floating-point arrays
            are then permuted for each set that executions are given, whole numbers stay.
        reference: computes what is right from the same inputs in float64; the first function's results without it.
        outputs: names of the arguments that results are written to; without it, functions return them.
        in_place: names of the arguments that are worked on in place; each execution finds what `inputs` gave.
        any_order: results whose rows may come in any order; those of a tuple of names stay together.
        at_most: results of which the reference, and the variants, may give fewer rows than `outputs` have room for; of
            inputs and of results that are returned, name → rows at most, a number or an axis.
        verify: judges results, which it takes by name beside inputs and axes (`y_before` is what `y` held): None or
            True where they are right, else False, the reason, or what a test came to (`cuprof.Chance`). Where there
            is no reference it judges alone.
        error_rate: how often such tests may call a right variant wrong.
        tolerance: a relative bound, (relative, absolute), or a function (problem, inputs, expected) -> Tolerance; a
            dict has one for each result; by each result's type without it.
        flops: takes the axes; operations of one execution.
        useful_bytes: takes the axes; bytes that any implementation moves, by which a time is known to be impossible.
            Without it inputs, results and what is worked on in place count, the last once more for being read.
        files: what the implementations read beside their own text; a change of them makes what is stored stale.
        name: of the comparison; made of the implementations' without it.
        settings: as for `cuprof sweep`: ["measure=quick", "device.cuda=1"].
        **axes: problem axis → a value or several.

    Returns:
        A `Comparison`: its rows, verdicts and report; a notebook shows its table.

    Raises:
        CuprofError: the comparison cannot be made; one line says why.
    """
    if not variants:
        raise UsageError("name at least one implementation: cuprof.compare(f, g, inputs=…)")
    functions = {"reference": reference, "verify": verify, "flops": flops, "useful_bytes": useful_bytes}
    for what, function in functions.items():
        if function is not None and not callable(function):
            raise UsageError(f"{what} is of type {type(function).__name__}; give the function itself")
    if not isinstance(name, str) or (name and not NAME.fullmatch(name)):
        raise UsageError(f"name is {name!r}; make it of letters a-z and A-Z, digits and _.+-")
    kernels = [one if isinstance(one, Kernel) else kernel(one) for one in variants]
    given = {
        "inputs": inputs,
        "reference": reference,
        "outputs": as_names(outputs),
        "in_place": as_names(in_place),
        "any_order": as_names(any_order),
        "at_most": dict(at_most if isinstance(at_most, Mapping) else dict.fromkeys(as_names(at_most))),
        "verify": verify,
        "error_rate": error_rate,
        "tolerance": tolerance,
        "flops": flops,
        "useful_bytes": useful_bytes,
        "files": as_names(files),
    }
    asked = {axis: _values(axis, value) for axis, value in axes.items()}
    caller = sys._getframe(1).f_globals
    loaded_as = str(caller.get("__name__", ""))
    if loaded_as.startswith(PREFIX):
        if isinstance(caller.get("family"), Family):
            raise FamilyError("this file makes two comparisons; one that is swept makes one, in a file of its own")
        place = Path(caller["__file__"])
        place = place.parent if place.name == FAMILY_FILE else place
        family = Computation(name or family_name(place.name), kernels, place, **given).make_family()
        known = [axis.name for axis in family.axes]
        for axis in asked:
            if axis not in known:
                raise UnknownNameError("argument or problem axis", axis, [*known, *_WORDS], f"of family {family.name}")
        tune = {tunable.name: ("all",) for one in kernels for tunable in one.list_tunables()}
        caller["family"] = replace(family, usual={"problem": asked, "tune": tune})
        return Defined()
    if MARK in os.environ:  # a worker that imports a module which compares something of its own
        return Defined()
    project = find_project()
    return _run(_capture(kernels, given, asked, name, project), as_names(settings), project)


def _capture(
    kernels: Sequence[Kernel], given: dict[str, Any], asked: dict[str, Any], name: str, project: Project
) -> Path:
    """Write the call with all that it stands for into a file of the project's; return its path."""
    capture = Capture()
    words = [capture.express(one, f"variant_{number}") for number, one in enumerate(kernels)]
    for key, value in (given | asked).items():
        empty = value is None or (isinstance(value, tuple | dict) and not value)
        if not empty and not (key == "error_rate" and value == Family.error_rate):
            words.append(f"{key}={capture.express(value, key)}")
    if capture.files:
        words.append(f"files={tuple(capture.files)!r}")
    chosen = name or "_vs_".join(one.name for one in with_names(kernels))[:80]
    try:
        return capture.write(project.made_families, chosen, f"cuprof.compare({', '.join(words)})")
    except OSError as error:
        place = project.made_families
        raise UsageError(f"{place} cannot be written ({error.strerror}); call it where files can be made") from None


def _run(file: Path, settings: Sequence[str], project: Project) -> Comparison:
    """Sweep a file that was written, and read what is stored of it."""
    from cuprof.cli import hydra_app
    from cuprof.cli.hydra_arguments import quoted
    from cuprof.cli.progress import make_observer
    from cuprof.engine.sweep import run_sweep
    from cuprof.report.load import load_study
    from cuprof.store import Store

    config = hydra_app.compose([f"family={quoted(str(file))}", *settings], project)
    with make_observer() as observer:
        result = run_sweep(config, project, observer)
    with Store.open(config.store.url or project.database_url, create=False, read_only=True) as store:
        study = load_study(store, sweep_id=result.sweep_id, folders=project.experiment_folders)
    return Comparison(study, project, config.report.folder(project))


def _values(axis: str, given: Any) -> tuple[Coordinate, ...]:
    values = tuple(given) if isinstance(given, list | tuple | range) else (given,)
    if not values or not all(isinstance(value, int | str) for value in values):
        near = difflib.get_close_matches(axis, _WORDS, n=1)
        hint = f"; did you mean {near[0]}=?" if near else ""
        raise UsageError(
            f"{axis} is {given!r}; a problem axis takes whole numbers and names, one or a list of them{hint}"
        )
    return values


_WORDS = [name for name, one in inspect.signature(compare).parameters.items() if one.kind is one.KEYWORD_ONLY]
