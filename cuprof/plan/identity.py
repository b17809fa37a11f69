"""The content identity of a trial: the same content has the same identity on every machine and in every run.

An identity is the first 32 hexadecimal digits of the SHA-256 of two lines of canonical JSON (keys sorted, ASCII, no
spaces), joined by a line feed. The first is an object of what all trials of a variant on a device share:

    version    IDENTITY_VERSION
    family     the family's name
    variant    the variant's name
    backend    the back end's name
    source     SHA-256 of the variant's source text (cuprof.families.fingerprint.source_text)
    contract   SHA-256 of the contract text (signature, inputs, reference, and the tolerance that the variant has)
    device     DeviceFacts.identity, or null where no device of the back end is there
    libraries  installed version of each module that the variant requires
    headers    versions of CUDA's headers; only where a CUDA source includes something in angle brackets
    compiler   version of the compiler that the variant names; only where it names one

The second is an object of the trial itself:

    problem    coordinate by axis
    tunables   coordinate by tunable
    program    for a kernel variant its steps, macros, options, buffers, results, constants and set-up; else null

The names of files, the host and the one physical card are no part. Neither is how a trial is timed: the settings of a
timing method identify a *timing* of the trial (`Timing.method`, from `method_hash`), so that timings by several
methods and the counters of one trial meet under one identity.

In a program a buffer argument is ["buffer", name]; a Python number ["int", "5"] or ["float", "0.5"]; a NumPy scalar
[its dtype, its value as text], since int32 5 and int64 5 are two arguments; a struct [its fields, its bytes].
Macros are compared as text, as the compiler sees them, and in the order of their names.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from cuprof.backends.registry import get_spec
from cuprof.core.point import Point
from cuprof.core.records import DeviceFacts
from cuprof.families.compilers import get_compiler
from cuprof.families.headers import find_headers, uses_headers
from cuprof.families.model import Family, Variant
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
from cuprof.families.requirements import list_versions
from cuprof.plan.model import Plan

IDENTITY_VERSION = 2
"""Raise it whenever what is hashed changes, so that identities of two versions never meet.

Version 2: the text of Python code is made of live functions, classes and values, and names no module of cuprof's."""

DIGITS = 32


class Identifier:
    """Give identities to the trials of one variant on one device.

    Args:
        family: the family.
        variant: one of its variants.
        device: what the trials run on, or None where there is no device.
        source_hash, contract_hash: SHA-256 of the texts of `cuprof.families.fingerprint`.
        headers: versions of the headers that the source needs, or empty.
    """

    def __init__(
        self,
        family: Family,
        variant: Variant,
        device: DeviceFacts | None,
        source_hash: str,
        contract_hash: str,
        headers: str = "",
    ) -> None:
        shared = {
            "version": IDENTITY_VERSION,
            "family": family.name,
            "variant": variant.name,
            "backend": variant.backend,
            "source": source_hash,
            "contract": contract_hash,
            "device": None if device is None else dict(device.identity),
            "libraries": list_versions(variant.requires),
            **({"headers": headers} if headers else {}),
            **({"compiler": get_compiler(variant.compiler).version} if variant.compiler else {}),
        }
        self._shared = hashlib.sha256(canonical_json(shared).encode() + b"\n")
        self._problem: Point | None = None
        self._at_problem = self._shared

    def identify(self, problem: Point, tunables: str, program: str) -> str:
        """Return the identity of one trial whose tunables and program are known as canonical JSON."""
        if problem is not self._problem:
            self._problem, self._at_problem = problem, self._shared.copy()
            self._at_problem.update(f'{{"problem":{canonical_json(dict(problem))},"program":'.encode())
        digest = self._at_problem.copy()
        digest.update(f'{program},"tunables":{tunables}}}'.encode())
        return digest.hexdigest()[:DIGITS]


def headers_of(variant: Variant, source: str) -> str:
    """Return the versions of CUDA's headers where a variant's source needs them, else the empty text."""
    return find_headers().version if get_spec(variant.backend).uses_cuda_headers and uses_headers(source) else ""


def method_hash(settings: Mapping[str, Any]) -> str:
    """Return the hash of a timing method, 16 hexadecimal digits.

    Args:
        settings: everything that decides what the figure means, and the version of the method; plain data, enums,
            tuples and nested mappings.
    """
    return hashlib.sha256(canonical_json(_plain(settings)).encode()).hexdigest()[:16]


def plan_hash(plan: Plan, methods: Mapping[str, str]) -> str:
    """Return the hash of a plan's trials, in their order, and of the methods they are timed with, 32 digits.

    Args:
        plan: the plan.
        methods: measure → method hash.
    """
    content = {
        "version": IDENTITY_VERSION,
        "family": plan.family.name,
        "trials": [trial.identity for trial in plan.trials],
        "methods": {str(_plain(measure)): method for measure, method in methods.items()},
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:DIGITS]


canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""Makes JSON of plain data that is the same for equal content: keys sorted, ASCII, no spaces. What is no plain data is
a TypeError, what is not finite a ValueError."""


def program_json(program: Program) -> str:
    """Return the canonical JSON of a program; see the module's docstring."""
    before, after = frame_json(program)
    return f"{before}{defines_json(program)}{after}"


