"""CUDA's runtime as libraries share it (PyTorch, extensions); a copy keeps its last error until somebody asks."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path

FILE = re.compile(r"(/\S*/libcudart[^/\s]*\.so\S*)$", re.MULTILINE)
"""A copy of the runtime library, under whatever name its package gives it."""


class SharedRuntimes:
    """The copies that this process has loaded."""

    def __init__(self) -> None:
        self._loaded: list[ctypes.CDLL] = []

    def look(self) -> None:
        """Record the runtimes loaded by now; none if the system does not list them."""
        with suppress(OSError):
            files = dict.fromkeys(FILE.findall(Path("/proc/self/maps").read_text()))
            self._loaded = [ctypes.CDLL(file, os.RTLD_NOLOAD | os.RTLD_NOW) for file in files]

    def forget_errors(self) -> None:
        """Clear every runtime's last error, or PyTorch would raise another variant's after its next launch."""
        for runtime in self._loaded:
            runtime.cudaGetLastError()
