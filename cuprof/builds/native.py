"""Compile with a compiler of the host: a shared library, an executable, or with nvcc a cubin."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cuprof.builds.ptxas import read_resources, refusal
from cuprof.builds.result import VIRTUAL, Build, Built
from cuprof.families import Program, Variant
from cuprof.families.toolchain import get_compiler

Product = Literal["cubin", "library", "program"]
SHAPES: dict[tuple[bool, Product], tuple[str, ...]] = {
    (True, "cubin"): ("-cubin",),
    (True, "library"): ("-shared", "-Xcompiler", "-fPIC"),
    (True, "program"): (),
    (False, "library"): ("-shared", "-fPIC"),
    (False, "program"): (),
}
"""(whether it is nvcc, the product) → options."""
_TELLING = re.compile(r"\berror\b|undefined reference|cannot find|multiple definition")


@dataclass(frozen=True)
class NativeBuild(Build):
    """One call of a compiler.

    Args:
        name: of the source; its ending tells the language.
        arch: "sm_90" and the like, for nvcc; empty for whatever it takes by itself.
        options: after the source, so that libraries may be among them.
    """

    text: str
    name: str
    compiler: str
    product: Product
    arch: str = ""
    defines: Mapping[str, str | int] = field(default_factory=dict)
    options: Sequence[str] = ()

    @classmethod
    def of(cls, variant: Variant, program: Program, text: str, product: Product, arch: str = "") -> NativeBuild:
        """Return the build of a variant's source by the compiler that it names."""
        name = variant.source or variant.name
        name += "" if Path(name).suffix else {"gcc": ".c", "g++": ".cpp"}.get(variant.compiler, ".cu")
        return cls(text, name, variant.compiler, product, arch, program.defines, program.options)

    def content(self) -> list[object]:
        """Return what decides the result."""
        defines = sorted((name, str(value)) for name, value in self.defines.items())
        version = get_compiler(self.compiler).version
        return [self.text, Path(self.name).suffix, self.product, self.arch, defines, list(self.options), version]

    def run(self) -> Built:
        """Call the compiler in a temporary folder."""
        is_nvcc = self.compiler == "nvcc"
        command = get_compiler(self.compiler).command()
        with tempfile.TemporaryDirectory(prefix="cuprof-build-") as folder:
            source, made = Path(folder, Path(self.name).name), Path(folder, "made")
            source.write_text(self.text)
            shape = ("-ptx",) if self.arch.startswith(VIRTUAL) else SHAPES[is_nvcc, self.product]
            command += [*shape, *([f"-arch={self.arch}"] if is_nvcc and self.arch else [])]
            command += ["-Xptxas=-v"] if is_nvcc else []
            command += [f"-D{macro}={value}" for macro, value in self.defines.items()]
            command += [str(source), "-o", str(made), *self.options]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            log = (done.stdout + done.stderr).replace(f"{folder}/", "").strip()
            if done.returncode or not made.exists():
                told = [line for line in log.splitlines() if _TELLING.search(line) and "collect2:" not in line]
                first = told[0] if told else f"it ended with {done.returncode}"
                raise refusal(f"{self.compiler} refused {self.name}: {first}", log)
            return Built(made.read_bytes(), log, read_resources(log))
