"""Profile a batch of trials in one ncu process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cuprof.errors import ProfilerError
from cuprof.ncu.artifact import keep_artifact
from cuprof.ncu.console import find_explanation
from cuprof.ncu.head_start import Batch, BatchFiles
from cuprof.ncu.job import Job, Progress, job_trial, read_progress, write_job
from cuprof.ncu.process import ProcessResult
from cuprof.ncu.report_file import Report, read_report
from cuprof.ncu.setting import Setting
from cuprof.ncu.verdict import BatchResult, Verdict
from cuprof.records import Trial


def run_batch(
    trials: Sequence[Trial],
    setting: Setting,
    on_progress: Callable[[Progress], None] = lambda _: None,
    ahead: Batch | None = None,
) -> BatchResult:
    """Profile trials of one device in one ncu process.

    Every call decides at least one trial, names metrics to leave out, was interrupted, or raises.

    Args:
        ahead: an ncu process of this setting that already waits for its job; a new one is started when None.

    Raises:
        ProfilerError: ncu failed for a reason that is no trial's own (permission, disk, arguments, another profiler).
    """
    started_at = time.time()

    def give_job(files: BatchFiles) -> None:
        write_job(_job(trials, setting, files.progress), files.job)

    if ahead is not None:
        give_job(ahead.files)
    with ahead or Batch(setting, _device_index(trials), give_job) as batch:
        files = batch.files
        result = batch.process.watch(
            files.progress, setting.time_limit_s, tick=lambda: on_progress(read_progress(files.progress))
        )
        progress = read_progress(files.progress)
        report = _read(files.report, result, setting)
        artifact = None
        if report is not None and report.by_identity():
            version = setting.executable.version_text
            artifact = keep_artifact(
                files.report, setting.artifacts, tool_version=version, command=result.command, move=True
            )
    return Verdict(trials, setting, result, progress, report, artifact, started_at).decide()


def _device_index(trials: Sequence[Trial]) -> int:
    device = trials[0].device
    return device.index if device is not None else 0


def _job(trials: Sequence[Trial], setting: Setting, progress: Path) -> Job:
    return Job(
        trials=tuple(
            job_trial(trial.identity, setting.family_folder(trial.family), trial.variant, trial.problem, trial.tunables)
            for trial in trials
        ),
        seed=setting.seed,
        device_index=_device_index(trials),
        progress_path=str(progress),
        warm_up=0 if setting.collection.conditions.cache_mode == "cold" else 1,
    )


def _read(path: Path, result: ProcessResult, setting: Setting) -> Report | None:
    """Read the report; what a process that was stopped or died left half-written is no report."""
    if not path.exists():
        return None
    whole = setting.collection.section_set or setting.collection.sections
    try:
        return read_report(path, None if whole else setting.collection.metrics)
    except ProfilerError:
        if result.returncode == 0:
            explanation = find_explanation(result.output)
            if explanation:
                raise ProfilerError(explanation) from None
            raise
        return None
