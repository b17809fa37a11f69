"""Compile for an architecture that need not be here."""

from __future__ import annotations

import re

from cuprof.backends.cuda.build_cache import BuildCache
from cuprof.backends.cuda.nvrtc import list_archs
from cuprof.errors import UsageError
from cuprof.family import Program, Variant
from cuprof.records import BuildFacts

CACHE = BuildCache()


def build(variant: Variant, program: Program, text: str, arch: str) -> BuildFacts:
    """Compile one program, as it is compiled before it runs; what was compiled before comes from the cache.

    Args:
        arch: "sm_90" and the like.

    Raises:
        UsageError: the compiler does not know the architecture.
        BuildError: the compiler refused.
    """
    known = list_archs()
    if not re.fullmatch(r"sm_\d+[af]?", arch) or arch.rstrip("af") not in known:
        raise UsageError(f"unknown architecture {arch!r}; this compiler knows {', '.join(known)}")
    name = variant.source or variant.name
    cubin, cached = CACHE.compile(text, name=name, arch=arch, defines=program.defines, options=program.options)
    used = [cubin.kernels[launch.kernel] for launch in program.launches if launch.kernel in cubin.kernels]
    return BuildFacts(
        registers=max((kernel.registers for kernel in used), default=None),
        spill_bytes=max((kernel.spill_bytes for kernel in used), default=None),
        cached=cached,
        log=cubin.log,
    )
