"""Profile a batch of trials in one ncu process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cuprof.core.errors import ProfilerError
from cuprof.core.records import LaunchRecord, Trial
from cuprof.ncu.artifact import keep_artifact
from cuprof.ncu.attribution import Attribution
from cuprof.ncu.console import find_explanation
from cuprof.ncu.contract import BatchResult
from cuprof.ncu.head_start import Batch
from cuprof.ncu.process import ProcessResult
from cuprof.ncu.progress import Progress, read_progress
from cuprof.ncu.report_file import read_report
from cuprof.ncu.setting import IN_PROCESS, NAME, Setting
from cuprof.ncu.task import PROGRESS, TASK, ProfilingTask, TaskTrial, write_task


def run_batch(
    trials: Sequence[Trial],
    setting: Setting,
    on_progress: Callable[[Progress], None] = lambda _: None,
    ahead: Batch | None = None,
) -> tuple[BatchResult, tuple[str, ...]]:
    """Profile trials of one family on one back end's device in one ncu process.

    Every call decides at least one trial, names metrics to leave out, was interrupted, or raises.

    Args:
        ahead: an ncu process of this setting that already waits for its task; a new one is started when None.

    Raises:
        ProfilerError: ncu failed for a reason that is no trial's own (permission, disk, arguments, another profiler).
    """
    started_at = time.time()
    if ahead is not None and (trials[0].backend, _device_index(trials)) != (IN_PROCESS, ahead.device_index):
        ahead.close()
        ahead = None
    with ahead or Batch(setting, _device_index(trials), trials[0].backend) as batch:
        followed = batch.folder / PROGRESS
        write_task(_task(trials, setting, followed), batch.folder / TASK)
        result = batch.process.watch(
            followed, setting.collection.time_limit_s, tick=lambda: on_progress(read_progress(followed))
        )
        progress = read_progress(followed)
        launches = _read(batch.report, result, setting)
        artifact = None
        if launches:
            version = setting.executable.version_text
            artifact = keep_artifact(
                batch.report, setting.artifacts, tool_version=version, command=result.command, move=True
            )
    return Attribution(trials, setting, result, progress, launches, artifact, started_at).decide()


def _device_index(trials: Sequence[Trial]) -> int:
    device = trials[0].device
    return device.index if device is not None else 0


def _task(trials: Sequence[Trial], setting: Setting, progress: Path) -> ProfilingTask:
    return ProfilingTask(
        origin=setting.find_origin(trials[0].family),
        trials=tuple(TaskTrial(each.identity, each.variant, each.problem, each.tunables) for each in trials),
        profiler=NAME,
        backend=trials[0].backend,
        device_index=_device_index(trials),
        progress_path=str(progress),
        warm_up=0 if setting.request.conditions.cache_mode == "cold" else 1,
        extension=setting.extension,
    )


def _read(path: Path, result: ProcessResult, setting: Setting) -> dict[str, tuple[LaunchRecord, ...]]:
    """Read the launches of trials; what a process that was stopped or died left half-written is no report."""
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
