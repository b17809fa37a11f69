"""The restrictions of a sandbox, as plain data that goes to the process in a file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cuprof.core.processes import PACKAGE_FOLDERS
from cuprof.core.project import OWN_BUILDS, own_builds

HIDDEN = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt/wslg")
"""Folders that appear empty inside: they hold other people's files and sockets, such as a container service's."""
DRIVER_FOLDERS = ("/run/nvidia", "/run/opengl-driver", "/run/opengl-driver-32")
"""Folders below hidden ones where some systems keep the driver's libraries."""
PASSED_ON = (
    "CUDA_", "CUPROF_", "CUPTI_", "GOMP_", "KMP_", "LC_", "MKL_", "NUMBA_", "NVIDIA_", "OCL_", "OMP_", "OPENBLAS_",
    "OPENCL_", "POCL_", "PYTHON", "XLA_",
)  # fmt: skip
PASSED_ON_WHOLE = ("PATH", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "TZ", "USER", "VIRTUAL_ENV")
"""Environment variables to pass on, by prefix and by name. No others, since environments hold passwords."""
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH")
"""In the names of those that are not passed on all the same, such as NVIDIA_API_KEY."""
HOME = "/tmp/cuprof"
"""The current folder of a confined process. It may write here, as anywhere in /tmp."""
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
"""Environment variable → folder in `HOME`: compilers' caches must not reach other users' processes."""


@dataclass(frozen=True)
class Sandbox:
    """The permissions of a process.

    Args:
        namespaces: give it its own view of files, processes and network; otherwise only the limits apply.
        devices: whether it can use the GPUs' device files.
        memory_bytes: of one process's own data, and of all processes together; 0 for no limit.
        covered: further folders that appear empty, and cannot be written: where temporary files are.
        visible: files and folders to show inside although they are in a folder of `HIDDEN`, or a covered one.
        hidden: files that appear empty: databases and devices' locks, on which a lock alone stops others, and other
            candidates.
        home: without namespaces, the one folder that it may write.
        writable: files in such a folder that it may write, at the same place.
    """

    namespaces: bool = True
    devices: bool = True
    memory_bytes: int = 0
    covered: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    home: str = ""
    writable: tuple[str, ...] = ()

    def write(self, folder: Path) -> str:
        """Write this into a file of a folder, and return its path: it may be longer than a command line."""
        (folder / "sandbox").write_text(self.encode())
        return str(folder / "sandbox")

    @classmethod
    def read(cls, file: str) -> Sandbox:
        """Return what `write` wrote."""
        return cls.decode(Path(file).read_text())

    def encode(self) -> str:
        """Return this as text."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Sandbox:
        """Return what `encode` wrote."""
        values: dict[str, Any] = json.loads(text)
        lists: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})


def inner_environment(environment: Mapping[str, str], sandbox: Sandbox) -> dict[str, str]:
    """Return the environment of a process in a sandbox: what compilers keep stays in folders of its own."""
    passed = {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON_WHOLE or (name.startswith(PASSED_ON) and not SECRET.search(name))
    }
    home = HOME if sandbox.namespaces else sandbox.home
    if not home:
        return passed
    caches = {name: f"{home}/{folder}" for name, folder in CACHES.items()}
    caches[OWN_BUILDS] = str(own_builds())
    return {**passed, **caches, "TMPDIR": "/tmp" if sandbox.namespaces else home}


def needed_paths() -> tuple[str, ...]:
    """Return the folders that Python and this package are imported from, and those of the driver."""
    package = Path(__file__).resolve().parents[1]
    named = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and Path(path) != package.parent
    ]
    installed = [path for path in sys.path if Path(path).name in PACKAGE_FOLDERS]
    own = [str(package), str(own_builds())]
    places = [*own, sys.prefix, sys.base_prefix, sys.executable, *named, *installed, *DRIVER_FOLDERS]
    return tuple(dict.fromkeys(path for path in map(os.path.abspath, places) if os.path.exists(path)))  # noqa: PTH110
