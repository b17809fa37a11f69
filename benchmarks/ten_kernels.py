"""The launches of ten_kernels.cu, in ascending order of the time they are meant to take."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cuprof.families import Launch

SOURCE = Path(__file__).with_name("ten_kernels.cu")
MIB = 1 << 20
BUFFERS = {"x": 2048 * MIB, "y": 64 * MIB, "out": 4096}
"""Bytes; the contents are zeros."""
WIDE = (1056,)
"""Blocks of 256 threads: eight a multiprocessor where there are 132."""


def _read(kernel: str, mib: int) -> Launch:
    return Launch(kernel, WIDE, (256,), ("x", np.uint64(mib * MIB // 16), "out"))


LAUNCHES = (
    _read("read_1mib", 1),
    _read("read_16mib", 16),
    Launch("count_atomically", (1056,), (256,), ("out",)),
    Launch("reduce_64mib", WIDE, (256,), ("x", np.uint32(64 * MIB // 4), "out")),
    Launch("many_blocks", (1 << 16,), (32,), ("out",)),
    Launch("copy_64mib", WIDE, (256,), ("x", "y", np.uint64(64 * MIB // 16))),
    Launch("strided", WIDE, (256,), ("x", np.uint64(256 * MIB // 128), "out")),
    _read("read_256mib", 256),
    _read("read_2gib", 2048),
    Launch("multiply_add", WIDE, (256,), (np.float32(0.999), np.uint32(150_000), "out")),
)
NAMES = tuple(launch.kernel for launch in LAUNCHES)
