"""Find CUDA's own headers, for sources that include them in angle brackets (`#include <cuda_fp16.h>`).

NVRTC brings no headers. Look for them where NVIDIA's packages, conda and a toolkit install them. Code is often shared
with nvcc, so the folder `standard_headers` beside this file has the C and C++ headers whose contents NVRTC knows anyway
(`<cstdint>`, `<cmath>`, …).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STANDARD = Path(__file__).with_name("standard_headers")
"""Stand-ins for headers of the C and C++ standard libraries."""
INSTALL = "pip install 'cuprof[cuda13]' (or [cuda12], as the driver allows)"
REMEDY = f"{INSTALL}, or set CUDA_HOME to a CUDA toolkit"

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<", re.MULTILINE)
_VERSIONS = {
    "cudart": ("cuda_runtime_api.h", r"#define\s+CUDART_VERSION\s+(\d+)"),
    "cccl": ("cuda/std/__cccl/version.h", r"#define\s+CCCL_VERSION\s+(\d+)"),
}


PACKAGES = {
    "cub/": "cccl",
    "thrust/": "cccl",
    "cuda/": "cccl",
    "nv/": "cccl",
    "cublas": "cublas",
    "cufft": "cufft",
    "curand": "curand",
    "cusparse": "cusparse",
    "cusolver": "cusolver",
    "nvtx3/": "nvtx",
    "cutlass/": "nvidia-cutlass",
    "cute/": "nvidia-cutlass",
    "cublasdx": "nvidia-mathdx",
    "cufftdx": "nvidia-mathdx",
    "cudnn": "nvidia-cudnn",
}
"""Prefix of a header's name → the part of the package cuda-toolkit, or the package, that contains it."""


def explain_absence(header: str, major: str) -> str:
    """Return which package has a header of CUDA and how to install it; an empty text for any other header.

    Args:
        major: the compiler's release of CUDA ("13").
    """
    part = next((part for start, part in PACKAGES.items() if header.startswith(start)), "")
    if not part:
        return ""
    if part.startswith("nvidia-"):
        return f"it comes with {part}: pip install {part}"
    command = f"pip install 'cuda-toolkit[{part}]=={major}.*'"
    return f"it comes with CUDA's {part}: {command}, or set CUDA_HOME to a CUDA toolkit"


@dataclass(frozen=True)
class Headers:
    """Hold the folders of CUDA's headers.

    Attributes:
        folders: in the order of the search; the stand-ins come last.
        version: of the runtime's and CCCL's headers, as in "cudart 13000, cccl 3000002"; empty without them.
    """

    folders: tuple[Path, ...]
    version: str = ""


def uses_headers(text: str) -> bool:
    """Return whether a source includes something in angle brackets."""
    return _INCLUDE.search(text) is not None


@cache
def find_headers() -> Headers:
    """Return the folders of CUDA's headers that exist on this machine."""
    toolkit = _find_folder("cuda_fp16.h", _toolkits())
    beside = [toolkit / "cccl", toolkit] if toolkit is not None else []  # of CUDA 13, of CUDA 12
    cccl = _find_folder("cub/cub.cuh", [*beside, *_located("cccl")])
    folders = tuple(dict.fromkeys(folder for folder in (toolkit, cccl) if folder is not None))
    versions = (_version(name, folders) for name in _VERSIONS)
    return Headers((*folders, STANDARD), ", ".join(filter(None, versions)))


def _find_folder(header: str, folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / header).is_file()), None)


def _toolkits() -> list[Path]:
    homes = [Path(os.environ[name], "include") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [*_located("cudart"), *homes, Path("/usr/local/cuda/include")]


def _located(name: str) -> list[Path]:
    """Return what NVIDIA's own search finds in site-packages, conda and CUDA_HOME; it comes with cuda-bindings."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory

        found = find_nvidia_header_directory(name)
    except (ImportError, RuntimeError):  # an old release looks for libraries alone, or does not know the name
        found = None
    return [Path(found)] if found else []


def _version(name: str, folders: tuple[Path, ...]) -> str:
    file, pattern = _VERSIONS[name]
    for folder in folders:
        path = folder / file
        if path.is_file() and (match := re.search(pattern, path.read_text(encoding="utf-8", errors="replace"))):
            return f"{name} {match[1]}"
    return ""
