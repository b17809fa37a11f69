"""Compile for an architecture that need not be here."""

from __future__ import annotations

import re

from cuprof.backends.build_cache import BuildCache
from cuprof.backends.cuda.builds import list_builds
from cuprof.backends.cuda.nvrtc import list_archs
from cuprof.errors import UsageError
from cuprof.family import Program, Signature, Variant
from cuprof.records import BuildFacts

CACHE = BuildCache()


def build(variant: Variant, program: Program, text: str, signature: Signature, arch: str) -> BuildFacts:
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
    builds = list_builds(variant, program, text, signature, arch)
    made = {kernel: CACHE.compile(each) for kernel, each in builds.items()}
    used = [
        built.kernels[symbol]
        for kernel, (built, _) in made.items()
        if (symbol := built.symbols.get(kernel, kernel)) in built.kernels
    ]
    return BuildFacts(
        registers=max((kernel.registers for kernel in used), default=None),
        spill_bytes=max((kernel.spill_bytes for kernel in used), default=None),
        cached=all(cached for _, cached in made.values()),
        log="".join(dict.fromkeys(built.log for built, _ in made.values())),
    )
