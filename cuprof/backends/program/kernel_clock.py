"""The time that a program's kernels take on the GPU, from CUPTI's records, which a library inside the program writes.

CUDA loads the library that CUDA_INJECTION64_PATH names into every process that uses it, so the program is as it was
handed in. The library is compiled at first use, since CUPTI's records have a layout of their own in each release.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import MissingDependencyError
from cuprof.families.toolchain import find_headers

TOOLKIT = Path("/usr/local/cuda/include")
"""Fallback for headers that NVIDIA's Python packages may leave out."""
EXTRAS = "extras/CUPTI"
"""A toolkit's folder of CUPTI."""
INSTALL = "pip install nvidia-cuda-cupti, or set CUDA_HOME to a CUDA toolkit"


class KernelRecord(NamedTuple):
    """One kernel of a program: its time by the device's clock, and its resources."""

    start_ns: int
    end_ns: int
    registers: int
    shared_bytes: int
    local_bytes: int


def install_clock(cache: BuildPool, folder: Path) -> dict[str, str]:
    """Put the library into a folder; return the variables that a program is started with.

    Raises:
        MissingDependencyError: CUPTI or a C++ compiler is not installed.
    """
    include, library = find_cupti()
    place = folder / "libkernel_times.so"
    place.write_bytes(cache.compile(own_build("kernel_times.cpp", "g++", include))[0].image)
    return {
        "CUDA_INJECTION64_PATH": str(place),
        "CUPROF_CUPTI": str(library),
        "CUPROF_KERNEL_TIMES": str(folder / "kernel_times"),
    }


def read_records(folder: Path) -> list[KernelRecord]:
    """Return the records since the last call; empty if no kernel ran."""
    place = folder / "kernel_times"
    if not place.exists():
        return []
    records = [KernelRecord(*map(int, line.split())) for line in place.read_text().splitlines()]
    place.unlink()
    return records


def own_build(name: str, compiler: str, *first: Path) -> NativeBuild:
    """Return the build of a library of this folder: mark.c opens a profiler's mark in the process that it is loaded
    into, kernel_times.cpp records that one's kernels.

    Args:
        first: folders of headers that are looked in before CUDA's own.
    """
    folders = dict.fromkeys((*first, *find_headers().folders[:-1], TOOLKIT))
    options = (*(f"-I{folder}" for folder in folders), "-ldl")
    return NativeBuild(Path(__file__).with_name(name).read_text(), name, compiler, "library", options=options)


def busy_ns(records: list[KernelRecord]) -> int:
    """Return for how long at least one of the kernels ran."""
    total, until = 0, 0
    for record in sorted(records, key=lambda each: each.start_ns):
        total += max(record.end_ns - max(record.start_ns, until), 0)
        until = max(until, record.end_ns)
    return total


def find_cupti() -> tuple[Path, Path]:
    """Return the folder of CUPTI's headers and its library.

    Raises:
        MissingDependencyError: one of them is not there.
    """
    folders = [
        folder for each in (*find_headers().folders, TOOLKIT) for folder in (each, each.parent / EXTRAS / "include")
    ]
    folders += [folder.parent.parent / "cuda_cupti" / "include" for folder in find_headers().folders]
    for include in folders:
        if (include / "cupti.h").is_file():
            for place in ("lib", "lib64", f"{EXTRAS}/lib64"):
                for library in sorted((include.parent / place).glob("libcupti.so*"), reverse=True):
                    return include, library
    raise MissingDependencyError("CUPTI, which tells how long a program's kernels take,", INSTALL)
