"""Compile Triton kernels ahead of the device, each in one of several processes of their own.

Triton is imported by those processes alone, so that they share the processor's cores, a kernel that ends its compiler
costs one trial, and what it compiled is launched, timed and compared as every other kernel is.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, BinaryIO, TextIO

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
IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
"""It takes seconds to import, starts no threads, and opens no device by itself."""
SAID_BYTES = 8192


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
        try:
            compiler = _COMPILERS.take(self.text)
        except OSError as error:
            raise BuildError(f"Triton's process cannot be started: {error}") from error
        try:
            answer = compiler.ask([self.text, self.kernel, self.arguments, self.values, self.constants, self.arch])
        except (OSError, ValueError):
            last = (compiler.end() or "nothing").splitlines()[-1]
            raise BuildError(f"Triton's process ended while it compiled {self.kernel}; it said: {last}") from None
        _COMPILERS.give_back(compiler)
        if "error" in answer:
            raise BuildError(f"Triton refused {self.kernel}: {answer['error']}", answer["log"])
        return Built(b64decode(answer["cubin"]), answer["log"], {}, {self.kernel: answer["symbol"]}, answer["launch"])


class _Compiler:
    """A process that compiles one kernel after another, until there are no more questions.

    Args:
        questions, answers: pipes.
        said, origin_said: what is no answer, by itself and by the process that it was forked by.
    """

    def __init__(self, questions: TextIO, answers: TextIO, said: BinaryIO, origin_said: BinaryIO) -> None:
        self._questions, self._answers, self._said, self._origin_said = questions, answers, said, origin_said

    def ask(self, question: list[object]) -> dict[str, Any]:
        """Return the answer; raises OSError or ValueError where the process ends instead."""
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()
        answer: dict[str, Any] = json.loads(self._answers.readline())
        return answer

    def end(self) -> str:
        """Ask no more, and return the end of what was said."""
        with suppress(OSError):  # what it was not given lies in the pipe, which is broken
            self._questions.close()
        self._answers.close()
        with self._said:
            return _read_end(self._said) or _read_end(self._origin_said)


class _Origin:
    """The process that compilers are forked by; it imports Triton once, and hashes half a gigabyte for its key."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                child_command("cuprof.backends.cuda.triton_compiler", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
                env=child_environment(),
            )

    def fork(self, modules: str) -> _Compiler:
        """Return a new compiler, forked when these modules have been imported.

        Raises:
            OSError: the process has ended.
        """
        said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the compiler
        asked, questions = os.pipe()
        answers, answered = os.pipe()
        compiler = _Compiler(os.fdopen(questions, "w"), os.fdopen(answers), said, self._said)
        try:
            socket.send_fds(self._orders, [modules.encode() or b" "], [asked, answered, said.fileno()])
        except OSError:
            compiler.end()
            raise
        finally:
            os.close(asked)
            os.close(answered)
        return compiler

    def end(self) -> None:
        """End the process; what it has forked ends when nothing more is asked."""
        self._process.kill()
        self._process.wait()
        self._orders.close()
        self._said.close()


class _Compilers:
    """As many processes as builds run at a time."""

    def __init__(self) -> None:
        self._idle: SimpleQueue[_Compiler] = SimpleQueue()
        self._lock = Lock()
        self._origin: _Origin | None = None

    def take(self, text: str) -> _Compiler:
        """Return one that is idle, or a new one to compile this text.

        Raises:
            OSError: there can be no more processes, or no more files.
        """
        with suppress(Empty):
            return self._idle.get_nowait()
        modules = "torch" if IMPORTS_TORCH.search(text) else ""
        with self._lock:
            if self._origin is not None:
                try:
                    return self._origin.fork(modules)
                except OSError:  # it has ended
                    self._origin.end()
            self._origin = _Origin()
            return self._origin.fork(modules)

    def give_back(self, compiler: _Compiler) -> None:
        """Take back one that has answered."""
        self._idle.put(compiler)

    def end(self) -> None:
        """End all that are idle, and the process that they were forked by."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().end()
        if self._origin is not None:
            self._origin.end()


_COMPILERS = _Compilers()
atexit.register(_COMPILERS.end)


def _read_end(file: BinaryIO) -> str:
    """Return the end of a file whose place others write on from, as text; nothing of one that is closed."""
    if file.closed:
        return ""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), SAID_BYTES, max(size - SAID_BYTES, 0)).decode(errors="replace").strip()


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
