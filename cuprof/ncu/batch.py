"""One ncu process over some trials, and what became of each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from cuprof.core.errors import ProfilerError
from cuprof.core.interrupts import shielded
from cuprof.core.processes import child_command
from cuprof.core.records import LaunchRecord, Profile, State, Trial
from cuprof.core.scratch import ScratchFolder
from cuprof.ncu import EXECUTED, IN_PROCESS
from cuprof.ncu.executable import find_explanation, is_report_lost, list_messages, list_unknown_metrics
from cuprof.ncu.files import keep_artifact
from cuprof.ncu.launches import roll_up
from cuprof.ncu.process import NcuProcess
from cuprof.ncu.report_file import read_report
from cuprof.ncu.setting import Setting, build_command
from cuprof.ncu.task import ProfilingTask, Step, read_progress, write_task

LOG_TAIL = 8000
"""Characters of ncu's output that are stored with a trial that failed."""


@dataclass(frozen=True)
class BatchResult:
    """What became of a batch.

    Attributes:
        profiles: of the trials that are decided, in the order of the batch.
        remaining: trials to be profiled again, because another one brought the process down.
        notes: what the user should read, a line each: metrics that were left out and why.
        interrupted: a KeyboardInterrupt arrived meanwhile.
        absent: metrics asked for that this chip does not have: ncu names them as unknown, or no launch has them.
    """

    profiles: tuple[Profile, ...] = ()
    remaining: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    absent: tuple[str, ...] = ()


