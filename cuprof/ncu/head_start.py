"""Start ncu before it is known what it will profile.

ncu takes about two seconds until the profiled process runs, and that process one more until it can launch anything.
Meanwhile trials are planned and checked; the process waits for its task file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from cuprof.core.interrupts import shielded
from cuprof.core.processes import child_command
from cuprof.core.scratch import ScratchFolder
from cuprof.ncu.command import build_command
from cuprof.ncu.process import NcuProcess
from cuprof.ncu.setting import EXECUTED, IN_PROCESS, Setting
from cuprof.ncu.task import TASK, write_owner


class Batch:
    """One ncu process and its files; use as a context manager, which ends the process and removes the files.

    Args:
        setting: what ncu is asked to collect.
        device_index: the device that the process opens while it waits.
        backend: what will run the trials.
    """

    def __init__(self, setting: Setting, device_index: int = 0, backend: str = IN_PROCESS) -> None:
        self.setting, self.device_index = setting, device_index
        with shielded():
            self._folder = ScratchFolder()
            self.folder = self._folder.path
            write_owner(self.folder, backend, device_index)
            command = build_command(
                setting.executable.path,
                setting.collection,
                self.report,
                child_command("cuprof.worker.profile", str(self.folder / TASK)),
                children=backend == EXECUTED,
            )
            try:
                self.process = NcuProcess(command, self.folder)
            except BaseException:
                self._folder.cleanup()
                raise

    @property
    def report(self) -> Path:
        """Return ncu's report."""
        return self.folder / "report.ncu-rep"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove the files."""
        with shielded():
            self.process.kill()
            self._folder.cleanup()
