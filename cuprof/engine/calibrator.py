"""Measure what each device can do, and check times against that."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from cuprof.core.errors import WorkerError
from cuprof.core.records import Calibration, Outcome
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.station import Station
from cuprof.worker.messages import Calibrate, Calibrated

if TYPE_CHECKING:
    from cuprof.engine.ledger import Ledger


class Calibrator:
    """Measure each device of a sweep's stations once, and check outcomes against its limits."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.config, self.call = ledger, ledger.prepared.config, ledger.fleet.call

    def calibrate(self, station: Station, backend: str) -> None:
        """Calibrate the device; for the host, reuse an earlier sweep's calibration unless `retry=all`."""
        device, on_host, calibration = station.find_device(backend), station.is_host(backend), None
        station.plausibility[backend] = Plausibility(on_host)
        if device is None:
            return
        store, sweep_id = self.ledger.store, self.ledger.sweep_id
        if on_host and self.config.retry != "all":
            calibration = self.call(store.reuse_calibration, sweep_id, device)
        if calibration is None:
            calibration = self._measure(station, backend)
            if calibration is None:
                return
            self.call(store.save_calibration, sweep_id, device, calibration)
        cache_bytes = int(device.details.get("l2_bytes") or 0)
        flushed = self.config.measure.flush != "none"
        station.plausibility[backend] = Plausibility(on_host, calibration, cache_bytes, flushed)

    def believe(self, station: Station, outcome: Outcome) -> Outcome:
        """Return the outcome, implausible where the device cannot be as fast as it says."""
        if not outcome.timings:
            return outcome
        trial = self.ledger.trials[outcome.identity]
        outputs = self.ledger.prepared.family.signature(trial.problem).outputs.values()
        plausibility = station.plausibility.get(trial.backend) or Plausibility(station.is_host(trial.backend))
        return plausibility.judge(trial, outcome, sum(spec.nbytes for spec in outputs))

    def _measure(self, station: Station, backend: str) -> Calibration | None:
        note = partial(self.call, self.ledger.observer.note)
        try:
            answer = station.runner.worker.ask(Calibrate(backend), Calibrated)
        except WorkerError as error:
            station.runner.replace_worker()
            note(f"{backend}: the device could not be calibrated: {error}")
            return None
        if answer.calibration is None:
            note(f"{backend}: the device could not be calibrated: {answer.fault}")
        elif others := answer.calibration.details.get("other_processes"):
            note(f"{backend}: other processes compute on the device: {_name_processes(others)}")
        return answer.calibration


def _name_processes(pids: Sequence[int]) -> str:
    """Return processes as text, "python3 (pid 12), pid 13" where one cannot be named (another container's)."""
    import psutil

    named = []
    for pid in pids:
        try:
            named.append(f"{psutil.Process(pid).name()} (pid {pid})")
        except psutil.Error:
            named.append(f"pid {pid}")
    return ", ".join(named)
