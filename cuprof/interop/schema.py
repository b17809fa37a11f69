"""The JSON of FlashInfer-Bench and SOL-ExecBench, and reading what a stranger wrote: inside, and of bounded size.

Both have one schema: https://bench.flashinfer.ai/docs/flashinfer-trace and docs/ of NVIDIA/SOL-ExecBench. Fields that
change nothing of a run (tags, target_hardware, a trace's evaluation) are passed over. All of it is data: expressions
are bounded arithmetic, and nothing here runs what a file says.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from math import prod
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

import msgspec

from cuprof.core.errors import UsageError
from cuprof.core.expression import ExpressionError, compute
from cuprof.core.files import read_regular
from cuprof.families import Array

T = TypeVar("T")
DTYPES = {name: name for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")}
DTYPES |= {name: name for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")} | {"float8_e4m3": "float8_e4m3fn"}
"""Their name of a type → ours. NumPy and ml_dtypes have none of two float4 in a byte."""
MOST_ELEMENTS = 1 << 40
"""Of an array: more than any device holds."""
MOST_DIMENSIONS = 64
"""Of an array: NumPy and PyTorch have no more."""
MOST_WORKLOADS = 10_000
"""Of a definition: planning as many takes ten seconds."""
MOST_COMPUTED = 30_000
"""Expressions and constraints of a definition, each as often as it has workloads: they take 20 s to plan with."""
MOST_SIZED = 1_000_000
"""Axes, inputs, outputs and dimensions of a definition, each as often as it has workloads: they take as long."""
MOST_TEXT = 1 << 20
"""Characters of a Python source; Python's parser takes a hundred times as much memory."""
MOST_DOTS = 1_000
"""Of a dotted name in a row: the time in which Python's parser reads an import grows with their square."""
COMPILED = frozenset({"cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas"})
"""Languages whose sources a compiler of the host makes a module of; all others are imported as Python."""


class Axis(msgspec.Struct):
    """A dimension: a constant, one that workloads set, or an expression of other ones."""

    type: Literal["const", "var", "expr"]
    value: int = 0
    expression: str = ""


class Tensor(msgspec.Struct):
    """An input or output; a shape of null is a number."""

    shape: list[str] | None
    dtype: str


class Definition(msgspec.Struct):
    """A definition: the computation, with its reference in Python."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    description: str | None = None
    op_type: str | None = None
    constraints: list[str] | None = None
    custom_inputs_entrypoint: str | None = None

    def __post_init__(self) -> None:
        """Refuse a definition that cuprof does not support."""
        parse_python(self.reference, "the reference")
        for name, one in {**self.inputs, **self.outputs}.items():
            if one.dtype not in DTYPES:
                raise ValueError(f"{name} is of type {one.dtype}; supported are {', '.join(DTYPES)}")
            if (dimensions := len(one.shape or ())) > MOST_DIMENSIONS:
                raise ValueError(f"{name} has {dimensions} dimensions; at most {MOST_DIMENSIONS} are supported")
            absent = [each for each in one.shape or () if not each.isdecimal() and each not in self.axes]
            if absent:
                raise ValueError(f"{name} has the axis {absent[0]}; there are {', '.join(self.axes)}")
        if shared := self.inputs.keys() & self.outputs.keys():
            raise ValueError(f"{shared.pop()} is an input and an output; give one another name")
        if self.custom_inputs_entrypoint and not self.custom_inputs_entrypoint.isidentifier():
            raise ValueError(f"custom_inputs_entrypoint {self.custom_inputs_entrypoint} must be a function's name")
        if self.op_type == "sampling":
            raise ValueError("op_type sampling compares distributions of results, which is not supported")

    def size(self, axes: dict[str, int]) -> dict[str, int]:
        """Return the value of every axis, from those of a workload."""
        known: dict[str, int] = {name: axis.value for name, axis in self.axes.items() if axis.type == "const"} | axes
        for name, axis in self.axes.items():
            if axis.type == "expr":
                value = compute(axis.expression, known)
                if not isinstance(value, int | float) or value != int(value):
                    raise ValueError(f"axis {name} is {value!r}; it must be a whole number")
                known[name] = int(value)
        return known

    def list_arrays(self, axes: dict[str, int]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the arrays among the inputs, and all outputs: a number is an array of no dimension there."""
        sizes = self.size(axes)
        inputs = {
            name: self._make_array(name, one, sizes) for name, one in self.inputs.items() if one.shape is not None
        }
        return inputs, {name: self._make_array(name, one, sizes) for name, one in self.outputs.items()}

    def list_changed(self) -> tuple[str, ...]:
        """Return the arrays among the inputs that the reference's text changes in place.

        They are written anew before each execution, as both benchmarks give each one a copy; their last content is
        ignored.
        """
        found = set()
        for node in ast.walk(parse_python(self.reference, "the reference")):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                targets = [node.func.value] if node.func.attr.endswith("_") and node.func.attr[-2:-1] != "_" else []
            elif isinstance(node, ast.Assign):
                targets = [one.value for one in node.targets if isinstance(one, ast.Subscript)]
            elif isinstance(node, ast.AugAssign):
                targets = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
            found |= {one.id for one in targets if isinstance(one, ast.Name)}
        return tuple(name for name, one in self.inputs.items() if name in found and one.shape is not None)

    def _make_array(self, name: str, one: Tensor, sizes: dict[str, int]) -> Array:
        shape = tuple(int(each) if each.isdecimal() else sizes[each] for each in one.shape or ())
        # each first: a product of long numbers takes long
        if any(not 0 <= each <= MOST_ELEMENTS for each in shape) or prod(shape) > MOST_ELEMENTS:
            raise ValueError(f"{name} has the shape {shape}, which no array has")
        return Array(shape, DTYPES[one.dtype])


