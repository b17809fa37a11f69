"""What became of each trial of an ncu process that has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Artifact, LaunchRecord, Profile, State, Trial
from cuprof.ncu.console import find_explanation, is_report_lost, list_messages, list_unknown_metrics
from cuprof.ncu.process import ProcessResult
from cuprof.ncu.rollup import roll_up
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
        refused = tuple(name for name in list_unknown_metrics(self.result.output) if name in self._asked)
        if refused and not self.launches:
            return BatchResult(remaining=tuple(self.trials)), refused
        explanation = find_explanation(self.result.output)
        # A report that was not saved completely lacks launches of trials whose first ones it has.
        if explanation and not self.result.timed_out and (not self.launches or is_report_lost(self.result.output)):
            raise ProfilerError(explanation)
        decided = [self._profile(trial, self.launches.get(trial.identity, ())) for trial in self.trials]
        profiles = tuple(profile for profile in decided if profile is not None)
        remaining = tuple(trial for trial, profile in zip(self.trials, decided, strict=True) if profile is None)
        if not profiles and not self.result.interrupted:
            raise ProfilerError(self._failure())
        absent = self._absent(profiles)
        return BatchResult(profiles, remaining, interrupted=self.result.interrupted), (*refused, *absent)

    @property
    def _asked(self) -> tuple[str, ...]:
        return self.setting.collection.metrics

    def _absent(self, profiles: Sequence[Profile]) -> tuple[str, ...]:
        """Return the metrics that ncu left out silently, as it does where the chip does not have them.

        A metric requested without a suffix is collected under one (dram__bytes_read as dram__bytes_read.sum).
        """
        present = {counter.metric for profile in profiles for launch in profile.launches for counter in launch.counters}
        if not present:
            return ()
        exact = [name for name in self._asked if not name.startswith(("regex:", "group:")) and name not in present]
        return tuple(name for name in exact if not any(other.startswith(f"{name}.") for other in present))

    def _profile(self, trial: Trial, launches: tuple[LaunchRecord, ...]) -> Profile | None:
        """Return the trial's profile, or None where it has to be run again."""
        step = self.progress.steps.get(trial.identity)
        if step is Step.FAILED:
            state = State.CRASHED if trial.identity == self._took_the_process_down else State.LAUNCH_ERROR
            return self._failed(trial, state, self.progress.messages.get(trial.identity, "it failed"))
        if step is Step.DONE and launches:
            blank = self._blank(trial, State.OK)
            return replace(blank, artifact=self.artifact, launches=launches, rolled=roll_up(launches))
        if trial.identity == self.progress.open and not self.result.interrupted:
            return self._culprit(trial, step or Step.PREPARING)
        if step is Step.DONE and self._complete and not launches and not list_messages(self.result.output):
            return self._failed(trial, State.LAUNCH_ERROR, "no kernel was launched while it was executed")
        return None

    @property
    def _complete(self) -> bool:
        """Return whether the process got through every trial."""
        return self.progress.open is None and len(self.progress.steps) == len(self.trials)

    @property
    def _took_the_process_down(self) -> str | None:
        """Return the trial after whose error the process gave up: its device context was lost."""
        last = next(reversed(self.progress.steps), None)
        gave_up = self.result.returncode != 0 and not self.result.interrupted
        return last if gave_up and last is not None and self.progress.steps[last] is Step.FAILED else None

    def _culprit(self, trial: Trial, step: Step) -> Profile:
        if self.result.timed_out:
            limit = f"{self.setting.collection.time_limit_s:g} s"
            return self._failed(trial, State.TIMED_OUT, f"{step.value} took longer than {limit} (ncu.time_limit_s)")
        if self.result.killed_by:
            how = f"Nsight Compute was killed ({self.result.killed_by}) while {step.value}"
        else:
            how = f"the process died while {step.value}"
        return self._failed(trial, State.CRASHED, ": ".join(filter(None, (how, self._last_line()))))

    def _failed(self, trial: Trial, state: State, message: str) -> Profile:
        log = self.result.output[-LOG_TAIL:]
        return replace(self._blank(trial, state), message=f"under Nsight Compute: {message}", log=log)

    def _blank(self, trial: Trial, state: State) -> Profile:
        return Profile(
            identity=trial.identity,
            name=trial.label,
            state=state,
            conditions=self.setting.request.conditions,
            metric_set=self.setting.collection.name,
            metrics=self.setting.request.metrics,
            started_at=self.started_at,
            duration_ns=self.result.duration_ns,
        )

    def _last_line(self) -> str:
        """Return the most telling line: ncu's first own error, or the program's where ncu only reports an exit code."""
        errors = [text for text in list_messages(self.result.output) if "returned an error code" not in text]
        lines = [line.strip() for line in self.result.output.splitlines() if line.strip() and not line.startswith("==")]
        return errors[0] if errors else (lines or list_messages(self.result.output) or [""])[-1]

    def _failure(self) -> str:
        """Return one line for a process that failed before any trial; its output is kept beside the artifacts."""
        log = self.setting.artifacts / f"ncu-failed-{time.strftime('%Y%m%dT%H%M%S')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(" ".join(self.result.command) + "\n\n" + self.result.output, encoding="utf-8")
        if self.result.timed_out:
            how = "did not get to the first trial in time and was stopped"
        elif self.result.killed_by:
            how = f"was killed ({self.result.killed_by}); is there enough memory?"
        else:
            how = f"ended with exit code {self.result.returncode} before any trial was profiled"
        return f"{self.setting.executable.path} {how}: {self._last_line() or 'it said nothing'}; its output is in {log}"
