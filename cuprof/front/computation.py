"""A family made of functions that exist already: what they are given, what is right, and each as a variant.

What the arrays are called, their shapes and types, and on which back end functions run shows only when inputs are drawn
and a first result is computed. That is done in a worker (`Family.sample`); this process never runs it.
"""

from __future__ import annotations

import hashlib
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.errors import FamilyError, UsageError
from cuprof.family import (
    Array,
    Arrays,
    Axis,
    Call,
    Family,
    Point,
    Program,
    Sample,
    Scalar,
    Signature,
    Tolerance,
    Tolerances,
    Variant,
    Verdict,
)
from cuprof.family.functions import installed_modules
from cuprof.family.loader import FAMILY_FILE
from cuprof.family.trace import blame
from cuprof.front import tolerances
from cuprof.front.frameworks import HOMES, Home, dtype_of, home_of, is_floating, is_known, to_host, widen
from cuprof.front.kernels import Kernel, call_by_name
from cuprof.front.origins import find_import, unwrap

VERSION = 2
"""Raised when functions are given something else, or something else counts as right."""
GENERATOR = "rng"
"""The parameter of an inputs function that is given a seeded NumPy generator."""
GIVEN = Axis("inputs", "given", choices=("given",), description="arrays that were given once, permuted for each set")


