"""One collection: batches of trials, each in an ncu process, and metrics that turn out not to exist."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Thread
from typing import Self

from cuprof.config.model import SweepConfig
from cuprof.core.errors import ProfilerError
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.ncu.artifact import check_folder
from cuprof.ncu.attribution import BatchResult
from cuprof.ncu.batch import Batch, run_batch
from cuprof.ncu.executable import list_metric_names
from cuprof.ncu.metrics import METRICS
from cuprof.ncu.setting import Request, Setting, Source, make_setting


def check_collection(config: SweepConfig, project: Project) -> None:
    """Check that a collection can work here, without running one.

    Raises:
        ProfilerError: there is no ncu that works, or reports cannot be kept.
        ConfigError: nothing is to be collected.
    """
    setting = make_setting(config.ncu, project, family=config.family)
    check_folder(setting.artifacts)
    _ = setting.executable.version


def open_collector(config: SweepConfig, project: Project, source: Source | None = None) -> Collector:
    """Return a collector whose first ncu process is starting already.

    Args:
        source: of all the trials, where that is not the project.

    Raises:
        ProfilerError: there is no ncu, or its reports cannot be kept.
        ConfigError: nothing is to be collected.
    """
    setting = make_setting(config.ncu, project, family=config.family)
    if source is not None:
        setting = setting.of(source)
    check_folder(setting.artifacts)
    return Collector(setting, Batch(setting, config.device.numbers()["cuda"] or 0))


class Collector:
    """Profile batches by one setting, without the metrics that the chip does not have.

    Use it as a context manager, which ends a process that still waits.

    Args:
        ahead: an ncu process that already waits for the first batch.
    """

    def __init__(self, setting: Setting, ahead: Batch | None = None) -> None:
        self.setting, self._ahead = setting, ahead

    @property
    def request(self) -> Request:
        """Return the request that profiles are stored under."""
        return self.setting.request

    @property
    def batch(self) -> int:
        """Return how many trials are given to one ncu process."""
        return self.setting.collection.batch

    @property
    def missing(self) -> Mapping[str, str]:
        """Return the requested metrics that this chip does not have, and why."""
        return self.setting.missing

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
        Thread(target=importlib.import_module, args=("ncu_report",), daemon=True).start()  # while ncu works
        ahead, self._ahead = self._ahead, None
        result, unknown_metrics = run_batch(trials, self.setting, on_trial, ahead)
        notes = self._leave_out(unknown_metrics) if unknown_metrics else ()
        profiles = tuple(replace(profile, missing=self.setting.missing) for profile in result.profiles)
        return replace(result, profiles=profiles, notes=notes)

    def _leave_out(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Continue without these metrics, and return what to say about it."""
        before = self.setting.missing
        known = list_metric_names(self.setting.executable) or list(METRICS)
        self.setting = self.setting.without(metrics, known)
        if not (self.setting.collection.metrics or self.setting.request.whole):
            raise ProfilerError(f"nothing is left to collect: {'; '.join(self.setting.missing.values())}")
        return tuple(
            f"{reason} The other metrics are collected."
            for name, reason in self.setting.missing.items()
            if name not in before
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
