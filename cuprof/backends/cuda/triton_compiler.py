"""The processes that compile Triton kernels: a question is a line, and so is its answer.

    python -m cuprof.backends.cuda.triton_compiler SOCKET [MODULE ...]

The first one imports Triton and has its key, for which half a gigabyte is read, and forks a compiler for each folder
and connection that it is sent. None of them touches a device. What the kernels' file prints goes to a file.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import inspect
import json
import os
import re
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from cuprof.families.configurations import find_kernel, import_kernels
from cuprof.families.sources import write_python

ORDER_BYTES, WAKING_BYTES = 4096, 4096
SAID = "said"
"""The file of what a process says that is no answer."""
UNREASONED = ("Repro command:", "PassManager::run failed")
"""How the last line of what says no reason begins."""
TOLD = re.compile(r"(?<!PTXAS )\b(?:error|fatal)\s*: (.*)")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""What differs from process to process."""
ENDINGS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""What a terminal, or who ends a command, sends to all processes of it."""
WHEREIN_KEYS_ARE = ("triton.runtime.cache", "triton.compiler.compiler")
LATE = "triton.experimental.gluon.nvidia.hopper"
"""What Triton imports when it compiles for the first time."""
UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")


class Compiler:
    """Compile kernels of one text, imported once; its files lie in `folder`, where Triton reads their source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._module: Any = None

    def answer(
        self, text: str, kernel: str, arguments: list[Any], values: list[Any], constants: list[Any], arch: str
    ) -> dict[str, Any]:
        """Return a kernel's cubin and what its launch needs; see `TritonBuild`."""
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        self._module = self._module or import_kernels(write_python(text, self.folder))
        if "constexprs" not in inspect.signature(ASTSource).parameters:
            raise ValueError(f"Triton {triton.__version__} is too old to compile ahead; pip install 'triton>=3.3'")
        layers = find_kernel(self._module, kernel)
        function = layers[-1]
        given = dict(constants)
        known = {parameter.name for parameter in function.params}
        types, attributes, runtime = {}, {}, {}
        rest = iter(zip(arguments, values, strict=True))
        for place, parameter in enumerate(function.params):
            if parameter.name in given:
                continue
            if parameter.is_constexpr:
                continue  # by a heuristic, or its default
            try:
                (kind, divisible), value = next(rest)
            except StopIteration:
                raise ValueError(f"the launch gives {len(arguments)} arguments, none for {parameter.name}") from None
            runtime[parameter.name] = value
            if not kind and not getattr(parameter, "do_not_specialize", False):
                given[parameter.name] = value
                continue
            types[parameter.name] = kind or "i32"
            if divisible and not any(getattr(parameter, name, False) for name in UNSPECIALIZED):
                attributes[place,] = [["tt.divisibility", 16]]
        if extra := len(list(rest)):
            raise ValueError(f"the launch gives {len(arguments)} arguments, {extra} more than {kernel} takes")
        for layer in layers:
            for name, heuristic in getattr(layer, "values", {}).items():
                if name not in given:
                    given[name] = _ask(heuristic, {**runtime, **given}, name)
        options = {name: given.pop(name) for name in list(given) if name not in known}
        for parameter in function.params:
            if parameter.name not in types and parameter.name not in given:
                if not parameter.has_default:
                    raise ValueError(f"{kernel} needs {parameter.name}; make it a tunable, or name it in defines=")
                given[parameter.name] = parameter.default
        target = GPUTarget("cuda", int(arch.removeprefix("sm_").rstrip("af")), 32)
        unknown = set(options) - set(vars(triton.compiler.make_backend(target).parse_options({})))
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))} is neither a parameter of {kernel} nor an option of Triton")
        signature = {one.name: types.get(one.name, "constexpr") for one in function.params}
        source = ASTSource(fn=function, signature=signature, constexprs=given, attrs=attributes)
        compiled = triton.compile(source, target=target, options=options)
        facts = compiled.metadata
        return {
            "cubin": base64.b64encode(compiled.asm["cubin"]).decode(),
            "log": "",
            "symbol": facts.name,
            "launch": {
                "threads": 32 * facts.num_warps,
                "shared_bytes": facts.shared,
                "blocks": facts.num_ctas,
                # Which of the launch's arguments are parameters of what was compiled, as bits: constants are none.
                "kept": sum(1 << place for place, name in enumerate(runtime) if name in types),
                "global_bytes": getattr(facts, "global_scratch_size", 0) or 0,
                "cooperative": int(bool(getattr(facts, "launch_cooperative_grid", False))),
                "overlaps": int(bool(getattr(facts, "launch_pdl", False))),
            },
        }


