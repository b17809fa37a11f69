"""Where a result comes from: the source tree, the host, the software."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import cuprof

RECORDED = (
    "numpy", "numba", "pandas", "sqlalchemy", "hydra-core", "plotly", "cupy-cuda13x", "cupy-cuda12x", "cuda-bindings",
    "pyopencl", "torch", "nvidia-ml-py",
)  # fmt: skip
"""Distributions whose versions every sweep keeps."""


def host_name() -> str:
    """Return this machine's name."""
    return platform.node()


def software_versions() -> dict[str, str]:
    """Return the versions of Python, cuprof and what it stands on."""
    versions = {"python": platform.python_version(), "cuprof": cuprof.__version__, "system": platform.platform()}
    for name in RECORDED:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state(folder: Path) -> dict[str, Any]:
    """Return commit, branch and whether there are uncommitted changes; empty outside a repository."""
    commit = run_git(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    changes = run_git(folder, "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "branch": run_git(folder, "rev-parse", "--abbrev-ref", "HEAD") or "",
        "dirty": bool(changes),
    }


def name_processes(pids: Sequence[int]) -> str:
    """Return processes as text, "python3 (pid 12), pid 13" where one cannot be named (another container's)."""
    import psutil

    named = []
    for pid in pids:
        try:
            named.append(f"{psutil.Process(pid).name()} (pid {pid})")
        except psutil.Error:
            named.append(f"pid {pid}")
    return ", ".join(named)


def typed_command() -> str:
    """Return the command line of this process, shortened to its program's name."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])


def run_git(folder: Path, *arguments: str) -> str | None:
    """Return what git says in a folder; None where it fails, or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
