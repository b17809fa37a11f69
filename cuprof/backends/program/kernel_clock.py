"""The time that a program's kernels take on the GPU, from CUPTI's records, which a library inside the program writes.

CUDA loads the library that CUDA_INJECTION64_PATH names into every process that uses it, so the program is as it was
handed in. The library is compiled at first use, since CUPTI's records have a layout of their own in each release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuprof.builds import BuildPool
from cuprof.builds.native import NativeBuild
from cuprof.core.errors import MissingDependencyError
from cuprof.families.toolchain import find_headers

TOOLKIT = Path("/usr/local/cuda/include")
"""Fallback for headers that NVIDIA's Python packages may leave out."""
INSTALL = "pip install nvidia-cuda-cupti, or set CUDA_HOME to a CUDA toolkit"


@dataclass(frozen=True)
class KernelRecord:
    """One kernel of a program: its time by the device's clock, and its resources."""

    start_ns: int
    end_ns: int
    registers: int
    shared_bytes: int
    local_bytes: int


class KernelClock:
    """Give programs a library that records their kernels."""

    def __init__(self, cache: BuildPool) -> None:
        self.cache = cache

    def install(self, folder: Path) -> dict[str, str]:
        """Put the library into a folder; return the variables that a program is started with.

        Raises:
            MissingDependencyError: CUPTI or a C++ compiler is not installed.
        """
        include, library = find_cupti()
        built, _ = self.cache.compile(own_build("kernel_times.cpp", "g++", include))
        place = folder / "libkernel_times.so"
        place.write_bytes(built.image)
        return {
            "CUDA_INJECTION64_PATH": str(place),
            "CUPROF_CUPTI": str(library),
            "CUPROF_KERNEL_TIMES": str(folder / "kernel_times"),
        }

    def read(self, folder: Path) -> list[KernelRecord]:
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
    for include in _include_folders():
        if (include / "cupti.h").is_file():
            for library in _libraries(include.parent):
                return include, library
    raise MissingDependencyError("CUPTI, which tells how long a program's kernels take,", INSTALL)


def _include_folders() -> Iterator[Path]:
    for folder in find_headers().folders:
        yield folder
        yield folder.parent / "extras" / "CUPTI" / "include"
        yield folder.parent.parent / "cuda_cupti" / "include"
    yield TOOLKIT
    yield TOOLKIT.parent / "extras" / "CUPTI" / "include"


def _libraries(root: Path) -> Iterator[Path]:
    for place in ("lib", "lib64", "extras/CUPTI/lib64"):
        yield from sorted((root / place).glob("libcupti.so*"), reverse=True)
