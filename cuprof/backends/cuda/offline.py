"""Compile for an architecture that need not be here."""

from __future__ import annotations

import re

from cuprof.backends.build_cache import BuildCache
from cuprof.backends.cuda.builds import list_builds
from cuprof.backends.cuda.nvrtc import list_archs
from cuprof.errors import UsageError
from cuprof.family import Program, Signature, Variant

CACHE = BuildCache()


def build(variant: Variant, program: Program, text: str, signature: Signature, arch: str) -> None:
    """Compile one program, as it is compiled before it runs; what was compiled before is in the cache.

    Args:
        arch: "sm_90" and the like.

    Raises:
        UsageError: the compiler does not know the architecture.
        BuildError: the compiler refused.
    """
    known = list_archs()
    if not re.fullmatch(r"sm_\d+[af]?", arch) or arch.rstrip("af") not in known:
        raise UsageError(f"unknown architecture {arch!r}; this compiler knows {', '.join(known)}")
    for each in list_builds(variant, program, text, signature, arch).values():
        CACHE.compile(each)
