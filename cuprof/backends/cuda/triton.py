"""Compile Triton kernels ahead of the device, each in one of several processes of their own.

Triton is imported by those processes alone, so that they share the processor's cores, a kernel that ends its compiler
costs one trial, and what it compiled is launched, timed and compared as every other kernel is.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from cuprof.backends.build_cache import MOST_THREADS, Built
from cuprof.backends.cuda.triton_compiler import SAID
from cuprof.core.errors import BuildError
from cuprof.core.processes import child_command, child_environment
from cuprof.core.scratch import ScratchFolder
from cuprof.families import Array, Launch
from cuprof.families.program import as_scalar
from cuprof.families.requirements import get_version

TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3b11fnuz": "fp8e4b15",
}  # fmt: skip
"""NumPy's name of a type → Triton's; whole numbers are i32, u8 and so on."""
IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
"""It takes seconds to import, starts no threads, and opens no device by itself."""
ISOLATED = "a process a text"
"""Tells what is kept from what was kept before, which may have been compiled with another text's helper modules."""
SAID_BYTES, SHOWN = 8192, 200
"""How much of the end of what a process said is kept, and how many characters of it are shown in a line."""
PATIENCE_S = 2.0
"""How long a process is given that is to end."""


@dataclass(frozen=True)
class TritonBuild:
    """One kernel at one choice of constants.

    Args:
        text: of the file and of those it imports (`cuprof.families.sources`).
        arguments: type of each argument of the launch, "" for one that is the constant 1 to Triton; and whether it is
            a multiple of 16, as Triton tells kernels apart by.
        values: what `@triton.heuristics` may ask of the arguments: whole numbers and floats, None for buffers.
        constants: `tl.constexpr` parameters and options of the compiler.
    """

    text: str
    kernel: str
    arguments: tuple[tuple[str, bool], ...]
    values: tuple[int | float | None, ...]
    constants: tuple[tuple[str, int | float | str | bool | None], ...]
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
        constants = tuple((name, _read_constant(name, defines[name])) for name in sorted(defines))
        return cls(text, launch.kernel, kinds, values, constants, arch)

    def content(self) -> list[object]:
        """Return what decides the result."""
        version = [get_version("triton"), ISOLATED]
        return [self.text, self.kernel, self.arguments, self.values, self.constants, self.arch, *version]

    def run(self) -> Built:
        """Let one of the processes compile it; Triton's own cache on disk serves what it has."""
        try:
            compiler = _COMPILERS.take(self.text)
        except OSError as error:
            raise BuildError(f"Triton's process cannot be started: {error}") from error
        answer = compiler.ask([self.text, self.kernel, self.arguments, self.values, self.constants, self.arch])
        if "ended" in answer:
            said = compiler.end()
            last = f"; it said: {said.splitlines()[-1][:SHOWN]}" if said else ""
            raise BuildError(f"Triton's process {answer['ended']} while it compiled {self.kernel}{last}", said)
        _COMPILERS.give_back(compiler)
        if "error" in answer:
            raise BuildError(f"Triton refused {self.kernel}: {answer['error']}", answer["log"])
        return Built(b64decode(answer["cubin"]), answer["log"], {}, {self.kernel: answer["symbol"]}, answer["launch"])


class _Compiler:
    """A process that compiles kernels of one text, which may change as it likes what it is compiled in.

    Args:
        folder: of its own, where it keeps the text's files and what it says that is no answer.
    """

    def __init__(self, text: str, folder: Path, connection: socket.socket, origin: _Origin) -> None:
        self.text, self._folder, self._connection, self._origin = text, folder, connection, origin
        self._answers = connection.makefile("r")

    @property
    def is_ready(self) -> bool:
        """Return whether it lives, and has said nothing since its answer."""
        try:
            self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    def ask(self, question: list[object]) -> dict[str, Any]:
        """Return the answer, or how the process ended instead."""
        try:
            with suppress(OSError):  # it has ended: how, can be read nevertheless
                self._connection.sendall(json.dumps(question).encode() + b"\n")
            answer: dict[str, Any] = json.loads(self._answers.readline())
            return answer
        except (OSError, ValueError):
            return {"ended": f"ended early (does python -c 'import {self._origin.imports}' work?)"}

    def end(self) -> str:
        """Ask no more, and return the end of what was said, where it said nothing by what it was forked by."""
        said = _read_end(self._folder / SAID) or _read_end(self._origin.said)
        self._answers.close()
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return said


