"""Where a result comes from: the source tree, the host, the software."""

from __future__ import annotations

import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import cuprof
from cuprof.plan.identity import IDENTITY_VERSION
from cuprof.results.sweeps import IDENTITIES

RECORDED = (
    "numpy", "numba", "pandas", "sqlalchemy", "hydra-core", "cupy-cuda13x", "cupy-cuda12x", "cuda-bindings",
    "pyopencl", "torch", "nvidia-ml-py",
)  # fmt: skip
"""Distributions whose versions every sweep keeps."""

NO_COMMIT, DETACHED = "(initial)", "(detached)"
"""Git's words for a repository without a commit, and for a commit outside any branch."""


@cache
def software_versions() -> dict[str, str]:
    """Return the versions of Python, cuprof, trial identities and the libraries below."""
    versions = {"python": platform.python_version(), "cuprof": cuprof.__version__, "system": platform.platform()}
    versions[IDENTITIES] = str(IDENTITY_VERSION)
    for name in RECORDED:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def git_state(folder: Path) -> dict[str, Any]:
    """Return commit, branch and whether there are uncommitted changes; empty outside a repository."""
    lines = (run_git(folder, "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-uno") or "").splitlines()
    told = dict(line.removeprefix("# branch.").split(" ", 1) for line in lines if line.startswith("# branch."))
    if told.get("oid", NO_COMMIT) == NO_COMMIT:
        return {}
    branch = "HEAD" if told["head"] == DETACHED else told["head"]
    return {"commit": told["oid"], "branch": branch, "dirty": any(not line.startswith("#") for line in lines)}


def typed_command() -> str:
    """Return the command line of this process, shortened to its program's name."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])


def run_git(folder: Path, *arguments: str) -> str | None:
    """Return what git says in a folder; None where it fails, or is not there."""
    command = ["git", "-C", str(folder), *arguments]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return None
