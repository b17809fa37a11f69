"""What this machine has to build variants with: compilers, CUDA's headers, and the Python modules that they require.

NVRTC brings no headers, so those that a source includes in angle brackets are looked for where NVIDIA's packages, conda
and a toolkit install them. Code is often shared with nvcc, so the folder `standard_headers` beside this file has the C
and C++ headers whose contents NVRTC knows anyway (`<cstdint>`, `<cmath>`, …).

No required module is imported: one may start a device context or take seconds to load.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from cuprof.core.errors import MissingDependencyError
from cuprof.core.records import Unavailable

COMPILERS = {"nvcc": ("-std=c++17", "-O3", "-lineinfo"), "g++": ("-std=c++17", "-O3"), "gcc": ("-O3",)}
"""Name → the options of every compilation; a program's own options follow them."""
REMEDIES = {
    "nvcc": "install NVIDIA's CUDA toolkit, or set CUDA_HOME to one",
    "g++": "install GCC (apt install g++)",
    "gcc": "install GCC (apt install gcc)",
}
STANDARD = Path(__file__).with_name("standard_headers")
"""Stand-ins for headers of the C and C++ standard libraries."""
INSTALL = "pip install 'cuprof[cuda13]' (or [cuda12], as the driver allows)"
REMEDY = f"{INSTALL}, or set CUDA_HOME to a CUDA toolkit"

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<", re.MULTILINE)
_VERSIONS = {
    "cudart": ("cuda_runtime_api.h", r"#define\s+CUDART_VERSION\s+(\d+)"),
    "cccl": ("cuda/std/__cccl/version.h", r"#define\s+CCCL_VERSION\s+(\d+)"),
}
_PARTS = {
    "cccl": r"(cub|thrust|cuda|nv)/",
    "nvtx": "nvtx3/",
    "nvidia-cutlass": "(cutlass|cute)/",
    "nvidia-mathdx": "(cublas|cufft)dx",
    "nvidia-cudnn": "cudnn",
    r"\1": "(cublas|cufft|curand|cusparse|cusolver)",
}
"""The part of the package cuda-toolkit, or the package, that has a header → how the header's name begins."""


@dataclass(frozen=True)
class Compiler:
    """Describe a compiler of this host; `path` is None where it is not installed."""

    name: str
    path: Path | None
    version: str

    def command(self) -> list[str]:
        """Return the first words of its command line; raise `MissingDependencyError` where it is not installed."""
        if self.path is None:
            raise MissingDependencyError(f"the compiler {self.name}", REMEDIES[self.name])
        return [str(self.path), *COMPILERS[self.name]]


@cache
def get_compiler(name: str) -> Compiler:
    """Return one of `COMPILERS` by its name; a missing one has the version "none"."""
    path = find_in_toolkit(name) if name == "nvcc" else shutil.which(name)
    if path is None:
        return Compiler(name, None, "none")
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    versions = re.findall(r"\bV?(\d+\.\d+\.\d+)\b", answer)
    return Compiler(name, Path(path), f"{name} {versions[-1] if versions else 'unknown'}")


def find_in_toolkit(program: str) -> str | None:
    """Return the path of one of CUDA's programs, first that of the toolkit which CUDA_HOME or CUDA_PATH names."""
    places = (*(f"{home}/bin" for home in _homes()), *os.get_exec_path(), "/usr/local/cuda/bin")
    return shutil.which(program, path=os.pathsep.join(places))


def _homes() -> list[str]:
    return [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]


class Headers(NamedTuple):
    """The folders of CUDA's headers in the order of the search, and versions as in "cudart 13000, cccl 3000002"."""

    folders: tuple[Path, ...]
    version: str = ""


def uses_headers(text: str) -> bool:
    """Return whether a source includes something in angle brackets."""
    return _INCLUDE.search(text) is not None


@cache
def find_headers() -> Headers:
    """Return the folders of CUDA's headers that exist on this machine; the stand-ins come last."""
    homes = [Path(home, "include") for home in _homes()]
    toolkit = _find_folder("cuda_fp16.h", [*_locate("cudart"), *homes, Path("/usr/local/cuda/include")])
    beside = [toolkit / "cccl", toolkit] if toolkit is not None else []  # of CUDA 13, of CUDA 12
    cccl = _find_folder("cub/cub.cuh", [*beside, *_locate("cccl")])
    folders = tuple(dict.fromkeys(folder for folder in (toolkit, cccl) if folder is not None))
    versions = (_read_version(name, folders) for name in _VERSIONS)
    return Headers((*folders, STANDARD), ", ".join(filter(None, versions)))


