"""One problem with its inputs and what is right for them, as a family's functions make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from cuprof.backends.contract import InputSet
from cuprof.backends.host_memory import available_bytes
from cuprof.backends.sealed import Sealed
from cuprof.errors import FamilyError
from cuprof.family import Arrays, Family, Signature, Tolerance
from cuprof.family.trace import blame
from cuprof.point import Point
from cuprof.worker.check import check_tolerance
from cuprof.worker.messages import Job

COMPARED_SETS, UNSEEN_SETS = 2, 1
"""Sets of inputs whose results are compared: a variant that has its results from the first one is wrong every other
time. And sets that are compared with nothing, on which a variant shows whether it remembers those that it has met."""
MEMORY_SHARE = 16
"""Further sets are drawn while they come to no more than one part in so many of the host's free memory."""
LARGE_BYTES = 32 << 20
"""Further sets that are as large are drawn side by side."""
MOST_S = 10.0
"""And where the first took no longer than this."""


@dataclass(frozen=True)
class Workload:
    """One problem with several sets of inputs of one kind, and what is right for them.

    Args:
        sets: the first is what variants are checked on; timed executions are given one of those with a reference, and
            one without, at the end, is for telling whether a variant remembers what it has met. The family's
            constants are the same in all of them.
        tolerances: of each set; None for those without a reference.
        redraw: returns the inputs of the set of a number, of which there is no end.
    """

    family: Family
    signature: Signature
    sets: tuple[InputSet, ...]
    tolerances: tuple[Tolerance | None, ...]
    seed: int
    redraw: Callable[[int], Arrays]

    @property
    def inputs(self) -> Arrays:
        """Return the inputs that variants are checked on."""
        return self.sets[0].inputs

    @property
    def compared(self) -> int:
        """Return how many of the sets, from the first on, have a reference."""
        return sum(each.reference is not None for each in self.sets)

    @classmethod
    def make(cls, family: Family, job: Job) -> Workload:
        """Draw inputs from the job's seed and compute the reference; further sets where executions will be timed.

        Raises:
            ValueError: inputs or reference do not match the family's own signature, or a function of the family
                returns another type than it must.
        """
        signature = _call(family, "signature", job.problem)
        _require(signature, Signature, family, "signature", "a Signature")
        started = monotonic()
        inputs = _draw_inputs(family, job, signature, 0)
        reference, tolerance = _compute_reference(family, job, signature, inputs)
        constants = {name: inputs[name] for name in family.constants}
        sets = [InputSet(inputs, Sealed(reference))]
        tolerances: list[Tolerance | None] = [tolerance]
        size = sum(array.nbytes for array in inputs.values())
        affordable = available_bytes() // MEMORY_SHARE // max(size, 1) if job.methods else 0
        further = affordable if monotonic() - started <= MOST_S else 0

        def redraw(number: int) -> Arrays:
            return {**_draw_inputs(family, job, signature, number), **constants}

        numbers = range(1, 1 + min(COMPARED_SETS + UNSEEN_SETS - 1, further))
        if size < LARGE_BYTES:
            drawings = [*map(redraw, numbers)]
        else:
            with ThreadPoolExecutor(len(numbers) or 1) as drawers:  # NumPy's generators let each other run
                drawings = [*drawers.map(redraw, numbers)]
        for number, drawn in zip(numbers, drawings, strict=True):
            if number < COMPARED_SETS:
                reference, tolerance = _compute_reference(family, job, signature, drawn)
                sets.append(InputSet(drawn, Sealed(reference)))
                tolerances.append(tolerance)
            else:
                sets.append(InputSet(drawn))
                tolerances.append(None)
        return cls(family, signature, tuple(sets), tuple(tolerances), job.seed, redraw)

    def held_to(
        self, own: Callable[[Point, Arrays, Arrays], object] | None, where: str, problem: Point
    ) -> list[Tolerance | None]:
        """Return what a variant's results are held to on each set: its own tolerance where it states one.

        Raises:
            ValueError: its function returns something that no result could be held to.
        """
        if own is None:
            return list(self.tolerances)
        found: list[Tolerance | None] = []
        for each in self.sets:
            if each.reference is None:
                found.append(None)
                continue
            with read_only(each.inputs):
                tolerance = own(problem, each.inputs, each.reference.open())
            check_tolerance(tolerance, where)
            assert isinstance(tolerance, Tolerance)
            found.append(tolerance)
        return found


