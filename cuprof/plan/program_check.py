"""Check the program that a variant returns before anything is built from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np

from cuprof.backends.registry import get_spec
from cuprof.core.errors import FamilyError, ImpossibleError
from cuprof.core.text import compare
from cuprof.families import Copy, Execute, File, Fill, Invoke, Launch, Program, Reduced, Repeat, TensorMap, Texture
from cuprof.families.model import Signature
from cuprof.families.program import Argument, Step

INT32 = range(-(2**31), 2**31)
CLUSTER_BLOCKS = 16
"""The largest cluster of any device; above 8 blocks a device may refuse it."""
FORMATS = ("raw", "npy", "text")


def check_program(
    program: Program, signature: Signature, backend: str, where: str, constants: Sequence[str] = ()
) -> None:
    """Raise `FamilyError` with the first fault of a program, `ImpossibleError` if that is its size.

    Args:
        signature: the family's buffers at this problem.
        backend: its name; all of its devices share some limits.
        where: variant, problem and tunables, for the message.
        constants: inputs that never change; the set-up may read them.
    """
    if not isinstance(program, Program):
        raise FamilyError(f"{where}: the variant's function returned a {_kind(program)}, and must return a Program")
    for fault in _Checker(program, signature, backend, constants).faults():
        raise FamilyError(f"{where}: {fault}")


class _Checker:
    """Find the faults of one program, as texts; a size that no device has raises `ImpossibleError`."""

    def __init__(self, program: Program, signature: Signature, backend: str, constants: Sequence[str]) -> None:
        self.program, self.spec, self.constants = program, get_spec(backend), constants
        self.inputs, self.outputs = signature.inputs, signature.outputs
        self.buffers = {**self.inputs, **self.outputs, **program.scratch}

    def faults(self) -> Iterator[str]:
        """Yield them in the order of the program."""
        program = self.program
        yield from (f"define {name!r} is not a macro's name" for name in program.defines if not name.isidentifier())
        for name, array in program.scratch.items():
            if name in self.inputs or name in self.outputs:
                yield f"scratch buffer {name} has the name of an input or output; rename it"
            if any(length < 1 for length in array.shape):
                yield f"scratch buffer {name} has the shape {array.shape}; every length must be at least 1"
            try:
                _ = array.type
            except (FamilyError, TypeError) as error:
                yield f"scratch buffer {name} has the {error}"
        flat = chain.from_iterable(step.steps if isinstance(step, Repeat) else [step] for step in program.steps)
        if not any(isinstance(step, Launch | Invoke | Execute) for step in flat):
            yield "the program has no launch"
        for what, steps in (("step", program.steps), ("step of the set-up", program.setup)):
            for number, step in enumerate(steps, 1):
                yield from self._step_faults(f"{what} {number}", step)
        for output, buffer in program.results.items():
            yield from self._result_faults(output, buffer)
        for symbol, buffer in program.constants.items():
            yield from _absent(f"constant {symbol} is filled from {buffer}", buffer, "an input", self.inputs)
        yield from self._setup_faults()

    def _step_faults(self, where: str, step: Step) -> Iterator[str]:
        spec = self.spec
        if _kind(step).lower() not in spec.steps:
            yield f"{where} is of the kind {_kind(step)}, and {spec.title} programs have {', '.join(spec.steps)}"
        elif isinstance(step, Fill):
            yield from _absent(f"{where} fills {step.buffer}", step.buffer, "a buffer", self.buffers)
            if not 0 <= step.value <= 255:
                yield f"{where} fills {step.buffer} with {step.value}; a fill sets bytes, 0 to 255"
        elif isinstance(step, Copy):
            for name in (step.source, step.target):
                yield from _absent(f"{where} copies {name}", name, "a buffer", self.buffers)
        elif isinstance(step, Repeat):
            if not isinstance(step.times, int) or step.times < 1:
                yield f"{where} is repeated {step.times!r} times; give a whole number from 1"
            if step.until:
                yield from _absent(f"{where} goes on until {step.until}", step.until, "a buffer", self.buffers)
            for number, each in enumerate(step.steps, 1):
                if _kind(each) not in ("Launch", "Fill", "Copy"):
                    yield f"{where} repeats a {_kind(each)}; it repeats launches, fills and copies"
                yield from self._step_faults(f"{where}, its step {number}", each)
        elif isinstance(step, Execute):
            yield from (f"{where}: {fault}" for fault in self._execute_faults(step))
        elif isinstance(step, Invoke):
            yield from (f"{where}, launch of {step.function}: {fault}" for fault in self._argument_faults(step.args))
        else:
            faults = chain(self._launch_faults(step), self._argument_faults(step.args))
            yield from (f"{where}, launch of {step.kernel}: {fault}" for fault in faults)
            self._check_size(step)

    def _setup_faults(self) -> Iterator[str]:
        """Yield where the set-up does work that must be timed."""
        scratch = self.program.scratch
        for number, step in enumerate(self.program.setup, 1):
            if not isinstance(step, Launch | Fill | Copy):
                yield f"step of the set-up {number} is a {_kind(step)}; it has launches, fills and copies"
                return
            target = step.buffer if isinstance(step, Fill) else step.target if isinstance(step, Copy) else ""
            if target and target not in scratch:
                yield f"step of the set-up {number} writes to {target}; before an execution scratch alone is written"
            for argument in step.args if isinstance(step, Launch) else ():
                name = argument.buffer if isinstance(argument, Texture | TensorMap) else argument
                if isinstance(name, str) and name not in scratch and name not in self.constants:
                    allowed = "what is untimed works on scratch, and on inputs that the family names in constants="
                    yield f"step of the set-up {number} works on {name}; {allowed}"

    def _launch_faults(self, launch: Launch) -> Iterator[str]:
        for name, sizes in (("grid", launch.grid), ("block", launch.block)):
            if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 3:
                yield f"{name} {sizes!r} must be a tuple of one to three sizes"
            for axis, size in zip("xyz", sizes, strict=False):
                if not isinstance(size, int | np.integer) or size < 1:
                    yield f"{name}.{axis} is {size!r}, and must be a whole number from 1"
        if launch.shared_bytes < 0:
            yield f"shared_bytes is {launch.shared_bytes}, and must not be negative"
        if launch.cooperative and not self.spec.extended:
            yield f"a cooperative launch, which {self.spec.name} does not have"
        if (launch.cluster or launch.overlaps) and not self.spec.extended:
            yield f"cluster or overlaps, which {self.spec.name} launches do not have"
        if len(launch.cluster) > 3 or not all(isinstance(size, int) and size > 0 for size in launch.cluster):
            yield f"cluster {launch.cluster!r} must be a tuple of at most three sizes from 1"
        elif any(size % part for size, part in zip((*launch.grid, 1, 1), launch.cluster, strict=False)):
            yield f"grid {launch.grid} is not a multiple of the cluster {launch.cluster}"

    def _check_size(self, launch: Launch) -> None:
        """Raise `ImpossibleError` for sizes that no device of the back end can launch."""
        limits = self.spec.limits
        for what, sizes, most in (
            (("threads a block",), (math.prod(map(int, launch.block)),), (limits.block_threads,)),
            (("grid.x", "grid.y", "grid.z"), launch.grid, limits.grid),
            (("block.x", "block.y", "block.z"), launch.block, limits.block),
            (("blocks a cluster",), (math.prod(launch.cluster),), (CLUSTER_BLOCKS,)),
        ):
            if excess := next(filter(None, map(compare, what, sizes, most)), ""):
                raise ImpossibleError(excess)

    def _argument_faults(self, arguments: Sequence[Argument]) -> Iterator[str]:
        for number, argument in enumerate(arguments, 1):
            name: object = argument
            if isinstance(argument, Texture | TensorMap):
                name = argument.buffer
                if not self.spec.extended:
                    yield f"argument {number} is a {_kind(argument)}, which {self.spec.name} does not have"
            if isinstance(name, str):
                yield from _absent(f"argument {number} is {name!r}", name, "a buffer", self.buffers)
                if isinstance(argument, TensorMap) and len(argument.box) != len(self.buffers[name].shape):
                    shape = self.buffers[name].shape
                    yield f"argument {number} moves boxes {argument.box} of {name}, whose shape is {shape}"
            elif isinstance(argument, np.generic):
                if argument.dtype.kind not in "biufcV":
                    yield f"argument {number} is a NumPy {argument.dtype}, which no kernel parameter takes"
            elif isinstance(argument, int):
                if argument not in INT32:
                    yield (
                        f"argument {number} is {argument}, beyond the int32 that a Python int becomes; "
                        "pass np.int64(...), or np.uint32(...) where it fits"
                    )
            elif not isinstance(argument, float):
                yield f"argument {number} is a {_kind(argument)}, and must be a buffer's name or a number"

    def _execute_faults(self, step: Execute) -> Iterator[str]:
        known = {**self.inputs, **self.outputs}
        files = [word for word in step.arguments if isinstance(word, File)]
        for file in files:
            yield from _absent(f"the file of {file.buffer!r}", file.buffer, "an input or output", known)
            if file.format not in FORMATS:
                yield f"the file of {file.buffer} has the format {file.format!r}; there are {', '.join(FORMATS)}"
        if step.stdout:
            yield from _absent(f"stdout is {step.stdout!r}", step.stdout, "an output", self.outputs)
        for output in self.outputs:
            if output != step.stdout and output not in {file.buffer for file in files}:
                yield f"nothing says where output {output} comes from: name File({output!r}) as an argument, or stdout="

    def _result_faults(self, output: str, result: str | Reduced) -> Iterator[str]:
        buffer = result.buffer if isinstance(result, Reduced) else result
        yield from _absent(f"results name {output}", output, "an output", self.outputs)
        yield from _absent(f"output {output} ends in {buffer}", buffer, "a buffer", self.buffers)
        wanted, held = self.outputs[output], self.buffers[buffer]
        if not isinstance(result, Reduced):
            if held.type != wanted.type or held.size < wanted.size:
                had = f"{buffer}, which has {held.size} × {held.dtype}"
                yield f"output {output} has {wanted.size} × {wanted.dtype} and ends in {had}"
            return
        if result.by not in ("sum", "min", "max"):
            yield f"output {output} is reduced by {result.by!r}; there are sum, min and max"
        if buffer not in self.program.scratch:
            yield f"the parts of output {output} are in {buffer}, which is not a scratch buffer"
        if held.size % max(wanted.size, 1):
            parts = f"its parts in {buffer} {held.size}, which is not a multiple"
            yield f"output {output} has {wanted.size} elements and {parts}"


def _absent(said: str, name: str, kind: str, known: Collection[str]) -> Iterator[str]:
    """Yield a fault if what is said names nothing that is known."""
    if name not in known:
        yield f"{said}, which is not {kind}; there are {', '.join(known)}"


def _kind(value: object) -> str:
    return type(value).__name__
