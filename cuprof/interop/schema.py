"""The JSON of FlashInfer-Bench and SOL-ExecBench: a definition, its workloads, its solutions.

Both have one schema: https://bench.flashinfer.ai/docs/flashinfer-trace and docs/ of NVIDIA/SOL-ExecBench. Fields that
change nothing of a run (tags, target_hardware, a trace's evaluation) are passed over. All of it is data: expressions
are bounded arithmetic, and nothing here runs what a file says.
"""

from __future__ import annotations

import ast
import warnings
from math import prod
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

import msgspec

from cuprof.core.errors import UsageError
from cuprof.core.expression import Expression
from cuprof.families import Array
from cuprof.interop.files import read_bytes

T = TypeVar("T")

DTYPES = {name: name for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")}
DTYPES |= {name: name for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")} | {"float8_e4m3": "float8_e4m3fn"}
"""Their name of a type → ours. NumPy and ml_dtypes have none of two float4 in a byte."""
MOST_ELEMENTS = 1 << 40
"""Of an array: more than any device holds."""
MOST_TEXT = 1 << 20
"""Characters of a reference."""
MOST_WORKLOADS = 100_000
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

    def size(self, axes: dict[str, int]) -> dict[str, int]:
        """Return the value of every axis, from those of a workload."""
        known: dict[str, int] = {name: axis.value for name, axis in self.axes.items() if axis.type == "const"} | axes
        for name, axis in self.axes.items():
            if axis.type == "expr":
                known[name] = self._whole(Expression(axis.expression, tuple(known))(known), name)
        return known

    def _whole(self, value: object, name: str) -> int:
        if not isinstance(value, int | float) or value != int(value):
            raise UsageError(f"axis {name} of definition {self.name} is {value!r}, and must be a whole number")
        return int(value)

    def arrays(self, tensors: dict[str, Tensor], axes: dict[str, int]) -> dict[str, Array]:
        """Return the arrays among inputs or outputs; of outputs numbers are arrays without a dimension."""
        sizes = self.size(axes)
        found = {}
        for name, one in tensors.items():
            shape = tuple(int(each) if each.isdigit() else sizes[each] for each in one.shape or ())
            if one.shape is not None or tensors is self.outputs:
                if min(shape, default=1) < 0 or prod(shape) > MOST_ELEMENTS:
                    raise UsageError(f"{name} of definition {self.name} has the shape {shape}, which no array has")
                found[name] = Array(shape, DTYPES[one.dtype])
        return found


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

    @property
    def binding(self) -> str:
        """Return by what a compiled one is made a module: as it says, or as its sources do."""
        return self.spec.binding or ("tvm-ffi" if any("tvm/ffi" in one.content for one in self.sources) else "torch")


class Input(msgspec.Struct):
    """Where an input of a workload comes from."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: int | float | bool = 0
    path: str = ""
    tensor_key: str = ""


class Bounds(msgspec.Struct):
    """How far a result may lie from the reference, and how many of its elements have to be so near."""

    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 1.0
    max_error_cap: float | None = None


class Workload(msgspec.Struct):
    """One problem: the variable axes and the inputs."""

    uuid: str
    axes: dict[str, int]
    inputs: dict[str, Input]
    correctness: Bounds | None = None
    tolerance: Bounds | None = None


class Trace(msgspec.Struct):
    """A workload as FlashInfer-Bench stores it."""

    definition: str
    workload: Workload


def read_definition(path: Path) -> Definition:
    """Return a definition.

    Raises:
        UsageError: the file is none, or asks for what is not taken in.
    """
    found = _decode(path, read_bytes(path), Definition)
    parse_python(found.reference, f"{path}: the reference")
    tensors = {**found.inputs, **found.outputs}
    for name, one in tensors.items():
        if one.dtype not in DTYPES:
            raise UsageError(f"{path}: {name} is of type {one.dtype}; taken in are {', '.join(DTYPES)}")
        absent = [each for each in one.shape or () if not each.isdigit() and each not in found.axes]
        if absent:
            raise UsageError(f"{path}: {name} has the axis {absent[0]}; there are {', '.join(found.axes)}")
    if shared := found.inputs.keys() & found.outputs.keys():
        raise UsageError(f"{path}: {shared.pop()} is an input and an output; give one another name")
    if found.op_type == "sampling":
        raise UsageError(f"{path}: op_type sampling compares distributions of results, which is not taken in")
    return found


def read_workloads(path: Path, definition: Definition) -> list[Workload]:
    """Return the workloads of a definition in a file with one a line, each plain or in a trace."""
    found: list[Workload] = []
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        if number > MOST_WORKLOADS:
            raise UsageError(f"{path} has more than {MOST_WORKLOADS} workloads")
        if not line.strip():
            continue
        where = Path(f"{path}:{number}")
        outer = _decode(where, line, dict[str, msgspec.Raw])
        if "workload" not in outer:
            found.append(_decode(where, line, Workload))
        elif (trace := _decode(where, line, Trace)).definition == definition.name:
            found.append(trace.workload)
    variable = {name for name, axis in definition.axes.items() if axis.type == "var"}
    for each in found:
        repeated = {name: each.axes.pop(name) for name in each.axes.keys() & definition.axes.keys() - variable}
        if each.axes.keys() != variable:
            raise UsageError(f"{path}: workload {each.uuid} sets {', '.join(each.axes)}, and not {', '.join(variable)}")
        for name, value in repeated.items():
            if value != (said := definition.size(each.axes)[name]):
                raise UsageError(f"{path}: workload {each.uuid} sets {name} to {value}, and the definition says {said}")
        if absent := definition.inputs.keys() - each.inputs.keys():
            raise UsageError(f"{path}: workload {each.uuid} has no input {', '.join(sorted(absent))}")
        if any(one.type == "custom" for one in each.inputs.values()) and not definition.custom_inputs_entrypoint:
            raise UsageError(
                f"{path}: workload {each.uuid} is custom, and the definition has no custom_inputs_entrypoint"
            )
    return found


def read_solution(path: Path) -> Solution:
    """Return a solution.

    Raises:
        UsageError: the file is none, or one of its sources would not lie below its folder.
    """
    found = _decode(path, read_bytes(path), Solution)
    for source in found.sources:
        place = PurePosixPath(source.path)
        if place.is_absolute() or ".." in place.parts or not place.parts or "\0" in source.path:
            raise UsageError(f"{path}: source {source.path!r} must be a relative path without ..")
    file, separator, function = found.spec.entry_point.partition("::")
    is_there = found.spec.is_compiled or file in {source.path for source in found.sources}
    if not separator or not function.isidentifier() or not is_there:
        paths = ", ".join(source.path for source in found.sources)
        raise UsageError(f"{path}: entry_point {found.spec.entry_point} must be FILE::FUNCTION with one of {paths}")
    if found.spec.binding not in (None, "torch", "tvm-ffi"):
        raise UsageError(f"{path}: binding {found.spec.binding}; taken in are torch and tvm-ffi")
    return found


def parse_python(text: str, what: str) -> ast.Module:
    """Return Python text parsed.

    Raises:
        UsageError: it is not Python.
    """
    if len(text) > MOST_TEXT:
        raise UsageError(f"{what} has more than {MOST_TEXT} characters")
    try:
        with warnings.catch_warnings():  # of escapes in a stranger's texts
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"{what}, line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise UsageError(f"{what} is not Python: it is nested too deeply, or has a zero byte") from None


def _decode(path: Path, text: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        name = getattr(kind, "__name__", "object").lower()
        raise UsageError(f"{path} is no {name} of FlashInfer-Bench or SOL-ExecBench: {error}") from None
