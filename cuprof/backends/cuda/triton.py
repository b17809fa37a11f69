"""Compile Triton kernels ahead of the device, each in one of several processes of their own.

Triton is imported by those processes alone, so that they share the processor's cores, a kernel that ends its compiler
costs one trial, and what it compiled is launched, timed and compared as every other kernel is.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from cuprof.backends.build_cache import Built
from cuprof.child import child_command, child_environment
from cuprof.errors import BuildError
from cuprof.family import Array, Launch
from cuprof.family.program import as_scalar
from cuprof.family.requirements import get_version

TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3b11fnuz": "fp8e4b15",
}  # fmt: skip
"""NumPy's name of a type → Triton's; whole numbers are i32, u8 and so on."""


@dataclass(frozen=True)
class TritonBuild:
    """One kernel at one choice of constants.

    Args:
        text: of the file and of those it imports (`cuprof.family.sources`).
        arguments: type of each argument of the launch, "" for one that is the constant 1 to Triton; and whether it is
            a multiple of 16, as Triton tells kernels apart by.
        values: what `@triton.heuristics` may ask of the arguments: whole numbers and floats, None for buffers.
        constants: `tl.constexpr` parameters and options of the compiler.
    """

    text: str
    kernel: str
    arguments: tuple[tuple[str, bool], ...]
    values: tuple[int | float | None, ...]
    constants: tuple[tuple[str, int | float | str | bool], ...]
    arch: str

    @classmethod
    def of(
        cls,
        text: str,
        launch: Launch,
        buffers: Mapping[str, Array],
        defines: Mapping[str, Any],
        arch: str,
    ) -> TritonBuild:
        """Return the build of a launch's kernel."""
        described = [_describe(argument, buffers) for argument in launch.args]
        values = tuple(value for _, _, value in described)
        kinds = tuple((kind, divisible) for kind, divisible, _ in described)
        return cls(text, launch.kernel, kinds, values, tuple(sorted(defines.items())), arch)

    def content(self) -> list[object]:
        """Return what decides the result."""
        return [self.text, self.kernel, self.arguments, self.values, self.constants, self.arch, get_version("triton")]

    def run(self) -> Built:
        """Let one of the processes compile it; Triton's own cache on disk serves what it has."""
        compiler = _take()
        try:
            answer = compiler.ask([self.text, self.kernel, self.arguments, self.values, self.constants, self.arch])
        except (OSError, ValueError):
            last = (compiler.end() or "nothing").splitlines()[-1]
            raise BuildError(f"Triton's process ended while it compiled {self.kernel}; it said: {last}") from None
        _IDLE.put(compiler)
        if "error" in answer:
            raise BuildError(f"Triton refused {self.kernel}: {answer['error']}", answer["log"])
        return Built(b64decode(answer["cubin"]), answer["log"], {}, {self.kernel: answer["symbol"]}, answer["launch"])


class _Compiler:
    """A process that compiles one kernel after another, until its input ends."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            child_command("cuprof.backends.cuda.triton_compiler"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=child_environment(),
        )

    def ask(self, question: list[object]) -> dict[str, Any]:
        """Return the answer; raises OSError or ValueError where the process ends instead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> str:
        """Wait for the end, and return what it said to its error output."""
        self.process.kill()
        with suppress(OSError):  # what it was not given lies in the pipe, which is broken
            self.process.communicate()
        with self._said:
            self._said.seek(0)
            return self._said.read().strip()


_IDLE: SimpleQueue[_Compiler] = SimpleQueue()
"""As many come about as builds run at a time."""


@atexit.register
def _end() -> None:
    with suppress(Empty):
        while True:
            _IDLE.get_nowait().end()


def _take() -> _Compiler:
    try:
        return _IDLE.get_nowait()
    except Empty:
        return _Compiler()


def _describe(argument: object, buffers: Mapping[str, Array]) -> tuple[str, bool, int | float | None]:
    """Return an argument's type, whether Triton may take it for a multiple of 16, and its value."""
    if isinstance(argument, str):
        return "*" + _name(buffers[argument].type), True, None
    if not isinstance(argument, int | float | np.generic):
        raise BuildError(f"a Triton kernel takes no {type(argument).__name__}; let it make its own from the buffer")
    scalar = np.bool_(argument) if isinstance(argument, bool) else as_scalar(argument)
    value = scalar.item()
    kind = _name(scalar.dtype)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and value == 1 else kind, whole and value % 16 == 0, value


def _name(dtype: np.dtype) -> str:
    if dtype.name in TYPES:
        return TYPES[dtype.name]
    if dtype.kind not in "iu":
        raise BuildError(f"Triton has no type for NumPy's {dtype}")
    return f"{dtype.kind}{8 * dtype.itemsize}"
