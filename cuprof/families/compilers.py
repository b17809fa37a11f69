"""The compilers of the host that a variant may name: their places, versions and options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cuprof.core.errors import FamilyError, MissingDependencyError

COMPILERS = {
    "nvcc": ("-std=c++17", "-O3", "-lineinfo"),
    "g++": ("-std=c++17", "-O3"),
    "gcc": ("-O3",),
}
"""Name → the options of every compilation; a program's own options follow them."""
REMEDIES = {
    "nvcc": "install NVIDIA's CUDA toolkit, or set CUDA_HOME to one",
    "g++": "install GCC (apt install g++)",
    "gcc": "install GCC (apt install gcc)",
}


@dataclass(frozen=True)
class Compiler:
    """Describe a compiler of this host; `path` is None where it is not installed."""

    name: str
    path: Path | None
    version: str

    def command(self) -> list[str]:
        """Return the first words of its command line.

        Raises:
            MissingDependencyError: it is not installed.
        """
        if self.path is None:
            raise MissingDependencyError(f"the compiler {self.name}", REMEDIES[self.name])
        return [str(self.path), *COMPILERS[self.name]]


@cache
def get_compiler(name: str) -> Compiler:
    """Return a compiler by its name; a missing one has the version "none".

    Raises:
        FamilyError: there is no compiler of this name.
    """
    if name not in COMPILERS:
        raise FamilyError(f"compiler {name!r} is not known; there are {', '.join(COMPILERS)}")
    path = _find(name)
    if path is None:
        return Compiler(name, None, "none")
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    versions = re.findall(r"\bV?(\d+\.\d+\.\d+)\b", answer)
    return Compiler(name, path, f"{name} {versions[-1] if versions else 'unknown'}")


def _find(name: str) -> Path | None:
    places = os.get_exec_path()
    if name == "nvcc":
        homes = [os.environ[home] for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
        places = [*(f"{home}/bin" for home in homes), *places, "/usr/local/cuda/bin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    return Path(found) if found else None
