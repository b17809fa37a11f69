"""One problem with its inputs and reference results, as a family's functions make them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import randbits
from time import monotonic
from typing import Any

import numpy as np

from cuprof.backends.buffers import available_bytes
from cuprof.core.errors import FamilyError, FamilyFault
from cuprof.core.point import Point
from cuprof.core.records import Check
from cuprof.families import Arrays, Chance, Family, Signature, Tolerance, Tolerances, Variant
from cuprof.families.arrays import by_field, is_floating
from cuprof.families.trace import blame
from cuprof.worker.compare import NOT_LOOKED_AT, check_tolerance, compare, in_order
from cuprof.worker.messages import Job
from cuprof.worker.stopping import Race

COMPARED_SETS = 2
"""Draw this many sets of inputs with a reference. With two, a variant that stores its results is wrong every other
time."""
MEMORY_SHARE = 16
"""Draw further sets only while they fit into 1/N of the host's free memory,"""
MOST_S = 10.0
"""and only if the first set and its reference took no longer than this."""
FEW_BYTES = 64
"""Inputs that are no larger are often equal by chance, too."""
MOST_DRAWS, DRAWS_S = 16, 2.0
"""Try this many further sets, for so long, before right results are said not to depend on the inputs: small ones are
often equal by chance."""


@dataclass(frozen=True)
class Standard:
    """The standard for results on one set of inputs.

    Args:
        inputs: as the family gave them.
        expected: the reference results, float64 or exact integers by output name.
        masks: output → elements that need not be written; outputs without such elements are absent.
    """

    inputs: Arrays
    expected: Arrays
    tolerances: Tolerances
    masks: Arrays


