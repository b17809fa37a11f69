"""Find out whether the system allows a sandbox; as a program, make one and end.

python -m cuprof.sandbox.probe
"""

from __future__ import annotations

import subprocess
import sys

from cuprof.core.processes import child_command, child_environment
from cuprof.sandbox.confinement import confine
from cuprof.sandbox.settings import Sandbox

LIMIT_S = 20.0


def find_refusal() -> str:
    """Return why namespaces are not available here, or an empty string."""
    if sys.platform != "linux":
        return "only Linux has one"
    command = child_command("cuprof.sandbox.probe")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=child_environment()
        )
    except subprocess.TimeoutExpired:
        return f"making one took longer than {LIMIT_S:g} s"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return said[-1].rpartition("refused: ")[2] if said else f"exit code {done.returncode}"


if __name__ == "__main__":
    confine(Sandbox())
