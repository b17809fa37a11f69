"""Find Nsight Compute's command line program and read its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuprof.core.errors import ProfilerError
from cuprof.ncu.console import list_queried_metrics

OLDEST = (2022, 2)
"""First release whose --nvtx-include takes regular expressions for push/pop ranges."""

_INSTALL = "install Nsight Compute (it comes with the CUDA toolkit) or name the program with ncu.path=/path/to/ncu"
_VERSION = re.compile(r"Version\s+(\d+)\.(\d+)\.(\d+)(?:\.(\d+))?")


class NcuExecutable:
    """An ncu program and its release.

    Args:
        path: the program. Its release is read in a thread from now on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        thread = ThreadPoolExecutor(1, thread_name_prefix="ncu-version")
        self._answer = thread.submit(_read_version, path)
        thread.shutdown(wait=False)

    @property
    def version(self) -> tuple[int, ...]:
        """Return the release, waiting for it if necessary.

        Raises:
            ProfilerError: the program does not run, or is older than `OLDEST`.
        """
        version = self._answer.result()
        if version[:2] < OLDEST:
            raise ProfilerError(
                f"{self.path} is Nsight Compute {'.'.join(map(str, version))}, and cuprof needs "
                f"{'.'.join(map(str, OLDEST))} or newer; {_INSTALL}"
            )
        return version

    @property
    def version_text(self) -> str:
        """Return the release as NVIDIA writes it ("2025.3.1")."""
        return ".".join(map(str, self.version))


def get_executable(
    override: str = "", environment: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> NcuExecutable:
    """Find ncu, and start to read its version; `NcuExecutable.version` waits for it.

    Args:
        override: `ncu.path`; when given, ncu is not looked for elsewhere.
        environment: PATH, CUDA_HOME and CUDA_PATH are read from it.
        root: file system root of the usual installation folders.

    Raises:
        ProfilerError: there is none.
    """
    if override:
        path = Path(override).expanduser()
        path = path / "ncu" if path.is_dir() else path
        if not _is_program(path):
            raise ProfilerError(f"ncu.path={override} is not a program that can be run; {_INSTALL}")
        return NcuExecutable(path)
    for path in list_candidates(environment, root):
        if _is_program(path):
            return NcuExecutable(path)
    raise ProfilerError(
        "ncu, the command line program of Nsight Compute, was not found on PATH, in CUDA_HOME or CUDA_PATH, in "
        f"/usr/local/cuda*/bin or in /opt/nvidia/nsight-compute; {_INSTALL}"
    )


def list_metric_names(executable: NcuExecutable) -> list[str]:
    """Return the base names of the metrics that the devices here have; empty where ncu fails."""
    try:
        return list_queried_metrics(_ask(executable.path, "--query-metrics").stdout)
    except (OSError, subprocess.TimeoutExpired):
        return []


def list_candidates(environment: Mapping[str, str], root: Path = Path("/")) -> Iterator[Path]:
    """Yield the places of ncu in order: PATH, the toolkit named by the environment, the usual folders."""
    found = shutil.which("ncu", path=environment.get("PATH", ""))
    if found:
        yield Path(found)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environment.get(name):
            yield Path(environment[name]) / "bin" / "ncu"
    yield root / "usr/local/cuda/bin/ncu"
    yield from (folder / "bin/ncu" for folder in _newest_first(root / "usr/local", "cuda-*"))
    for folder in _newest_first(root / "opt/nvidia/nsight-compute", "*"):
        yield folder / "ncu"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _newest_first(parent: Path, pattern: str) -> list[Path]:
    folders = [folder for folder in parent.glob(pattern) if folder.is_dir() and re.search(r"\d", folder.name)]
    return sorted(folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)], reverse=True)


def _ask(path: Path, option: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(path), option], capture_output=True, text=True, errors="replace", timeout=60, check=False
    )


def _read_version(path: Path) -> tuple[int, ...]:
    try:
        run = _ask(path, "--version")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfilerError(f"{path} --version could not be run ({error}); {_INSTALL}") from error
    match = _VERSION.search(run.stdout)
    if run.returncode != 0 or match is None:
        lines = (run.stderr or run.stdout).strip().splitlines()
        raise ProfilerError(
            f"{path} --version ended with exit code {run.returncode} and named no version"
            f"{f' ({lines[-1]})' if lines else ''}; {_INSTALL}"
        )
    return tuple(int(part) for part in match.groups()[:3])
