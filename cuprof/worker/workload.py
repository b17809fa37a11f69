"""One problem with its inputs and reference results, as a family's functions make them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import Any

import numpy as np

from cuprof.backends.contract import InputSet
from cuprof.backends.host_memory import available_bytes
from cuprof.backends.registry import get_spec
from cuprof.backends.sealed import Sealed
from cuprof.core.errors import FamilyError, FamilyFault
from cuprof.core.point import Point
from cuprof.core.records import Check
from cuprof.families import Arrays, Chance, Family, Signature, Tolerance, Tolerances, Variant
from cuprof.families.trace import blame
from cuprof.worker.arrangement import by_field, in_order
from cuprof.worker.check import NOT_LOOKED_AT, check_tolerance, compare
from cuprof.worker.messages import Job

COMPARED_SETS, UNSEEN_SETS = 2, 1
"""The number of sets of inputs with a reference and without. With two references, a variant that stores the results of
the first set is wrong every other time. The sets without show whether a variant remembers inputs; on the host a further
one shows whether it works ahead."""
MEMORY_SHARE = 16
"""Draw further sets only while they fit into 1/N of the host's free memory,"""
LARGE_BYTES = 32 << 20
"""Draw sets of at least this size in parallel."""
MOST_S = 10.0
"""and only if the first set took no longer than this."""
LATE_S = 0.5
"""Compare results on a set without a reference, at the end, only if the first set and its reference took no longer than
this, or the variant is isolated. The reference is computed after the result is there."""
STRETCH = 1 << 20
"""Compare this many consecutive elements of each larger output, at a random place."""


@dataclass(frozen=True)
class Standard:
    """The standard for results on one set of inputs, besides its reference.

    Args:
        inputs: as the family gave them.
        masks: output → elements that need not be written; outputs without such elements are absent.
    """

    inputs: Arrays
    tolerances: Tolerances
    masks: Arrays


