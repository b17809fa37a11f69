"""What each device can do, and whether times are to be believed by it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from cuprof.backends.registry import is_host
from cuprof.engine.fleet import Fleet
from cuprof.engine.observer import Observer
from cuprof.engine.planning import Prepared
from cuprof.engine.plausibility import Plausibility
from cuprof.engine.provenance import name_processes
from cuprof.engine.station import Station
from cuprof.errors import WorkerError
from cuprof.records import Calibration, Outcome, Trial
from cuprof.worker.messages import Calibrate, Calibrated

if TYPE_CHECKING:
    from cuprof.store import Store


class Calibrator:
    """Measure the devices of a sweep's stations, each once, and hold outcomes against what they can do.

    Args:
        trials: those of the sweep, by identity.
    """

    def __init__(
        self, prepared: Prepared, store: Store, fleet: Fleet, observer: Observer, trials: Mapping[str, Trial]
    ) -> None:
        self.prepared, self.store, self.fleet, self.observer, self.trials = prepared, store, fleet, observer, trials

    def calibrate(self, sweep_id: int, station: Station, backend: str) -> None:
        """Learn what the device can do, of the host from an earlier sweep unless `retry=all` measures all anew."""
        station.calibrated.add(backend)
        device, call = station.find_device(backend), self.fleet.call
        if device is None:
            return
        on_host, calibration = is_host(device), None
        if on_host and self.prepared.config.retry != "all":
            calibration = call(self.store.reuse_calibration, sweep_id, device)
        if calibration is None:
            calibration = self._measure(station, backend)
            if calibration is None:
                return
            call(self.store.save_calibration, sweep_id, device, calibration)
        cache_bytes = int(device.details.get("l2_bytes") or 0)
        flushed = self.prepared.config.measure.flush != "none"
        station.plausibility[backend] = Plausibility(on_host, calibration, cache_bytes, flushed)

    def believe(self, station: Station, outcome: Outcome) -> Outcome:
        """Return the outcome, implausible where the device cannot be as fast as it says."""
        if not outcome.timings:
            return outcome
        trial = self.trials[outcome.identity]
        outputs = self.prepared.family.signature(trial.problem).outputs.values()
        plausibility = station.plausibility.get(trial.backend) or Plausibility(station.is_host(trial.backend))
        return plausibility.judge(trial, outcome, sum(spec.nbytes for spec in outputs))

    def _measure(self, station: Station, backend: str) -> Calibration | None:
        note = partial(self.fleet.call, self.observer.note)
        try:
            answer = station.runner.worker.ask(Calibrate(backend), Calibrated)
        except WorkerError as error:
            station.runner.replace_worker()
            note(f"{backend}: the device could not be calibrated: {error}")
            return None
        if answer.calibration is None:
            note(f"{backend}: the device could not be calibrated: {answer.fault}")
        elif others := answer.calibration.details.get("other_processes"):
            note(f"{backend}: other processes compute on the device: {name_processes(others)}")
        return answer.calibration
