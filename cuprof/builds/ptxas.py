"""What NVIDIA's assembler reports of the kernels that it has made, for CUDA and for NVIDIA's OpenCL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cuprof.core.errors import BuildError, ImpossibleError
from cuprof.core.records import BuildFacts
from cuprof.core.text import compare

FIGURES = (r"Used (\d+) registers", r"(\d+) bytes smem", r"(\d+) bytes stack frame", r"(\d+) bytes spill (?:stor|load)")
"""In the order of `KernelFacts`; repeated figures are summed."""


@dataclass(frozen=True)
class KernelFacts:
    """What ptxas reports of one kernel (sizes in bytes a thread, `shared_bytes` static shared memory a block)."""

    registers: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0


def read_resources(log: str) -> dict[str, KernelFacts]:
    """Return each kernel's resources from the output of `ptxas -v`."""
    parts = (part.partition("'") for part in log.split("Compiling entry function '")[1:])
    return {
        kernel: KernelFacts(*(sum(map(int, re.findall(each, text))) for each in FIGURES)) for kernel, _, text in parts
    }


def most_of(kernels: Iterable[KernelFacts | BuildFacts]) -> BuildFacts:
    """Return each figure of the kernel that takes most of it; None where it is known of no kernel."""
    found = list(kernels)

    def most(figure: str) -> int | None:
        known = (getattr(each, figure) for each in found)
        return max((each for each in known if each is not None), default=None)

    return BuildFacts(most("registers"), most("shared_bytes"), most("spill_bytes"))


def refusal(message: str, log: str) -> BuildError | ImpossibleError:
    """Return what a compiler's refusal is to be raised as: ptxas refuses static shared memory beyond the device's."""
    found = re.search(r"'(\w+)' uses too much shared data \(0x(\w+) bytes, 0x(\w+) max\)", log)
    if found is None:
        return BuildError(message, log)
    excess = compare("static shared memory a block", int(found[2], 16), int(found[3], 16), "bytes")
    return ImpossibleError(f"{excess} of kernel {found[1]}")
