"""The functions of a variant's source: check the arguments of calls, and call those of a shared library.

Arguments are checked against the parameters that a C, CUDA or OpenCL source declares. Only certain mismatches are
refused. Types other than plain C types pass, and so do functions that a macro declares, that are overloaded, or that
are not found.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cuprof.core.errors import LaunchError
from cuprof.core.scratch import find_worker_folder
from cuprof.core.text import count
from cuprof.families import Invoke, Launch, Program, Signature
from cuprof.families.program import Argument, as_scalar

TYPES = {
    **dict.fromkeys(("bool", "_Bool", "char", "uchar"), "i1"), **dict.fromkeys(("short", "ushort"), "i2"),
    **dict.fromkeys(("int", "uint"), "i4"), "float": "f4", "double": "f8",
    **dict.fromkeys(("long", "ulong", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t"), "i8"),
    **{f"{sign}int{bits}_t": f"i{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""C type → its kind, "i" or "f", and its bytes on 64-bit Linux and on devices."""
QUALIFIERS = (
    r"\b(const|volatile|restrict|__restrict__|__restrict|__grid_constant__|register|signed|unsigned"
    r"|__global|global|__constant|constant)\b"
)


class Parameter(NamedTuple):
    """Describe one parameter: `type` is empty where it is not known, that of its elements where it is a pointer."""

    text: str
    name: str
    is_pointer: bool
    type: str


def find_mismatch(program: Program, text: str, signature: Signature) -> str:
    """Return the error of the first call that does not match its declaration, or an empty string.

    Args:
        program: its launches and invocations are checked.
        text: the source with its includes.
    """
    arrays = {**signature.inputs, **signature.outputs, **program.scratch}
    types = {name: array.type for name, array in arrays.items()}
    faults = (_find_fault(call, text, types, program.defines) for call in program.calls)
    return next(filter(None, faults), "")


def find_absent(program: Program, text: str) -> str:
    """Return an error for the first function called whose name is not in the source, or an empty string."""
    for name in map(_name_of, program.calls):
        if not ("##" in text or re.search(rf"\b{re.escape(name)}\b", text)):  # ## pastes names together
            return f"there is no function {name} in the source"
    return ""


def _name_of(step: Launch | Invoke) -> str:
    return step.function if isinstance(step, Invoke) else step.kernel.partition("<")[0].rpartition("::")[2]


def _find_fault(
    step: Launch | Invoke, text: str, types: Mapping[str, np.dtype], defines: Mapping[str, str | int]
) -> str:
    name = _name_of(step)
    declared = read_parameters(text, name, defines)
    if declared is None:
        return ""
    if declared and isinstance(step, Invoke) and "tream" in declared[-1].text:  # cudaStream_t: cuprof gives it
        declared = declared[:-1]
    if len(declared) != len(step.args):
        listed = ", ".join(each.name or each.text for each in declared)
        takes, given = count(len(declared), "argument"), len(step.args)
        return f"{name} takes {takes} ({listed}), and is given {given}; name one in args= for each parameter"
    for number, (parameter, argument) in enumerate(zip(declared, step.args, strict=True), 1):
        if fault := _differ(parameter, argument, types):
            return f"{name} declares argument {number} as {parameter.text}, and is given {fault}"
    return ""


def read_parameters(text: str, function: str, defines: Mapping[str, str | int]) -> tuple[Parameter, ...] | None:
    """Return the parameters of a function as a source declares them, or None if unknown.

    Args:
        defines: macros, whose values may appear in parameter types.
    """
    declared = _find_declared(text, function)
    return None if declared is None else tuple(_read(each, defines) for each in declared)


