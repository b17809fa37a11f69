"""Families and variants: the classes for a `family.py`.

from cuprof.families import Axis, Family, Tolerance, Array, Launch, Program, Signature, Tunable

family = Family(name="scale", title="y = 2x", axes=(Axis("n", default=2**20, low=1, high=2**30),),
                signature=..., generate=..., reference=..., tolerance=..., useful_bytes=...)

@family.cuda("plain", source="plain.cu", tunables=(Tunable("block", (64, 128, 256), default=128),))
def plain(problem, tune):
    \"\"\"One thread an element.\"\"\"
    blocks = -(-problem.n // tune.block)
    return Program(steps=(Launch("scale", (blocks,), (tune.block,), ("x", "y", problem.n)),))
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from cuprof.core.errors import FamilyError, UnknownNameError, UsageError
from cuprof.core.point import Axes, Coordinate, Point
from cuprof.families.program import Argument, Array, Program
from cuprof.families.tunables import Constraint, explain_unlisted, list_tunables, read_configurations, read_constraint

if TYPE_CHECKING:
    # Planning and composing need no NumPy, and it takes longer to import than everything else here.
    import numpy as np

__all__ = ["Arrays", "Axis", "Call", "Chance", "Family", "Sample", "Scalar", "Signature", "Tolerance", "Tolerances"]
__all__ += ["Tunable", "Variant", "Verdict"]

Arrays: TypeAlias = "Mapping[str, np.ndarray]"
Tolerances: TypeAlias = "Tolerance | Mapping[str, Tolerance]"
"""One for all outputs, or one for each by its name ("points.x" for one field of a struct)."""
Kind = Literal["kernel", "library", "cpu"]
ProgramMaker = Callable[[Point, Point], Program]
CallMaker = Callable[[Point, Point, Mapping[str, Any], Mapping[str, Any]], Callable[[], object]]
Registering = Callable[[ProgramMaker], ProgramMaker]
OWN_CLASSES = ("builtins", "cupy", "jaxlib", "numba", "numpy", "torch")
"""Packages whose classes results may have. A class of the variant's own could compute untimed, when it is copied."""


def is_among(value: Coordinate, values: Sequence[Coordinate]) -> bool:
    """Return whether a value is one of several; 1, 1.0 and True are three different values in a family.py."""
    return any(type(value) is type(one) and value == one for one in values)


@dataclass(frozen=True)
class Axis:
    """Describe one problem axis: an integer range (`low`…`high`, inclusive) or a set of `choices`."""

    name: str
    default: Coordinate
    low: int | None = None
    high: int | None = None
    choices: tuple[Coordinate, ...] = ()
    description: str = ""

    @property
    def is_integer(self) -> bool:
        """Return whether the axis takes whole numbers (and so accepts arithmetic such as 2**24)."""
        return isinstance(self.default, int) and not isinstance(self.default, bool)

    def domain(self) -> str:
        """Describe the allowed values for an error or a listing."""
        if self.choices:
            return "one of " + ", ".join(map(str, self.choices))
        if self.low is not None and self.high is not None:
            return f"a whole number from {self.low} to {self.high}"
        bound = "" if self.low is None else f" from {self.low} up"
        return f"a whole number{bound}" if self.high is None else f"a whole number up to {self.high}"

    def allows(self, value: Coordinate) -> bool:
        """Return whether the value lies on this axis."""
        if self.choices:
            return is_among(value, self.choices)
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class Tunable:
    """Describe one compile-time or launch parameter of a variant: its allowed values and its default."""

    name: str
    values: tuple[Coordinate, ...]
    default: Coordinate
    description: str = ""


@dataclass(frozen=True)
class Signature:
    """Describe the buffers of all variants at one problem, in the order of arguments."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    @property
    def nbytes(self) -> int:
        """Return the size of all buffers in bytes."""
        return sum(array.nbytes for array in (*self.inputs.values(), *self.outputs.values()))


@dataclass(frozen=True)
class Scalar:
    """Hold a number that every variant gets at one problem; `dtype` is empty for Python's own types."""

    value: int | float | bool
    dtype: str = ""