class Computation:
    """Draw inputs, compute what is right, and bind functions to a session's arrays.

    Args:
        name: the family's.
        kernels: the implementations; the first is the baseline.
        place: the family's folder, or the file that it is.
        inputs: a function, or arrays and numbers as a sequence or by name.
        reference: computes what is right, in float64; None takes the first function's results.
        outputs: the arguments that results are written to; none where functions return them.
        in_place: those of them whose contents are part of the inputs.
        any_order: see `Family`.
        at_most: outputs of which a result may have fewer rows; of returned ones, and of inputs, with how many at most.
        verify: takes inputs and outputs, and axes, by name; as `Family.verify` it judges results. Without a reference
            it does so alone.
        error_rate: see `Family`.
        tolerance: as `tolerances.as_given` takes it; None goes by the type.
        flops: takes the axes.
        files: what all implementations read beside their own text.
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
        files: tuple[str, ...] = (),
    ) -> None:
        self.name, self.kernels, self.place, self.inputs = name, with_names(kernels), place, inputs
        self.reference, self.tolerance, self.flops, self.files = reference, tolerance, flops, files
        self.outputs, self.in_place = (*outputs, *(name for name in in_place if name not in outputs)), in_place
        self.any_order, self.at_most, self.verify, self.error_rate = any_order, dict(at_most or {}), verify, error_rate
        self.first = next((one for one in self.kernels if one.function is not None), None)
        self.parameters = dict(inspect.signature(inputs).parameters) if callable(inputs) else {}
        self.known: dict[Point, Sample] = {}
        self._terms: dict[Point, int] = {}
        if self.first is None and reference is None and verify is None:
            raise UsageError("a kernel's source alone says not what is right; give reference=, or a function beside it")
        if self.first is None and not self.outputs:
            raise UsageError("name what the kernel writes: outputs='y', one of the names of the inputs")

    def make_family(self) -> Family:
        """Return the family; a loader sets where it lies."""
        family = Family(
            name=self.name,
            title=self.name.replace("_", " "),
            axes=self._axes(),
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
        """Return arrays on the host, drawn anew; those that were given once with their floating-point ones permuted.

        Whole numbers, which may be indices, stay as they were given.
        """
        drawn, signature = self._draw(problem, rng), self.sample(problem).signature
        arrays = {name: to_host(drawn[name], f"input {name}") for name in (*signature.inputs, *self.in_place)}
        if callable(self.inputs):
            return arrays
        return {
            name: rng.permutation(array.reshape(-1)).reshape(array.shape) if is_floating(array) else array
            for name, array in arrays.items()
        }

    def compute_reference(self, problem: Point, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return what is right: by the reference in float64, or by the first function as it is."""
        if self.reference is None and self.verify is not None:
            return {}
        sample = self.sample(problem)
        home = HOMES[sample.home]
        change = widen if self.reference is not None else np.asarray
        outputs = {name: np.zeros(spec.shape, spec.type) for name, spec in sample.signature.outputs.items()}
        outputs |= {name: np.array(inputs[name]) for name in self.in_place}
        arrays = {
            name: home.bring(change(array))
            for name, array in {**inputs, **{name: outputs[name] for name in self.outputs}}.items()
        }
        function = self.reference or self.first
        assert function is not None
        returned = self._guarded("reference", problem, lambda: self._call(function, sample, arrays))
        if returned is None:
            returned = {name: arrays[name] for name in self.outputs}
        found = self._by_name(returned, "the reference")
        found |= {rows: np.array([len(found[name])]) for name, rows in self._counted(found)}
        if {*found} != {name for name in sample.signature.outputs if self.verify is None or name in found}:
            raise FamilyError(f"the reference gives {', '.join(found)}; the results are {', '.join(outputs)}")
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
        signature = self.sample(problem).signature
        return tolerances.by_type(signature, expected, self._terms[problem], is_exact=self.reference is not None)

    def bind(self, one: Kernel, problem: Point, tunables: Point, inputs: Arrays, outputs: Arrays) -> Any:
        """Return what is timed of a function: it alone, on a session's arrays."""
        sample = self.sample(problem)
        home = HOMES[sample.home]
        signature = sample.signature
        types = {name: array.type for name, array in (*signature.inputs.items(), *signature.outputs.items())}
        views = {name: home.view(array, types[name]) for name, array in (*inputs.items(), *outputs.items())}
        run = partial(_function(one), *self._arguments(sample, views), **dict(tunables))
        return run if self.outputs else Call(run, partial(self._deliver, home, outputs, signature))

    def _take_sample(self, problem: Point) -> Sample:
        drawn = self._draw(problem, np.random.default_rng(0))
        absent = [name for name in self.outputs if name not in drawn]
        if absent:
            raise FamilyError(f"outputs names {', '.join(absent)}; the inputs are {', '.join(drawn)}")
        homes = {name: home for name, value in drawn.items() if (home := home_of(value))}
        scalars = {name: _as_scalar(name, value) for name, value in drawn.items() if name not in homes}
        if len({home.name for home in homes.values()}) != 1:
            kinds = ", ".join(f"{name} ({home.name})" for name, home in homes.items()) or "no array"
            raise FamilyError(f"the inputs are {kinds}; let all arrays be one library's, in one memory")
        home = next(iter(homes.values()))
        arrays = {name: _describe(name, drawn[name]) for name in homes}
        inputs = {name: spec for name, spec in arrays.items() if name not in self.outputs}
        known = Sample(Signature(inputs, {}), scalars, tuple(drawn), home.name, home.backend)
        if self.outputs:
            results = {name: arrays[name] for name in self.outputs}
        else:
            first = self.first
            assert first is not None
            returned = self._guarded(first.name, problem, lambda: first(*self._arguments(known, drawn)))
            found = self._by_name(returned, first.name)
            results = {name: _describe(name, value) for name, value in found.items()}
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
            return tolerances.count_terms(signature, inputs, partial(self.compute_reference, problem))
        except FamilyError:  # a reference that refuses a NaN; one that fails anyway is told when it counts
            return tolerances.longest_sum(signature)

    def _draw(self, problem: Point, rng: np.random.Generator) -> dict[str, Any]:
        """Return the arguments by name, in the order in which functions take them."""
        drawn = self.inputs
        if callable(drawn):
            given: dict[str, Any] = {} if problem.keys() == {GIVEN.name} else dict(problem)
            if GENERATOR in self.parameters:
                given[GENERATOR] = rng
            else:
                _seed_all(int(rng.integers(2**31)))
            drawn = self._guarded("inputs", problem, lambda: self.inputs(**given))
        if isinstance(drawn, Mapping):
            return {str(name): value for name, value in drawn.items()}
        values = list(drawn) if isinstance(drawn, tuple | list) else [drawn]
        return dict(zip(self._argument_names(len(values)), values, strict=True))

    def _argument_names(self, count: int) -> list[str]:
        """Return the parameters of the first function that has as many without a default, else x0, x1, …"""
        for one in self.kernels:
            names = _parameters(one.function) if one.function is not None else None
            names = [name for name in names or () if name not in one.tunables]
            if len(names) >= count:
                return names[:count]
        return [f"x{number}" for number in range(count)]

    def _arguments(self, sample: Sample, arrays: Mapping[str, Any]) -> list[Any]:
        return [sample.scalars[name].read() if name in sample.scalars else arrays[name] for name in sample.arguments]

    def _call(self, function: Callable[..., Any], sample: Sample, arrays: Mapping[str, Any]) -> Any:
        """Call a reference: with what its parameters name, or with all inputs in their order."""
        known = dict(zip(sample.arguments, self._arguments(sample, arrays), strict=True))
        if function is self.first:
            return function(*known.values())
        names = _parameters(function, by_name=True)
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
        if list(found) != wanted:
            raise ValueError(f"it returned {', '.join(found)}; the first variant returns {', '.join(wanted)}")
        for name in wanted:
            result, output, right = found[name], outputs[name], signature.outputs[name]
            own = home_of(result)
            if own is None and right.shape == () and home.backend == "cpu":
                result = np.asarray(result, output.dtype) if isinstance(result, int | float) else np.asarray(result)
            elif own is not home:
                kind = own.name if own else type(result).__name__
                raise ValueError(f"it returned {name} as an array of {kind}; the inputs are {home.name}")
            spec = _describe(name, result)
            if name in rows and spec.shape[:1] <= right.shape[:1]:
                outputs[rows[name]].fill(spec.shape[0])
                output, right = output[: spec.shape[0]], replace(right, shape=(*spec.shape[:1], *right.shape[1:]))
            if spec != right:
                raise ValueError(
                    f"it returned {name} as {spec.dtype} of shape {spec.shape}; "
                    f"the first variant returns {right.dtype} of shape {right.shape}"
                )
            home.copy(result, output, right.type)

    def _axes(self) -> tuple[Axis, ...]:
        axes = [_axis(one) for name, one in self.parameters.items() if name != GENERATOR]
        return tuple(axes) or (GIVEN,)

    def _useful_bytes(self, problem: Point) -> int:
        signature = self.sample(problem).signature
        again = [signature.outputs[name] for name in self.in_place]
        return sum(array.nbytes for array in (*signature.inputs.values(), *signature.outputs.values(), *again))

    def _count_flops(self, problem: Point) -> int:
        assert self.flops is not None
        return int(self.flops(**dict(problem)))

    def _contract(self) -> dict[str, Any]:
        given = self.inputs if callable(self.inputs) else None
        judged = [self.at_most] if self.at_most else []
        reference = self._content(self.reference or self.verify or _function(self.first))
        return {
            **({"verify": self._content(self.verify)} if self.verify else {}),
            "inputs": self._content(given) if given else _digest(self._draw(Point(), np.random.default_rng())),
            "reference": partial(reference, VERSION, self.reference is None, self.outputs, *judged),
            "tolerance": tolerances.plain(self.tolerance),
        }

    def _content(self, function: Callable[..., Any]) -> partial[Any]:
        """Return what a function's identity is made of.

        The text of a function tells all of it, with the decorators above it; the name tells an installed one. Of what
        a call has made (`torch.compile(f)`) neither does, so the text of the whole file counts.
        """
        origin = _origin(function)
        inner = unwrap(function)
        if inner is function or (inner is not None and inner.__globals__.get(inner.__name__) is function):
            return partial(function, origin)
        if inner is None and find_import(function) is not None:
            return partial(_of_a_package, origin)
        file = self.place if self.place.is_file() else self.place / FAMILY_FILE
        return partial(inner or _of_a_package, origin, file.read_text(encoding="utf-8"))

    def _variant(self, one: Kernel) -> Variant:
        shared: dict[str, Any] = {
            "tunables": one.list_tunables(),
            "constraint": one.explain_absence if one.constraint or one.function is None else None,
            "files": (*self.files, *one.files),
        }
        if one.function is None:
            is_text = "\n" in one.source
            shared |= {"text": one.source} if is_text else {"source": one.source}
            make = partial(self._make_program, one)
            return Variant(one.name, one.backend, "kernel", make, f"kernel {one.symbol}", **shared)
        content = self._content(one.function)
        roots = {*installed_modules(content, self.place), _origin(one.function).partition(".")[0]}
        requires = tuple(sorted(root for root in roots if root in sys.modules and root not in _OWN))
        said = (inspect.getdoc(one.function) or "").partition("\n")[0] if inspect.isroutine(one.function) else ""
        make = partial(self.bind, one)
        return Variant(one.name, "cpu", "cpu", make, said, requires=requires, content=content, **shared)

    def _make_program(self, one: Kernel, problem: Point, tunables: Point) -> Program:
        return one.make_program(problem, tunables, self.sample(problem))

    def _guarded(self, what: str, problem: Point, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            folder = self.place.parent if self.place.is_file() else self.place
            raise FamilyError(blame(error, folder, f"{what}() at {problem.label}")) from error


_OWN = {"cuprof", "builtins", *sys.stdlib_module_names}


def with_names(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """Return the implementations, each with a name of its own: one that is taken gets its module's before it."""
    named: dict[str, Kernel] = {}
    for one in kernels:
        origin = one.symbol or _origin(one.function)
        short = origin.rpartition(".")[2].replace("<lambda>", "function")
        candidates = [one.name] if one.name else [short, origin, *(f"{short}_{number}" for number in range(2, 100))]
        name = next((each for each in candidates if each not in named and "<" not in each), "")
        if not name:
            raise UsageError(f"two implementations are named {one.name!r}; give one another name")
        named[name] = replace(one, name=name)
    return tuple(named.values())


def _of_a_package(*origin: str) -> None:
    """Stand for a function of an installed package, which is known by its name and the package's version."""


def _function(one: Kernel | None) -> Callable[..., Any]:
    if one is None or one.function is None:
        raise TypeError("a kernel's source is no function")
    return one.function


def _origin(function: Any) -> str:
    """Return "numpy.add" of a function, "module.name" of any other callable."""
    if isinstance(function, Kernel):
        return _origin(function.function)
    name = getattr(function, "__name__", "") or getattr(function, "name", "") or type(function).__name__
    module = getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__
    root = module.partition(".")[0].lstrip("_")
    return str(name) if module == "__main__" or module.startswith("_cuprof_family") else f"{root}.{name}"


def _parameters(given: Any, *, by_name: bool = False) -> list[str] | None:
    """Return the names of the parameters that have no default; None where they cannot be told, or are any number.

    Args:
        by_name: also None where they cannot be given by their names.
    """
    try:
        parameters = inspect.signature(_function(given) if isinstance(given, Kernel) else given).parameters
    except (TypeError, ValueError):  # builtins
        return None
    kinds = {inspect.Parameter.VAR_POSITIONAL.name, inspect.Parameter.VAR_KEYWORD.name}
    kinds |= {inspect.Parameter.POSITIONAL_ONLY.name} if by_name else set()
    if any(one.kind.name in kinds for one in parameters.values()):
        return None
    return [name for name, one in parameters.items() if one.default is inspect.Parameter.empty]


def _axis(parameter: inspect.Parameter) -> Axis:
    """Return the problem axis that a parameter of an inputs function is: its default, or several, the first first."""
    given = parameter.default
    if isinstance(given, bool | str):
        return Axis(parameter.name, given, choices=(given,) if isinstance(given, str) else (given, not given))
    if isinstance(given, tuple | list) and given:
        return Axis(parameter.name, given[0], choices=tuple(given))
    if isinstance(given, int):
        return Axis(parameter.name, given, low=0 if given == 0 else 1)
    raise UsageError(
        f"inputs: parameter {parameter.name} needs a default, a whole number (n=2**20) or a tuple of choices; "
        f"it is a problem axis. Only {GENERATOR} has none"
    )


def _as_scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, np.generic):
        return Scalar(value.item(), value.dtype.name)
    if isinstance(value, int | float):
        return Scalar(value)
    raise FamilyError(f"input {name} is a {type(value).__name__}; give arrays (NumPy, CuPy, PyTorch) and numbers")


def _describe(name: str, value: Any) -> Array:
    """Return shape and type of an array, or of the number that a function returned."""
    if home_of(value) is None:
        value = np.asarray(value)
    kind = dtype_of(value)
    if not is_known(kind):
        raise FamilyError(f"{name} is of type {kind}; it must be of numbers that NumPy has, such as float32")
    strided = value.is_contiguous() if hasattr(value, "is_contiguous") else _is_packed(value)
    if not strided:
        raise FamilyError(f"{name} is a view with gaps or another order; make it contiguous, functions are given that")
    return Array(tuple(map(int, value.shape)), kind if kind.names else str(kind))  # type: ignore[arg-type]


def _is_packed(value: Any) -> bool:
    flags = getattr(value, "flags", None)
    return bool(getattr(flags, "c_contiguous", True))


def _seed_all(seed: int) -> None:
    """Seed the generators that a function without one of its own draws from."""
    random.seed(seed)
    np.random.seed(seed)
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None:
        torch.manual_seed(seed)
    if cupy is not None:
        cupy.random.seed(seed)


def _digest(drawn: Mapping[str, Any]) -> str:
    """Return what tells given arrays and numbers apart."""
    digest = hashlib.sha256()
    for name, value in drawn.items():
        array = to_host(value, f"input {name}")
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
