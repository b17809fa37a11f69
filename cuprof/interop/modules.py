"""Modules of a stranger's script that have the names of others: imported anew, and gone afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def other_modules(roots: set[str]) -> Iterator[None]:
    """Let modules of these names, and those in them, be imported anew, and leave those that were there before."""
    hidden = _take_modules(roots)
    try:
        yield
    finally:
        _take_modules(roots)
        sys.modules.update(hidden)


def _take_modules(roots: set[str]) -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in roots}
