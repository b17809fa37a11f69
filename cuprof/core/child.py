"""What processes that cuprof starts are given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

AHEAD = "CUPROF_AHEAD"
"""Environment variable of a worker that will be idle for a while: modules to import meanwhile, commas between them."""

BLAS_THREADS, BLAS_THREADS_BEFORE = "OPENBLAS_NUM_THREADS", "CUPROF_OPENBLAS_NUM_THREADS"


def spare_cores() -> None:
    """Let NumPy and SciPy start no threads in this process, which reckons little; its children are told as before.

    Threads that wait for work keep all cores busy for a while, and with them the worker that is starting on one.
    """
    os.environ.setdefault(BLAS_THREADS_BEFORE, os.environ.get(BLAS_THREADS, ""))
    os.environ[BLAS_THREADS] = "1"


def child_environment() -> dict[str, str]:
    """Return our environment, with the package that runs here importable in the child."""
    here = str(Path(__file__).resolve().parents[2])
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    if (before := environment.pop(BLAS_THREADS_BEFORE, None)) is not None:
        environment.pop(BLAS_THREADS, None)
        environment |= {BLAS_THREADS: before} if before else {}
    return environment


def child_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours; `-P` keeps the current folder's files from being imported."""
    return sys.executable, "-P", "-m", module, *arguments
