"""Sums in several launches: each pass leaves one partial sum a block, until one number is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from typing import NamedTuple

import numpy as np

from cuprof import Array, Launch, Point, Program

C_TYPE = {"float32": "float", "int32": "int"}


class Pass(NamedTuple):
    """One launch of a sum in several: `numbers` in, one partial sum a block out."""

    kernel: str
    numbers: int
    blocks: int
    threads: int


def chain_passes(
    problem: Point, passes: Iterable[Pass], shared: Callable[[int], int] = lambda threads: 0, **defines: int
) -> Program:
    """Return the launches of the passes, which write to the buffers a and b in turn; the last one holds the sum.

    Args:
        shared: threads a block → dynamic shared memory in elements.
        **defines: macros beside ELEMENT.
    """
    launches: list[Launch] = []
    scratch: dict[str, Array] = {}
    source = "x"
    for each, target in zip(passes, cycle("ab"), strict=False):
        scratch.setdefault(target, Array((each.blocks,), problem.dtype))  # later passes need less
        arguments = (source, target, np.uint32(each.numbers))
        launches.append(Launch(each.kernel, (each.blocks,), (each.threads,), arguments, 4 * shared(each.threads)))
        source = target
    return Program(
        steps=tuple(launches),
        defines={"ELEMENT": C_TYPE[problem.dtype], **defines},
        scratch=scratch,
        results={"sum": source},
    )


def list_passes(kernel: str, n: int, threads: int, per_thread: int) -> Iterable[Pass]:
    """Yield passes of one kernel that takes threads · per_thread numbers a block, until one number is left."""
    count = n
    while True:
        blocks = -(-count // (threads * per_thread))
        yield Pass(kernel, count, blocks, threads)
        if blocks == 1:
            return
        count = blocks


def list_first_add_passes(kernel: str, n: int, threads: int, whole_blocks: bool = False) -> Iterable[Pass]:
    """Yield the passes of steps 4 and 5 as published: two numbers a thread in the first pass, one in the later ones.

    With fewer numbers left than threads a block, the block shrinks to the next power of two, at least a warp (the
    published last pass is 32 → 1 with 32 threads), unless `whole_blocks` asks for the same block size throughout.
    """
    first = Pass(kernel, n, -(-n // (2 * threads)), threads)
    yield first
    if first.blocks > 1:
        for each in list_passes(f"{kernel}_later", first.blocks, threads, 1):
            fitting = max(32, 1 << (each.numbers - 1).bit_length())
            yield each if whole_blocks else each._replace(threads=min(threads, fitting))
