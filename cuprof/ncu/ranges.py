"""NVTX ranges that carry identities: how launches in a report are joined to trials."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cuprof.backends.spec import MARK_VARIABLE

RANGE_PREFIX = "cuprof-"
"""What the NVTX ranges of trials start with. They lie in the default domain, the one that `cupy.cuda.nvtx` offers."""

_RANGE = re.compile(rf"{RANGE_PREFIX}([0-9a-f]{{32}})")


@contextmanager
def named_range(name: str) -> Iterator[None]:
    """Open an NVTX push/pop range of this thread in the default domain, and of the processes that it executes."""
    from cupy.cuda import nvtx

    nvtx.RangePush(name)
    os.environ[MARK_VARIABLE] = name
    try:
        yield
    finally:
        del os.environ[MARK_VARIABLE]
        nvtx.RangePop()


def range_name(identity: str) -> str:
    """Return the name of the NVTX range that wraps the execution of a trial."""
    return RANGE_PREFIX + identity


def find_identity(range_names: Sequence[str]) -> str | None:
    """Return the trial identity carried by the innermost range of ours, or None.

    Args:
        range_names: push/pop ranges around a launch, outermost first; a library may add its own.
    """
    for name in reversed(range_names):
        match = _RANGE.fullmatch(name)
        if match:
            return match.group(1)
    return None