def _find_folder(header: str, folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / header).is_file()), None)


def _locate(name: str) -> list[Path]:
    """Return what NVIDIA's own search finds in site-packages, conda and CUDA_HOME; it comes with cuda-bindings."""
    with suppress(ImportError, RuntimeError):  # an old release looks for libraries alone, or does not know the name
        from cuda.pathfinder import find_nvidia_header_directory

        if found := find_nvidia_header_directory(name):
            return [Path(found)]
    return []


def _read_version(name: str, folders: Sequence[Path]) -> str:
    file, pattern = _VERSIONS[name]
    folder = _find_folder(file, folders)
    found = re.search(pattern, (folder / file).read_text(encoding="utf-8", errors="replace")) if folder else None
    return f"{name} {found[1]}" if found else ""


def explain_absence(header: str, major: str) -> str:
    """Return which package has a header of this release of CUDA ("13"), and its installation; "" for other headers."""
    found = ((part, re.match(pattern, header)) for part, pattern in _PARTS.items())
    part = next((match.expand(part) for part, match in found if match), "")
    if part.startswith("nvidia-"):
        return f"it comes with {part}: pip install {part}"
    command = f"pip install 'cuda-toolkit[{part}]=={major}.*'"
    return part and f"it comes with CUDA's {part}: {command}, or set CUDA_HOME to a CUDA toolkit"


REQUIREMENTS = {
    "arrayfire": (["arrayfire-python", "arrayfire"], "pip install arrayfire"),
    "cuda.bindings": (["cuda-bindings"], INSTALL),
    "cuda.pathfinder": (["cuda-pathfinder"], "pip install cuda-pathfinder"),
    "cudnn": (["nvidia-cudnn-frontend"], "pip install nvidia-cudnn-frontend"),
    "cupy": (["cupy-cuda13x", "cupy-cuda12x", "cupy"], INSTALL),
    "cv2": (
        [f"opencv-{kind}" for kind in ("python-headless", "python", "contrib-python-headless", "contrib-python")],
        "pip install opencv-python-headless",
    ),
    "numba_cuda": (["numba-cuda"], "pip install 'numba-cuda[cu13]' (or [cu12])"),
    "nvidia.cudnn": (
        ["nvidia-cudnn-cu13", "nvidia-cudnn-cu12"],
        "pip install nvidia-cudnn-cu13 (or nvidia-cudnn-cu12)",
    ),
    "pyopencl": (["pyopencl"], "pip install 'cuprof[opencl]'"),
}
"""Module → the distributions that may provide it and what installs it, where that is not `pip install` of its name."""


def check_requirements(modules: Sequence[str]) -> Unavailable | None:
    """Return why a variant that requires these modules cannot run here, or None where all are installed."""
    absent = [module for module in modules if not is_installed(module)]
    if not absent:
        return None
    commands = dict.fromkeys(_get_requirement(module)[1] for module in absent)
    noun = "module {} is" if len(absent) == 1 else "modules {} are"
    return Unavailable(f"Python {noun.format(', '.join(absent))} not installed", "; ".join(commands))


def _get_requirement(module: str) -> tuple[list[str], str]:
    top = module.partition(".")[0]
    return REQUIREMENTS.get(module) or REQUIREMENTS.get(top) or ([top], f"pip install {top}")


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it or its parents."""
    if module in sys.modules:
        return sys.modules[module] is not None
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    for part in rest:
        spec = PathFinder.find_spec(part, spec.submodule_search_locations or []) if spec is not None else None
    return spec is not None


@cache
def get_version(module: str) -> str:
    """Return the version of a module's distribution; "none" if it is not installed, "unknown" if it has no version."""
    for distribution in _get_requirement(module)[0]:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    if not is_installed(module):
        return "none"
    found = sorted(set(importlib.metadata.packages_distributions().get(module.partition(".")[0], ())))
    versions = [importlib.metadata.version(one) for one in found]
    return ", ".join(map(" ".join, zip(found, versions, strict=True)) if len(found) > 1 else versions) or "unknown"
