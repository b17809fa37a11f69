"""Compile one Triton kernel in this process, which nothing else is compiled in."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuprof.builds.compilers import PRINTED
from cuprof.builds.result import Built
from cuprof.core.errors import BuildError
from cuprof.families.configurations import find_kernel, import_kernels
from cuprof.families.sources import write_python

UNREASONED = ("Repro command:", "PassManager::run failed")
"""How a last line that gives no reason begins."""
TOLD = re.compile(r"(?<!PTXAS )\b(?:error|fatal)\s*: (.*)")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Text that differs from process to process."""
WHEREIN_KEYS_ARE = ("triton.runtime.cache", "triton.compiler.compiler")
LATE = "triton.experimental.gluon.nvidia.hopper"
"""A module that Triton imports at its first compilation."""
UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")


Argument = tuple[str, bool]
"""Type of a launch's argument, "" for one that is the constant 1 to Triton; whether it is a multiple of 16."""
Value = int | float | str | bool | None


def compile_kernel(
    text: str,
    kernel: str,
    arguments: Sequence[Argument],
    values: Sequence[int | float | None],
    constants: Sequence[tuple[str, Value]],
    arch: str,
) -> Built:
    """Return a kernel's cubin, and what its launch needs; see `TritonBuild` for the arguments.

    Raises:
        BuildError: Triton refused it, or the text cannot be imported.
    """
    folder = Path(tempfile.mkdtemp())  # Triton reads the source from a file
    try:
        layers = find_kernel(import_kernels(write_python(text, folder)), kernel)
        return _compile(kernel, layers, arguments, values, dict(constants), arch)
    except BaseException as error:  # a process border: whatever the code of a kernel's file raises is its own fault
        printed = _read(Path(tempfile.gettempdir(), PRINTED)).decode(errors="replace")
        log = f"{traceback.format_exc()}{printed}"
        raise BuildError(f"Triton refused {kernel}: {explain(error, printed)}", log) from error


@dataclass
class _Arguments:
    """A launch's arguments as Triton compiles for them.

    Args:
        constants: `tl.constexpr` parameters by name, those given and those that heuristics and defaults add.
        types: Triton's type of each other parameter.
        attributes: which of them are multiples of 16, by place.
        runtime: the value of each argument of the launch, None for a buffer.
    """

    constants: dict[str, Any]
    types: dict[str, str] = field(default_factory=dict)
    attributes: dict[tuple[int], list[list[Any]]] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)

    def match(self, function: Any, arguments: Sequence[Argument], values: Sequence[int | float | None]) -> int:
        """Give the launch's arguments to the function's parameters; return how many are left over."""
        rest = iter(zip(arguments, values, strict=True))
        for place, parameter in enumerate(function.params):
            if parameter.name in self.constants or parameter.is_constexpr:  # or by a heuristic, or its default
                continue
            try:
                (kind, divisible), value = next(rest)
            except StopIteration:
                raise ValueError(f"the launch gives {len(arguments)} arguments, none for {parameter.name}") from None
            self.runtime[parameter.name] = value
            if not kind and not getattr(parameter, "do_not_specialize", False):
                self.constants[parameter.name] = value
                continue
            self.types[parameter.name] = kind or "i32"
            if divisible and not any(getattr(parameter, name, False) for name in UNSPECIALIZED):
                self.attributes[place,] = [["tt.divisibility", 16]]
        return len(list(rest))

    def complete(self, layers: Sequence[Any], kernel: str) -> dict[str, Any]:
        """Add what heuristics and defaults give; return the constants that are options of the compiler."""
        function = layers[-1]
        for layer in layers:
            for name, heuristic in getattr(layer, "values", {}).items():
                if name not in self.constants:
                    self.constants[name] = _ask(heuristic, {**self.runtime, **self.constants}, name)
        known = {parameter.name for parameter in function.params}
        options = {name: self.constants.pop(name) for name in list(self.constants) if name not in known}
        for parameter in function.params:
            if parameter.name not in self.types and parameter.name not in self.constants:
                if not parameter.has_default:
                    raise ValueError(f"{kernel} needs {parameter.name}; make it a tunable, or name it in defines=")
                self.constants[parameter.name] = parameter.default
        return options


def _compile(
    kernel: str,
    layers: Sequence[Any],
    arguments: Sequence[Argument],
    values: Sequence[int | float | None],
    constants: dict[str, Any],
    arch: str,
) -> Built:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if "constexprs" not in inspect.signature(ASTSource).parameters:
        raise ValueError(f"Triton {triton.__version__} is too old to compile ahead; pip install 'triton>=3.3'")
    function, given = layers[-1], _Arguments(constants)
    if extra := given.match(function, arguments, values):
        raise ValueError(f"the launch gives {len(arguments)} arguments, {extra} more than {kernel} takes")
    options = given.complete(layers, kernel)
    target = GPUTarget("cuda", int(arch.removeprefix("sm_").rstrip("af")), 32)
    unknown = ", ".join(sorted(set(options) - set(vars(triton.compiler.make_backend(target).parse_options({})))))
    if unknown:
        raise ValueError(f"{unknown} is neither a parameter of {kernel} nor an option of Triton")
    signature = {one.name: given.types.get(one.name, "constexpr") for one in function.params}
    source = ASTSource(fn=function, signature=signature, constexprs=given.constants, attrs=given.attributes)
    compiled = triton.compile(source, target=target, options=options)
    facts = compiled.metadata
    launch = {
        "threads": 32 * facts.num_warps,
        "shared_bytes": facts.shared,
        "blocks": facts.num_ctas,
        # Which of the launch's arguments are parameters of what was compiled, as bits: constants are none.
        "kept": sum(1 << place for place, name in enumerate(given.runtime) if name in given.types),
        "global_bytes": getattr(facts, "global_scratch_size", 0) or 0,
        "cooperative": int(bool(getattr(facts, "launch_cooperative_grid", False))),
        "overlaps": int(bool(getattr(facts, "launch_pdl", False))),
    }
    return Built(compiled.asm["cubin"], "", {}, {kernel: facts.name}, launch)


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


def _read(file: Path) -> bytes:
    with contextlib.suppress(OSError):
        return file.read_bytes()
    return b""


def prepare(modules: Sequence[str]) -> None:
    """Import the needed modules and call Triton's key function, which caches its result."""
    for module in (*WHEREIN_KEYS_ARE, LATE, *modules):
        with contextlib.suppress(Exception):  # the compiler reports it
            if find_key := getattr(importlib.import_module(module), "triton_key", None):
                find_key()
