"""Compile for an architecture that need not be here."""

from __future__ import annotations

import re

from cuprof.backends.cuda.loading import demangle, plain_name
from cuprof.builds import BuildPool
from cuprof.builds.languages import list_builds
from cuprof.builds.nvrtc import list_archs
from cuprof.core.errors import BuildError, UsageError
from cuprof.families import Program, Signature, Variant

CACHE = BuildPool()


def build(variant: Variant, program: Program, text: str, signature: Signature, arch: str) -> list[bytes]:
    """Compile one program as before a run, and return its images; one compiled before comes from the cache.

    Args:
        arch: "sm_90" and the like; "compute_90" for PTX.

    Raises:
        UsageError: the compiler does not know the architecture.
        BuildError: the compiler refused, or its output lacks a launched kernel.
    """
    known = list_archs()
    if not re.fullmatch(r"(sm|compute)_\d+[af]?", arch) or f"sm_{arch.rpartition('_')[2].rstrip('af')}" not in known:
        raise UsageError(f"unknown architecture {arch!r}; this compiler knows {', '.join(known)}")
    images: dict[bytes, None] = {}
    for kernel, each in list_builds(variant, program, text, signature, arch).items():
        made, _ = CACHE.compile(each)
        images[made.image] = None
        if kernel and kernel not in made.symbols and made.image.startswith(b"\x7fELF"):
            there = [demangle(name.decode()) for name in sorted({*re.findall(rb"\.text\.([\w$]+)", made.image)})]
            if all(plain_name(name) != plain_name(kernel) for name in there):
                found = ", ".join(there) or "none; a template is named with its arguments: scale<float>"
                raise BuildError(f"{variant.source or variant.name} has no kernel {kernel}; there are {found}")
    return list(images)
