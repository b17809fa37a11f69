"""Run one ncu process under a guardian, and watch its output, the progress of its trials and the time limits."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from cuprof.core.errors import ProfilerError
from cuprof.core.interrupts import shielded
from cuprof.core.processes import MARK, child_command, child_environment, end_guarded, name_end

POLL_S = 0.05
STARTUP_S = 120.0
"""Seconds until the first trial begins, beyond one trial's time limit."""
GRACE_S = 10.0
"""Seconds in which ncu writes its report when it is asked to stop after a trial that hung."""
INTERRUPTED_GRACE_S = 1.0
"""The same after Ctrl-C."""


class NcuProcess:
    """One ncu process under a guardian: Ctrl-C reaches only us, and its children end with it or with us.

    Args:
        command: the full argument list.
        folder: of its files, which the guardian removes when we have ended; its output goes to `ncu.log` there.

    Attributes:
        output: standard output and error, interleaved as they came; once it has ended.
        timed_out: no trial began or ended within the limit, and it was stopped for that.
        interrupted: a KeyboardInterrupt arrived, and it was stopped.

    Raises:
        ProfilerError: the program cannot be started.
    """

    output, timed_out, interrupted, duration_ns = "", False, False, 0

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.command, self._folder, self._log = tuple(command), folder, folder / "ncu.log"
        if not os.access(command[0], os.X_OK):
            raise ProfilerError(f"{command[0]} could not be started (it is not a program); check ncu.path")
        guarded = child_command("cuprof.core.processes", str(os.getpid()), str(folder), *command)
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                guarded,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**child_environment(), MARK: str(folder)},
            )

    @property
    def pid(self) -> int:
        """Return the process id of ncu's guardian, which ends with it."""
        return self._process.pid

    @property
    def returncode(self) -> int:
        """Return how it ended, negative for a signal as in `subprocess`."""
        return self._process.returncode

    @property
    def killed_by(self) -> str:
        """Return the signal that ended it, or empty."""
        is_killed = self.returncode < 0 and not self.timed_out and not self.interrupted
        return name_end(self.returncode) if is_killed else ""

    def watch(self, progress: Path, limit_s: float, tick: Callable[[], None] = lambda: None) -> Self:
        """Wait until ncu ends, or stop it when its trials hang.

        Args:
            progress: file that grows whenever a trial begins or ends.
            limit_s: seconds that a trial may take.
            tick: called at every poll, for progress display.
        """
        began = time.monotonic()
        try:
            self.timed_out = self._hangs(progress, limit_s, tick)
            if self.timed_out:
                self._ask_to_stop(GRACE_S)
        except KeyboardInterrupt:
            self.interrupted = True
            self._ask_to_stop(INTERRUPTED_GRACE_S)
        finally:
            self.kill()
        self.output = self._log.read_text(encoding="utf-8", errors="replace")
        self.duration_ns = int((time.monotonic() - began) * 1e9)
        return self

    def kill(self) -> None:
        """End ncu and what it profiles at once, if they still run."""
        with shielded():
            end_guarded(self._process, self._folder)

    def _ask_to_stop(self, grace_s: float) -> None:
        """Let ncu write the report of what it has profiled."""
        give_up = time.monotonic() + grace_s
        with shielded():
            self._process.send_signal(signal.SIGINT)
        while self._is_running() and time.monotonic() < give_up:
            time.sleep(POLL_S)

    def _is_running(self) -> bool:
        """Return whether ncu runs; an interrupt inside Popen's own method would leave its lock taken."""
        with shielded():
            return self._process.poll() is None

    def _hangs(self, progress: Path, limit_s: float, tick: Callable[[], None]) -> bool:
        """Wait for the process; return True when no trial began or ended for too long."""
        size, since, allowed = 0, time.monotonic(), limit_s + STARTUP_S
        while self._is_running():
            tick()
            now_size = progress.stat().st_size if progress.exists() else 0
            if now_size != size:
                size, since, allowed = now_size, time.monotonic(), limit_s
            elif time.monotonic() - since > allowed:
                return True
            time.sleep(POLL_S)
        return False
