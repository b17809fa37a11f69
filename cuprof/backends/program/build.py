"""How a variant's source becomes an executable, and what is loaded into executables."""

from __future__ import annotations

from pathlib import Path

from cuprof.backends.native import NativeBuild
from cuprof.family import Program, Variant
from cuprof.family.headers import find_headers

TOOLKIT = Path("/usr/local/cuda/include")
"""Where headers are that NVIDIA's packages for Python may leave out."""


def program_build(variant: Variant, program: Program, text: str, arch: str) -> NativeBuild:
    """Return the build of an executable by the compiler that the variant names."""
    name = variant.source or variant.name
    return NativeBuild(text, name, variant.compiler, "program", arch, program.defines, program.options)


def mark_build() -> NativeBuild:
    """Return the build of the library that opens a profiler's mark in the process that it is loaded into."""
    return _own("mark.c", "gcc", ())


def kernel_times_build(include: Path) -> NativeBuild:
    """Return the build of the library that records a process's kernels; `include` has CUPTI's headers."""
    return _own("kernel_times.cpp", "g++", (include,))


def _own(name: str, compiler: str, first: tuple[Path, ...]) -> NativeBuild:
    folders = dict.fromkeys((*first, *find_headers().folders[:-1], TOOLKIT))
    options = (*(f"-I{folder}" for folder in folders), "-ldl")
    return NativeBuild(Path(__file__).with_name(name).read_text(), name, compiler, "library", options=options)
