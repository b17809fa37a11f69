"""How a variant's source becomes an executable."""

from __future__ import annotations

from cuprof.backends.native import NativeBuild
from cuprof.family import Program, Variant


def program_build(variant: Variant, program: Program, text: str, arch: str) -> NativeBuild:
    """Return the build of an executable by the compiler that the variant names."""
    name = variant.source or variant.name
    return NativeBuild(text, name, variant.compiler, "program", arch, program.defines, program.options)
