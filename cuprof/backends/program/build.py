"""Build the libraries that are loaded into executables."""

from __future__ import annotations

from pathlib import Path

from cuprof.builds.native import NativeBuild
from cuprof.families.headers import find_headers

TOOLKIT = Path("/usr/local/cuda/include")
"""Fallback for headers that NVIDIA's Python packages may leave out."""


def own_build(name: str, compiler: str, *first: Path) -> NativeBuild:
    """Return the build of a library of this folder: mark.c opens a profiler's mark in the process that it is loaded
    into, kernel_times.cpp records that one's kernels.

    Args:
        first: folders of headers that are looked in before CUDA's own.
    """
    folders = dict.fromkeys((*first, *find_headers().folders[:-1], TOOLKIT))
    options = (*(f"-I{folder}" for folder in folders), "-ldl")
    return NativeBuild(Path(__file__).with_name(name).read_text(), name, compiler, "library", options=options)
