"""Profile a batch of trials in one ncu process."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cuprof
from cuprof.errors import ProfilerError
from cuprof.ncu.artifact import keep_artifact
from cuprof.ncu.command import build_command
from cuprof.ncu.console import find_explanation
from cuprof.ncu.job import Job, Progress, job_trial, read_progress, write_job
from cuprof.ncu.process import ProcessResult, run_watched
from cuprof.ncu.report_file import Report, read_report
from cuprof.ncu.setting import Setting
from cuprof.ncu.verdict import BatchResult, Verdict
from cuprof.records import Trial


def run_batch(
    trials: Sequence[Trial], setting: Setting, on_progress: Callable[[Progress], None] = lambda _: None
) -> BatchResult:
    """Profile trials of one device in one ncu process.

    Every call decides at least one trial, names metrics to leave out, was interrupted, or raises.

    Raises:
        ProfilerError: ncu failed for a reason that is no trial's own (permission, disk, arguments, another profiler).
    """
    started_at = time.time()
    with tempfile.TemporaryDirectory(prefix="cuprof-ncu-") as name:
        folder = Path(name)
        job, progress_path, report_path = folder / "job.json", folder / "progress.jsonl", folder / "report.ncu-rep"
        write_job(_job(trials, setting, progress_path), job)
        command = build_command(setting.executable.path, setting.collection, report_path, [*setting.target, str(job)])
        result = run_watched(
            command,
            folder / "ncu.log",
            progress_path,
            setting.time_limit_s,
            environment=_environment(),
            tick=lambda: on_progress(read_progress(progress_path)),
        )
        progress = read_progress(progress_path)
        report = _read(report_path, result, setting)
        artifact = None
        if report is not None and report.by_identity():
            version = setting.executable.version_text
            artifact = keep_artifact(
                report_path, setting.artifacts, tool_version=version, command=result.command, move=True
            )
    return Verdict(trials, setting, result, progress, report, artifact, started_at).decide()


def _job(trials: Sequence[Trial], setting: Setting, progress: Path) -> Job:
    device = trials[0].device
    return Job(
        trials=tuple(
            job_trial(trial.identity, setting.family_folder(trial.family), trial.variant, trial.problem, trial.tunables)
            for trial in trials
        ),
        seed=setting.seed,
        device_index=device.index if device is not None else 0,
        progress_path=str(progress),
    )


def _environment() -> dict[str, str]:
    """Return our environment, with the package that runs here importable in the profiled process."""
    here = str(Path(cuprof.__file__).resolve().parent.parent)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([here, *paths]))}


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
