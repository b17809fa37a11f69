"""Readers of other tools' results: the built-in ones, and those that installed packages add.

A package adds one by an entry point of the group `cuprof.results`: an object with the methods of `Importer`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from cuprof.core.errors import UsageError
from cuprof.interop.files import open_regular
from cuprof.interop.nvbench import Nvbench
from cuprof.interop.results import MOST_BYTES, Imported
from cuprof.interop.tuner_results import TunerCache

GROUP = "cuprof.results"
LOOKED_AT = 100_000
"""Bytes of a file that a reader tells its own files by."""


class Importer(Protocol):
    """Read the files of one tool."""

    def recognizes(self, head: str) -> bool:
        """Return whether a file that begins so is the tool's."""

    def read(self, path: Path) -> Imported:
        """Return what a file holds; raises `UsageError` where it is damaged."""


def read_results(path: Path) -> Imported:
    """Return what a file of another tool holds.

    Raises:
        UsageError: it cannot be read, or no reader knows it.
    """
    with open_regular(path, MOST_BYTES) as stream:
        head = stream.read(LOOKED_AT).decode("utf-8-sig", "replace")
    for importer in list_importers():
        if importer.recognizes(head):
            return importer.read(path)
    raise UsageError(f"{path} is no file of results that cuprof knows: nvbench and Kernel Tuner write such files")


@cache
def list_importers() -> tuple[Importer, ...]:
    """Return the readers, those of installed packages first: nvbench's takes whatever is JSON."""
    added = (point.load() for point in sorted(entry_points(group=GROUP), key=lambda each: each.name))
    return (*added, TunerCache(), Nvbench())
