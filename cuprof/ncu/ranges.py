"""NVTX ranges that carry identities: how launches in a report are joined to trials."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cuprof.backends.spec import MARK_VARIABLE

RANGE_PREFIX = "cuprof-"
"""The NVTX ranges of trials start with this. They are in the default domain, the one that `cupy.cuda.nvtx` offers."""
RANGE_FILTER = f"regex:{RANGE_PREFIX}.+/"
"""Selects every launch inside one of our push/pop ranges, at any depth: "/" marks a push/pop range by name, and a name
without "@" belongs to the default domain (Nsight Compute CLI, "NVTX Filtering")."""
_RANGE = re.compile(rf"{RANGE_PREFIX}([0-9a-f]{{32}})")


@contextmanager
def mark(identity: str) -> Iterator[None]:
    """Enclose the execution of a trial in a range, also that of programs which this process executes meanwhile."""
    from cupy.cuda import nvtx

    name = RANGE_PREFIX + identity
    nvtx.RangePush(name)
    os.environ[MARK_VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[MARK_VARIABLE]
        nvtx.RangePop()


def find_identity(range_names: Sequence[str]) -> str | None:
    """Return the identity of the innermost of our ranges, or None.

    Args:
        range_names: push/pop ranges around a launch, outermost first; a library may add its own.
    """
    for name in reversed(range_names):
        match = _RANGE.fullmatch(name)
        if match:
            return match.group(1)
    return None