class Batch(AbstractContextManager["Batch"]):
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
            self.progress_file = self.folder / "progress.jsonl"
            owner = (str(os.getpid()), backend, str(device_index))
            target = child_command("cuprof.worker.profile", *owner, str(self.task))
            children = backend == EXECUTED
            command = build_command(setting.executable.path, setting.collection, self.report, target, children=children)
            try:
                self.process = NcuProcess(command, self.folder)
            except BaseException:
                self._folder.cleanup()
                raise

    def __exit__(self, *_: object) -> None:
        with shielded():
            self.process.kill()
            self._folder.cleanup()

    def run(self, trials: Sequence[Trial], on_trial: Callable[[str], None]) -> BatchResult:
        """Profile trials of one family; see `Collector.profile`.

        Raises:
            ProfilerError: ncu failed, and not because of one of the trials.
        """
        self.started_at, setting = time.time(), self.setting

        def show() -> None:
            if (identity := read_progress(self.progress_file).open) is not None:
                on_trial(identity)

        task = ProfilingTask(
            origin=setting.find_origin(trials[0].family),
            trials=tuple(trials),
            progress_path=str(self.progress_file),
            warm_up=0 if setting.request.conditions.cache_mode == "cold" else 1,
            extension=setting.extension,
        )
        write_task(task, self.task)
        self.process.watch(self.progress_file, setting.collection.time_limit_s, show)
        self.launches, self.artifact = self._read(), None
        if self.launches:
            version, command = setting.executable.version, self.process.command
            self.artifact = keep_artifact(self.report, setting.artifacts, tool_version=version, command=command)
        self.progress = read_progress(self.progress_file)
        return self._decide(trials)

    def _read(self) -> dict[str | None, tuple[LaunchRecord, ...]]:
        """Read the launches of trials; what a stopped or crashed process left half-written counts as no report."""
        if not self.report.exists():
            return {}
        setting = self.setting
        try:
            found = read_report(self.report, None if setting.request.whole else setting.collection.metrics)
        except ProfilerError as error:
            if self.process.returncode != 0:
                return {}
            explanation = find_explanation(self.process.output)
            raise (ProfilerError(explanation) if explanation else error) from None
        return {identity: launches for identity, launches in found.items() if identity is not None}

    def _decide(self, trials: Sequence[Trial]) -> BatchResult:
        """Return what became of the trials."""
        process, asked = self.process, self.setting.collection.metrics
        refused = tuple(name for name in list_unknown_metrics(process.output) if name in asked)
        if refused and not self.launches:
            return BatchResult(remaining=tuple(trials), absent=refused)
        explanation = find_explanation(process.output)
        # A report that was not saved completely lacks launches of trials whose first ones it has.
        if explanation and not process.timed_out and (not self.launches or is_report_lost(process.output)):
            raise ProfilerError(explanation)
        decided = [(trial, self._profile(trial, len(trials))) for trial in trials]
        profiles = tuple(profile for _, profile in decided if profile is not None)
        remaining = tuple(trial for trial, profile in decided if profile is None)
        if not profiles and not process.interrupted:
            raise ProfilerError(self._failure())
        return BatchResult(profiles, remaining, (), process.interrupted, (*refused, *_list_absent(asked, profiles)))

    def _profile(self, trial: Trial, count: int) -> Profile | None:
        """Return the profile of one of `count` trials, or None where it has to be run again."""
        progress, process, steps = self.progress, self.process, self.progress.steps
        step, launches = steps.get(trial.identity), self.launches.get(trial.identity, ())
        if step is Step.FAILED:
            # after the last one's error the process gave up: its device context was lost
            gave_up = process.returncode != 0 and not process.interrupted and trial.identity == next(reversed(steps))
            state = State.CRASHED if gave_up else State.LAUNCH_ERROR
            return self._make(trial, state, progress.messages.get(trial.identity, "it failed"))
        if step is Step.DONE and launches:
            made = self._make(trial, State.OK)
            return replace(made, artifact=self.artifact, launches=launches, rolled=roll_up(launches))
        if trial.identity == progress.open and not process.interrupted:
            doing = (step or Step.PREPARING).value
            if process.timed_out:
                limit = f"{self.setting.collection.time_limit_s:g} s"
                return self._make(trial, State.TIMED_OUT, f"{doing} took longer than {limit} (ncu.time_limit_s)")
            died = f"Nsight Compute was killed ({process.killed_by})" if process.killed_by else "the process died"
            said = _last_line(process.output)
            return self._make(trial, State.CRASHED, f"{died} while {doing}" + (f": {said}" if said else ""))
        is_complete = progress.open is None and len(steps) == count
        if step is Step.DONE and is_complete and not launches and not list_messages(process.output):
            return self._make(trial, State.LAUNCH_ERROR, "no kernel was launched while it was executed")
        return None

    def _make(self, trial: Trial, state: State, message: str = "") -> Profile:
        """Return a profile without counters; one with a message has ncu's output beside it."""
        return Profile(
            identity=trial.identity,
            name=trial.label,
            state=state,
            conditions=self.setting.request.conditions,
            metric_set=self.setting.collection.name,
            metrics=self.setting.request.metrics,
            started_at=self.started_at,
            duration_ns=self.process.duration_ns,
            message=f"under Nsight Compute: {message}" if message else "",
            log=self.process.output[-LOG_TAIL:] if message else "",
        )

    def _failure(self) -> str:
        """Return one line for a process that failed before any trial; its output is kept beside the artifacts."""
        process, log = self.process, self.setting.artifacts / f"ncu-failed-{time.strftime('%Y%m%dT%H%M%S')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(" ".join(process.command) + "\n\n" + process.output, encoding="utf-8")
        if process.timed_out:
            how = "did not get to the first trial in time and was stopped"
        elif process.killed_by:
            how = f"was killed ({process.killed_by}); is there enough memory?"
        else:
            how = f"ended with exit code {process.returncode} before any trial was profiled"
        said = _last_line(process.output) or "it said nothing"
        return f"{self.setting.executable.path} {how}: {said}; its output is in {log}"


def _list_absent(asked: Sequence[str], profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return the metrics that ncu left out silently, as it does where the chip does not have them.

    A metric requested without a suffix is collected under one (dram__bytes_read as dram__bytes_read.sum).
    """
    present = {counter.metric for profile in profiles for launch in profile.launches for counter in launch.counters}
    exact = [name for name in asked if not name.startswith(("regex:", "group:")) and name not in present]
    return tuple(name for name in exact if present and not any(other.startswith(f"{name}.") for other in present))


def _last_line(output: str) -> str:
    """Return the most telling line: ncu's first own error, or the program's where ncu only reports an exit code."""
    errors = [text for text in list_messages(output) if "returned an error code" not in text]
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("==")]
    return errors[0] if errors else (lines or list_messages(output) or [""])[-1]
