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
_begun: list[subprocess.Popen[str]] = []


def begin_probe() -> None:
    """Begin what the next `find_refusal` asks for."""
    command = child_command("cuprof.sandbox.probe")
    pipe = subprocess.PIPE
    _begun.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=child_environment()))


def find_refusal() -> str:
    """Return why namespaces are not available here, or an empty string."""
    if sys.platform != "linux":
        return "only Linux has one"
    if not _begun:
        begin_probe()
    with _begun.pop() as process:
        try:
            said = process.communicate(timeout=LIMIT_S)[1].strip().splitlines()
        except subprocess.TimeoutExpired:
            process.kill()
            return f"making one took longer than {LIMIT_S:g} s"
    if process.returncode == 0:
        return ""
    return said[-1].rpartition("refused: ")[2] if said else f"exit code {process.returncode}"


if __name__ == "__main__":
    confine(Sandbox())
