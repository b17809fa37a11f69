"""Triton kernels, compiled ahead of the device in a process of their own.

Triton is imported by compiling processes alone. What they make is launched, timed and compared as every other kernel.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cuprof.builds.compilers import PRINTED
from cuprof.builds.result import VIRTUAL, Build, Built, Preload
from cuprof.core.errors import BuildError
from cuprof.families import Array, Launch
from cuprof.families.program import as_scalar
from cuprof.families.sources import write_python
from cuprof.families.toolchain import get_version
from cuprof.families.tunables import find_kernel, import_kernels

TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3b11fnuz": "fp8e4b15",
}  # fmt: skip
"""NumPy's name of a type → Triton's; whole numbers are i32, u8 and so on."""
IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
"""PyTorch takes seconds to import, starts no threads, and opens no device by itself."""
ISOLATED = "a process a text"
"""A part of the cache key. Builds kept before this may have been compiled with another source's helper modules."""
UNREASONED = ("Repro command:", "PassManager::run failed")
"""How a last line that gives no reason begins."""
TOLD = re.compile(r"(?<!PTXAS )\b(?:error|fatal)\s*: (.*)")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Text that differs from process to process."""
WHEREIN_KEYS_ARE = ("triton.runtime.cache", "triton.compiler.compiler")
LATE = "triton.experimental.gluon.nvidia.hopper"
"""A module that Triton imports at its first compilation."""
Described = tuple[str, bool, int | float | None]
UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")


def load_triton(*modules: str) -> None:
    """Import Triton and further modules, and have its key, for which it reads 0.5 GB; builds report failures."""
    for module in (*WHEREIN_KEYS_ARE, LATE, *modules):
        with suppress(Exception):
            if find_key := getattr(importlib.import_module(module), "triton_key", None):
                find_key()


@dataclass(frozen=True)
class TritonBuild(Build):
    """One kernel at one choice of constants.

    Args:
        text: of the file and of those it imports (`cuprof.families.sources`).
        name: of the kernel.
        arguments: of each argument of the launch its type, "" for one that is the constant 1 to Triton; whether it is a
            multiple of 16, as Triton tells kernels apart by; and what `@triton.heuristics` may ask of it, None for a
            buffer.
        constants: `tl.constexpr` parameters and options of the compiler.
    """

    text: str
    name: str
    arguments: tuple[Described, ...]
    constants: tuple[tuple[str, int | float | str | bool | None], ...]
    arch: str

    is_alone: ClassVar[bool] = True

    @classmethod
    def of(
        cls, text: str, launch: Launch, buffers: Mapping[str, Array], defines: Mapping[str, Any], arch: str
    ) -> TritonBuild:
        """Return the build of a launch's kernel."""
        arguments = tuple(_describe(argument, buffers) for argument in launch.args)
        constants = tuple((name, _read_constant(name, defines[name])) for name in sorted(defines))
        return cls(text, launch.kernel, arguments, constants, arch)

    @property
    def preload(self) -> Preload:
        """Return what imports Triton, and PyTorch where the file does."""
        return load_triton, *(["torch"] if IMPORTS_TORCH.search(self.text) else [])

    def content(self) -> list[object]:
        """Return what decides the result."""
        version = [get_version("triton"), ISOLATED]
        return [self.text, self.name, self.arguments, self.constants, self.arch, *version]

    def run(self) -> Built:
        """Compile in this process, which nothing else is compiled in; Triton's own cache on disk serves what it has.

        Raises:
            BuildError: Triton refused it, or the text cannot be imported.
        """
        folder = Path(tempfile.mkdtemp())  # Triton reads the source from a file
        try:
            return _compile(self, find_kernel(import_kernels(write_python(self.text, folder)), self.name))
        except BaseException as error:  # a process border: whatever a kernel's file raises is its own fault
            printed = ""
            with suppress(OSError):
                printed = Path(tempfile.gettempdir(), PRINTED).read_bytes().decode(errors="replace")
            log = f"{traceback.format_exc()}{printed}"
            raise BuildError(f"Triton refused {self.name}: {explain(error, printed)}", log) from error


def _describe(argument: object, buffers: Mapping[str, Array]) -> Described:
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