@dataclass(frozen=True)
class Workload:
    """One problem with several sets of inputs of one kind, and their reference results.

    Args:
        sets: variants are checked on the first. Timed executions get one of those with a reference; the sets without,
            at the end, show whether a variant remembers inputs. The family's constants are the same in all of them.
        standards: one for each set that has a reference.
        draw: returns the inputs of any set by its number, as the family gives them. Those of sets without a reference
            cannot be foreseen, whatever the seed.
        unseen: the inputs of the sets without a reference, as the family gave them.
        looks_late: their reference is quick enough to compute for results on them to be compared.
        late: the references computed for them so far, by number.
        further: numbers of sets not drawn yet.
    """

    family: Family
    signature: Signature
    sets: list[InputSet]
    standards: tuple[Standard, ...]
    problem: Point
    seed: int
    draw: Callable[[int], Arrays]
    unseen: list[Arrays]
    looks_late: bool
    late: dict[int, _Late] = field(default_factory=dict)
    further: Iterator[int] = field(default_factory=lambda: count(COMPARED_SETS + UNSEEN_SETS + 1))

    @property
    def inputs(self) -> Arrays:
        """Return the inputs that variants are checked on."""
        return self.sets[0].inputs

    @property
    def compared(self) -> int:
        """Return how many of the sets, from the first on, have a reference."""
        return sum(each.reference is not None for each in self.sets)

    @property
    def needs_host(self) -> bool:
        """Return whether results need more than a comparison of each element with its own bound."""
        return bool(self.family.any_order or self.family.verify)

    def judge(self, outputs: Arrays, number: int, tolerances: Tolerances, look: int) -> Check:
        """Return whether a variant's results on a set of inputs are right.

        Args:
            look: how many of this variant's results have been judged, this one included.

        Raises:
            FamilyFault: `verify` failed.
        """
        reference = self.sets[number].reference
        assert reference is not None
        return self._judge(outputs, reference.open(), self.standards[number].inputs, tolerances, look)

    def judge_unseen(self, outputs: Arrays, number: int, variant: Variant, look: int) -> Check:
        """Return whether results on a set without a reference are right, computing the reference now.

        Args:
            number: of a set without a reference.
            look: as for `judge`.

        Raises:
            FamilyFault: a function of the family failed.
        """
        if number not in self.late:
            self.late[number] = self._find_right(self.unseen[number - COMPARED_SETS])
        late = self.late[number]
        expected = late.reference.open()
        held_to = _hold(variant, self.problem, late.standard, expected)
        return self._judge(late.cut(outputs), expected, late.standard.inputs, held_to, look)

    def redraw(self, number: int) -> Arrays:
        """Draw other inputs for a set without a reference, and return them as long as the signature says."""
        drawn = self.draw(next(self.further))
        inputs = as_long_as(self.signature, drawn)
        self.sets[number], self.unseen[number - COMPARED_SETS] = InputSet(inputs), drawn
        self.late.pop(number, None)
        return inputs

    def _find_right(self, inputs: Arrays) -> _Late:
        """Compute the reference for inputs: for all elements, or for a stretch of each output."""
        try:
            expected, standard = _compute_reference(self.family, self.problem, self.signature, inputs)
        except Exception as error:  # no error here is the variant's fault
            raise FamilyFault(str(error)) from error
        own = any(variant.tolerance for variant in self.family.variants.values())
        if self.needs_host or self.family.at_most or own or any(each.dtype.names for each in expected.values()):
            return _Late(Sealed(expected), standard, {})
        parts = {}
        for name, array in expected.items():
            start = secrets.randbelow(max(array.size - STRETCH, 0) + 1)
            parts[name] = slice(start, start + STRETCH)
        tolerances = {}
        for name, array in expected.items():
            held_to = Tolerance.of(standard.tolerances, name)
            bounds = np.asarray(held_to.absolute)
            if bounds.ndim:
                bounds = np.broadcast_to(bounds, array.shape).reshape(-1)[parts[name]]
                held_to = replace(held_to, absolute=bounds)
            tolerances[name] = held_to
        late = _Late(Sealed({}), replace(standard, tolerances=tolerances), parts)
        return replace(late, reference=Sealed(late.cut(expected)))

    def _judge(self, outputs: Arrays, expected: Arrays, inputs: Arrays, tolerances: Tolerances, look: int) -> Check:
        family = self.family
        counting = {name: outputs[name][: len(expected[name])] for name in family.at_most if name in expected}
        found = {**outputs, **counting}
        is_, should = (in_order(by_field(arrays), family.any_order) for arrays in (found, expected))
        check = compare(is_, should, tolerances, self.seed)
        if not check.passed or family.verify is None:
            return check
        wrong = self._verify(found, inputs, expected, look)
        return replace(check, passed=False, error=float("inf"), message=wrong) if wrong else check

    def _verify(self, outputs: Arrays, inputs: Arrays, expected: Arrays, look: int) -> str:
        """Return the objection of the family's own `verify` to results, or an empty string."""
        family = self.family
        try:
            with read_only(inputs):
                said = _call(family, "verify", self.problem, inputs, outputs, expected)
        except Exception as error:
            raise FamilyFault(str(error)) from error
        if isinstance(said, Chance):
            if not 0 <= said.p <= 1:
                raise FamilyFault(f"verify() at {self.problem.label} gave the chance {said.p}, not 0 to 1")
            # Shares that add up to the error rate, for any number of looks.
            least = family.error_rate * 6 / (math.pi * look) ** 2
            test = said.reason or "its test"
            rate = f"a right variant is called wrong once in {1 / family.error_rate:.3g} trials"
            return "" if said.p >= least else f"verify: {test}: p = {said.p:.3g} is below {least:.3g}, where {rate}"
        if said is None or isinstance(said, str):
            return f"verify: {' '.join(said.split())}" if said else ""
        if isinstance(said, bool | np.bool_):
            return "" if said else "verify says that it is wrong"
        wanted = "None, True, False, a reason or a Chance"
        raise FamilyFault(
            f"verify() at {self.problem.label} returned a {type(said).__name__}, and must return {wanted}"
        )

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
        inputs = _draw_inputs(family, job, signature, job.seed)
        reference, standard = _compute_reference(family, job.problem, signature, inputs)
        constants = {name: inputs[name] for name in family.constants}
        sets, standards = [InputSet(as_long_as(signature, inputs), Sealed(reference))], [standard]
        size = sum(array.nbytes for array in inputs.values())
        affordable = available_bytes() // MEMORY_SHARE // max(size, 1) if job.methods else 0
        took_s, secret = monotonic() - started, secrets.randbits(128)
        further = affordable if took_s <= MOST_S else 0

        def draw(number: int) -> Arrays:
            seed = [job.seed, number] if number < COMPARED_SETS else [job.seed, number, secret]
            return {**_draw_inputs(family, job, signature, seed), **constants}

        numbers = range(1, 1 + min(_count_sets(job) - 1, further))
        if size < LARGE_BYTES:
            drawings = [*map(draw, numbers)]
        else:
            with ThreadPoolExecutor(len(numbers) or 1) as drawers:  # NumPy's generators let each other run
                drawings = [*drawers.map(draw, numbers)]
        unseen = []
        for number, drawn in zip(numbers, drawings, strict=True):
            if number < COMPARED_SETS:
                reference, standard = _compute_reference(family, job.problem, signature, drawn)
                sets.append(InputSet(as_long_as(signature, drawn), Sealed(reference)))
                standards.append(standard)
            else:
                sets.append(InputSet(as_long_as(signature, drawn)))
                unseen.append(drawn)
        known = (replace(family), signature, sets, tuple(standards), job.problem, job.seed)
        return cls(*known, draw, unseen, took_s <= (MOST_S if job.isolated else LATE_S))

    def for_job(self, job: Job) -> Workload:
        """Return the same, and one set more for a job on the host where it was drawn for one that is not."""
        if len(self.sets) != _count_sets(job) - 1 or len(self.sets) <= COMPARED_SETS:  # for more there was no room
            return self
        drawn = self.draw(len(self.sets))
        sets = [*self.sets, InputSet(as_long_as(self.signature, drawn))]
        return replace(self, sets=sets, unseen=[*self.unseen, drawn])

    def held_to(self, variant: Variant) -> list[Tolerances | None]:
        """Return the tolerances for a variant's results on each set: its own tolerance if it states one.

        Raises:
            ValueError: its function returns an unusable tolerance.
        """
        found: list[Tolerances | None] = [None] * len(self.sets)
        for number, (each, standard) in enumerate(zip(self.sets, self.standards, strict=False)):
            assert each.reference is not None
            expected = each.reference.open() if variant.tolerance else {}
            found[number] = _hold(variant, self.problem, standard, expected)
        return found