class _Origin:
    """The process that compilers are forked by; it imports Triton once, and hashes half a gigabyte for its key.

    Args:
        folder: where it and its compilers keep files.
        modules: what it imports as well.
    """

    def __init__(self, folder: Path, modules: str) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self.said = self._folder / SAID
        self.imports = ", ".join(["triton", *modules.split()])
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self.said.open("wb") as said:
            self._process = subprocess.Popen(
                child_command("cuprof.backends.cuda.triton_compiler", str(theirs.fileno()), *modules.split()),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[theirs.fileno()],
                env=child_environment(),
            )

    def fork(self, text: str) -> _Compiler:
        """Return a new compiler.

        Raises:
            ConnectionError: the process has ended.
            OSError: there can be no more files.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        ours, theirs = socket.socketpair()
        compiler = _Compiler(text, folder, ours, self)
        try:
            with theirs:
                socket.send_fds(self._orders, [os.fsencode(folder)], [theirs.fileno()])
        except OSError:
            compiler.end()
            raise
        return compiler

    def end(self) -> None:
        """End the process, which ends what it has forked."""
        self._orders.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:  # it is still importing
            self._process.kill()
            self._process.wait()


class _Compilers:
    """As many processes as builds run at a time, and those that are kept for further builds of their texts."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._folder: ScratchFolder | None = None
        self._origins: dict[str, _Origin] = {}
        self._idle: list[_Compiler] = []

    def take(self, text: str) -> _Compiler:
        """Return one that is idle, or a new one to compile this text.

        Raises:
            OSError: there can be no more processes, or no more files.
        """
        modules = "torch" if IMPORTS_TORCH.search(text) else ""
        with self._lock:
            for compiler in [each for each in self._idle if each.text == text]:
                self._idle.remove(compiler)
                if compiler.is_ready:
                    return compiler
                compiler.end()
            while len(self._idle) >= MOST_THREADS:
                self._idle.pop(0).end()
            if modules in self._origins:
                try:
                    return self._origins[modules].fork(text)
                except ConnectionError:  # it has ended
                    self._origins.pop(modules).end()
            self._folder = self._folder or ScratchFolder()
            self._origins[modules] = _Origin(self._folder.path, modules)
            return self._origins[modules].fork(text)

    def give_back(self, compiler: _Compiler) -> None:
        """Take back one that has answered."""
        with self._lock:
            self._idle.append(compiler)

    def end(self) -> None:
        """End all processes, and remove their files."""
        while self._idle:
            self._idle.pop().end()
        while self._origins:
            self._origins.popitem()[1].end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


_COMPILERS = _Compilers()
atexit.register(_COMPILERS.end)


def _read_end(file: Path) -> str:
    """Return the end of a file as text; nothing of one that is not there."""
    try:
        return file.read_bytes()[-SAID_BYTES:].decode(errors="replace").strip()
    except OSError:
        return ""


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


def _read_constant(name: str, value: object) -> int | float | str | bool | None:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, int | float | str | None):
        raise BuildError(
            f"{name} is {value!r}; what a Triton kernel is compiled with is a number, a text, a bool or None"
        )
    return plain


def _name(dtype: np.dtype) -> str:
    if dtype.name in TYPES:
        return TYPES[dtype.name]
    if dtype.kind not in "iu":
        raise BuildError(f"Triton has no type for NumPy's {dtype}")
    return f"{dtype.kind}{8 * dtype.itemsize}"
