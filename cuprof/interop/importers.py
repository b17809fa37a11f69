"""Readers of other tools' results: the built-in ones, and those that installed packages add.

A package adds one by an entry point of the group `cuprof.results`: an object with the methods of `Importer`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from cuprof.core.errors import UsageError
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.interop.files import open_regular
from cuprof.interop.results import MOST_BYTES, Imported

GROUP = "cuprof.results"
BUILT_IN = {"kernel_tuner": "cuprof.interop.tuner_results", "nvbench": "cuprof.interop.nvbench"}
"""nvbench's reader accepts any JSON, so it comes last."""
LOOKED_AT = 100_000
"""Bytes of a file that a reader gets to recognise its own format."""


class Importer(Protocol):
    """Read the files of one tool."""

    def recognizes(self, head: str) -> bool:
        """Return whether a file that begins so is the tool's."""

    def read(self, path: Path) -> Imported:
        """Return what a file holds; raises `UsageError` where it is damaged."""


def read_results(path: Path) -> Imported:
    """Return what a file of another tool holds; those of installed packages are asked first.

    Raises:
        UsageError: it cannot be read, or no reader knows it.
    """
    with open_regular(path, MOST_BYTES) as stream:
        head = stream.read(LOOKED_AT).decode("utf-8-sig", "replace")
    names = list_plugins(GROUP, BUILT_IN)
    for name in (*(name for name in names if name not in BUILT_IN), *BUILT_IN):
        importer: Importer = load_plugin(GROUP, name, BUILT_IN, "reader of results")
        if importer.recognizes(head):
            return importer.read(path)
    raise UsageError(f"{path} holds no results that cuprof can read; known are files of {', '.join(names)}")