class Source(msgspec.Struct):
    """A file of a solution."""

    path: str
    content: str


class CompileOptions(msgspec.Struct):
    """Further flags of the compilers."""

    cflags: list[str] = []
    cuda_cflags: list[str] = []
    ld_flags: list[str] = []


class Spec(msgspec.Struct):
    """How a solution is built and called.

    Where it does not say whether it is given the outputs, a Python function's parameters tell; others are given them,
    and what they return counts. Of a compiled one the entry point's file says nothing: it is one module.
    """

    entry_point: str
    language: str = ""
    languages: list[str] = []
    destination_passing_style: bool | None = None
    binding: str | None = None
    compile_options: CompileOptions | None = None

    @property
    def is_compiled(self) -> bool:
        """Return whether a compiler of the host makes a module of it."""
        return not COMPILED.isdisjoint((self.language, *self.languages))


class Solution(msgspec.Struct):
    """An implementation of a definition."""

    name: str
    definition: str
    spec: Spec
    sources: list[Source]
    author: str = ""
    description: str | None = None

    def __post_init__(self) -> None:
        """Refuse a source outside of the solution's folder, and what cannot be built."""
        for source in self.sources:
            place = PurePosixPath(source.path)
            if place.is_absolute() or ".." in place.parts or not place.parts or "\0" in source.path:
                raise ValueError(f"source {source.path!r} must be a relative path without ..")
        file, separator, function = self.spec.entry_point.partition("::")
        paths = [source.path for source in self.sources]
        if not separator or not function.isidentifier() or not (self.spec.is_compiled or file in paths):
            raise ValueError(
                f"entry_point {self.spec.entry_point} must be FILE::FUNCTION with one of {', '.join(paths)}"
            )
        if self.spec.binding not in (None, "torch", "tvm-ffi"):
            raise ValueError(f"binding {self.spec.binding} is not supported; give torch or tvm-ffi")

    @property
    def binding(self) -> str:
        """Return what makes a module of a compiled one: as it says, or as its sources do."""
        return self.spec.binding or ("tvm-ffi" if any("tvm/ffi" in one.content for one in self.sources) else "torch")


class Input(msgspec.Struct):
    """Where an input of a workload comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: int | float | bool = 0
    path: str = ""
    tensor_key: str = ""


class Line(msgspec.Struct):
    """A line of a trace set, or a plain workload; what else it holds may be of any size, and is passed over."""

    definition: str = ""
    workload: msgspec.Raw = msgspec.Raw()


class Bounds(msgspec.Struct):
    """How far a result may lie from the reference, and how many of its elements have to be so near."""

    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 1.0
    max_error_cap: float | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that accept every result, or none."""
        if min(self.max_atol, self.max_rtol, self.max_error_cap or 0.0) < 0 or not 0 < self.required_matched_ratio <= 1:
            raise ValueError("bounds are 0 or more, and the ratio that must match is more than 0 and at most 1")


class Workload(msgspec.Struct):
    """One problem: the variable axes and the inputs."""

    uuid: str
    axes: dict[str, int]
    inputs: dict[str, Input]
    correctness: Bounds | None = None
    tolerance: Bounds | None = None

    @property
    def bounds(self) -> Bounds:
        """Return the bounds that it states, or those that both benchmarks take by default."""
        return self.correctness or self.tolerance or Bounds()

    @property
    def is_custom(self) -> bool:
        """Return whether a function of the definition makes the inputs."""
        return any(one.type == "custom" for one in self.inputs.values())


