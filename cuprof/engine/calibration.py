"""Measure what each device can do, and check times against that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import psutil

from cuprof.backends.registry import is_host
from cuprof.core.errors import WorkerError
from cuprof.core.project import user_cache
from cuprof.core.records import Calibration, DeviceFacts, Outcome, State, Unavailable
from cuprof.core.scratch import write_whole
from cuprof.engine.device_lock import lock_name
from cuprof.engine.executor import Executor
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.recorder import Recorder
from cuprof.worker.messages import Calibrate


class Calibrator:
    """Measure each device once a boot, the host once, and check outcomes against its limits.

    Args:
        note: receives lines for the user, from any thread.
    """

    def __init__(self, recorder: Recorder, note: Callable[[str], object]) -> None:
        self.recorder, self.config, self.note = recorder, recorder.prepared.config, note
        self._known: dict[tuple[Executor, str], Calibration | None] = {}
        self._doubted: dict[tuple[Executor, str], bool] = {}
        """Hosts whose limits a time was below → whether they are still to be measured again, which is done once."""

    def calibrate(self, executor: Executor, backend: str) -> None:
        """Calibrate a device, once; a kept calibration is taken unless `retry=all`."""
        if (executor, backend) in self._known:
            return
        device = executor.find_device(backend)
        self._known[executor, backend] = None
        if device is not None:
            kept = find_kept(device) if self.config.retry != "all" else None
            if calibration := kept or self._measure(executor, backend):
                self._bound(executor, device, calibration, is_kept=kept is not None)

    def _bound(
        self, executor: Executor, device: DeviceFacts, calibration: Calibration, *, is_kept: bool = False
    ) -> None:
        """Store a calibration, and let it bound the times of a device."""
        self.recorder.store.save_calibration(self.recorder.sweep_id, device, calibration)
        if not is_kept and not calibration.details.get("other_processes"):  # whose work lowers every figure
            keep(device, calibration)
        self._known[executor, device.backend] = calibration

    def reconsider(self, executor: Executor, backend: str) -> None:
        """Measure the host again, once, before a time counts as impossible by limits that others' work may lower."""
        device, known = executor.find_device(backend), self._known.get((executor, backend))
        if not self._doubted.get((executor, backend)) or device is None or known is None:
            return
        self._doubted[executor, backend] = False
        if again := self._measure(executor, backend):
            self._bound(executor, device, find_larger(known, again))

    def believe(self, executor: Executor, outcome: Outcome) -> Outcome:
        """Return the outcome, implausible where the device cannot be as fast as it says."""
        if not outcome.timings:
            return outcome
        trial = self.recorder.trials[outcome.identity]
        outputs = self.recorder.prepared.family.signature(trial.problem).outputs.values()
        device, on_host = executor.find_device(trial.backend), executor.is_host(trial.backend)
        cache_bytes = int(device.details.get("l2_bytes") or 0) if device else 0
        known = self._known.get((executor, trial.backend))
        limits = Plausibility(on_host, known, cache_bytes, flushed=self.config.measure.flush != "none")
        judged = limits.judge(trial, outcome, sum(spec.nbytes for spec in outputs))
        if judged.state is State.IMPLAUSIBLE and on_host:
            self._doubted.setdefault((executor, trial.backend), True)
        return judged

    def _measure(self, executor: Executor, backend: str) -> Calibration | None:
        try:
            answer: Calibration | Unavailable = executor.worker.ask(Calibrate(backend), Calibration, Unavailable)
        except WorkerError as error:
            executor.drop_worker()
            self.note(f"{backend}: the device could not be calibrated: {error}")
            return None
        if not isinstance(answer, Calibration):
            self.note(f"{backend}: the device could not be calibrated: {answer}")
            return None
        if others := name_others(answer.details.get("other_processes")):
            self.note(f"{backend}: other processes compute on the device: {others}")
        return answer


def name_others(pids: Collection[int] | None) -> str:
    """Return processes with their names, but for those that this process has started: `judge` prepares several."""
    if not pids:  # to look at all processes takes milliseconds
        return ""
    own = {process.pid for process in psutil.Process().children(recursive=True)}
    names = {process.pid: f"{process.info['name']} (pid {process.pid})" for process in psutil.process_iter(["name"])}
    return ", ".join(names.get(pid, f"pid {pid}") for pid in pids if pid not in own)  # another container's have no name


def find_kept(device: DeviceFacts) -> Calibration | None:
    """Return the calibration that an earlier sweep has kept: of the host the last, of other devices the boot's."""
    file = _file_of(device)
    with suppress(OSError, ValueError, TypeError):
        if is_host(device) or file.stat().st_mtime >= psutil.boot_time():
            return Calibration(**json.loads(file.read_text()))
    return None


def keep(device: DeviceFacts, calibration: Calibration) -> None:
    """Keep a calibration for later sweeps, or not where the user's cache cannot be written."""
    file = _file_of(device)
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(calibration)).encode())


def _file_of(device: DeviceFacts) -> Path:
    known = json.dumps([lock_name(device), device.backend, dict(device.identity)], sort_keys=True)
    return user_cache() / "calibrations" / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.json"


def find_larger(one: Calibration, other: Calibration) -> Calibration:
    """Return a calibration with the larger of each limit; work of others only ever lowers them."""
    details = {**one.details, **other.details}
    for name in ("cache_bandwidth", "fma_rate"):
        if name in one.details and name in other.details:
            details[name] = max(float(one.details[name]), float(other.details[name]))
    bandwidths = [each.read_bandwidth for each in (one, other) if each.read_bandwidth]
    return replace(other, read_bandwidth=max(bandwidths, default=None), details=details)
