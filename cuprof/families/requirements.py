"""The Python modules that variants require: are they installed, in which version, and how to install them.

Nothing is imported: a module may start a device context or take seconds to load.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import all_suffixes
from pathlib import Path

from cuprof.core.records import Unavailable


@dataclass(frozen=True)
class Requirement:
    """Name the distributions that can provide a module, and the command that installs it."""

    distributions: tuple[str, ...]
    command: str


REQUIREMENTS = {
    "arrayfire": Requirement(("arrayfire-python", "arrayfire"), "pip install arrayfire"),
    "cuda.bindings": Requirement(("cuda-bindings",), "pip install 'cuprof[cuda13]' (or 'cuprof[cuda12]')"),
    "cuda.pathfinder": Requirement(("cuda-pathfinder",), "pip install cuda-pathfinder"),
    "cudnn": Requirement(("nvidia-cudnn-frontend",), "pip install nvidia-cudnn-frontend"),
    "cupy": Requirement(("cupy-cuda13x", "cupy-cuda12x", "cupy"), "pip install 'cuprof[cuda13]' (or 'cuprof[cuda12]')"),
    "cv2": Requirement(
        ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python"),
        "pip install opencv-python-headless",
    ),
    "numba_cuda": Requirement(("numba-cuda",), "pip install 'numba-cuda[cu13]' (or [cu12])"),
    "nvidia.cudnn": Requirement(
        ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"), "pip install nvidia-cudnn-cu13 (or nvidia-cudnn-cu12)"
    ),
    "pyopencl": Requirement(("pyopencl",), "pip install 'cuprof[opencl]'"),
}
"""Module → its requirement, for modules that `pip install` does not find by their own name."""


def check_requirements(modules: Sequence[str]) -> Unavailable | None:
    """Return why a variant that requires these modules cannot run here, or None where all are installed."""
    absent = [module for module in modules if not is_installed(module)]
    if not absent:
        return None
    commands = dict.fromkeys(get_requirement(module).command for module in absent)
    noun = "module {} is" if len(absent) == 1 else "modules {} are"
    return Unavailable(f"Python {noun.format(', '.join(absent))} not installed", "; ".join(commands))


def get_requirement(module: str) -> Requirement:
    """Return how to install a module; an unknown one is taken to come with a distribution of its first name."""
    top = module.partition(".")[0]
    return REQUIREMENTS.get(module) or REQUIREMENTS.get(top) or Requirement((top,), f"pip install {top}")


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it or its parents."""
    if module in sys.modules:
        return sys.modules[module] is not None
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None or not rest:
        return spec is not None
    *packages, last = rest
    folders = [Path(place, *packages) for place in spec.submodule_search_locations or ()]
    files = [folder / f"{last}{suffix}" for folder in folders for suffix in all_suffixes()]
    return any((folder / last).is_dir() for folder in folders) or any(map(Path.is_file, files))


def list_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the version of each module; "none" where it is not installed, "unknown" where it has no version."""
    return {module: get_version(module) for module in sorted(set(modules))}


@cache
def get_version(module: str) -> str:
    """Return the version of the distribution that provides a module; see `list_versions`."""
    for distribution in get_requirement(module).distributions:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    if not is_installed(module):
        return "none"
    found = sorted(set(importlib.metadata.packages_distributions().get(module.partition(".")[0], ())))
    versions = [importlib.metadata.version(one) for one in found]
    if len(found) == 1:
        return versions[0]
    return ", ".join(map(" ".join, zip(found, versions, strict=True))) or "unknown"
