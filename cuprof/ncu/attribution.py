"""What became of each trial of an ncu process that has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Artifact, LaunchRecord, Profile, State, Trial
from cuprof.ncu.executable import find_explanation, is_report_lost, list_messages, list_unknown_metrics
from cuprof.ncu.launches import roll_up
from cuprof.ncu.process import ProcessResult
from cuprof.ncu.setting import Setting
from cuprof.ncu.task import Progress, Step

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
    """

    profiles: tuple[Profile, ...] = ()
    remaining: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True)
class Attribution:
    """Everything that is known after a process has ended, to be attributed to its trials."""

    trials: Sequence[Trial]
    setting: Setting
    result: ProcessResult
    progress: Progress
    launches: Mapping[str, tuple[LaunchRecord, ...]]
    artifact: Artifact | None
    started_at: float

    def decide(self) -> tuple[BatchResult, tuple[str, ...]]:
        """Return what became of the trials, and the metrics asked for that this chip does not have.

        These are the metrics that ncu names as unknown, and those that no launch has.

        Raises:
            ProfilerError: ncu failed, and not because of one of the trials.
        """
        output, asked = self.result.output, self.setting.collection.metrics
        refused = tuple(name for name in list_unknown_metrics(output) if name in asked)
        if refused and not self.launches:
            return BatchResult(remaining=tuple(self.trials)), refused
        explanation = find_explanation(output)
        # A report that was not saved completely lacks launches of trials whose first ones it has.
        if explanation and not self.result.timed_out and (not self.launches or is_report_lost(output)):
            raise ProfilerError(explanation)
        decided = [(trial, self._profile(trial, self.launches.get(trial.identity, ()))) for trial in self.trials]
        profiles = tuple(profile for _, profile in decided if profile is not None)
        remaining = tuple(trial for trial, profile in decided if profile is None)
        if not profiles and not self.result.interrupted:
            raise ProfilerError(self._failure())
        absent = _list_absent(asked, profiles)
        return BatchResult(profiles, remaining, interrupted=self.result.interrupted), (*refused, *absent)

    def _profile(self, trial: Trial, launches: tuple[LaunchRecord, ...]) -> Profile | None:
        """Return the trial's profile, or None where it has to be run again."""
        progress, result, steps = self.progress, self.result, self.progress.steps
        step = steps.get(trial.identity)
        if step is Step.FAILED:
            # after the last one's error the process gave up: its device context was lost
            gave_up = result.returncode != 0 and not result.interrupted and trial.identity == next(reversed(steps))
            state = State.CRASHED if gave_up else State.LAUNCH_ERROR
            return self._make(trial, state, progress.messages.get(trial.identity, "it failed"))
        if step is Step.DONE and launches:
            made = self._make(trial, State.OK)
            return replace(made, artifact=self.artifact, launches=launches, rolled=roll_up(launches))
        if trial.identity == progress.open and not result.interrupted:
            doing = (step or Step.PREPARING).value
            if result.timed_out:
                limit = f"{self.setting.collection.time_limit_s:g} s"
                return self._make(trial, State.TIMED_OUT, f"{doing} took longer than {limit} (ncu.time_limit_s)")
            died = f"Nsight Compute was killed ({result.killed_by})" if result.killed_by else "the process died"
            return self._make(
                trial, State.CRASHED, ": ".join(filter(None, (f"{died} while {doing}", _last_line(result.output))))
            )
        is_complete = progress.open is None and len(steps) == len(self.trials)
        if step is Step.DONE and is_complete and not launches and not list_messages(result.output):
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
            duration_ns=self.result.duration_ns,
            message=f"under Nsight Compute: {message}" if message else "",
            log=self.result.output[-LOG_TAIL:] if message else "",
        )

    def _failure(self) -> str:
        """Return one line for a process that failed before any trial; its output is kept beside the artifacts."""
        result, log = self.result, self.setting.artifacts / f"ncu-failed-{time.strftime('%Y%m%dT%H%M%S')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(" ".join(result.command) + "\n\n" + result.output, encoding="utf-8")
        if result.timed_out:
            how = "did not get to the first trial in time and was stopped"
        elif result.killed_by:
            how = f"was killed ({result.killed_by}); is there enough memory?"
        else:
            how = f"ended with exit code {result.returncode} before any trial was profiled"
        said = _last_line(result.output) or "it said nothing"
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
