"""What a sandbox holds back, as plain data that travels to the process on its command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HIDDEN = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt/wslg")
"""Folders that are empty inside: others' files and sockets lie there, such as those of a container service."""
DRIVER_FOLDERS = ("/run/nvidia", "/run/opengl-driver", "/run/opengl-driver-32")
"""Where some systems keep the driver's libraries, beneath what is hidden."""
PASSED_ON = (
    "CUDA_", "CUPROF_", "CUPTI_", "GOMP_", "KMP_", "LC_", "MKL_", "NUMBA_", "NVIDIA_", "OCL_", "OMP_", "OPENBLAS_",
    "OPENCL_", "POCL_", "PYTHON", "XLA_",
)  # fmt: skip
PASSED_ON_WHOLE = ("PATH", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "TZ", "USER", "VIRTUAL_ENV")
"""Environment variables by the beginning of their names, and by name: no others, since passwords travel in them."""
HOME = "/tmp/cuprof"
"""Where a process can write inside, as in the rest of /tmp; it is its current folder."""
CACHES = {
    "CUDA_CACHE_PATH": "cuda",
    "CUPROF_CACHE": "cubin",
    "CUPY_CACHE_DIR": "cupy",
    "NUMBA_CACHE_DIR": "numba",
    "POCL_CACHE_DIR": "pocl",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}
"""Environment variable → folder in `HOME`: what compilers keep must not reach anybody else."""


@dataclass(frozen=True)
class Sandbox:
    """Say what a process may do.

    Args:
        namespaces: with a view of files, processes and network of its own; without, there are the limits alone.
        devices: GPUs' device files are within reach.
        memory_bytes: of one process's own data, and of all processes together; 0 for no limit.
        visible: files and folders that are seen inside although they lie in a folder of `HIDDEN`.
        writable: files in such a folder that may be written, at the same place.
    """

    namespaces: bool = True
    devices: bool = True
    memory_bytes: int = 0
    visible: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    def encode(self) -> str:
        """Return this as one word."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Sandbox:
        """Return what `encode` wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(**{**values, "visible": tuple(values["visible"]), "writable": tuple(values["writable"])})


def inner_environment(environment: Mapping[str, str], namespaces: bool) -> dict[str, str]:
    """Return the environment of a process in a sandbox.

    Args:
        environment: ours.
        namespaces: folders in `HOME` are its own; without, the caches are those that everybody has.
    """
    passed = {
        name: value for name, value in environment.items() if name in PASSED_ON_WHOLE or name.startswith(PASSED_ON)
    }
    if not namespaces:
        return passed
    caches = {name: f"{HOME}/{folder}" for name, folder in CACHES.items()}
    return {**passed, **caches, "TMPDIR": "/tmp"}


def needed_paths() -> tuple[str, ...]:
    """Return the folders that Python and this package are imported from, and those of the driver."""
    package = str(Path(__file__).resolve().parents[2])
    places = [package, sys.prefix, sys.base_prefix, sys.executable, *filter(None, sys.path), *DRIVER_FOLDERS]
    return tuple(dict.fromkeys(path for path in map(os.path.abspath, places) if os.path.exists(path)))  # noqa: PTH110
