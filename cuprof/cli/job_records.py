"""The exit code of each of several jobs of a command: a small file a job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuprof.core.errors import CuprofError
from cuprof.store.processes import this_host

STOPPED = "stopped"
STOP_LIMIT_S = 1.2
"""How long jobs that were asked to stop may take to mark their sweeps before their launcher ends them."""


@dataclass(frozen=True)
class JobRecords:
    """Keep the exit code of every job.

    Jobs of a launcher run in other processes, perhaps on other hosts, so each writes `<number>.json` into a shared
    folder; a job that began and did not end counts as failed.

    Attributes:
        folder: where the files go.
    """

    folder: Path

    def note(self, number: int, exit_code: int | None) -> None:
        """Note a job's exit code, or None when it begins."""
        folder = self.folder / "outcomes"
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{number}.draft"
        record = {"job": number, "exit_code": exit_code, "pid": os.getpid(), "host": this_host()}
        draft.write_text(json.dumps(record), encoding="utf-8")
        draft.replace(folder / f"{number}.json")

    def stop_others(self) -> None:
        """Keep further jobs from beginning, ask those in other processes of this host to stop, and wait for that."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / STOPPED).touch()
        for record in self._open_elsewhere():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(record["pid"], signal.SIGTERM)
        give_up = time.monotonic() + STOP_LIMIT_S
        while self._open_elsewhere() and time.monotonic() < give_up:
            time.sleep(0.02)

    @property
    def are_stopped(self) -> bool:
        """Return whether no further job may begin."""
        return (self.folder / STOPPED).exists()

    def exit_code(self, expected: int) -> int:
        """Return the largest exit code of all jobs, at least 1 if fewer than `expected` left one."""
        codes = self._read()
        missing = expected - len(codes)
        return max([1 if code is None else code for code in codes.values()] + [1] * missing)

    def explain(self, error: Exception) -> CuprofError | None:
        """Return the error to show for a launcher's if a job's process ended before the job did, else None."""
        lost = sorted(str(number) for number, code in self._read().items() if code is None)
        if not lost:
            return None
        return CuprofError(
            f"a launcher's job ended before its time ({type(error).__name__}); jobs without a result: "
            f"{', '.join(lost)}; logs may be in {self.folder}; the same command goes on where this one stopped"
        )

    def _read(self) -> dict[int, int | None]:
        return {record["job"]: record["exit_code"] for record in self._records()}

    def _records(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text(encoding="utf-8")) for path in self.folder.glob("outcomes/*.json")]

    def _open_elsewhere(self) -> list[dict[str, Any]]:
        here = this_host()
        return [
            record
            for record in self._records()
            if record["exit_code"] is None and record["host"] == here and record["pid"] != os.getpid()
        ]
