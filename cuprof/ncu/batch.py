"""One ncu process over a batch of trials, which may be started before the trials are known.

ncu takes about two seconds until the profiled process runs, and that process one more until it can launch anything.
Meanwhile trials are planned and checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from cuprof.core.errors import ProfilerError
from cuprof.core.interrupts import shielded
from cuprof.core.processes import child_command
from cuprof.core.records import LaunchRecord, Trial
from cuprof.core.scratch import ScratchFolder
from cuprof.ncu import EXECUTED, IN_PROCESS
from cuprof.ncu.artifact import keep_artifact
from cuprof.ncu.attribution import Attribution, BatchResult
from cuprof.ncu.console import find_explanation
from cuprof.ncu.process import NcuProcess, ProcessResult
from cuprof.ncu.report_file import read_report
from cuprof.ncu.setting import Setting, build_command
from cuprof.ncu.task import ProfilingTask, TaskTrial, read_progress, write_task


class Batch:
    """One ncu process and its files; use as a context manager, which ends the process and removes the files.

    Args:
        device_index: the device that the process opens while it waits for its task.
        backend: the back end of the trials.
    """

    def __init__(self, setting: Setting, device_index: int = 0, backend: str = IN_PROCESS) -> None:
        self.setting, self.device = setting, (backend, device_index)
        with shielded():
            self._folder = ScratchFolder()
            self.folder = self._folder.path
            self.report, self.task = self.folder / "report.ncu-rep", self.folder / "task.json"
            owner = (str(os.getpid()), backend, str(device_index))
            target = child_command("cuprof.worker.profile", *owner, str(self.task))
            children = backend == EXECUTED
            command = build_command(setting.executable.path, setting.collection, self.report, target, children=children)
            try:
                self.process = NcuProcess(command, self.folder)
            except BaseException:
                self._folder.cleanup()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove the files."""
        with shielded():
            self.process.kill()
            self._folder.cleanup()


def run_batch(
    trials: Sequence[Trial],
    setting: Setting,
    on_trial: Callable[[str], None] = lambda _: None,
    ahead: Batch | None = None,
) -> tuple[BatchResult, tuple[str, ...]]:
    """Profile trials of one family on one back end's device in one ncu process; see `Collector.profile`.

    Args:
        ahead: an ncu process of this setting that already waits for its task; a new one is started when None.

    Returns:
        What became of the trials, and the metrics that the chip does not have.
    """
    started_at = time.time()
    device = _device(trials)
    if ahead is not None and ahead.device != device:
        ahead.close()
        ahead = None
    with ahead or Batch(setting, device[1], device[0]) as batch:
        progress_file = batch.folder / "progress.jsonl"

        def show() -> None:
            if (identity := read_progress(progress_file).open) is not None:
                on_trial(identity)

        write_task(_task(trials, setting, progress_file), batch.task)
        result = batch.process.watch(progress_file, setting.collection.time_limit_s, show)
        progress = read_progress(progress_file)
        launches = _read(batch.report, result, setting)
        artifact = None
        if launches:
            version = setting.executable.version_text
            artifact = keep_artifact(
                batch.report, setting.artifacts, tool_version=version, command=result.command, move=True
            )
    return Attribution(trials, setting, result, progress, launches, artifact, started_at).decide()


def _device(trials: Sequence[Trial]) -> tuple[str, int]:
    first = trials[0]
    return first.backend, first.device.index if first.device is not None else 0


def _task(trials: Sequence[Trial], setting: Setting, progress: Path) -> ProfilingTask:
    backend, device_index = _device(trials)
    return ProfilingTask(
        origin=setting.find_origin(trials[0].family),
        trials=tuple(TaskTrial(each.identity, each.variant, each.problem, each.tunables) for each in trials),
        backend=backend,
        device_index=device_index,
        progress_path=str(progress),
        warm_up=0 if setting.request.conditions.cache_mode == "cold" else 1,
        extension=setting.extension,
    )


def _read(path: Path, result: ProcessResult, setting: Setting) -> dict[str, tuple[LaunchRecord, ...]]:
    """Read the launches of trials; what a stopped or crashed process left half-written counts as no report."""
    if not path.exists():
        return {}
    try:
        found = read_report(path, None if setting.request.whole else setting.collection.metrics)
    except ProfilerError:
        if result.returncode == 0:
            explanation = find_explanation(result.output)
            if explanation:
                raise ProfilerError(explanation) from None
            raise
        return {}
    return {identity: launches for identity, launches in found.items() if identity is not None}