def defines_json(program: Program) -> str:
    """Return the canonical JSON of a program's macros."""
    defines = program.defines
    if _INTEGERS.issuperset(map(type, defines.values())):
        names, text = _template(tuple(defines))
        return text % tuple(map(defines.__getitem__, names))
    return flat_json({name: str(value) for name, value in defines.items()})


_INTEGERS = frozenset({int})


@lru_cache
def _template(names: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return macros that are whole numbers in canonical order, and their canonical JSON with a place for each."""
    order = tuple(sorted(names))
    return order, "{" + ",".join(f'{canonical_json(name).replace("%", "%%")}:"%d"' for name in order) + "}"


def frame_json(program: Program) -> tuple[str, str]:
    """Return what stands before and behind a program's macros in its canonical JSON."""
    steps = ",".join(canonical_json(_step(step)) for step in program.steps)
    setup = f',"setup":[{",".join(canonical_json(_step(step)) for step in program.setup)}]' if program.setup else ""
    scratch = {name: _array(array) for name, array in program.scratch.items()}
    return f'{{"constants":{flat_json(dict(program.constants))},"defines":', (
        f',"options":{canonical_json(list(program.options)) if program.options else "[]"}'
        f',"results":{flat_json({name: _result(each) for name, each in program.results.items()})}'
        f',"scratch":{canonical_json(scratch) if scratch else "{}"}'
        f"{setup}"
        f',"steps":[{steps}]}}'
    )


def frame_key(program: Program) -> tuple[object, ...]:
    """Return what is equal for programs that differ in their macros alone, so that such are looked at once.

    Raises:
        TypeError: a part of the program has no hash.
    """
    key: list[object] = [program.options]
    if program.scratch or program.results or program.constants or program.setup:
        key += (tuple(each.items()) for each in (program.scratch, program.results, program.constants))
        key += ("setup", *_step_keys(program.setup), "steps")
    key += _step_keys(program.steps)
    return tuple(key)


def _step_keys(steps: Sequence[Step]) -> list[object]:
    key: list[object] = []
    for step in steps:
        key += (type(step), *vars(step).values())
        if isinstance(step, (Launch, Invoke)):
            key += [type(one) if type(one) in _PLAIN else (type(one), _bits(one)) for one in step.args]
        if isinstance(step, Launch):  # 5 and np.int64(5) are equal, and above so are 0.0 and -0.0
            key += map(type, (*step.grid, *step.block))
        elif isinstance(step, Repeat):
            key += _step_keys(step.steps)
    return key


_PLAIN = frozenset({str, int})


def _bits(argument: Argument) -> bytes | str:
    """Return what tells apart what is equal, such as 0.0 and -0.0; a NumPy number's text takes ten times as long."""
    return argument.tobytes() if isinstance(argument, np.generic) else repr(argument)


def _result(result: str | Reduced) -> str | list[str]:
    return result if isinstance(result, str) else [result.by, result.buffer]


def _step(step: Step) -> tuple[object, ...]:
    """Return a step as nested tuples, which are JSON's arrays and have a hash."""
    if isinstance(step, Copy):
        return ("copy", step.source, step.target)
    if isinstance(step, Repeat):
        return ("repeat", int(step.times), step.until, tuple(map(_step, step.steps)))
    if isinstance(step, Fill):
        return ("fill", step.buffer, int(step.value))
    if isinstance(step, Invoke):
        return ("invoke", step.function, tuple(map(_argument, step.args)))
    if isinstance(step, Execute):
        words = tuple((word.buffer, word.format) if isinstance(word, File) else str(word) for word in step.arguments)
        return ("execute", words, step.stdout, tuple(sorted(step.environment.items())))
    return (
        "launch",
        step.kernel,
        tuple(map(int, step.grid)),
        tuple(map(int, step.block)),
        tuple(map(_argument, step.args)),
        int(step.shared_bytes),
        *(("cooperative",) if step.cooperative else ()),
        *((("cluster", *map(int, step.cluster)),) if step.cluster else ()),
        *(("overlaps",) if step.overlaps else ()),
    )


def flat_json(values: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a mapping without further ones in it, by the faster encoder where both agree.

    They differ in floats and in what is not printable ASCII.
    """
    if not values:
        return "{}"
    if float not in map(type, values.values()):
        encoded = _encode_flat(values)
        if encoded.isascii() and b"\x7f" not in encoded:
            return encoded.decode()
    return canonical_json(values)


_encode_flat = msgspec.json.Encoder(order="deterministic").encode


def _argument(argument: Argument) -> tuple[object, ...]:
    if isinstance(argument, np.void):
        return (str(argument.dtype.descr), argument.tobytes().hex())
    if isinstance(argument, np.generic):  # before float: np.float64 is one
        return (argument.dtype.str, repr(argument.item()))
    if isinstance(argument, str):
        return ("buffer", argument)
    if isinstance(argument, Texture):
        return ("texture", argument.buffer, argument.width, argument.channels, bool(argument.interpolates))
    if isinstance(argument, TensorMap):
        return ("tensor map", argument.buffer, tuple(map(int, argument.box)), argument.swizzle)
    return ("float", repr(argument)) if isinstance(argument, float) else ("int", str(int(argument)))


def _array(array: Array) -> list[object]:
    kind = array.type
    return [[int(length) for length in array.shape], array.dtype if kind.kind == "V" else kind.str]


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {str(_plain(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
