"""Run code in a sandbox: in a Python that confines itself before it goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cuprof.core.processes import child_environment
from cuprof.sandbox.settings import Sandbox
from tests.living import LONG_S

ROOT = Path(__file__).parents[2]
GROUPED = """
import sys
from cuprof.sandbox import confinement
from cuprof.sandbox.settings import Sandbox
confinement.confine(Sandbox.decode(sys.argv[1]))
import os, signal, subprocess, time
"""
HEAD = GROUPED.replace("confinement.confine(", "confinement.join_group = lambda most: None\nconfinement.confine(")
"""Begin a process whose memory the keeper counts, also where the kernel could."""


def run(code: str, sandbox: Sandbox, head: str = HEAD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", head + code, sandbox.encode()],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
        env=child_environment(),
        cwd=ROOT,
    )


def limited(name: str, most: int) -> str:
    """Return a head that confines its process by another limit than what is usual."""
    return HEAD.replace("confinement.confine(", f"confinement.{name} = {most}\nconfinement.confine(")