@dataclass(frozen=True)
class _Late:
    """A reference computed after the results on its inputs.

    Args:
        parts: output → its compared elements, as a slice of the flat array; all elements where absent.
    """

    reference: Sealed
    standard: Standard
    parts: Mapping[str, slice]

    def cut(self, arrays: Arrays) -> Arrays:
        """Return the compared parts of arrays."""
        return {
            name: array.reshape(-1)[self.parts[name]] if name in self.parts else array for name, array in arrays.items()
        }


def _hold(variant: Variant, problem: Point, standard: Standard, expected: Arrays) -> Tolerances:
    """Return the tolerances for a variant's results: its own tolerance if it states one."""
    if variant.tolerance is None:
        return standard.tolerances
    with read_only(standard.inputs):
        tolerance = variant.tolerance(problem, standard.inputs, expected)
    check_tolerance(tolerance, f"the tolerance of {variant.name}", [*by_field(expected)])
    return _apart_from(standard.masks, tolerance, expected)


def _count_sets(job: Job) -> int:
    """Return how many sets of inputs a job wants."""
    return COMPARED_SETS + UNSEEN_SETS + get_spec(job.backend).is_host


def _draw_inputs(family: Family, job: Job, signature: Signature, seed: int | Sequence[int]) -> dict[str, np.ndarray]:
    """Return a set of inputs."""
    inputs = _call(family, "generate", job.problem, np.random.default_rng(seed))
    _require(inputs, Mapping, family, "generate", "a dict of arrays by input name")
    for name in family.constants:
        if name not in signature.inputs:
            raise ValueError(f"family {family.name}: constants names {name}, signature() has no input of that name")
    for name in family.in_place:
        if name not in signature.outputs:
            raise ValueError(f"family {family.name}: in_place names {name}, signature() has no output of that name")
    given = {**signature.inputs, **{name: signature.outputs[name] for name in family.in_place}}
    for name, spec in given.items():
        array = inputs.get(name)
        if array is None or not _fits(family, name, array, spec.shape) or array.dtype != spec.type:
            raise ValueError(
                f"generate() gave {'output' if name in family.in_place else 'input'} {name} as {_describe(array)}, "
                f"signature() says {spec.dtype} of shape {spec.shape}"
            )
    for name in family.at_most:
        if name not in {**signature.inputs, **signature.outputs}:
            raise ValueError(f"family {family.name}: at_most names {name}, signature() has no array of that name")
    foreign = [name for name in inputs if name in signature.outputs and name not in family.in_place]
    if foreign:
        raise ValueError(f"generate() gave output {foreign[0]}; name it in in_place=, or leave it out")
    return {name: np.asarray(array, order="C") for name, array in inputs.items()}


