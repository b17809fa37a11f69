"""Measure what each device can do, and reject impossible times: its physical limits bound every median from below."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from cuprof.backends.registry import is_host
from cuprof.core.errors import WorkerError
from cuprof.core.project import user_cache
from cuprof.core.records import Calibration, DeviceFacts, Measure, Outcome, State, Timing, Trial, Unavailable
from cuprof.core.scratch import write_whole
from cuprof.engine.device_lock import lock_name
from cuprof.engine.executor import Executor
from cuprof.engine.recorder import Recorder
from cuprof.worker.messages import Calibrate

EMPTY_LAUNCH_NS = 125.0
"""Half the assumed duration of an empty kernel; a device cannot do anything in less."""
EMPTY_CALL_NS = 15.0
"""No interpreter calls an empty function in less."""
DEVICE_MARGIN, CACHE_MARGIN, HOST_MARGIN = 1.15, 1.5, 8.0
"""How much faster than measured a memory may seem. The device's margin is small, since nothing else reads it. The
cache's is larger, since the kernel that measured it may not be the best. The host's is large, since other work slowed
the measurement."""
ARITHMETIC_MARGIN = 64.0
"""Tensor cores do this many times the work of plain arithmetic (8-bit, sparse), and algorithms save operations that a
family counts (Winograd's, Strassen's). Only a time beyond both is impossible."""


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
        device = executor.find_device(backend)
        if device is None or (executor, backend) in self._known:
            return
        kept = find_kept(device) if self.config.retry != "all" else None
        self._bound(executor, device, kept or self._measure(executor, device))

    def _bound(self, executor: Executor, device: DeviceFacts, calibration: Calibration | None) -> None:
        """Store a calibration, if there is one, and let it bound the times of a device."""
        self._known[executor, device.backend] = calibration
        if calibration is not None:
            self.recorder.store.save_calibration(self.recorder.sweep_id, device, calibration)

    def reconsider(self, executor: Executor, backend: str) -> None:
        """Measure the host again, once, before a time counts as impossible by limits that others' work may lower."""
        device, known = executor.find_device(backend), self._known.get((executor, backend))
        if not self._doubted.get((executor, backend)) or device is None or known is None:
            return
        self._doubted[executor, backend] = False
        if again := self._measure(executor, device, known):
            self._bound(executor, device, again)

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

    def _measure(self, executor: Executor, device: DeviceFacts, known: Calibration | None = None) -> Calibration | None:
        """Return what the device can do, with the larger of each limit that is known; keep it for later sweeps."""
        backend = device.backend
        try:
            answer: Calibration | Unavailable = executor.worker.ask(Calibrate(backend), Calibration, Unavailable)
        except WorkerError as error:
            executor.drop_worker()
            answer = Unavailable(str(error))
        if not isinstance(answer, Calibration):
            self.note(f"{backend}: the device could not be calibrated: {answer}")
            return None
        found, others = find_larger(known, answer) if known else answer, answer.details.get("other_processes")
        if named := name_others(others):
            self.note(f"{backend}: other processes compute on the device: {named}")
        if not others:  # whose work lowers every figure
            keep(device, found)
        return found


@dataclass(frozen=True)
class Plausibility:
    """Check the times of one back end's trials against its device's measured limits.

    Args:
        cache_bytes: the last cache's size.
        flushed: the caches hold other data when a cold execution begins; otherwise they may hold all of its own.
    """

    on_host: bool
    calibration: Calibration | None = None
    cache_bytes: int = 0
    flushed: bool = True

    def judge(self, trial: Trial, outcome: Outcome, output_bytes: int) -> Outcome:
        """Return the outcome, as `implausible` if one of its medians is below the device's limit.

        Results may stay in the last cache: `output_bytes` is the size of all outputs of the trial's problem.
        """
        if outcome.state is not State.OK:
            return outcome
        for timing in outcome.timings:
            shortest_ns, reason = max(self._floors(trial, timing, output_bytes))
            if not timing.summary.median_ns >= shortest_ns:  # NaN is not a time either
                message = (
                    f"{timing.measure.value} time {_text(timing.summary.median_ns)} is impossible: {reason}; "
                    "what it launches does not lie within its frame, or the family states more work than there is"
                )
                return replace(outcome, state=State.IMPLAUSIBLE, message=message)
        return outcome

    def _floors(self, trial: Trial, timing: Timing, output_bytes: int) -> Iterator[tuple[float, str]]:
        """Yield durations in ns that nothing beats, and why."""
        if self.on_host:
            yield EMPTY_CALL_NS, f"a call that does nothing takes {EMPTY_CALL_NS:g} ns at least"
        else:
            yield EMPTY_LAUNCH_NS, f"an empty launch takes {EMPTY_LAUNCH_NS:g} ns at least"
        calibration, useful = self.calibration, trial.useful_bytes or 0
        if calibration is None:
            return
        bandwidth = calibration.read_bandwidth
        if bandwidth and timing.measure is not Measure.HOT and self.flushed:
            from_memory = max(useful - min(output_bytes, self.cache_bytes), 0)
            margin = HOST_MARGIN if self.on_host else DEVICE_MARGIN
            yield _moving(from_memory, bandwidth, margin, "the memory's measured bandwidth")
        through_cache = calibration.details.get("cache_bandwidth")
        if through_cache:
            yield _moving(useful, float(through_cache), CACHE_MARGIN, "the cache's measured bandwidth")
        rate = calibration.details.get("fma_rate")
        if rate and trial.flops:
            shortest = trial.flops / (float(rate) * ARITHMETIC_MARGIN) * 1e9
            yield (
                shortest,
                f"its {trial.flops:.3g} operations take {_text(shortest)} even at {ARITHMETIC_MARGIN:g} times the "
                f"measured rate of {float(rate) / 1e12:.3g} TFLOP/s",
            )


def _moving(size: int, bandwidth: float, margin: float, what: str) -> tuple[float, str]:
    shortest = size / (bandwidth * margin) * 1e9
    measured = f"{what} ({bandwidth / 1e9:.4g} GB/s)"
    return shortest, f"moving {size / 1e6:.4g} MB takes {_text(shortest)} even at {margin:g} times {measured}"


def _text(duration_ns: float) -> str:
    return f"{duration_ns:.3g} ns" if duration_ns < 1e3 else f"{duration_ns / 1e3:.4g} µs"


def name_others(pids: Collection[int] | None) -> str:
    """Return processes with their names, but for those that this process has started: `judge` prepares several."""
    if not pids:  # to look at all processes takes milliseconds
        return ""
    own = {process.pid for process in psutil.Process().children(recursive=True)}
    return ", ".join(_name(pid) for pid in pids if pid not in own)


def _name(pid: int) -> str:
    """Return a process's name, for which psutil may read its command line: a stranger's can be gigabytes."""
    with suppress(psutil.Error):  # of another container
        return f"{psutil.Process(pid).name()} (pid {pid})"
    return f"pid {pid}"


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