@dataclass(frozen=True)
class Sample:
    """Describe the arguments of one problem, as running the family's own functions showed them.

    Args:
        signature: names, shapes and types of the arrays that they took and returned.
        scalars: the numbers among the arguments.
        arguments: names of all arguments, in the order of the functions' parameters.
        home: the library of the arrays ("numpy", "torch", "cupy").
        backend: the back end that runs functions of such arrays.
        by_name: the arguments came by name, and not in an order.
    """

    signature: Signature
    scalars: Mapping[str, Scalar]
    arguments: tuple[str, ...]
    home: str
    backend: str
    by_name: bool = False

    @property
    def numbers(self) -> dict[str, Argument]:
        """Return the numbers among the arguments in their own types."""
        import numpy as np

        scalars = self.scalars.items()
        return {name: np.dtype(one.dtype).type(one.value) if one.dtype else one.value for name, one in scalars}


@dataclass(frozen=True)
class Tolerance:
    """State how far a result may be from the reference: `|result - reference| ≤ absolute + relative · |reference|`.

    Args:
        absolute: a bound in the output's own unit, a number or an array that broadcasts over the output.
        relative: a bound relative to the reference.
        reason: why this bound is right; shown with a wrong result.
    """

    absolute: float | np.ndarray = 0.0
    relative: float = 0.0
    reason: str = "exact"

    @staticmethod
    def of(given: Tolerances, output: str) -> Tolerance:
        """Return the tolerance of an output, or of a field of it, which may have one of its own."""
        return given if isinstance(given, Tolerance) else given.get(output) or given[output.partition(".")[0]]


@dataclass(frozen=True)
class Chance:
    """State the outcome of a statistical test of a random result.

    Args:
        p: the probability that a right variant gives a result as extreme as this one.
        reason: the tested property; shown if the probability is too low.
    """

    p: float
    reason: str = ""


Verdict: TypeAlias = "str | bool | Chance | None"
"""What `verify` returns: None, "" or True for a right result; the reason or False for a wrong one; or a `Chance`."""


class Call:
    """A timed call that returns its results, and an untimed one that copies them to the outputs.

    Args:
        run: computes and returns the results; this is timed.
        put: copies the last results of `run` into the outputs; untimed, and called before each comparison.
    """

    def __init__(self, run: Callable[[], object], put: Callable[[object], None]) -> None:
        self._run, self._put = run, put
        self._returned: object = None

    def __call__(self) -> None:
        self._returned = self._run()

    def deliver(self) -> None:
        """Copy the last execution's result into the outputs.

        Raises:
            TypeError: a result has a class of another package, which may do its work only now.
        """
        found = self._returned
        is_plain_sequence = isinstance(found, tuple | list) and type(found).__iter__ in (tuple.__iter__, list.__iter__)
        parts: Any = found.values() if type(found) is dict else found if is_plain_sequence else [found]
        for each in parts:
            kind = type(each)
            home = sys.modules.get(kind.__module__)
            is_own = kind.__module__.partition(".")[0] in OWN_CLASSES and getattr(home, kind.__name__, kind) is kind
            if not is_own:
                raise TypeError(
                    f"it returned a {kind.__name__}, whose class may compute when it is copied, which is not "
                    "timed; return arrays of NumPy, CuPy, PyTorch or JAX, or a dict or tuple of them"
                )
        self._put(found)


@dataclass(frozen=True)
class Variant:
    """Describe one implementation of a family; made by `Family.kernel`, `.cuda`, `.opencl`, `.library` and `.cpu`.

    Attributes:
        name: unique in its family.
        backend: the back end that runs it.
        kind: "kernel" for own source, "library" for a library call, "cpu" for a function on the host.
        make: the decorated function. For kernels `(problem, tunables) -> Program`; otherwise
            `(problem, tunables, inputs, outputs) -> callable`. The function prepares, untimed; the callable computes
            outputs from inputs and may be repeated. Arrays are NumPy's for "cpu", CuPy's for a CUDA library.
        source: file beside family.py (kernels only). Its suffix is the language (see `cuprof.families.sources`).
        compiler: the compiler of `source`, if not the back end's own: "nvcc", "g++", "gcc".
        requires: importable modules that the variant needs beyond its back end.
        expected: "wrong" for a variant kept although its results are known to be wrong.
        origin: the study's or the author's name for it, shown in tables ("kernel 3").
        tolerance: replaces the family's tolerance, for another precision or error bound; None keeps the family's.
        text: the source itself, instead of a file (kernels only).
        files: further files that the variant reads, beside family.py or absolute; their contents count for identity.
        content: the function that identifies the variant, if `make` only calls it.
    """

    name: str
    backend: str
    kind: Kind
    make: Callable[..., Any]
    description: str
    source: str | None = None
    compiler: str = ""
    tunables: tuple[Tunable, ...] = ()
    constraint: Constraint | None = None
    requires: tuple[str, ...] = ()
    expected: Literal["right", "wrong"] = "right"
    origin: str = ""
    tolerance: Callable[[Point, Arrays, Arrays], Tolerances] | None = None
    text: str = ""
    files: tuple[str, ...] = ()
    content: Any = None

    def tunable(self, name: str) -> Tunable | None:
        """Return the tunable of that name, or None."""
        return next((tunable for tunable in self.tunables if tunable.name == name), None)