def _draw_inputs(family: Family, job: Job, signature: Signature, number: int) -> dict[str, np.ndarray]:
    """Return a set of inputs; the first is of the job's seed alone."""
    seed = [job.seed, number] if number else job.seed
    inputs = _call(family, "generate", job.problem, np.random.default_rng(seed))
    _require(inputs, Mapping, family, "generate", "a dict of arrays by input name")
    for name in family.constants:
        if name not in signature.inputs:
            raise ValueError(f"family {family.name}: constants names {name}, signature() has no input of that name")
    for name, spec in signature.inputs.items():
        array = inputs.get(name)
        if array is None or _shape(array) != spec.shape or array.dtype != np.dtype(spec.dtype):
            raise ValueError(
                f"generate() gave input {name} as {_describe(array)}, "
                f"signature() says {spec.dtype} of shape {spec.shape}"
            )
    return {name: np.asarray(array, order="C") for name, array in inputs.items()}


def _compute_reference(
    family: Family, job: Job, signature: Signature, inputs: Arrays
) -> tuple[dict[str, np.ndarray], Tolerance]:
    """Return what is right for these inputs, and how far a result may lie from it."""
    with read_only(inputs):
        reference = _call(family, "reference", job.problem, inputs)
    _require(reference, Mapping, family, "reference", "a dict of arrays by output name")
    for name, spec in signature.outputs.items():
        if _shape(reference.get(name)) != spec.shape:
            raise ValueError(
                f"reference() gave output {name} as {_describe(reference.get(name))}, "
                f"signature() says shape {spec.shape}"
            )
    with read_only(inputs):
        tolerance = _call(family, "tolerance", job.problem, inputs, reference)
    _require(tolerance, Tolerance, family, "tolerance", "a Tolerance")
    check_tolerance(tolerance, "the family's tolerance()")
    return {name: np.asarray(array) for name, array in reference.items()}, tolerance


def _call(family: Family, function: str, problem: Point, *arguments: Any) -> Any:
    """Call a function of the family; what it raises is told with its file and line.

    Raises:
        FamilyError: it raised anything but what `read_only` explains.
    """
    try:
        return getattr(family, function)(problem, *arguments)
    except FamilyError:
        raise
    except Exception as error:
        if family.folder is None or "read-only" in str(error):
            raise
        raise FamilyError(blame(error, family.folder, f"{function}() at {problem.label}")) from error


def _require(returned: object, kind: type, family: Family, function: str, wanted: str) -> None:
    """Raise ValueError where a function of the family returned something of another type."""
    if not isinstance(returned, kind):
        found = "None" if returned is None else f"a {type(returned).__name__}"
        raise ValueError(f"family {family.name}: {function}() returned {found}, and must return {wanted}")


@contextmanager
def read_only(arrays: Arrays) -> Iterator[None]:
    """Keep the arrays from being written to: what a reference changed in place would be what the variants are given."""
    writable = [array for array in arrays.values() if array.flags.writeable]
    try:
        for array in writable:
            array.setflags(write=False)
        yield
    except ValueError as error:
        if "read-only" in str(error):
            raise ValueError("reference() or tolerance() writes into the inputs; let it work on a copy") from error
        raise
    finally:
        for array in writable:
            array.setflags(write=True)


def _shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if isinstance(array, np.ndarray | np.generic) else None


def _describe(array: Any) -> str:
    if array is None:
        return "missing"
    shape = _shape(array)
    return f"a {type(array).__name__}, not an array" if shape is None else f"{array.dtype} of shape {shape}"
