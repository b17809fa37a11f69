"""What is known of sizes of thread blocks on any GPU, ahead of the first measurement."""

from __future__ import annotations

import re

import numpy as np

from cuprof.search.space import Space

THREADS = re.compile(
    r"^n?(um_?)?threads|^block$|^b[xyz]$|^block_?[xyz]$|block_?(size|dim)(_?[xyz0-2])?$|work_?group|local_?size"
    r"|(^|_)(wg|lws|tpb)($|_)|dimc$",
    re.IGNORECASE,
)
"""Names of tunables whose product is the threads of a block."""
WARPS = re.compile("(num_?|^)warps", re.IGNORECASE)
FEW, MANY, ROW = 7.0, 8.5, 5.0
"""Base-2 logarithms: with fewer than 128 threads latencies show, with many more than 360 registers are wanting and
waves are uneven, and less than a warp along the first axis leaves parts of cache lines unused."""
BY_FEW, BY_MANY, BY_ROW = 0.25, 0.1, 0.1
"""What each halving or doubling beyond is expected to add to the logarithm of a time."""
LEAST_MOST = 6.0
"""Where no product comes to 64 the names mean something else."""


def expect_of_blocks(space: Space) -> np.ndarray:
    """Return what the sizes of blocks let expect of the logarithm of each time, around zero, (n,).

    It is zero where no tunable's name says that it is such a size. It is a guess to begin with: the observations decide
    how far it is believed.
    """
    names = [name for name in space.names if WARPS.search(name)] or [
        name for name in space.names if THREADS.search(name)
    ]
    sizes = {name: levels for name in names if len(levels := space.levels(name)) > 1 and _are_sizes(levels)}
    if not sizes:
        return np.zeros(space.size)
    logarithms = {
        name: np.log2(np.array(levels, float))[space.codes[:, space.names.index(name)]]
        for name, levels in sizes.items()
    }
    threads = sum(logarithms.values(), np.zeros(space.size)) + 5 * bool(WARPS.search(names[0]))
    if threads.max() < LEAST_MOST:
        return np.zeros(space.size)
    expected = BY_FEW * np.clip(FEW - threads, 0, 4) + BY_MANY * np.clip(threads - MANY, 0, 3)
    row = next((name for name in sizes if name.lower().endswith(("x", "0"))), None)
    if row:
        expected += BY_ROW * np.clip(ROW - logarithms[row], 0, 5)
    return np.asarray(expected - expected.mean())


def _are_sizes(levels: list[object]) -> bool:
    return all(isinstance(level, int | float) and level > 0 for level in levels)
