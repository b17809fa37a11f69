"""Check the program that a variant returns before anything is built from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from cuprof.backends.registry import get_spec
from cuprof.backends.spec import BackendSpec
from cuprof.errors import FamilyError
from cuprof.family.model import Signature
from cuprof.family.program import Array, Fill, Launch, Program

INT32 = range(-(2**31), 2**31)


def check_program(program: Program, signature: Signature, backend: str, where: str) -> None:
    """Raise `FamilyError` with the first thing that is wrong with a program.

    Args:
        program: what the variant's function returned.
        signature: the family's buffers at this problem.
        backend: its name; adds the limits that hold for all of its devices.
        where: variant, problem and tunables, for the message.
    """
    for fault in _list_faults(program, signature, get_spec(backend)):
        raise FamilyError(f"{where}: {fault}")


def _list_faults(program: Program, signature: Signature, spec: BackendSpec) -> Iterator[str]:
    given = _kind(program)
    if given != "Program":
        yield f"the variant's function returned a {given}, and must return a Program"
    buffers = {**signature.inputs, **signature.outputs, **program.scratch}
    for name in program.scratch:
        if name in signature.inputs or name in signature.outputs:
            yield f"scratch buffer {name} has the name of an input or output; rename it"
    for name, array in program.scratch.items():
        yield from _array_faults(f"scratch buffer {name}", array)
    if not any(isinstance(step, Launch) for step in program.steps):
        yield "the program has no launch"
    names = tuple(buffers)
    for number, step in enumerate(program.steps, 1):
        if isinstance(step, Fill):
            if step.buffer not in buffers:
                yield f"step {number} fills {step.buffer}, which is no buffer; there are {', '.join(buffers)}"
            if not 0 <= step.value <= 255:
                yield f"step {number} fills {step.buffer} with {step.value}; a fill sets bytes, 0 to 255"
        elif fault := _launch_fault(step, names, spec):
            yield f"step {number}, launch of {step.kernel}: {fault}"
    if not all(map(str.isidentifier, program.defines)):
        yield f"define {next(name for name in program.defines if not name.isidentifier())!r} is not a macro's name"
    for output, buffer in program.results.items():
        yield from _result_faults(output, buffer, signature, buffers)
    for symbol, buffer in program.constants.items():
        if buffer not in signature.inputs:
            inputs = ", ".join(signature.inputs)
            yield f"constant {symbol} is filled from {buffer}, which is no input; there are {inputs}"


def _launch_fault(launch: Launch, buffers: tuple[str, ...], spec: BackendSpec) -> str | None:
    try:
        types = tuple(map(type, (*launch.args, *launch.grid, *launch.block)))  # 5 and np.int64(5) are equal
        return _known_fault(launch, types, buffers, spec.name)
    except TypeError:  # of something that has no hash: a fault, to be sure, and none that occurs often
        return next(_launch_faults(launch, buffers, spec), None)


@lru_cache(maxsize=2**16)
def _known_fault(launch: Launch, types: tuple[type, ...], buffers: tuple[str, ...], backend: str) -> str | None:
    """Return what is wrong with a launch; a large space has few launches that differ."""
    return next(_launch_faults(launch, buffers, get_spec(backend)), None)


def _launch_faults(launch: Launch, buffers: tuple[str, ...], spec: BackendSpec) -> Iterator[str]:
    limits = spec.limits
    for name, sizes, most in (("grid", launch.grid, limits.grid), ("block", launch.block, limits.block)):
        if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 3:
            yield f"{name} {sizes!r} must be a tuple of one to three sizes"
        for axis, size, limit in zip("xyz", sizes, most, strict=False):
            if not isinstance(size, int | np.integer) or size < 1:
                yield f"{name}.{axis} is {size!r}, and must be a whole number from 1"
            if size > limit:
                yield f"{name}.{axis} is {size}, and {spec.title} allows at most {limit}"
    threads = 1
    for size in launch.block:
        threads *= int(size)
    if threads > limits.block_threads:
        yield f"a block of {threads} threads, and {spec.title} allows at most {limits.block_threads}"
    if launch.shared_bytes < 0:
        yield f"shared_bytes is {launch.shared_bytes}, and must not be negative"
    if launch.cooperative and not spec.cooperative:
        yield f"a cooperative launch, which {spec.name} does not have"
    for number, argument in enumerate(launch.args, 1):
        if isinstance(argument, str):
            if argument not in buffers:
                yield f"argument {number} is {argument!r}, which is no buffer; there are {', '.join(buffers)}"
        elif isinstance(argument, np.generic):
            if argument.dtype.kind not in "biufc":
                yield f"argument {number} is a NumPy {argument.dtype}, which no kernel parameter takes"
        elif isinstance(argument, int):
            if argument not in INT32:
                yield (
                    f"argument {number} is {argument}, beyond the int32 that a Python int becomes; "
                    "pass np.int64(...), or np.uint32(...) where it fits"
                )
        elif _kind(argument) != "float":
            yield f"argument {number} is a {_kind(argument)}, and must be a buffer's name or a number"


def _result_faults(output: str, buffer: str, signature: Signature, buffers: Mapping[str, Array]) -> Iterator[str]:
    if output not in signature.outputs:
        yield f"results name {output}, which is no output; there are {', '.join(signature.outputs)}"
    elif buffer not in buffers:
        yield f"output {output} ends in {buffer}, which is no buffer; there are {', '.join(buffers)}"
    else:
        wanted, held = signature.outputs[output], buffers[buffer]
        if np.dtype(held.dtype) != np.dtype(wanted.dtype) or held.size < wanted.size:
            yield (
                f"output {output} has {wanted.size} × {wanted.dtype} and ends in {buffer}, "
                f"which has {held.size} × {held.dtype}"
            )


def _array_faults(what: str, array: Array) -> Iterator[str]:
    if any(length < 1 for length in array.shape):
        yield f"{what} has the shape {array.shape}; every length must be at least 1"
    try:
        np.dtype(array.dtype)
    except TypeError:
        yield f"{what} has the dtype {array.dtype!r}, which NumPy does not know"


def _kind(value: object) -> str:
    return type(value).__name__
