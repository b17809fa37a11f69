"""What processes that cuprof starts are given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

AHEAD = "CUPROF_AHEAD"
"""Environment variable of a worker that will be idle for a while: modules to import meanwhile, commas between them."""


def child_environment() -> dict[str, str]:
    """Return our environment, with the package that runs here importable in the child."""
    here = str(Path(__file__).resolve().parents[1])
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def child_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of ours; `-P` keeps the current folder's files from being imported."""
    return sys.executable, "-P", "-m", module, *arguments
