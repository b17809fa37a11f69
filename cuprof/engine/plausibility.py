"""Reject impossible times: the physical limits of a device bound every median from below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cuprof.core.records import Calibration, Measure, Outcome, State, Timing, Trial

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


Floor = tuple[float, str]
"""A duration in ns that nothing beats, and why."""


@dataclass(frozen=True)
class Plausibility:
    """Check the times of one back end's trials against its device's measured limits.

    Args:
        on_host: the device is the host's own processor.
        cache_bytes: the last cache's size; results may stay there.
        flushed: the caches hold other data when a cold execution begins; otherwise they may hold all of its own.
    """

    on_host: bool
    calibration: Calibration | None = None
    cache_bytes: int = 0
    flushed: bool = True

    def judge(self, trial: Trial, outcome: Outcome, output_bytes: int) -> Outcome:
        """Return the outcome, as `implausible` if one of its medians is below the device's limit.

        Args:
            output_bytes: of all outputs of the trial's problem.
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

    def _floors(self, trial: Trial, timing: Timing, output_bytes: int) -> Iterator[Floor]:
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


def _moving(size: int, bandwidth: float, margin: float, what: str) -> Floor:
    shortest = size / (bandwidth * margin) * 1e9
    measured = f"{what} ({bandwidth / 1e9:.4g} GB/s)"
    return shortest, f"moving {size / 1e6:.4g} MB takes {_text(shortest)} even at {margin:g} times {measured}"


def _text(duration_ns: float) -> str:
    return f"{duration_ns:.3g} ns" if duration_ns < 1e3 else f"{duration_ns / 1e3:.4g} µs"