@lru_cache(maxsize=256)
def _find_declared(text: str, function: str) -> tuple[str, ...] | None:
    """Return the text of each parameter; for every choice of macros a source is searched once."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|__launch_bounds__\s*\([^()]*\)", " ", text, flags=re.DOTALL)
    word = r"[\w:]+(?:\s*<[\w\s,]*>)?"
    pattern = rf"{word}[\s*&]+{re.escape(function)}\s*\(([^()]*)\)\s*(?:\{{|;|noexcept)"
    found = {" ".join(each.split()) for each in re.findall(pattern, text) if not each.strip().endswith("...")}
    found = {each for each in found if not re.fullmatch(r"(\w+\s*,\s*)*\w+", each) or each == "void"}  # calls
    if len(found) != 1 or re.search(rf"#\s*define\s+{re.escape(function)}\b", text):
        return None
    (inside,) = found
    return () if inside in ("", "void") else tuple(each.strip() for each in inside.split(","))


def _read(text: str, defines: Mapping[str, str | int]) -> Parameter:
    replaced = re.sub(r"\w+", lambda match: str(defines.get(match[0], match[0])), text)
    plain = re.sub(r"=.*|\[[^\]]*\]", lambda match: "*" if match[0][0] == "[" else "", replaced)
    is_signed = re.search(r"\b(un)?signed\b", plain) is not None
    words = re.findall(r"\w+", re.sub(QUALIFIERS, " ", plain))
    name = words.pop() if len(words) > 1 or (is_signed and words and words[-1] not in TYPES) else ""
    kind = next((word for word in ("char", "short", "double", "long") if word in words), "")
    if not kind or (kind == "double" and "long" in words):
        kind = words[0] if len(words) == 1 else "int" if is_signed and not words else ""
    return Parameter(text, name, "*" in plain, TYPES.get(kind, ""))


def _differ(parameter: Parameter, argument: Argument, types: Mapping[str, np.dtype]) -> str:
    """Return the mismatch between an argument and its parameter, with a fix; empty if they may fit."""
    if isinstance(argument, str):
        if argument not in types:
            return ""
        if not parameter.is_pointer:
            return f"the buffer {argument}" if parameter.type else ""
        fits = not parameter.type or _holds(parameter.type, types[argument])
        return "" if fits else f"{argument}, whose elements are {types[argument]}"
    if not isinstance(argument, int | float | np.generic) or isinstance(argument, np.void):
        return ""
    value = as_scalar(argument)
    shown = f"{type(value).__name__} {value}"
    if parameter.is_pointer:
        is_address = value.dtype.kind in "iu" and value.nbytes == 8  # np.uint64(0), where the pointer may be null
        return "" if is_address else f"the number {shown}; name a buffer"
    if not parameter.type or value.dtype.kind not in "biuf":
        return ""
    kind = "f" if value.dtype.kind == "f" else "i"
    return "" if f"{kind}{value.nbytes}" == parameter.type else f"{shown}; give it as np.{np.dtype(parameter.type)}"


def _holds(declared: str, dtype: np.dtype) -> bool:
    """Return whether elements may be read as declared: bytes may be read as anything, and anything as bytes."""
    kind, size = declared[0], int(declared[1:])
    if dtype.kind not in "biuf" or size == 1 or dtype.itemsize == 1:
        return True
    return size == dtype.itemsize and (kind != "f" or dtype.kind == "f")


def load_library(image: bytes, name: str) -> ctypes.CDLL:
    """Load a shared library; it stays loaded as long as the process.

    Its file has a name of its own, since the loader takes two files of one name for the same library.

    Raises:
        LaunchError: the loader refused.
    """
    with tempfile.NamedTemporaryFile(prefix="cuprof-library-", suffix=".so", dir=find_worker_folder()) as file:
        file.write(image)
        file.flush()
        try:
            return ctypes.CDLL(file.name)
        except OSError as error:
            said = str(error).replace(f"{file.name}: ", "")
            raise LaunchError(f"load the library of {name}: {said}") from None


def bind(
    library: ctypes.CDLL, step: Invoke, arguments: Sequence[int | np.generic], *, is_void: bool = False
) -> Callable[[], None]:
    """Return a function that calls one of the library's with these arguments, and raises where it does not return 0.

    Args:
        arguments: addresses as Python ints, scalars and structs as NumPy has them.
        is_void: it returns nothing.
    """
    try:
        function = getattr(library, step.function)
    except AttributeError:
        said = f'there is no function {step.function} (is it extern "C"?)'
        raise LaunchError(f"{said}; cuprof.kernel(FUNCTION, name=…) names variants otherwise") from None
    as_ctypes: Any = np.ctypeslib.as_ctypes_type
    cells = [
        ctypes.c_void_p(value) if isinstance(value, int) else as_ctypes(value.dtype).from_buffer_copy(value.tobytes())
        for value in arguments
    ]
    function.argtypes, function.restype = [type(cell) for cell in cells], None if is_void else ctypes.c_int

    def invoke() -> None:
        status = function(*cells)
        if status:
            raise LaunchError(f"{step.function} returned {status}; it returns an int, 0 where all went well")

    return invoke
