"""The processes that compile Triton kernels: a question a line from one pipe, an answer a line to another.

    python -m cuprof.backends.cuda.triton_compiler SOCKET

The first one imports Triton and has its key, for which half a gigabyte is read, and forks a compiler for each set of
handles that it is sent: its pipes, and where it says what is no answer. None of them touches a device. What the
kernels' file prints goes to the error output.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, TextIO

from cuprof.family.configurations import find_kernel, import_kernels
from cuprof.family.sources import write_python

ORDER_BYTES, HANDLES = 4096, 3
UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")


class Compiler:
    """Compile kernels, importing each text once; the files lie in `folder`, where Triton reads their source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: dict[str, Any] = {}

    def answer(
        self, text: str, kernel: str, arguments: list[Any], values: list[Any], constants: list[Any], arch: str
    ) -> dict[str, Any]:
        """Return a kernel's cubin and what its launch needs; see `TritonBuild`."""
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        layers = find_kernel(self._module(text), kernel)
        function = layers[-1]
        given = dict(constants)
        known = {parameter.name for parameter in function.params}
        options = {name: given.pop(name) for name in list(given) if name not in known}
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
                given.setdefault(name, heuristic({**runtime, **given}))
        for parameter in function.params:
            if parameter.name not in types and parameter.name not in given:
                if not parameter.has_default:
                    raise ValueError(f"{kernel} needs {parameter.name}; make it a tunable, or name it in defines=")
                given[parameter.name] = parameter.default
        target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
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

    def _module(self, text: str) -> Any:
        if text not in self._modules:
            folder = self.folder / str(len(self._modules))
            self._modules[text] = import_kernels(write_python(text, folder))
        return self._modules[text]


def serve(questions: TextIO, answers: TextIO) -> None:
    """Answer until there are no more questions."""
    with tempfile.TemporaryDirectory(prefix="cuprof-triton-") as folder:
        compiler = Compiler(Path(folder))
        for question in questions:
            try:
                answer = compiler.answer(*json.loads(question))
            except Exception as error:  # a process border: whatever a kernel raises is its own fault
                # Triton shows a line of source, a caret, and the reason last.
                reason = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
                answer = {"error": f"{type(error).__name__}: {reason}", "log": traceback.format_exc()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def originate(orders: socket.socket) -> None:
    """Fork a compiler for each order until there are no more, each in a process that has no other's handles."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    _prepare()
    while handles := _receive(orders):
        if os.fork():
            for handle in handles:
                os.close(handle)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Triton waits for the assembler
        orders.close()
        questions, answers, said = handles
        os.dup2(said, 1)
        os.dup2(said, 2)
        with os.fdopen(questions) as asked, os.fdopen(answers, "w") as answered:
            serve(asked, answered)
        return


def _receive(orders: socket.socket) -> list[int]:
    """Return the handles of an order, none where there are no more; import what it says before."""
    modules, handles, _, _ = socket.recv_fds(orders, ORDER_BYTES, HANDLES)
    for module in modules.decode().split():
        with contextlib.suppress(Exception):  # told by the compiler
            importlib.import_module(module)
    return handles


def _prepare() -> None:
    """Import Triton and find its key, a function that keeps its result; where it is has changed over its versions."""
    for module in ("triton.runtime.cache", "triton.compiler.compiler"):
        with contextlib.suppress(Exception):  # told by the compiler
            if find_key := getattr(importlib.import_module(module), "triton_key", None):
                find_key()


if __name__ == "__main__":
    originate(socket.socket(fileno=int(sys.argv[1])))
