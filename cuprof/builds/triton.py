"""Triton kernels, compiled ahead of the device in a process of their own.

Triton is imported by compiling processes alone. What they make is launched, timed and compared as every other kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cuprof.builds.result import Built
from cuprof.builds.triton_compiler import compile_kernel, prepare
from cuprof.core.errors import BuildError
from cuprof.families import Array, Launch
from cuprof.families.program import as_scalar
from cuprof.families.requirements import get_version

TYPES = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "bool": "i1",
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3b11fnuz": "fp8e4b15",
}  # fmt: skip
"""NumPy's name of a type → Triton's; whole numbers are i32, u8 and so on."""
IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)
"""PyTorch takes seconds to import, starts no threads, and opens no device by itself."""
ISOLATED = "a process a text"
"""A part of the cache key. Builds kept before this may have been compiled with another source's helper modules."""


@dataclass(frozen=True)
class LoadTriton:
    """Have Triton imported, and its key known, for which it reads half a gigabyte.

    Args:
        modules: what to import besides.
    """

    modules: tuple[str, ...] = ()

    def load(self, folder: Path) -> None:
        """Import all; a failure is reported by the build."""
        prepare(self.modules)


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

    headers: ClassVar[None] = None
    """A Triton file has no headers."""

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

    @property
    def name(self) -> str:
        """Return what a message calls it."""
        return self.kernel

    @property
    def preload(self) -> LoadTriton:
        """Return what the compiling process needs."""
        return LoadTriton(("torch",) if IMPORTS_TORCH.search(self.text) else ())

    def content(self) -> list[object]:
        """Return what decides the result."""
        version = [get_version("triton"), ISOLATED]
        return [self.text, self.kernel, self.arguments, self.values, self.constants, self.arch, *version]

    def run(self) -> Built:
        """Compile in this process; Triton's own cache on disk serves what it has."""
        return compile_kernel(self.text, self.kernel, self.arguments, self.values, self.constants, self.arch)


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
