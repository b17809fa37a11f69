"""Check the program that a variant returns before anything is built from it."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from cuprof.backends.registry import get_spec
from cuprof.backends.spec import BackendSpec
from cuprof.core.errors import FamilyError, ImpossibleError
from cuprof.core.text import Excess, compare
from cuprof.families.model import Signature
from cuprof.families.program import (
    Argument,
    Array,
    Copy,
    Execute,
    File,
    Fill,
    Invoke,
    Launch,
    Program,
    Reduced,
    Repeat,
    Step,
    TensorMap,
    Texture,
)

INT32 = range(-(2**31), 2**31)
CLUSTER_BLOCKS = 16
"""The largest cluster of any device; above 8 blocks a device may refuse it."""
FORMATS = ("raw", "npy", "text")

# Tuples, since `A | B` would be made anew for each argument of each of a hundred thousand programs.
WHOLE = (int, np.integer)
CALLS = (Launch, Invoke, Execute)
DESCRIBED = (Texture, TensorMap)
"""Arguments that describe a buffer."""


def check_program(
    program: Program, signature: Signature, backend: str, where: str, constants: Sequence[str] = ()
) -> None:
    """Raise `FamilyError` with the first fault of a program, `ImpossibleError` if that is its size.

    Args:
        program: what the variant's function returned.
        signature: the family's buffers at this problem.
        backend: its name; all of its devices share some limits.
        where: variant, problem and tunables, for the message.
        constants: inputs that never change; the set-up may read them.
    """
    for fault in chain(_list_faults(program, signature, get_spec(backend)), _setup_faults(program, constants)):
        raise ImpossibleError(fault) if isinstance(fault, Excess) else FamilyError(f"{where}: {fault}")


def _list_faults(program: Program, signature: Signature, spec: BackendSpec) -> Iterator[str]:
    given = _kind(program)
    if given != "Program":
        yield f"the variant's function returned a {given}, and must return a Program"
    yield from (f"define {name!r} is not a macro's name" for name in program.defines if not name.isidentifier())
    buffers = {**signature.inputs, **signature.outputs, **program.scratch}
    for name in program.scratch:
        if name in signature.inputs or name in signature.outputs:
            yield f"scratch buffer {name} has the name of an input or output; rename it"
    for name, array in program.scratch.items():
        yield from _array_faults(f"scratch buffer {name}", array)
    if not any(isinstance(step, CALLS) or _launches(step) for step in program.steps):
        yield "the program has no launch"
    for what, steps in (("step", program.steps), ("step of the set-up", program.setup)):
        for number, step in enumerate(steps, 1):
            yield from _step_faults(f"{what} {number}", step, signature, buffers, spec)
    for output, buffer in program.results.items():
        yield from _result_faults(output, buffer, signature, buffers)
    for symbol, buffer in program.constants.items():
        if buffer not in signature.inputs:
            inputs = ", ".join(signature.inputs)
            yield f"constant {symbol} is filled from {buffer}, which is not an input; there are {inputs}"


def _launches(step: Step) -> bool:
    return isinstance(step, Repeat) and any(isinstance(each, Launch) for each in step.steps)


def _step_faults(
    where: str, step: Step, signature: Signature, buffers: Mapping[str, Array], spec: BackendSpec
) -> Iterator[str]:
    kind = type(step).__name__.lower()
    unknown = f"which is not a buffer; there are {', '.join(buffers)}"
    if kind not in spec.steps:
        yield f"{where} is of the kind {_kind(step)}, and {spec.title} programs have {', '.join(spec.steps)}"
    elif isinstance(step, Fill):
        if step.buffer not in buffers:
            yield f"{where} fills {step.buffer}, {unknown}"
        if not 0 <= step.value <= 255:
            yield f"{where} fills {step.buffer} with {step.value}; a fill sets bytes, 0 to 255"
    elif isinstance(step, Copy):
        for buffer in (step.source, step.target):
            if buffer not in buffers:
                yield f"{where} copies {buffer}, {unknown}"
    elif isinstance(step, Repeat):
        if not isinstance(step.times, int) or step.times < 1:
            yield f"{where} is repeated {step.times!r} times; give a whole number from 1"
        if step.until and step.until not in buffers:
            yield f"{where} goes on until {step.until}, {unknown}"
        for number, each in enumerate(step.steps, 1):
            if _kind(each) not in ("Launch", "Fill", "Copy"):
                yield f"{where} repeats a {_kind(each)}; it repeats launches, fills and copies"
            yield from _step_faults(f"{where}, its step {number}", each, signature, buffers, spec)
    elif isinstance(step, Execute):
        for fault in _execute_faults(step, signature):
            yield f"{where}: {fault}"
    else:
        name = step.kernel if isinstance(step, Launch) else step.function
        for fault in _call_faults(step, buffers, spec):
            yield fault if isinstance(fault, Excess) else f"{where}, launch of {name}: {fault}"


def _setup_faults(program: Program, constants: Sequence[str]) -> Iterator[str]:
    """Yield where the set-up does work that must be timed."""
    for number, step in enumerate(program.setup, 1):
        if not isinstance(step, Launch | Fill | Copy):
            yield f"step of the set-up {number} is a {_kind(step)}; it has launches, fills and copies"
            return
        target = step.buffer if isinstance(step, Fill) else step.target if isinstance(step, Copy) else ""
        if target and target not in program.scratch:
            yield f"step of the set-up {number} writes to {target}; before an execution scratch alone is written"
        for argument in step.args if isinstance(step, Launch) else ():
            name = argument.buffer if isinstance(argument, DESCRIBED) else argument
            if isinstance(name, str) and name not in program.scratch and name not in constants:
                allowed = "what is untimed works on scratch, and on inputs that the family names in constants="
                yield f"step of the set-up {number} works on {name}; {allowed}"


def _call_faults(call: Launch | Invoke, buffers: Mapping[str, Array], spec: BackendSpec) -> Iterator[str]:
    if isinstance(call, Launch):
        yield from _launch_faults(call, spec)
    yield from _argument_faults(call.args, buffers, spec)
    if isinstance(call, Launch):
        yield from _excesses(call, spec)


def _launch_faults(launch: Launch, spec: BackendSpec) -> Iterator[str]:
    for name, sizes in (("grid", launch.grid), ("block", launch.block)):
        if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 3:
            yield f"{name} {sizes!r} must be a tuple of one to three sizes"
        for axis, size in zip("xyz", sizes, strict=False):
            if not isinstance(size, WHOLE) or size < 1:
                yield f"{name}.{axis} is {size!r}, and must be a whole number from 1"
    if launch.shared_bytes < 0:
        yield f"shared_bytes is {launch.shared_bytes}, and must not be negative"
    if launch.cooperative and not spec.cooperative:
        yield f"a cooperative launch, which {spec.name} does not have"
    if launch.cluster or launch.overlaps:
        if not spec.extended:
            yield f"cluster or overlaps, which {spec.name} launches do not have"
        if len(launch.cluster) > 3 or not all(isinstance(size, int) and size > 0 for size in launch.cluster):
            yield f"cluster {launch.cluster!r} must be a tuple of at most three sizes from 1"
        elif isinstance(launch.grid, tuple) and any(
            size % part for size, part in zip((*launch.grid, 1, 1), launch.cluster, strict=False)
        ):
            yield f"grid {launch.grid} is not a multiple of the cluster {launch.cluster}"


def _excesses(launch: Launch, spec: BackendSpec) -> Iterator[Excess]:
    """Yield sizes that no device of the back end can launch."""
    limits, threads = spec.limits, math.prod(map(int, launch.block))
    for what, sizes, most in (
        ("threads a block", (threads,), (limits.block_threads,)),
        ("grid", launch.grid, limits.grid),
        ("block", launch.block, limits.block),
        ("blocks a cluster", (math.prod(launch.cluster),), (CLUSTER_BLOCKS,)),
    ):
        if any(map(operator.gt, sizes, most)):
            names = [what] if len(most) == 1 else [f"{what}.{axis}" for axis in "xyz"]
            yield from filter(None, map(compare, names, sizes, most))


def _argument_faults(arguments: Sequence[Argument], buffers: Mapping[str, Array], spec: BackendSpec) -> Iterator[str]:
    for number, argument in enumerate(arguments, 1):
        name = argument
        if isinstance(argument, DESCRIBED):
            name = argument.buffer
            if not spec.extended:
                yield f"argument {number} is a {_kind(argument)}, which {spec.name} does not have"
        if isinstance(name, str):
            if name not in buffers:
                yield f"argument {number} is {name!r}, which is not a buffer; there are {', '.join(buffers)}"
            elif isinstance(argument, TensorMap) and len(argument.box) != len(buffers[name].shape):
                yield f"argument {number} moves boxes {argument.box} of {name}, whose shape is {buffers[name].shape}"
        elif isinstance(argument, np.generic):
            if argument.dtype.kind not in "biufcV":
                yield f"argument {number} is a NumPy {argument.dtype}, which no kernel parameter takes"
        elif isinstance(argument, int):
            if argument not in INT32:
                yield (
                    f"argument {number} is {argument}, beyond the int32 that a Python int becomes; "
                    "pass np.int64(...), or np.uint32(...) where it fits"
                )
        elif _kind(argument) != "float":
            yield f"argument {number} is a {_kind(argument)}, and must be a buffer's name or a number"


def _execute_faults(step: Execute, signature: Signature) -> Iterator[str]:
    known = {**signature.inputs, **signature.outputs}
    files = [word for word in step.arguments if isinstance(word, File)]
    for file in files:
        if file.buffer not in known:
            yield f"the file of {file.buffer!r}, which is not an input or output; there are {', '.join(known)}"
        if file.format not in FORMATS:
            yield f"the file of {file.buffer} has the format {file.format!r}; there are {', '.join(FORMATS)}"
    if step.stdout and step.stdout not in signature.outputs:
        yield f"stdout is {step.stdout!r}, which is not an output; there are {', '.join(signature.outputs)}"
    for output in signature.outputs:
        if output != step.stdout and output not in {file.buffer for file in files}:
            yield f"nothing says where output {output} comes from: name File({output!r}) as an argument, or stdout="


def _result_faults(
    output: str, result: str | Reduced, signature: Signature, buffers: Mapping[str, Array]
) -> Iterator[str]:
    buffer = result.buffer if isinstance(result, Reduced) else result
    if output not in signature.outputs:
        yield f"results name {output}, which is not an output; there are {', '.join(signature.outputs)}"
    elif buffer not in buffers:
        yield f"output {output} ends in {buffer}, which is not a buffer; there are {', '.join(buffers)}"
    elif isinstance(result, Reduced):
        if result.by not in ("sum", "min", "max"):
            yield f"output {output} is reduced by {result.by!r}; there are sum, min and max"
        size, parts = signature.outputs[output].size, buffers[buffer].size
        if buffer in signature.inputs or buffer in signature.outputs:
            yield f"the parts of output {output} are in {buffer}, which is not a scratch buffer"
        if parts % max(size, 1):
            yield f"output {output} has {size} elements and its parts in {buffer} {parts}, which is not a multiple"
    else:
        wanted, held = signature.outputs[output], buffers[buffer]
        if held.type != wanted.type or held.size < wanted.size:
            yield (
                f"output {output} has {wanted.size} × {wanted.dtype} and ends in {buffer}, "
                f"which has {held.size} × {held.dtype}"
            )


def _array_faults(what: str, array: Array) -> Iterator[str]:
    if any(length < 1 for length in array.shape):
        yield f"{what} has the shape {array.shape}; every length must be at least 1"
    try:
        _ = array.type
    except (FamilyError, TypeError) as error:
        yield f"{what} has the {error}"


def _kind(value: object) -> str:
    return type(value).__name__