def find_inside(root: Path, name: str) -> Path:
    """Return the path of a file below a folder; raise `UsageError` where it lies elsewhere, also behind links."""
    try:
        path, top = (root / name).resolve(), root.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{name[:200]} is not a path of a file: {error}") from None
    if not path.is_relative_to(top):
        raise UsageError(f"{name[:200]} lies outside of {root}; a file that a definition names lies in its folder")
    return path


def read(path: Path, kind: type[T]) -> T:
    """Return a definition or a solution; raise `UsageError` if the file is none, or asks for something unsupported."""
    content = read_regular(path)
    with _naming(path, kind.__name__.lower()):
        return msgspec.json.decode(content, type=kind)


def read_workloads(paths: Iterable[Path], definition: Definition) -> list[Workload]:
    """Return the workloads of a definition in files with one a line, each plain or in a trace.

    Raises:
        UsageError: a line is no workload, does not fit the definition, has another's uuid, or there are too many.
    """
    found, names = list[Workload](), set[str]()
    expressions = sum(axis.type == "expr" for axis in definition.axes.values()) + len(definition.constraints or ())
    arrays = [*definition.inputs.values(), *definition.outputs.values()]
    sized = len(definition.axes) + sum(1 + len(one.shape or ()) for one in arrays)
    most, what = min(
        (MOST_WORKLOADS, "a definition"),
        (MOST_COMPUTED // max(1, expressions), f"a definition with {expressions} expressions and constraints"),
        (MOST_SIZED // max(1, sized), f"a definition with {sized} axes, inputs, outputs and dimensions of these"),
    )
    for path in paths:
        for number, line in enumerate(read_regular(path).splitlines(), 1):
            if not line.strip():
                continue
            with _naming(f"{path}:{number}", "workload"):
                trace = msgspec.json.decode(line, type=Line)
                if not trace.workload or trace.definition == definition.name:
                    found.append(msgspec.json.decode(trace.workload or line, type=Workload))
                    _check_workload(found[-1], definition)
                    if found[-1].uuid in names:
                        raise ValueError(f"another workload has the uuid {found[-1].uuid}")
                    names.add(found[-1].uuid)
            if len(found) > most:
                raise UsageError(f"{path}: {what} has {most} workloads at most; take some out")
    return found


def _check_workload(given: Workload, definition: Definition) -> None:
    """Refuse a workload that does not fit; remove the axes that only repeat what the definition says."""
    variable = {name for name, axis in definition.axes.items() if axis.type == "var"}
    repeated = {name: given.axes.pop(name) for name in given.axes.keys() & definition.axes.keys() - variable}
    if given.axes.keys() != variable:
        raise ValueError(f"workload {given.uuid} sets {', '.join(given.axes)}, and not {', '.join(variable)}")
    for name, value in repeated.items():
        if value != (said := definition.size(given.axes)[name]):
            raise ValueError(f"workload {given.uuid} sets {name} to {value}, and the definition says {said}")
    if absent := definition.inputs.keys() - given.inputs.keys():
        raise ValueError(f"workload {given.uuid} has no input {', '.join(sorted(absent))}")
    definition.list_arrays(given.axes)
    if given.is_custom and not definition.custom_inputs_entrypoint:
        raise ValueError(f"workload {given.uuid} is custom, and the definition has no custom_inputs_entrypoint")


@contextmanager
def _naming(path: Path | str, kind: str) -> Iterator[None]:
    try:
        yield
    except (ExpressionError, msgspec.DecodeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise UsageError(f"{path} is no {kind} of FlashInfer-Bench or SOL-ExecBench: {error}") from None


def parse_python(text: str, what: str) -> ast.Module:
    """Return Python text parsed; raise `ValueError`, which names `what`, where it is not Python."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"{what} has more than {MOST_TEXT} characters")
    between_dots = (each.strip("\\ \t\f\r\n").isidentifier() for each in text.split("."))
    if any(is_name and len([*names]) > MOST_DOTS for is_name, names in groupby(between_dots)):
        raise ValueError(f"{what} has a name with more than {MOST_DOTS} dots; shorten it")
    try:
        with warnings.catch_warnings():  # of escapes in a stranger's texts
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise ValueError(f"{what}, line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ValueError(f"{what} is not Python: it is nested too deeply, or has a zero byte") from None