@dataclass
class Family:
    """Describe one computation: its problems, inputs, reference, tolerance, useful work, and its variants.

    Args:
        name: the folder's name.
        title: a few words for headings.
        axes: the problem axes.
        signature: problem → the shapes and dtypes of inputs and outputs.
        generate: (problem, rng) → fresh random host inputs, by name, matching the signature.
        reference: (problem, inputs) → expected outputs by name, in float64 or exact integers. Mask the elements that a
            variant need not write (`np.ma.masked_array`).
        tolerance: (problem, inputs, reference) → how far a right result may be from the reference: a `Tolerance`, or
            one for each output.
        useful_bytes: problem → bytes that any implementation must move (inputs read once, outputs written once).
        flops: problem → arithmetic operations of the computation; None where the count means nothing.
        constraint: problem → why this problem is not allowed, or None.
        presets: named problems; each has values for all axes or some.
        baseline: name of the variant to compare others with; empty for the first one.
        constants: inputs that keep their values from one execution to the next, like a network's weights; a variant may
            prepare from them, untimed. All other inputs have new values at each execution.
        in_place: outputs that hold the values that `generate` gives under their names before each execution.
        any_order: outputs whose rows may be in any order; they are sorted before they are compared. Rows of a tuple of
            outputs stay together and are sorted by the first output, then by the next.
        at_most: inputs and outputs whose signature has the most rows: `generate` and `reference` may give fewer.
            Behind an input's rows all bits are set; behind an output's rows nothing is compared.
        verify: (problem, inputs, outputs, reference) → a `Verdict` on results within tolerance. `reference` may leave
            out outputs that only `verify` can judge.
        error_rate: how often the tests of `verify` may call a right variant wrong, over all of its comparisons.
    """

    name: str
    title: str
    axes: tuple[Axis, ...]
    signature: Callable[[Point], Signature]
    generate: Callable[[Point, np.random.Generator], Arrays]
    reference: Callable[[Point, Arrays], Arrays]
    tolerance: Callable[[Point, Arrays, Arrays], Tolerances]
    useful_bytes: Callable[[Point], int]
    flops: Callable[[Point], int] | None = None
    constraint: Callable[[Point], str | None] | None = None
    presets: Mapping[str, Mapping[str, Coordinate]] = field(default_factory=dict)
    baseline: str = ""
    constants: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    any_order: tuple[str | tuple[str, ...], ...] = ()
    at_most: tuple[str, ...] = ()
    verify: Callable[[Point, Arrays, Arrays, Arrays], Verdict] | None = None
    error_rate: float = 1e-6
    judged: tuple[str, ...] | None = None
    """Outputs that `verify` looks at; None for all."""
    variants: dict[str, Variant] = field(default_factory=dict)
    folder: Path | None = None
    """The folder of family.py; set by its origin."""
    path: Path | None = None
    """The folder or the one file that the family was loaded from; set by its origin."""
    origin: Any = None
    """The `Origin` that another process loads the same family from; set by it."""
    code: Mapping[str, str] = field(default_factory=dict)
    """File that decides the loaded code → its digest when the family was loaded; set by its origin."""
    contract: Mapping[str, Any] = field(default_factory=dict)
    """Functions that identify the contract, where the ones above only call them."""
    sample: Callable[[Point], Sample] | None = None
    """Runs the family's functions where only that shows the shapes. Workers alone call it; see `learn`."""
    known: dict[Point, Sample] = field(default_factory=dict)
    """What `sample` has returned for each problem."""
    add_solution: Callable[[Path], Variant] | None = None
    """For the family of a definition: a solution's JSON → the variant that it is."""
    usual: Mapping[str, Axes] = field(default_factory=dict)
    """"problem" and "tune" → axis → the values that a sweep takes if it names none; without them, the default."""

    def learn(self, samples: Mapping[Point, Sample]) -> None:
        """Take a worker's samples; variants whose back end shows only by running get theirs."""
        self.known.update(samples)
        for backend in {sample.backend for sample in samples.values()}:
            for name, variant in self.variants.items():
                if variant.kind != "kernel" and variant.backend != backend:
                    kind: Kind = "cpu" if backend == "cpu" else "library"
                    self.variants[name] = replace(variant, backend=backend, kind=kind)

    def kernel(self, name: str, *, backend: str, source: str, **details: Any) -> Registering:
        """Register a variant whose source is a file beside family.py; the decorated function returns its `Program`.

        Args:
            **details: compiler, tunables, constraint, requires, expected, origin, tolerance, description (default: the
                docstring's first line).
        """
        return self._register(name, backend, "kernel", source=source, **details)

    def cuda(self, name: str, *, source: str, **details: Any) -> Registering:
        """Register a CUDA C++ variant; see `kernel`."""
        return self.kernel(name, backend="cuda", source=source, **details)

    def triton(self, name: str, *, source: str, kernel: str = "", **details: Any) -> Registering:
        """Register a variant of `@triton.jit` functions; see `kernel`.

        Args:
            source: Python file beside family.py; only the processes that compile it import it.
            kernel: the function whose `@triton.autotune` configurations become the variant's tunables; empty to state
                `tunables`.
        """
        details["requires"] = ("triton", *as_names("requires", details.get("requires", ())))
        if not kernel:
            return self.kernel(name, backend="cuda", source=source, **details)

        def register(make: ProgramMaker) -> ProgramMaker:
            listed = read_configurations(Path(make.__code__.co_filename).parent / source, kernel)
            tunables = tuple(Tunable(one, values, values[0]) for one, values in list_tunables(listed).items())
            given = {"tunables": tunables, "constraint": partial(explain_unlisted, listed, ()), **details}
            return self.kernel(name, backend="cuda", source=source, **given)(make)

        return register

    def program(self, name: str, *, source: str, **details: Any) -> Registering:
        """Register a whole executable, or a source that becomes one; see `kernel`."""
        return self.kernel(name, backend="program", source=source, **details)

    def opencl(self, name: str, *, source: str, **details: Any) -> Registering:
        """Register an OpenCL C variant; see `kernel`."""
        return self.kernel(name, backend="opencl", source=source, **details)

    def library(
        self, name: str, *, requires: Sequence[str], backend: str = "cuda", **details: Any
    ) -> Callable[[CallMaker], CallMaker]:
        """Register a library call on device arrays; the decorated function prepares and returns a callable."""
        return self._register(name, backend, "library", requires=as_names("requires", requires), **details)

    def cpu(self, name: str, *, requires: Sequence[str] = (), **details: Any) -> Callable[[CallMaker], CallMaker]:
        """Register a function on NumPy arrays; the decorated function prepares and returns a callable."""
        return self._register(name, "cpu", "cpu", requires=as_names("requires", requires), **details)

    def variant(self, name: str) -> Variant:
        """Return the variant of that name, or raise `UnknownNameError`, which names the nearest ones."""
        if name not in self.variants:
            raise UnknownNameError("variant", name, self.variants, f"of family {self.name}")
        return self.variants[name]

    def axis(self, name: str) -> Axis:
        """Return the problem axis of that name, or raise `UnknownNameError`."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise UnknownNameError("problem axis", name, [axis.name for axis in self.axes], f"of family {self.name}")

    def get_baseline(self) -> str:
        """Return the baseline variant's name."""
        return self.baseline or next(iter(self.variants))

    def _register(self, name: str, backend: str, kind: Kind, **details: Any) -> Callable[[Any], Any]:
        def register(make: Callable[..., Any]) -> Callable[..., Any]:
            if name in self.variants:
                raise FamilyError(f"family {self.name} has two variants named {name!r}; give one another name")
            description = details.pop("description", "") or (inspect.getdoc(make) or "").partition("\n")[0]
            told = [each for each in (details.get("tunables", ()), self.axes) if isinstance(each, Iterable)]
            known = [one.name for one in chain(*told) if isinstance(one, Tunable | Axis)]  # else `check_family` says it
            details["constraint"] = read_constraint(details.get("constraint"), known)
            self.variants[name] = Variant(name, backend, kind, make, description, **details)
            return make

        return register


def as_names(what: str, given: str | Sequence[Any]) -> tuple[Any, ...]:
    """Return several names as a tuple; a text is one name. A value that can be none raises `UsageError`."""
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for each in names:
        if not isinstance(each, Iterable | Path):
            raise UsageError(f"{what} has a value of type {type(each).__name__}; give a name, or a list of names")
    return names
