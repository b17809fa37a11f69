"""A family made of functions that exist already: what they are given, what is right, and each as a variant.

What the arrays are called, their shapes and types, and on which back end functions run shows only when inputs are drawn
and a first result is computed. That is done in a worker (`Family.sample`); this process never runs it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.api import tolerances
from cuprof.api.frameworks import HOMES, Home, home_of, is_floating, to_host, widen
from cuprof.api.inputs import Inputs, blamed
from cuprof.api.kernels import Kernel, call_by_name
from cuprof.api.origins import find_import, goes_by_name, list_parameters, origin_of, unwrap
from cuprof.api.triton_source import source_of
from cuprof.api.values import as_scalar, describe, digest_of
from cuprof.core.errors import FamilyError, UsageError
from cuprof.core.text import list_first
from cuprof.families import (
    Array,
    Arrays,
    Call,
    Family,
    Point,
    Program,
    Sample,
    Signature,
    Tolerance,
    Tolerances,
    Variant,
    Verdict,
)
from cuprof.families.functions import installed_modules
from cuprof.families.loader import FAMILY_FILE

VERSION = 4
"""Raised when functions are given something else, or something else counts as right."""


class Computation:
    """Draw inputs, compute what is right, and bind functions to a session's arrays.

    Args:
        name: the family's.
        kernels: the implementations; the first is the baseline.
        place: the family's folder, or the file that it is.
        inputs, reference, outputs, in_place, any_order, at_most, verify, error_rate, tolerance, flops, useful_bytes,
            files: as `cuprof.compare` takes them; names in tuples, and `at_most` by name.
    """

    def __init__(
        self,
        name: str,
        kernels: Sequence[Kernel],
        place: Path,
        *,
        inputs: Any,
        reference: Callable[..., Any] | None = None,
        outputs: tuple[str, ...] = (),
        in_place: tuple[str, ...] = (),
        any_order: tuple[str | tuple[str, ...], ...] = (),
        at_most: Mapping[str, Any] | None = None,
        verify: Callable[..., Verdict] | None = None,
        error_rate: float = Family.error_rate,
        tolerance: Any = None,
        flops: Callable[..., int] | None = None,
        useful_bytes: Callable[..., int] | None = None,
        files: tuple[str, ...] = (),
    ) -> None:
        self.name, self.kernels, self.place = name, with_names(kernels), place
        self.inputs = Inputs(inputs, self.kernels, place)
        self.reference, self.tolerance, self.files = reference, tolerance, files
        self.flops, self.useful_bytes = flops, useful_bytes
        self.outputs, self.in_place = (*outputs, *(name for name in in_place if name not in outputs)), in_place
        self.any_order, self.at_most, self.verify, self.error_rate = any_order, dict(at_most or {}), verify, error_rate
        self.first = next((one for one in self.kernels if one.function is not None), None)
        self.known: dict[Point, Sample] = {}
        self._terms: dict[Point, int] = {}
        self._settled: set[Point] = set()
        if self.first is None and reference is None and verify is None:
            raise UsageError("a kernel's source alone says not what is right; give reference=, or a function beside it")
        if self.first is None and not self.outputs:
            raise UsageError("name what the kernel writes: outputs='y', one of the names of the inputs")

    def make_family(self) -> Family:
        """Return the family; a loader sets where it lies."""
        family = Family(
            name=self.name,
            title=self.name.replace("_", " "),
            axes=self.inputs.list_axes(),
            signature=lambda problem: self.sample(problem).signature,
            generate=self.generate,
            reference=self.compute_reference,
            tolerance=self.tolerate,
            useful_bytes=self._useful_bytes,
            flops=None if self.flops is None else self._count_flops,
            contract=self._contract(),
            sample=self.sample,
            known=self.known,
            in_place=self.in_place,
            any_order=self.any_order,
            at_most=tuple(self.at_most),
            verify=self.judge if self.verify else None,
            error_rate=self.error_rate,
        )
        family.variants.update({one.name: self._variant(one) for one in self.kernels})
        return family

    def sample(self, problem: Point) -> Sample:
        """Draw inputs and, where functions return results, compute the first; remembered for each problem."""
        if problem not in self.known:
            self.known[problem] = self._take_sample(problem)
            if self.tolerance is None:
                self._terms[problem] = self._count_terms(problem)
        return self.known[problem]

    def generate(self, problem: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return arrays on the host, drawn anew; see `Inputs.draw_arrays`."""
        known = self.sample(problem).signature
        arrays = self.inputs.draw_arrays((*known.inputs, *self.in_place), problem, rng)
        for name, array in arrays.items():
            wanted = {**known.outputs, **known.inputs}[name].shape
            if array.shape != wanted and name not in self.at_most:
                more = (
                    f"; if its rows differ from draw to draw, say how many there are at most: at_most={{{name!r}: …}}"
                )
                raise FamilyError(f"inputs() gave {name} of shape {array.shape}, and before of {wanted}{more}")
        return arrays

    def compute_reference(self, problem: Point, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return what is right: by the reference in float64, or by the first function as it is.

        Raises:
            FamilyError: it raises, is of other outputs, has a NaN, or depends on what an output held before.
        """
        if self.reference is None and self.verify is not None:
            return {}
        found = self._compute(problem, inputs)
        signature = self.sample(problem).signature
        for name, array in found.items():
            wanted = signature.outputs[name].shape
            if array.shape != wanted and name not in self.at_most:
                more = "" if self.reference else "; a result that has fewer rows for some inputs is named in at_most="
                raise FamilyError(f"reference() gave {name} of shape {array.shape}, and not of {wanted}{more}")
            wrong = np.isnan(array) if is_floating(array) else np.zeros(0)
            if count := int(np.count_nonzero(np.ma.filled(wrong, False))):
                raise FamilyError(
                    f"reference() gave NaN for {count} of {array.size} elements of {name}; no NaN is right"
                )
        if problem not in self._settled and self.reference is None and {*self.outputs} - {*self.in_place}:
            again = self._compute(problem, inputs, np.nan)
            for name in (name for name, array in again.items() if is_floating(array) and np.isnan(array).any()):
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
        change = widen if self.reference is not None and is_wide else np.asarray
        outputs = {name: np.zeros(spec.shape, spec.type) for name, spec in sample.signature.outputs.items()}
        for array in outputs.values():
            if is_floating(array):
                array.fill(fill)
        outputs |= {name: np.array(inputs[name]) for name in self.in_place}
        arrays = {
            name: home.bring(change(array))
            for name, array in {**inputs, **{name: outputs[name] for name in self.outputs}}.items()
        }
        function = self.reference or self.first
        assert function is not None
        returned = blamed(self.place, "reference", problem, lambda: self._call(problem, function, sample, arrays))
        if returned is None and self.outputs:
            returned = {name: arrays[name] for name in self.outputs}
        found = self._by_name(returned, "reference()")
        found = {rows: np.array([len(found[name])]) for name, rows in self._counted(found)} | found  # told first
        if {*found} != {name for name in sample.signature.outputs if self.verify is None or name in found}:
            raise FamilyError(
                f"reference() gave {list_first([*found], 4)}; the results are {list_first([*outputs], 4)}"
            )
        return {
            name: array if np.ma.isMaskedArray(array) else to_host(array, f"{name} of the reference")
            for name, array in found.items()
        }

    def judge(self, problem: Point, inputs: Arrays, outputs: Arrays, expected: Arrays) -> Verdict:
        """Return what the person's own function says of results."""
        before = {f"{name}_before": inputs[name] for name in self.in_place}
        scalars = {name: scalar.read() for name, scalar in self.sample(problem).scalars.items()}
        assert self.verify is not None
        results = {**outputs, **{name: outputs[name][: outputs[rows][0]] for name, rows in self._counted(outputs)}}
        verdict: Verdict = call_by_name(self.verify, {**problem, **scalars, **inputs, **before, **results}, "verify")
        return verdict

    def tolerate(self, problem: Point, inputs: Arrays, expected: Arrays) -> Tolerances:
        """Return how far a result may lie from the reference."""
        if self.tolerance is not None:
            given = tolerances.as_given(self.tolerance, problem, inputs, expected)
            counts = {rows: Tolerance() for _, rows in self._counted(expected)}
            each = given if isinstance(given, Mapping) else dict.fromkeys(expected, given)
            return {**each, **counts} if counts else given
        signature, is_exact = self.sample(problem).signature, self.reference is not None
        bounds = tolerances.by_type(signature, expected, self._terms[problem], is_exact=is_exact)
        if not any(one.function is self.reference for one in self.kernels if one.function is not None):
            return bounds
        return tolerances.at_least(bounds, expected, self._compute(problem, inputs, is_wide=False))

    def bind(self, one: Kernel, problem: Point, tunables: Point, inputs: Arrays, outputs: Arrays) -> Any:
        """Return what is timed of a function: it alone, on a session's arrays."""
        sample = self.sample(problem)
        home = HOMES[sample.home]
        signature = sample.signature
        types = {name: array.type for name, array in (*signature.inputs.items(), *signature.outputs.items())}
        views = {name: home.view(array, types[name]) for name, array in (*inputs.items(), *outputs.items())}
        run = self._bound(problem, one.function, sample, views, dict(tunables))
        return run if self.outputs else Call(run, partial(self._deliver, home, outputs, signature))

    def _take_sample(self, problem: Point) -> Sample:
        drawn = self.inputs.draw(problem, np.random.default_rng(0))
        absent = [name for name in self.outputs if name not in drawn]
        if absent:
            raise FamilyError(f"outputs names {', '.join(absent)}; the inputs are {', '.join(drawn)}")
        homes = {name: home for name, value in drawn.items() if (home := home_of(value))}
        scalars = {name: as_scalar(name, value) for name, value in drawn.items() if name not in homes}
        if len({home.name for home in homes.values()}) != 1:
            kinds = ", ".join(f"{name} ({home.name})" for name, home in homes.items()) or "no array"
            raise FamilyError(f"the inputs are {kinds}; let all arrays be one library's, in one memory")
        home = next(iter(homes.values()))
        arrays = {name: describe(name, drawn[name]) for name in homes}
        inputs = {name: spec for name, spec in arrays.items() if name not in self.outputs}
        known = Sample(Signature(inputs, {}), scalars, tuple(drawn), home.name, home.backend)
        if self.outputs:
            results = {name: arrays[name] for name in self.outputs}
        else:
            first = self.first
            assert first is not None
            returned = blamed(self.place, first.name, problem, lambda: self._call_first(problem, known, drawn)())
            found = self._by_name(returned, first.name)
            results = {name: describe(name, value, is_copied=True) for name, value in found.items()}
            results |= {rows: Array((1,), "int64") for _, rows in self._counted(found)}
        sizes = {**problem, **{name: scalar.value for name, scalar in scalars.items()}}
        inputs, results = (
            {name: self._at_most(name, array, sizes) for name, array in arrays.items()} for arrays in (inputs, results)
        )
        return Sample(Signature(inputs, results), scalars, tuple(drawn), home.name, home.backend)

    def _at_most(self, name: str, array: Array, sizes: Mapping[str, Any]) -> Array:
        most = self.at_most.get(name)
        if most is None:
            return array
        rows = sizes.get(most, most)
        if not isinstance(rows, int) or not array.shape:
            raise FamilyError(f"{name} has at most {most!r} rows; give a whole number, or one of {', '.join(sizes)}")
        return Array((rows, *array.shape[1:]), array.dtype)

    def _counted(self, found: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the results that are returned with as many rows as there are, each with what tells how many."""
        return [] if self.outputs else [(name, f"{name}_rows") for name in self.at_most if name in found]

    def _count_terms(self, problem: Point) -> int:
        signature = self.known[problem].signature
        if all(array.type.kind not in "fcV" for array in signature.outputs.values()):
            return 1
        try:
            inputs = self.generate(problem, np.random.default_rng(0))
            return tolerances.count_terms(signature, inputs, partial(self._compute, problem))
        except FamilyError:  # a reference that refuses a NaN; one that fails anyway is told when it counts
            return tolerances.longest_sum(signature)

    def _arguments(self, sample: Sample, arrays: Mapping[str, Any]) -> list[Any]:
        return [sample.scalars[name].read() if name in sample.scalars else arrays[name] for name in sample.arguments]

    def _bound(
        self,
        problem: Point,
        function: Any,
        sample: Sample,
        arrays: Mapping[str, Any],
        tunables: Mapping[str, Any],
    ) -> partial[Any]:
        """Return a function with its arguments: in their order, or by name where inputs and parameters have names."""
        values = self._arguments(sample, arrays)
        if self.inputs.are_named(problem) and goes_by_name(function, sample.arguments, tunables):
            return partial(function, **dict(zip(sample.arguments, values, strict=True)), **tunables)
        return partial(function, *values, **tunables)

    def _call_first(self, problem: Point, sample: Sample, arrays: Mapping[str, Any]) -> partial[Any]:
        assert self.first is not None
        chosen = {tunable.name: tunable.default for tunable in self.first.list_tunables()}
        return self._bound(problem, self.first.function, sample, arrays, chosen)

    def _call(self, problem: Point, function: Callable[..., Any], sample: Sample, arrays: Mapping[str, Any]) -> Any:
        """Call a reference: with what its parameters name, or with all inputs in their order."""
        if function is self.first:
            return self._call_first(problem, sample, arrays)()
        known = dict(zip(sample.arguments, self._arguments(sample, arrays), strict=True))
        names = list_parameters(function, by_name=True)
        if names and set(names) <= set(known):
            return function(**{name: known[name] for name in names})
        return function(*(value for name, value in known.items() if name not in self.outputs or name in self.in_place))

    def _by_name(self, returned: Any, who: str) -> dict[str, Any]:
        """Return what a function returned by the names of the outputs."""
        if returned is None:
            raise FamilyError(f"{who} returned nothing; where it writes into an argument, name that: outputs='y'")
        if isinstance(returned, Mapping):
            return {str(name): value for name, value in returned.items()}
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        if self.outputs and len(values) == len(self.outputs):
            return dict(zip(self.outputs, values, strict=True))
        return {f"result{number or ''}": value for number, value in enumerate(values)}

    def _deliver(self, home: Home, outputs: Arrays, signature: Signature, returned: Any) -> None:
        """Copy what a function returned into a session's outputs."""
        found = self._by_name(returned, "the function")
        rows = dict(self._counted(found))
        wanted = [name for name in outputs if name not in rows.values()]
        if {*found} != {*wanted}:
            raise ValueError(
                f"it returned {list_first([*found], 4)}; the first variant returns {list_first(wanted, 4)}"
            )
        for name in wanted:
            result, output, right = found[name], outputs[name], signature.outputs[name]
            own = home_of(result)
            if own is None and right.shape == () and isinstance(result, int | float | complex | np.generic):
                is_plain = not isinstance(result, np.generic)
                result = home.bring(np.asarray(result, right.type if is_plain else None))
            elif own is not home:
                kind = own.name if own else type(result).__name__
                raise ValueError(
                    f"it returned {name} as {'an array of ' if own else ''}{kind}; the inputs are {home.name}"
                )
            spec = describe(name, result, is_copied=True)
            if name in rows and spec.shape[:1] <= right.shape[:1]:
                outputs[rows[name]].fill(spec.shape[0])
                output, right = output[: spec.shape[0]], replace(right, shape=(*spec.shape[:1], *right.shape[1:]))
            if spec != right:
                raise ValueError(
                    f"it returned {name} as {spec.dtype} of shape {spec.shape}; "
                    f"the first variant returns {right.dtype} of shape {right.shape}"
                )
            home.copy(result, output, right.type)

    def _useful_bytes(self, problem: Point) -> int:
        if self.useful_bytes is not None:
            return int(self.useful_bytes(**dict(problem)))
        signature = self.sample(problem).signature
        again = [signature.outputs[name] for name in self.in_place]
        return sum(array.nbytes for array in (*signature.inputs.values(), *signature.outputs.values(), *again))

    def _count_flops(self, problem: Point) -> int:
        assert self.flops is not None
        return int(self.flops(**dict(problem)))

    def _contract(self) -> dict[str, Any]:
        given = self.inputs.function
        judged = [self.at_most] if self.at_most else []
        decides = self.reference or self.verify or (self.first and self.first.function)
        assert decides is not None
        reference = self._content(decides)
        return {
            **({"verify": self._content(self.verify)} if self.verify else {}),
            "inputs": self._content(given) if given else digest_of(self.inputs.draw(Point(), np.random.default_rng())),
            "reference": partial(reference, VERSION, self.reference is None, self.outputs, *judged),
            "tolerance": tolerances.plain(self.tolerance),
        }

    def _content(self, function: Callable[..., Any]) -> partial[Any]:
        """Return what a function's identity is made of.

        The text of a function tells all of it, with the decorators above it; the name tells an installed one. Of what
        a call has made (`torch.compile(f)`) neither does, so the text of the whole file counts.
        """
        origin = origin_of(function)
        inner = unwrap(function)
        if inner is function or (inner is not None and inner.__globals__.get(inner.__name__) is function):
            return partial(function, origin)
        if inner is None and find_import(function) is not None:
            return partial(_of_a_package, origin)
        file = self.place if self.place.is_file() else self.place / FAMILY_FILE
        text = re.sub(r"^#line.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        return partial(inner or _of_a_package, origin, text)

    def _variant(self, one: Kernel) -> Variant:
        shared: dict[str, Any] = {
            "tunables": one.list_tunables(),
            "constraint": one.explain_absence if one.constraint or one.function is None else None,
            "files": (*self.files, *one.files),
        }
        if one.function is None:
            shared |= {"text": one.source} if one.is_text else {"source": one.source}
            shared["compiler"] = one.compiler
            if one.jit is not None:
                text, files = source_of(one.jit)
                name = self.place.name if self.place.is_file() else FAMILY_FILE
                shared |= {"text": text, "source": name, "requires": ("triton",)}
                shared["files"] = (*shared["files"], *files)

            def make_program(problem: Point, tunables: Point) -> Program:
                return one.make_program(problem, tunables, self.sample(problem))

            return Variant(one.name, one.backend, "kernel", make_program, f"kernel {one.symbol}", **shared)
        content = self._content(one.function)
        roots = {*installed_modules(content, self.place), origin_of(one.function).partition(".")[0]}
        requires = tuple(sorted(root for root in roots if root in sys.modules and root not in _OWN))
        said = (inspect.getdoc(one.function) or "").partition("\n")[0] if inspect.isroutine(one.function) else ""
        make = partial(self.bind, one)
        return Variant(one.name, "cpu", "cpu", make, said, requires=requires, content=content, **shared)


_OWN = {"cuprof", "builtins", *sys.stdlib_module_names}


def with_names(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the implementations, each with a name of its own: one that is taken gets its module's before it."""
    named: dict[str, Kernel] = {}
    for one in kernels:
        origin = re.sub(r"\W+", "_", one.symbol).strip("_") or origin_of(one.function)
        origin = re.sub(r"[^A-Za-z0-9_.<>]+", "_", origin).strip("_")
        short = origin.rpartition(".")[2].replace("<lambda>", "function") or "function"
        candidates = [one.name] if one.name else [short, origin, *(f"{short}_{number}" for number in range(2, 100))]
        name = next((each for each in candidates if each not in named and "<" not in each), "")
        if not name:
            raise UsageError(f"two implementations are named {one.name!r}; give one another name")
        named[name] = replace(one, name=name)
    return tuple(named.values())


def _of_a_package(*origin: str) -> None:
    """Stand for a function of an installed package, which is known by its name and the package's version.

    This one's own module and name are part of trials' identities: wherever it moves, what is stored is measured anew.
    """