@dataclass(frozen=True)
class Problem:
    """One problem with sets of inputs of one kind, and their reference results.

    Args:
        standards: one for each set of inputs. Variants are checked on the first; timed executions get any. The
            family's constants are the same in all.
        sets: the inputs of each, as long as the signature says.
        races: the shortest time of the problem so far, by measure and method.
    """

    family: Family
    point: Point
    seed: int
    signature: Signature
    standards: Sequence[Standard]
    sets: Sequence[Arrays]
    races: dict[object, Race] = field(default_factory=dict)

    @classmethod
    def make(cls, family: Family, job: Job, *, at_once: bool = False) -> Problem:
        """Draw inputs from the job's seed and compute the reference; further sets where executions will be timed.

        Args:
            at_once: make the sets in a thread each, where none depends on another.

        Raises:
            ValueError: inputs or reference do not match the family's own signature, or a function of the family
                returns another type than it must.
        """
        point, further = job.problem, [job.seed, 1]
        signature = _call(family, "signature", Signature, "a Signature", point)

        def make(seed: int | Sequence[int], first: Arrays | None = None) -> Standard:
            """Return a set of inputs and its right results."""
            return _compute_reference(family, point, signature, _draw_inputs(family, point, signature, seed, first))

        started, sizes = monotonic(), [spec.nbytes for spec in signature.inputs.values()]
        if at_once and job.methods and not family.constants and _affords(sizes):
            with ThreadPoolExecutor(COMPARED_SETS) as pool:
                standards = [*pool.map(make, (job.seed, further))]
        else:
            standards = [make(job.seed)]
            first, is_quick = standards[0].inputs, monotonic() - started <= MOST_S
            if job.methods and is_quick and _affords(array.nbytes for array in first.values()):
                standards.append(make(further, first))
        sets = [as_long_as(signature, standard.inputs) for standard in standards]
        return cls(replace(family), point, job.seed, signature, standards, sets)

    @property
    def needs_host(self) -> bool:
        """Return whether results need more than a comparison of each element with its own bound."""
        return bool(self.family.any_order or self.family.verify)

    @property
    def unread(self) -> frozenset[str]:
        """Return the outputs that neither the reference nor `verify` looks at."""
        family = self.family
        if family.verify is None or family.judged is None:
            return frozenset()
        named = {*self.standards[0].expected, *family.judged}
        return frozenset(self.signature.outputs) - named - {f"{name}_rows" for name in named}

    def draw(self) -> Arrays:
        """Draw further inputs, as the family gives them, from a seed that cannot be predicted.

        Raises:
            FamilyFault: a function of the family failed, or gave what does not fit its signature.
        """
        with _as_fault():
            return _draw_inputs(self.family, self.point, self.signature, randbits(128), self.standards[0].inputs)

    def find_right(self, inputs: Arrays) -> Standard:
        """Compute the reference for drawn inputs.

        Raises:
            FamilyFault: a function of the family failed.
        """
        with _as_fault():
            return _compute_reference(self.family, self.point, self.signature, inputs)

    def tells_apart(self) -> bool:
        """Return whether right results for some inputs are wrong for others, so that remembering them is noticed.

        Results that `verify` alone knows are taken for such, and those of which there is no room for another set.
        """
        (first, *others), outputs, until = self.standards, self.signature.outputs, monotonic() + DRAWS_S
        has_results = any(array.size for array in first.expected.values())
        if outputs.keys() != first.expected.keys() or not has_results or not _affords([self.signature.nbytes]):
            return True
        with np.errstate(all="ignore"):
            kept = {name: array.astype(outputs[name].type) for name, array in first.expected.items()}
        for _ in range(MOST_DRAWS):
            try:
                other = others.pop() if others else self.find_right(self.draw())
                if not self.compare(kept, other, other.tolerances, 1).passed:
                    return True
            except Exception:  # whoever needs the family's function that failed says so
                return True
            if monotonic() > until:
                break
        return False

    def list_same(self) -> list[str]:
        """Return the inputs that two draws have in common, though the family does not call them constants."""
        draws = [standard.inputs for standard in self.standards]
        first, other = draws if len(draws) > 1 else (draws[0], self.draw())
        names = [name for name in first if first[name].nbytes > FEW_BYTES and name not in self.family.constants]
        return [name for name in names if np.array_equal(first[name], other[name])]

    def hold(self, variant: Variant, standard: Standard) -> Tolerances:
        """Return the tolerances for a variant's results on one set: its own tolerance if it states one.

        Raises:
            ValueError: its function returns an unusable tolerance.
        """
        if variant.tolerance is None:
            return standard.tolerances
        with read_only(standard.inputs):
            own = variant.tolerance(self.point, standard.inputs, standard.expected)
        check_tolerance(own, f"the tolerance of {variant.name}", [*by_field(standard.expected)])
        return _apart_from(standard.masks, own, standard.expected)

    def compare(self, outputs: Arrays, standard: Standard, tolerances: Tolerances, look: int) -> Check:
        """Return whether a variant's results are right.

        Args:
            look: how many of this variant's results have been compared, this one included.

        Raises:
            FamilyFault: `verify` failed.
        """
        family, expected = self.family, standard.expected
        counting = {name: outputs[name][: len(expected[name])] for name in family.at_most if name in expected}
        found = {**outputs, **counting}
        is_, should = (in_order(by_field(arrays), family.any_order) for arrays in (found, expected))
        check = compare(is_, should, tolerances, self.seed)
        if not check.passed or family.verify is None:
            return check
        wrong = self._verify(found, standard.inputs, expected, look)
        return replace(check, passed=False, error=float("inf"), message=wrong) if wrong else check

    def _verify(self, outputs: Arrays, inputs: Arrays, expected: Arrays, look: int) -> str:
        """Return the objection of the family's own `verify` to results, or an empty string.

        It cannot see what nobody wrote. Where it alone knows which rows count, either of two values must content it.
        """
        judged = {name: outputs[name] for name in outputs.keys() - {*expected, *self.unread}}
        junk = {name: found for name, array in by_field(judged).items() if (found := _find_junk(array)).any()}
        if counted := [name for name in junk if name.partition(".")[0] not in self.family.at_most]:
            return f"output {counted[0]} holds NaN, or bytes that are no truth value"
        if not junk:
            return self._ask(outputs, inputs, expected, look)
        for value in (0, 1):
            filled = {name: array.copy() for name, array in judged.items()}
            for name, array in by_field(filled).items():
                if name in junk:
                    array[junk[name]] = value
            if objection := self._ask({**outputs, **filled}, inputs, expected, look):
                return objection
        return ""

    def _ask(self, outputs: Arrays, inputs: Arrays, expected: Arrays, look: int) -> str:
        """Return what `verify` says against results, or an empty string."""
        family = self.family
        with _as_fault(), read_only(inputs):
            own = {name: array.copy() for name, array in expected.items()}
            said = _call(family, "verify", object, "a verdict", self.point, inputs, outputs, own)
        if isinstance(said, Chance):
            if not 0 <= said.p <= 1:
                raise FamilyFault(f"verify() at {self.point.label} gave the chance {said.p}, not 0 to 1")
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
        raise FamilyFault(f"verify() at {self.point.label} returned a {type(said).__name__}, and must return {wanted}")


