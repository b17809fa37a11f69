"""Start ncu before it is known what it will profile.

ncu takes about two seconds until the profiled process runs, and that process one more until it can launch anything.
Meanwhile trials are planned and checked; the process waits for its job file. A note beside it names its writer, so that
the wait ends when that process does.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cuprof.child import child_environment
from cuprof.ncu.command import build_command
from cuprof.ncu.process import NcuProcess
from cuprof.ncu.setting import Setting

WAIT_S = 0.02


@dataclass(frozen=True)
class BatchFiles:
    """Name the files of one batch, all in one folder."""

    folder: Path

    @property
    def job(self) -> Path:
        """Return the job file."""
        return self.folder / "job.json"

    @property
    def owner(self) -> Path:
        """Return the note of who will write the job file."""
        return self.folder / "owner.json"

    @property
    def progress(self) -> Path:
        """Return the file that grows with the profiled process's progress."""
        return self.folder / "progress.jsonl"

    @property
    def report(self) -> Path:
        """Return ncu's report."""
        return self.folder / "report.ncu-rep"


class Batch:
    """One ncu process and its files; use as a context manager, which ends the process and removes the files.

    Args:
        setting: what ncu is asked to collect.
        device_index: the CUDA device that the process opens while it waits.
        prepare: called before the process is started; writes the job where its trials are known already.
    """

    def __init__(
        self, setting: Setting, device_index: int = 0, prepare: Callable[[BatchFiles], None] = lambda _: None
    ) -> None:
        self.setting = setting
        self._folder = tempfile.TemporaryDirectory(prefix="cuprof-ncu-")
        self.files = BatchFiles(Path(self._folder.name))
        self.files.owner.write_text(json.dumps({"pid": os.getpid(), "device_index": device_index}))
        command = build_command(
            setting.executable.path, setting.collection, self.files.report, [*setting.target, str(self.files.job)]
        )
        try:
            prepare(self.files)
            self.process = NcuProcess(command, self.files.folder / "ncu.log", child_environment())
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self._folder.cleanup()


def wait_for_job(job: Path) -> bool:
    """Wait for the job file in the profiled process; return False when whoever should write it is gone."""
    owner = job.with_name("owner.json")
    while not job.exists():
        if not owner.exists() or not _is_alive(int(json.loads(owner.read_text())["pid"])):
            return job.exists()
        time.sleep(WAIT_S)
    return True


def read_device_index(job: Path) -> int | None:
    """Return the device that is likely to be needed, or None where there is no note."""
    try:
        return int(json.loads(job.with_name("owner.json").read_text())["device_index"])
    except (OSError, ValueError, KeyError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
