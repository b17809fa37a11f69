"""A family of existing functions: their inputs, the right results, and each function as a variant.

The arrays' names, shapes and types, and the functions' back ends, show only when inputs are drawn and a first result is
computed. A worker does that (`Family.sample`); the planning process never does.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.point import Point
from cuprof.core.text import list_first
from cuprof.families import calling, tolerances
from cuprof.families.arrays import HOMES, as_scalar, describe, digest, home_of, is_floating, permute, to_host, widen
from cuprof.families.calling import GENERATOR, GIVEN, call_with, find_import, find_module, list_axes, origin_of, unwrap
from cuprof.families.fingerprint import installed_modules
from cuprof.families.kernel import Kernel, call_by_name, list_named
from cuprof.families.model import Arrays, Family, Sample, Signature, Tolerance, Tolerances, Variant, Verdict
from cuprof.families.origin import FAMILY_FILE
from cuprof.families.program import Array
from cuprof.families.trace import blame
from cuprof.families.triton_text import source_of

VERSION = 4
"""Raise this when functions receive different arguments, or when different results count as right."""
_OWN = {"cuprof", "builtins", *sys.stdlib_module_names}


@dataclass(eq=False)
class Computation:
    """Draw inputs, compute the right results, and bind functions to a session's arrays.

    Args:
        name: the family's.
        given: the implementations; the first is the baseline.
        place: the family's folder, or the file that it is; a folder without Python files for a notebook.
        inputs, reference, outputs, in_place, any_order, at_most, verify, error_rate, tolerance, flops, useful_bytes,
            files: as `cuprof.compare` takes them; names in tuples, and `at_most` by name.
    """

    name: str
    given: Sequence[Kernel]
    place: Path
    inputs: Any
    reference: Callable[..., Any] | None = None
    outputs: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    any_order: tuple[str | tuple[str, ...], ...] = ()
    at_most: Mapping[str, Any] = field(default_factory=dict)
    verify: Callable[..., Verdict] | None = None
    error_rate: float = Family.error_rate
    tolerance: Any = None
    flops: Callable[..., int] | None = None
    useful_bytes: Callable[..., int] | None = None
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tolerances.check_given(self.tolerance)
        self.kernels = calling.with_names(self.given)
        self.outputs = (*self.outputs, *(name for name in self.in_place if name not in self.outputs))
        self.functions = [one for one in self.kernels if one.function is not None]
        self.known: dict[Point, Sample] = {}
        self._terms: dict[Point, int] = {}
        self._wide: Any = None
        self._settled: set[Point] = set()
        if not self.functions and self.reference is None and self.verify is None:
            raise UsageError(
                "a kernel's source does not say which results are right; give reference=, or a function beside it"
            )
        if not self.functions and not self.outputs:
            raise UsageError("name what the kernel writes: outputs='y', one of the names of the inputs")

    def make_family(self) -> Family:
        """Return the family; a loader sets where it lies."""
        return Family(
            name=self.name,
            title=self.name.replace("_", " "),
            axes=list_axes(self.inputs),
            signature=self.signature,
            generate=self.generate,
            reference=self.compute_reference,
            tolerance=self.tolerate,
            useful_bytes=_taking_axes(self.useful_bytes) or self._count_useful_bytes,
            flops=_taking_axes(self.flops),
            contract=self._contract(),
            sample=self.sample,
            known=self.known,
            in_place=self.in_place,
            any_order=self.any_order,
            at_most=tuple(self.at_most),
            verify=None if self.verify is None else self.judge,
            error_rate=self.error_rate,
            judged=None if self.verify is None else list_named(self.verify),
            usual={"tune": {each.name: ("all",) for one in self.kernels for each in one.list_tunables()}},
            variants={one.name: self._variant(one) for one in self.kernels},
        )

    def sample(self, problem: Point) -> Sample:
        """Draw inputs and, where functions return results, compute the first; remembered for each problem."""
        if problem not in self.known:
            self.known[problem] = self._take_sample(problem)
            if self.tolerance is None:
                self._terms[problem] = self._count_terms(problem)
        return self.known[problem]

    def signature(self, problem: Point) -> Signature:
        """Return the arrays of a problem."""
        return self.sample(problem).signature

    def draw(self, problem: Point, rng: np.random.Generator) -> tuple[dict[str, Any], bool]:
        """Return the arguments by name, in the order in which functions take them, and whether they came by name."""
        drawn = self.inputs
        if callable(drawn):
            asked: dict[str, Any] = {} if problem.keys() == {GIVEN.name} else dict(problem)
            if GENERATOR in inspect.signature(drawn).parameters:
                asked[GENERATOR] = rng
            else:
                calling.seed_all(rng)
            drawn = self._blamed("inputs", problem, partial(drawn, **asked))
        if isinstance(drawn, Mapping):
            return {str(name): value for name, value in drawn.items()}, True
        values = list(drawn) if isinstance(drawn, tuple | list) else [drawn]
        return dict(zip(self._name_arguments(len(values)), values, strict=True)), False

    def _name_arguments(self, many: int) -> list[str]:
        """Return this many parameter names of the first function that has enough, else x0, x1, …"""
        for one in self.kernels:
            names = calling.list_parameters(unwrap(one.jit) if one.function is None else one.function)
            names = [name for name in names if name not in {**one.tunables, **one.derived}]
            if len(names) >= many:
                return names[:many]
        return [f"x{number}" for number in range(many)]

    def generate(self, problem: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw arrays on the host; those given once are permuted, see `permute`."""
        known = self.sample(problem).signature
        drawn, _ = self.draw(problem, rng)
        arrays = {name: to_host(drawn[name], f"input {name}") for name in (*known.inputs, *self.in_place)}
        if not callable(self.inputs):
            arrays = {name: permute(one, rng) for name, one in arrays.items()}
        for name, array in arrays.items():
            wanted = {**known.outputs, **known.inputs}[name].shape
            if array.shape != wanted and name not in self.at_most:
                more = f"if its rows differ from draw to draw, say how many there are at most: at_most={{{name!r}: …}}"
                raise FamilyError(f"inputs() gave {name} of shape {array.shape}, and before of {wanted}; {more}")
        return arrays

    def compute_reference(self, problem: Point, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return the right results: the reference's in float64, or those of the first function as it is.

        Raises:
            FamilyError: it raises, returns other outputs, has a NaN, or depends on an output's earlier content.
        """
        if self.reference is None and self.verify is not None:
            return {}
        found = self._compute(problem, inputs)
        signature = self.sample(problem).signature
        for name, array in found.items():
            wanted = signature.outputs[name].shape
            if array.shape != wanted and name not in self.at_most:
                given = self.reference is not None  # a module may have no truth value
                more = "" if given else "; a result that has fewer rows for some inputs is named in at_most="
                raise FamilyError(f"reference() gave {name} of shape {array.shape}, and not of {wanted}{more}")
            if count := int(np.count_nonzero(tolerances.is_nan(array))):
                many = f"{count} of {array.size} elements"
                who = "reference()" if self.reference is not None else "reference(), the first function,"
                raise FamilyError(f"{who} gave NaN for {many} of {name}; give other inputs, or mask them by numpy.ma")
        if problem not in self._settled and self.reference is None and {*self.outputs} - {*self.in_place}:
            again = self._compute(problem, inputs, np.nan)
            for name in (name for name, array in again.items() if tolerances.is_nan(array).any()):
                raise FamilyError(
                    f"reference(), the first function, leaves in {name} what depends on what {name} held before; "
                    f"let it write all of {name}, or say in_place={name!r}"
                )
        self._settled.add(problem)
        return found

    def _compute(
        self, problem: Point, inputs: Arrays, fill: float = 0, *, is_wide: bool = True
    ) -> dict[str, np.ndarray]:
        """Return the reference's results, of float64 or of the inputs' own types; outputs hold `fill` before."""
        sample = self.sample(problem)
        home = HOMES[sample.home]
        is_wide = self.reference is not None and is_wide
        outputs = {name: np.zeros(spec.shape, spec.type) for name, spec in sample.signature.outputs.items()}
        for array in filter(is_floating, outputs.values()):
            array.fill(fill)
        outputs |= {name: np.array(inputs[name]) for name in self.in_place}
        given = {**inputs, **{name: outputs[name] for name in self.outputs}}
        with home.wide():
            arrays = {name: home.bring(widen(array) if is_wide else array) for name, array in given.items()}
            returned = self._blamed("reference", problem, lambda: self._refer(sample, arrays, is_wide))
            if returned is None and self.outputs:
                returned = {name: arrays[name] for name in self.outputs}
            found = self.name_results(returned, "reference()")
        found = {rows: np.array([len(found[name])]) for name, rows in self.count_rows(found).items()} | found
        if {*found} != {name for name in sample.signature.outputs if self.verify is None or name in found}:
            right = list_first([*outputs], 4)
            raise FamilyError(f"reference() gave {list_first([*found], 4)}; the results are {right}")
        return {
            name: array if np.ma.isMaskedArray(array) else to_host(array, f"{name} of the reference")
            for name, array in found.items()
        }

    def judge(self, problem: Point, inputs: Arrays, outputs: Arrays, expected: Arrays) -> Verdict:
        """Return the verdict of the user's own function on results."""
        before = {f"{name}_before": inputs[name] for name in self.in_place}
        counted = self.count_rows(outputs).items()
        results = {**outputs, **{name: outputs[name][: outputs[rows][0]] for name, rows in counted}}
        known = {**problem, **self.sample(problem).numbers, **inputs, **before, **results}
        return None if self.verify is None else call_by_name(self.verify, known, "verify")

    def tolerate(self, problem: Point, inputs: Arrays, expected: Arrays) -> Tolerances:
        """Return how far a result may lie from the reference."""
        if self.tolerance is not None:
            given = tolerances.as_given(self.tolerance, problem, inputs, expected)
            counts = {rows: Tolerance() for rows in self.count_rows(expected).values()}
            each = given if isinstance(given, Mapping) else dict.fromkeys(expected, given)
            return {**each, **counts} if counts else given
        signature, is_exact = self.sample(problem).signature, self.reference is not None
        bounds = tolerances.by_type(signature, expected, self._terms[problem], is_exact=is_exact)
        if not any(one.function is self.reference for one in self.functions):
            return bounds
        return tolerances.at_least(bounds, expected, self._compute(problem, inputs, is_wide=False))

    def bind(self, one: Kernel, problem: Point, tunables: Point, inputs: Arrays, outputs: Arrays) -> Any:
        """Return the call to time: the function alone, on a session's arrays."""
        sample = self.sample(problem)

        def put(returned: Any) -> None:
            found = self.name_results(returned, "the function")
            calling.deliver(found, outputs, sample, "the first variant returns", counted=self.count_rows(found))

        arrays, own = {**inputs, **outputs}, None if self.outputs else put
        return calling.bind(one.function, sample, sample.numbers, dict(tunables), arrays, own)

    def _take_sample(self, problem: Point) -> Sample:
        drawn, by_name = self.draw(problem, np.random.default_rng(0))
        if absent := [name for name in self.outputs if name not in drawn]:
            raise FamilyError(f"outputs names {', '.join(absent)}; the inputs are {', '.join(drawn)}")
        read, function = self._list_read(drawn), self.reference
        if function is not None and (absent := calling.list_strange(function, drawn, read)):
            raise FamilyError(f"reference takes {', '.join(absent)}; the inputs are {', '.join(drawn)}")
        homes = {name: home for name, value in drawn.items() if (home := home_of(value))}
        scalars = {name: as_scalar(name, value) for name, value in drawn.items() if name not in homes}
        if len({home.name for home in homes.values()}) != 1:
            kinds = ", ".join(f"{name} ({home.name})" for name, home in homes.items())
            fault = (
                f"are {kinds}; let all arrays be one library's, in one memory" if kinds else "have no array; give one"
            )
            raise FamilyError(f"the inputs {fault}")
        home = next(iter(homes.values()))
        if self.outputs and home.is_apart:
            raise FamilyError(f"arrays of {home.name} cannot be written to; let the functions return their results")
        sizes = {**problem, **{name: scalar.value for name, scalar in scalars.items()}}
        arrays = {name: self._at_most(name, describe(name, drawn[name]), sizes) for name in homes}
        inputs = {name: spec for name, spec in arrays.items() if name not in self.outputs}
        sample = Sample(Signature(inputs, {}), scalars, tuple(drawn), home.name, home.backend, by_name)
        results = {name: arrays[name] for name in self.outputs}
        if not self.outputs:
            found = self._find_results(problem, sample, drawn)
            described = {name: describe(name, value, is_copied=True) for name, value in found.items()}
            results = {name: self._at_most(name, spec, sizes) for name, spec in described.items()}
            results |= {rows: Array((1,), "int64") for rows in self.count_rows(found).values()}
        return replace(sample, signature=Signature(inputs, results))

    def _at_most(self, name: str, array: Array, sizes: Mapping[str, Any]) -> Array:
        most = self.at_most.get(name)
        if most is None:
            return array
        rows = sizes.get(most, most)
        if not isinstance(rows, int) or not array.shape:
            raise FamilyError(f"{name} has at most {most!r} rows; give a whole number, or one of {', '.join(sizes)}")
        return Array((rows, *array.shape[1:]), array.dtype)

    def _find_results(self, problem: Point, sample: Sample, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first function's results; with a reference, those of the first function that can be called."""
        faults = []
        for one in self.functions if self.reference is not None else self.functions[:1]:
            try:
                returned = self._blamed(one.name, problem, partial(self._run, one, sample, drawn))
                return self.name_results(returned, one.name)
            except FamilyError as error:
                faults.append(error)
        raise faults[0]

    def _count_terms(self, problem: Point) -> int:
        signature = self.known[problem].signature
        if all(array.type.kind not in "fcV" for array in signature.outputs.values()):
            return 1
        try:
            inputs = self.generate(problem, np.random.default_rng(0))
            return tolerances.count_terms(signature, inputs, partial(self._compute, problem))
        except FamilyError:  # the reference refuses a NaN; a real failure is reported later
            return tolerances.longest_sum(signature)

    def _run(self, one: Kernel, sample: Sample, arrays: Mapping[str, Any]) -> Any:
        """Call an implementation with its tunables' defaults."""
        chosen = {tunable.name: tunable.default for tunable in one.list_tunables()}
        known = {**arrays, **sample.numbers}
        return call_with(one.function, known, sample.arguments, chosen, sample.by_name)

    def _refer(self, sample: Sample, arrays: Mapping[str, Any], is_wide: bool) -> Any:
        """Call the reference, else the first function, with the inputs by parameter name or in order."""
        function: Any = self.reference
        if function is None:
            return self._run(self.functions[0], sample, arrays)
        if is_wide and find_module(function) is function:
            # a PyTorch module's parameters are then as wide as the inputs
            function = self._wide = self._wide or copy.deepcopy(getattr(function, "_orig_mod", function)).double()
        return call_with(function, {**arrays, **sample.numbers}, self._list_read(sample.arguments), {})

    def _list_read(self, arguments: Iterable[str]) -> list[str]:
        """Return what a reference takes in an order: the arguments but for what is only written."""
        return [name for name in arguments if name not in self.outputs or name in self.in_place]

    def _blamed(self, what: str, problem: Point, function: Callable[[], Any]) -> Any:
        """Return the result of a user's function; its errors become a `FamilyError` that names the line."""
        try:
            return function()
        except (Exception, SystemExit) as error:
            folder = self.place.parent if self.place.is_file() else self.place
            hint = "; name what is worked on in place: in_place=" if "read-only" in str(error) else ""
            raise FamilyError(blame(error, folder, f"{what}() at {problem.label}") + hint) from error

    def count_rows(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Return result → the output that holds its number of rows, for results with a variable number of rows."""
        return {} if self.outputs else {name: f"{name}_rows" for name in self.at_most if name in found}

    def name_results(self, returned: Any, who: str) -> dict[str, Any]:
        """Return a function's results by output name."""
        if returned is None:
            raise FamilyError(f"{who} returned nothing; where it writes into an argument, name that: outputs='y'")
        if isinstance(returned, Mapping):
            return {str(name): value for name, value in returned.items()}
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        if self.outputs and len(values) == len(self.outputs):
            return dict(zip(self.outputs, values, strict=True))
        return {f"result{number or ''}": value for number, value in enumerate(values)}

    def _count_useful_bytes(self, problem: Point) -> int:
        signature = self.signature(problem)
        return signature.nbytes + sum(signature.outputs[name].nbytes for name in self.in_place)

    def _contract(self) -> dict[str, Any]:
        first = self.functions[0].function if self.functions else None
        decides = next(one for one in (self.reference, self.verify, first) if one is not None)
        judged = [self.at_most] if self.at_most else []
        return {
            **({"verify": _content(self.verify)} if self.verify is not None else {}),
            "inputs": _content(self.inputs)
            if callable(self.inputs)
            else digest(self.draw(Point(), np.random.default_rng())[0]),
            "reference": partial(_content(decides), VERSION, self.reference is None, self.outputs, *judged),
            "tolerance": tolerances.plain(self.tolerance),
        }

    def _variant(self, one: Kernel) -> Variant:
        shared: dict[str, Any] = {
            "tunables": one.list_tunables(),
            "constraint": one.read_constraint([axis.name for axis in list_axes(self.inputs)]),
            "files": (*self.files, *one.files),
        }
        if one.function is None:
            shared |= {"text": one.source} if one.is_text else {"source": one.source}
            if one.jit is not None:
                text, files = source_of(one.jit)
                name = self.place.name if self.place.is_file() else FAMILY_FILE
                shared |= {"text": text, "source": name, "requires": ("triton",)}
                shared["files"] = (*shared["files"], *files)

            make = partial(one.make_program, self.sample)
            description = f"kernel {one.symbol}"
            return Variant(one.name, one.backend, "kernel", make, description, compiler=one.compiler, **shared)
        content = _content(one.function)
        roots = {*installed_modules(content, self.place), origin_of(one.function).partition(".")[0]}
        requires = tuple(sorted(root for root in roots if root in sys.modules and root not in _OWN))
        said = (inspect.getdoc(one.function) or "").partition("\n")[0] if inspect.isroutine(one.function) else ""
        bind = partial(self.bind, one)
        return Variant(one.name, "cpu", "cpu", bind, said, requires=requires, content=content, **shared)


def _taking_axes(function: Callable[..., int] | None) -> Callable[[Point], int] | None:
    return None if function is None else lambda problem: int(function(**problem))


def _content(function: Callable[..., Any]) -> partial[Any]:
    """Return the parts of a function's identity: its text and name, and a PyTorch module's layers."""
    module, origin = find_module(function), origin_of(function)
    if module is None and unwrap(function) is None and find_import(function) is not None:
        return partial(_of_a_package, origin)
    return partial(function, origin, *([] if module is None else [str(module)]))


def _of_a_package(*origin: str) -> None:
    """Stand for a function of an installed package, which is known by its name and the package's version."""