@contextmanager
def _as_fault() -> Iterator[None]:
    """Raise `FamilyFault` in place of any error: none is a variant's fault here."""
    try:
        yield
    except Exception as error:
        raise FamilyFault(str(error)) from error


def _find_junk(array: np.ndarray) -> np.ndarray:
    """Return which elements are NaN, or bytes that are no truth value."""
    if array.dtype == bool:
        return array.view(np.uint8) > 1
    return np.isnan(array) if is_floating(array) else np.zeros(array.shape, bool)


def as_long_as(signature: Signature, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return inputs as long as the signature says, all bits behind the rows that were given being set."""
    found = dict(inputs)
    for name, spec in {**signature.outputs, **signature.inputs}.items():
        array = inputs.get(name)
        if array is not None and array.shape != spec.shape:
            found[name] = np.full(spec.nbytes, 0xFF, np.uint8).view(array.dtype).reshape(spec.shape)
            found[name][: len(array)] = array
    return found


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


def _affords(sizes: Iterable[int]) -> bool:
    """Return whether there is host memory for another set of inputs of these sizes."""
    return available_bytes() // MEMORY_SHARE >= sum(sizes)


def _draw_inputs(
    family: Family, point: Point, signature: Signature, seed: int | Sequence[int], first: Arrays | None
) -> dict[str, np.ndarray]:
    """Return a set of inputs, with the constants of the first one.

    Raises:
        ValueError: they do not match the signature, or the family names arrays that it does not have.
    """
    rng = np.random.default_rng(seed)
    inputs = _call(family, "generate", Mapping, "a dict of arrays by input name", point, rng)
    arrays = {**signature.inputs, **signature.outputs}
    for said, names, known, kind in (
        ("constants", family.constants, signature.inputs, "input"),
        ("in_place", family.in_place, signature.outputs, "output"),
        ("at_most", family.at_most, arrays, "array"),
    ):
        if missing := next((name for name in names if name not in known), None):
            raise ValueError(f"family {family.name}: {said} names {missing}, signature() has no {kind} of that name")
    given = {**signature.inputs, **{name: signature.outputs[name] for name in family.in_place}}
    for name, spec in given.items():
        array = inputs.get(name)
        if array is None or not _fits(family, name, array, spec.shape) or array.dtype != spec.type:
            raise ValueError(
                f"generate() gave {'output' if name in family.in_place else 'input'} {name} as {_describe(array)}, "
                f"signature() says {spec.dtype} of shape {spec.shape}"
            )
    foreign = [name for name in inputs if name in signature.outputs and name not in family.in_place]
    if foreign:
        raise ValueError(f"generate() gave output {foreign[0]}; name it in in_place=, or leave it out")
    drawn = {name: np.asarray(array, order="C") for name, array in inputs.items()}
    return drawn if first is None else {**drawn, **{name: first[name] for name in family.constants}}


def _fits(family: Family, name: str, array: Any, shape: tuple[int, ...]) -> bool:
    own = _shape(array)
    if name not in family.at_most or not own or not shape:
        return own == shape
    return own[1:] == shape[1:] and own[0] <= shape[0]


def _compute_reference(family: Family, point: Point, signature: Signature, inputs: Arrays) -> Standard:
    """Return the reference for these inputs, and the tolerances and masks that results must satisfy."""
    with read_only(inputs):
        reference = _call(family, "reference", Mapping, "a dict of arrays by output name", point, inputs)
        for name, spec in signature.outputs.items():
            _require_match(family, name, reference.get(name), spec)
        wanted = "a Tolerance, or one for each output"
        tolerance = _call(family, "tolerance", Tolerance | Mapping, wanted, point, inputs, reference)
    expected = {name: np.asarray(array) for name, array in reference.items()}
    check_tolerance(tolerance, "the family's tolerance()", [*by_field(expected)])
    masks = {name: np.ma.getmaskarray(array) for name, array in reference.items() if np.ma.is_masked(array)}
    for group in family.any_order:
        _require_orderable(_members(group, signature), expected, masks, tolerance)
    return Standard(inputs, expected, _apart_from(masks, tolerance, expected), masks)


def _require_match(family: Family, name: str, array: Any, spec: Any) -> None:
    """Raise ValueError where the reference of an output has another shape or other fields than its signature."""
    if array is None and family.verify:
        return
    if not _fits(family, name, array, spec.shape):
        raise ValueError(f"reference() gave output {name} as {_describe(array)}, signature() says shape {spec.shape}")
    if spec.type.names != array.dtype.names:
        found, wanted = (
            f"fields {', '.join(names)}" if names else "no fields" for names in (array.dtype.names, spec.type.names)
        )
        raise ValueError(f"reference() gave output {name} with {found}, signature() says {wanted}")


def _require_orderable(names: Sequence[str], expected: Arrays, masks: Arrays, tolerance: Tolerances) -> None:
    """Raise ValueError for outputs whose rows cannot be sorted together, or have bounds of their own."""
    rows = {name: expected[name].shape[:1] for name in names if name in expected}
    for name in rows:
        parts = by_field({name: expected[name]})
        if name in masks or any(np.ndim(Tolerance.of(tolerance, part).absolute) for part in parts):
            raise ValueError(f"output {name} comes in any order, so it has neither a mask nor a bound for each element")
    if len({*rows.values()}) > 1 or () in rows.values():
        said = ", ".join(f"{name} has {shape[0] if shape else 'no'} rows" for name, shape in rows.items())
        raise ValueError(f"outputs whose rows come in any order together must have equally many; {said}")


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


def _call(family: Family, function: str, kind: Any, wanted: str, problem: Point, *arguments: Any) -> Any:
    """Call a function of the family, and return what it returns; report its errors with file and line.

    Args:
        kind: the type that it must return; `wanted` in words.

    Raises:
        FamilyError: it raised anything but what `read_only` explains.
        ValueError: it returned something of another type.
    """
    try:
        returned = getattr(family, function)(problem, *arguments)
    except FamilyError:
        raise
    except Exception as error:
        if family.folder is None or "read-only" in str(error):
            raise
        raise FamilyError(blame(error, family.folder, f"{function}() at {problem.label}")) from error
    if not isinstance(returned, kind):
        found = "None" if returned is None else f"a {type(returned).__name__}"
        raise ValueError(f"family {family.name}: {function}() returned {found}, and must return {wanted}")
    return returned


def _shape(array: Any) -> tuple[int, ...] | None:
    return array.shape if isinstance(array, np.ndarray | np.generic) else None


def _describe(array: Any) -> str:
    if array is None:
        return "missing"
    shape = _shape(array)
    return f"a {type(array).__name__}, not an array" if shape is None else f"{array.dtype} of shape {shape}"
