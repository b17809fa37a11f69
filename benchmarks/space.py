"""The kernel and the 48 configurations that the tools are compared on."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from cuprof.families import Launch

PROJECT = Path(__file__).with_name("project")
SOURCE = PROJECT / "kernels" / "axpy" / "axpy.cu"
N = 2**24
A = 1.5
BLOCKS = (32, 64, 128, 256, 512, 1024)
PER_THREAD = (1, 2, 4, 8, 16, 32, 64, 128)
BUFFERS = {"x": 4 * N, "y": 4 * N, "z": 4 * N}


@dataclass(frozen=True)
class Configuration:
    """One point of the space: threads a block and elements a thread."""

    block: int
    per_thread: int

    @property
    def label(self) -> str:
        """Return the name that every tool's table shows."""
        return f"block={self.block}, per_thread={self.per_thread}"

    @property
    def defines(self) -> dict[str, str | int]:
        """Return the macros that the kernel is compiled with."""
        return {"BLOCK": self.block, "ITEMS": self.per_thread}

    @property
    def launch(self) -> Launch:
        """Return the launch over all N numbers."""
        blocks = -(-N // (self.block * self.per_thread))
        return Launch("axpy", (blocks,), (self.block,), ("x", "y", "z", np.float32(A), np.uint32(N)))


CONFIGURATIONS = tuple(Configuration(block, per_thread) for block, per_thread in product(BLOCKS, PER_THREAD))


def copy_project(folder: Path) -> Path:
    """Return a copy of the benchmarks' cuprof project, with a database of its own to come."""
    return Path(shutil.copytree(PROJECT, folder))
