"""Run one ncu process and watch over it: output, progress of its trials, time limits, and its whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuprof.errors import ProfilerError

POLL_S = 0.05
STARTUP_S = 120.0
"""What ncu and the profiled process may take until the first trial begins, beyond one trial's time limit."""
GRACE_S = 10.0
"""What ncu may take to write its report when it is asked to stop."""


@dataclass(frozen=True)
class ProcessResult:
    """What became of an ncu process.

    Attributes:
        returncode: negative for a signal, as in `subprocess`.
        output: standard output and error, interleaved as they came.
        timed_out: no trial began or ended within the limit, and the process was stopped for it.
        interrupted: a KeyboardInterrupt arrived; the process was stopped.
    """

    command: tuple[str, ...]
    returncode: int
    output: str
    timed_out: bool = False
    interrupted: bool = False
    duration_ns: int = 0

    @property
    def killed_by(self) -> str:
        """Return the signal that ended ncu, or empty."""
        if self.returncode >= 0 or self.timed_out or self.interrupted:
            return ""
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"signal {-self.returncode}"


class NcuProcess:
    """One ncu process with a process group of its own: Ctrl-C reaches only us, and nothing is left behind.

    Args:
        command: the full argument list.
        log: file for its output.
        environment: of the process; our own when None.

    Raises:
        ProfilerError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.command, self._log = tuple(command), log
        with log.open("wb") as sink:
            try:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=None if environment is None else dict(environment),
                )
            except OSError as error:
                raise ProfilerError(f"{command[0]} could not be started ({error}); check ncu.path") from error

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def watch(self, progress: Path, limit_s: float, tick: Callable[[], None] = lambda: None) -> ProcessResult:
        """Wait until ncu ends, or stop it when its trials stand still.

        Args:
            progress: file that grows whenever a trial begins or ends.
            limit_s: seconds that a trial may take.
            tick: called at every poll, for progress display.
        """
        began = time.monotonic()
        timed_out = interrupted = False
        try:
            timed_out = _watch(self._process, progress, limit_s, tick)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            _stop(self._process)
        output = self._log.read_text(encoding="utf-8", errors="replace")
        duration_ns = int((time.monotonic() - began) * 1e9)
        return ProcessResult(self.command, self._process.returncode, output, timed_out, interrupted, duration_ns)

    def kill(self) -> None:
        """End ncu and what it profiles at once, if they still run."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _watch(process: subprocess.Popen[bytes], progress: Path, limit_s: float, tick: Callable[[], None]) -> bool:
    """Wait for the process; return True when no trial began or ended for too long."""
    size, since, allowed = 0, time.monotonic(), limit_s + STARTUP_S
    while process.poll() is None:
        tick()
        now_size = progress.stat().st_size if progress.exists() else 0
        if now_size != size:
            size, since, allowed = now_size, time.monotonic(), limit_s
        elif time.monotonic() - since > allowed:
            return True
        time.sleep(POLL_S)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process group: asked first, so that ncu may write what it has; then killed, whatever is left of it."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