def _ask(heuristic: Callable[[dict[str, Any]], Any], known: dict[str, Any], name: str) -> Any:
    try:
        return heuristic(known)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        asked = "they may ask for numbers and constants by name, and for nothing of a buffer"
        raise ValueError(f"@triton.heuristics of {name} raised {raised}; {asked}") from error


def explain(error: BaseException, said: str = "") -> str:
    """Return in a line what Triton refuses a kernel for.

    It shows the source, a caret, and the reason last: none where that is in a function that the kernel calls, and none
    but in what the assembler, or MLIR, `said`.
    """
    reason = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
    if reason == "^" and error.__cause__ is not None:
        return explain(error.__cause__, said)
    if reason.startswith(UNREASONED) and (found := TOLD.search(f"{error}\n{said}")):
        reason = found[1].strip()
    return ADDRESS.sub("", f"{type(error).__name__}: {reason}")


def serve(lines: TextIO, folder: Path) -> None:
    """Answer until there are no more questions."""
    compiler, own = Compiler(folder), os.getpid()
    for question in lines:
        before = len(_read(folder / SAID))
        try:
            answer = compiler.answer(*json.loads(question))
        except BaseException as error:  # a process border: whatever a kernel raises is its own fault
            said = _read(folder / SAID)[before:].decode(errors="replace")
            answer = {"error": explain(error, said), "log": f"{traceback.format_exc()}{said}"}
        if os.getpid() != own:  # a copy that the kernels' file has made of this process
            os._exit(0)
        lines.write(json.dumps(answer) + "\n")
        lines.flush()


def originate(orders: socket.socket, modules: Sequence[str]) -> None:
    """Fork a compiler for each order until there are no more, and end those that are left.

    Each is in a process group of its own, with no other's handles. When it ends, whoever asks it is told how, and
    what it has started is ended.
    """
    _prepare(modules)
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ending in ENDINGS:
        signal.signal(ending, lambda *_: sys.exit(1))
    running: dict[int, socket.socket] = {}
    try:
        while True:
            ready = select.select([orders, woken], [], [])[0]
            if woken in ready:
                woken.recv(WAKING_BYTES)
                _reap(running)
            if orders in ready:
                name, handles, _, _ = socket.recv_fds(orders, ORDER_BYTES, 1)
                if not name:
                    return
                if not handles:  # there can be no more files
                    continue
                connection = socket.socket(fileno=handles[0])
                try:
                    process = os.fork()
                except OSError as error:
                    _tell_end(connection, f"could not be forked ({error.strerror})")
                    continue
                if not process:
                    for other in (orders, woken, wake, *running.values()):
                        other.close()
                    running.clear()
                    _compile(connection, Path(os.fsdecode(name)))
                    return
                running[process] = connection
    finally:
        for process in running:
            _end_group(process)


def _compile(connection: socket.socket, folder: Path) -> None:
    tempfile.tempdir = str(folder)  # the assembler's files stay where it refuses
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, *ENDINGS):  # Triton waits for the assembler
        signal.signal(number, signal.SIG_DFL)
    said = os.open(folder / SAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    with connection, connection.makefile("rw") as lines:
        serve(lines, folder)


def _reap(running: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if connection := running.pop(ended.si_pid, None):
                _end_group(ended.si_pid)
                by_itself = ended.si_code == os.CLD_EXITED
                how = f"exit code {ended.si_status}" if by_itself else signal.strsignal(ended.si_status)
                _tell_end(connection, f"ended ({how})")
            os.waitpid(ended.si_pid, 0)


def _end_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _tell_end(connection: socket.socket, how: str) -> None:
    """Say to who asks that there will be no answer, whoever else has the compiler's end of the connection."""
    with connection, contextlib.suppress(OSError):
        connection.send(json.dumps({"ended": how}).encode() + b"\n", socket.MSG_DONTWAIT)
        connection.shutdown(socket.SHUT_RDWR)


def _read(file: Path) -> bytes:
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return b""


def _prepare(modules: Sequence[str]) -> None:
    """Import what is needed and find Triton's key, a function that keeps its result; its place differs by version."""
    for module in (*WHEREIN_KEYS_ARE, LATE, *modules):
        with contextlib.suppress(Exception):  # told by the compiler
            if find_key := getattr(importlib.import_module(module), "triton_key", None):
                find_key()


if __name__ == "__main__":
    originate(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
