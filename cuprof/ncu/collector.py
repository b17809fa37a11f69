"""One collection: batches of trials, each in an ncu process, and metrics that turn out not to exist.

ncu takes about two seconds until the profiled process runs, and that process one more until it can launch anything, so
the first one is started before its trials are known. Meanwhile trials are planned and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from cuprof.config.model import SweepConfig
from cuprof.core.errors import ProfilerError
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.ncu.batch import Batch, BatchResult
from cuprof.ncu.executable import list_metric_names, missing_metric_reason
from cuprof.ncu.files import check_folder
from cuprof.ncu.metrics import METRICS
from cuprof.ncu.setting import Setting, make_setting


def check_collection(config: SweepConfig, project: Project) -> None:
    """Check that a collection can work here, without running one.

    Raises:
        ProfilerError: there is no ncu that works, or reports cannot be kept.
        ConfigError: nothing is to be collected.
    """
    setting = make_setting(config.ncu, project, family=config.family)
    check_folder(setting.artifacts)
    _ = setting.executable.version


def open_collector(config: SweepConfig, project: Project, **changes: Any) -> Collector:
    """Return a collector whose first ncu process is starting already.

    Args:
        **changes: parts of the setting that are not the project's: where trials come from, where reports go.

    Raises:
        ProfilerError: there is no ncu, or its reports cannot be kept.
        ConfigError: nothing is to be collected.
    """
    setting = replace(make_setting(config.ncu, project, config.family), **changes)
    check_folder(setting.artifacts)
    return Collector(setting, Batch(setting, config.device.numbers()["cuda"] or 0))


class Collector(AbstractContextManager["Collector"]):
    """Profile batches by one setting, without the metrics that the chip does not have.

    Use it as a context manager, which ends a process that still waits.

    Args:
        ahead: an ncu process that already waits for the first batch.

    Attributes:
        setting: without the metrics that turned out to be missing, which it names.
    """

    def __init__(self, setting: Setting, ahead: Batch | None = None) -> None:
        self.setting, self._ahead = setting, ahead

    def check(self) -> None:
        """Raise `ProfilerError` where ncu does not run or is too old."""
        _ = self.setting.executable.version

    def profile(self, trials: Sequence[Trial], on_trial: Callable[[str], None] = lambda _: None) -> BatchResult:
        """Profile trials of one family and device that are known to be right, each executed once.

        Every call decides a trial, leaves a metric out, was interrupted, or raises.

        Args:
            on_trial: called now and then with the identity of the trial that is being profiled.

        Raises:
            ProfilerError: ncu failed for a reason that is no trial's own (permission, disk, another profiler).
        """
        first = trials[0]
        device = first.backend, first.device.index if first.device is not None else 0
        if self._ahead is not None and self._ahead.device != device:
            self.__exit__()
        ahead, self._ahead = self._ahead, None
        with ahead or Batch(self.setting, device[1], device[0]) as batch:
            result = batch.run(trials, on_trial)
        notes = self._leave_out(result.absent) if result.absent else ()
        profiles = tuple(replace(profile, missing=self.setting.missing) for profile in result.profiles)
        return replace(result, profiles=profiles, notes=notes)

    def _leave_out(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Continue without these metrics, and return what to say about those that were requested."""
        setting, request = self.setting, self.setting.request
        known = list_metric_names(setting.executable) or list(METRICS)
        reasons = {name: missing_metric_reason(name, known) for name in metrics if name in request.metrics}
        left = tuple(name for name in setting.collection.metrics if name not in metrics)
        missing = {**setting.missing, **reasons}
        if not (left or request.whole):
            raise ProfilerError(f"nothing is left to collect: {'; '.join(missing.values())}")
        self.setting = replace(setting, collection=replace(setting.collection, metrics=left), missing=missing)
        return tuple(f"{reason} The other metrics are collected." for reason in reasons.values())

    def __exit__(self, *_: object) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.__exit__()
