"""One collection with Nsight Compute: batches, and metrics that turn out not to exist."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Thread

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Trial
from cuprof.ncu.batch import run_batch
from cuprof.ncu.contract import BatchResult, Collector, Profiler
from cuprof.ncu.executable import list_metric_names
from cuprof.ncu.head_start import Batch
from cuprof.ncu.metrics import CATALOG
from cuprof.ncu.progress import Progress
from cuprof.ncu.setting import Setting


class NcuCollector(Collector):
    """Profile batches by one setting, from which metrics fall away that the chip does not have.

    Args:
        ahead: an ncu process that already waits for the first batch.
    """

    def __init__(self, profiler: Profiler, setting: Setting, ahead: Batch | None = None) -> None:
        self.profiler, self.setting, self._ahead = profiler, setting, ahead
        self.request, self.batch = setting.request, setting.collection.batch

    @property
    def missing(self) -> Mapping[str, str]:
        """Return the metrics that this chip turned out not to have, and why they are thought not to exist."""
        return self.setting.missing

    def check(self) -> None:
        """Raise `ProfilerError` where ncu does not run or is too old."""
        _ = self.setting.executable.version

    def profile(self, trials: Sequence[Trial], on_trial: Callable[[str], None] = lambda _: None) -> BatchResult:
        """Profile trials in one ncu process; see `Collector.profile`."""

        def show(progress: Progress) -> None:
            if progress.open is not None:
                on_trial(progress.open)

        Thread(target=importlib.import_module, args=("ncu_report",), daemon=True).start()  # while ncu works
        ahead, self._ahead = self._ahead, None
        result, unknown_metrics = run_batch(trials, self.setting, show, ahead)
        notes = self._leave_out(unknown_metrics) if unknown_metrics else ()
        profiles = tuple(replace(profile, missing=self.setting.missing) for profile in result.profiles)
        return replace(result, profiles=profiles, notes=notes)

    def close(self) -> None:
        """End the process that waits, if no batch was given to it."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _leave_out(self, metrics: Sequence[str]) -> tuple[str, ...]:
        """Go on without these metrics, and return what to say of it."""
        before = self.setting.missing
        known = list_metric_names(self.setting.executable) or list(CATALOG.by_name)
        self.setting = self.setting.without(metrics, known)
        if not (self.setting.collection.metrics or self.setting.request.whole):
            raise ProfilerError(f"nothing is left to collect: {'; '.join(self.setting.missing.values())}")
        return tuple(
            f"{reason} The other metrics are collected."
            for name, reason in self.setting.missing.items()
            if name not in before
        )
