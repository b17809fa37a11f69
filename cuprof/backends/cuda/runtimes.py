"""CUDA's runtime as libraries share it (PyTorch, extensions); a copy keeps its last error until somebody asks."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path

FILE = re.compile(r"(/\S*/libcudart[^/\s]*\.so\S*)$", re.MULTILINE)
"""A copy, under whatever name a package gives it."""


class SharedRuntimes:
    """The copies that this process has loaded."""

    def __init__(self) -> None:
        self._loaded: list[ctypes.CDLL] = []

    def look(self) -> None:
        """Take note of those that have been loaded by now; of none where the system does not tell."""
        with suppress(OSError):
            files = dict.fromkeys(FILE.findall(Path("/proc/self/maps").read_text()))
            self._loaded = [ctypes.CDLL(file, os.RTLD_NOLOAD | os.RTLD_NOW) for file in files]

    def forget_errors(self) -> None:
        """Let nobody meet the error of another's call: PyTorch asks for the last one after each of its launches."""
        for runtime in self._loaded:
            runtime.cudaGetLastError()