def as_long_as(signature: Signature, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return inputs as long as the signature says, all bits behind the rows that were given being set."""
    found = dict(inputs)
    for name, spec in {**signature.outputs, **signature.inputs}.items():
        array = inputs.get(name)
        if array is not None and array.shape != spec.shape:
            found[name] = np.full(spec.nbytes, 0xFF, np.uint8).view(array.dtype).reshape(spec.shape)
            found[name][: len(array)] = array
    return found


def _fits(family: Family, name: str, array: Any, shape: tuple[int, ...]) -> bool:
    own = _shape(array)
    if name not in family.at_most or not own or not shape:
        return own == shape
    return own[1:] == shape[1:] and own[0] <= shape[0]


def _compute_reference(
    family: Family, problem: Point, signature: Signature, inputs: Arrays
) -> tuple[dict[str, np.ndarray], Standard]:
    """Return the reference for these inputs, and the tolerances and masks that results must satisfy."""
    with read_only(inputs):
        reference = _call(family, "reference", problem, inputs)
    _require(reference, Mapping, family, "reference", "a dict of arrays by output name")
    for name, spec in signature.outputs.items():
        array = reference.get(name)
        if not (array is None and family.verify) and not _fits(family, name, array, spec.shape):
            raise ValueError(
                f"reference() gave output {name} as {_describe(array)}, signature() says shape {spec.shape}"
            )
    with read_only(inputs):
        tolerance = _call(family, "tolerance", problem, inputs, reference)
    _require(tolerance, Tolerance | Mapping, family, "tolerance", "a Tolerance, or one for each output")  # type: ignore[arg-type]
    expected = {name: np.asarray(array) for name, array in reference.items()}
    for name, array in expected.items():
        fields = signature.outputs[name].type.names if name in signature.outputs else None
        if fields != array.dtype.names:
            found, wanted = (
                f"fields {', '.join(names)}" if names else "no fields" for names in (array.dtype.names, fields)
            )
            raise ValueError(f"reference() gave output {name} with {found}, signature() says {wanted}")
    check_tolerance(tolerance, "the family's tolerance()", [*by_field(expected)])
    masks = {name: np.ma.getmaskarray(array) for name, array in reference.items() if np.ma.is_masked(array)}
    for group in family.any_order:
        for name in _members(group, signature):
            parts = by_field({name: expected[name]}) if name in expected else {}
            if name in masks or any(np.ndim(Tolerance.of(tolerance, part).absolute) for part in parts):
                raise ValueError(
                    f"output {name} comes in any order, so it has neither a mask nor a bound for each element"
                )
        rows = {name: expected[name].shape[:1] for name in _members(group, signature) if name in expected}
        if len({*rows.values()}) > 1 or () in rows.values():
            said = ", ".join(f"{name} has {shape[0] if shape else 'no'} rows" for name, shape in rows.items())
            raise ValueError(f"outputs whose rows come in any order together must have equally many; {said}")
    return expected, Standard(inputs, _apart_from(masks, tolerance, expected), masks)


def _members(group: str | tuple[str, ...], signature: Signature) -> tuple[str, ...]:
    names = (group,) if isinstance(group, str) else group
    for name in names:
        if name not in signature.outputs:
            raise ValueError(f"any_order names {name}; signature() has the outputs {', '.join(signature.outputs)}")
    return names


def _apart_from(masks: Arrays, given: Tolerances, expected: Arrays) -> Tolerances:
    """Return tolerances that leave masked elements out of the comparison."""
    if not masks:
        return given
    found = {name: Tolerance.of(given, name) for name in by_field(expected)}
    for name, mask in by_field(masks).items():
        absolute = np.where(mask, NOT_LOOKED_AT, found[name].absolute)
        found[name] = replace(found[name], absolute=absolute)
    return found


def _call(family: Family, function: str, problem: Point, *arguments: Any) -> Any:
    """Call a function of the family; report its errors with file and line.

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
    """Make the arrays read-only: a reference that changed them in place would change the variants' inputs."""
    writable = [array for array in arrays.values() if array.flags.writeable]
    try:
        for array in writable:
            array.setflags(write=False)
        yield
    except ValueError as error:
        if "read-only" in str(error):
            functions = "reference(), tolerance() or verify()"
            raise ValueError(f"{functions} writes into the inputs; let it work on a copy") from error
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