def _compile(build: TritonBuild, layers: Sequence[Any]) -> Built:
    """Return the cubin of a kernel, and what its launch needs.

    Args:
        layers: the kernel's decorators, the function itself last.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if "constexprs" not in inspect.signature(ASTSource).parameters:
        raise ValueError(f"Triton {triton.__version__} is too old to compile ahead; pip install 'triton>=3.3'")
    function, constants = layers[-1], dict(build.constants)
    given = dict(_match(build, function, constants))
    constants |= {name: value for name, (kind, _, value) in given.items() if not kind}
    types = {name: kind for name, (kind, _, _) in given.items() if kind}
    options = _complete(build.name, layers, constants, {name: value for name, (*_, value) in given.items()}, types)
    places = {parameter.name: place for place, parameter in enumerate(function.params)}
    attributes = {
        (places[name],): [["tt.divisibility", 16]] for name, (_, is_divisible, _) in given.items() if is_divisible
    }
    target = GPUTarget("cuda", int(build.arch.rpartition("_")[2].rstrip("af")), 32)
    known = vars(triton.compiler.make_backend(target).parse_options({}))
    if unknown := ", ".join(sorted(options.keys() - known.keys())):
        raise ValueError(f"{unknown} is neither a parameter of {build.name} nor an option of Triton")
    signature = {each.name: types.get(each.name, "constexpr") for each in function.params}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=target, options=options)
    facts = compiled.metadata
    launch = {
        "threads": 32 * facts.num_warps,
        "shared_bytes": facts.shared,
        "blocks": facts.num_ctas,
        # Which of the launch's arguments are parameters of what was compiled, as bits: constants are none.
        "kept": sum(1 << place for place, name in enumerate(given) if name in types),
        "global_bytes": getattr(facts, "global_scratch_size", 0) or 0,
        "cooperative": int(bool(getattr(facts, "launch_cooperative_grid", False))),
        "overlaps": int(bool(getattr(facts, "launch_pdl", False))),
    }
    image = compiled.asm["ptx"].encode() if build.arch.startswith(VIRTUAL) else compiled.asm["cubin"]
    return Built(image, "", {}, {build.name: facts.name}, launch)


def _match(build: TritonBuild, function: Any, constants: Mapping[str, Any]) -> Iterator[tuple[str, Described]]:
    """Yield each argument of the launch with its parameter's name, as Triton takes it there."""
    count, rest = len(build.arguments), iter(build.arguments)
    for parameter in function.params:
        if parameter.name in constants or parameter.is_constexpr:  # or by a heuristic, or its default
            continue
        try:
            kind, is_divisible, value = next(rest)
        except StopIteration:
            raise ValueError(f"the launch gives {count} arguments, none for {parameter.name}") from None
        if not kind and getattr(parameter, "do_not_specialize", False):
            kind = "i32"
        is_divisible = is_divisible and not any(getattr(parameter, name, False) for name in UNSPECIALIZED)
        yield parameter.name, (kind, bool(kind) and is_divisible, value)
    if extra := len(list(rest)):
        raise ValueError(f"the launch gives {count} arguments, {extra} more than {build.name} takes")


def _complete(
    kernel: str, layers: Sequence[Any], constants: dict[str, Any], runtime: Mapping[str, Any], types: Mapping[str, str]
) -> dict[str, Any]:
    """Add the constants that heuristics and defaults give; take out and return what are options of the compiler."""
    function = layers[-1]
    for layer in layers:
        for name, heuristic in getattr(layer, "values", {}).items():
            if name not in constants:
                try:
                    constants[name] = heuristic({**runtime, **constants})
                except Exception as error:
                    raised = f"{type(error).__name__}: {error}"
                    asked = "they may ask for numbers and constants by name, and for nothing of a buffer"
                    raise ValueError(f"@triton.heuristics of {name} raised {raised}; {asked}") from error
    known = {parameter.name for parameter in function.params}
    options = {name: constants.pop(name) for name in list(constants) if name not in known}
    for parameter in function.params:
        if parameter.name not in types and parameter.name not in constants:
            if not parameter.has_default:
                raise ValueError(f"{kernel} needs {parameter.name}; make it a tunable, or name it in defines=")
            constants[parameter.name] = parameter.default
    return options


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
