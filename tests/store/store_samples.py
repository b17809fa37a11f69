"""Records with every field set, for tests and for the sample databases under tests/data/db."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from cuprof.core.point import Point
from cuprof.core.records import (
    Advice,
    Artifact,
    BuildFacts,
    Calibration,
    Check,
    Conditions,
    CounterValue,
    DeviceFacts,
    Energy,
    LaunchRecord,
    Measure,
    Outcome,
    Profile,
    Sample,
    State,
    Summary,
    SweepFacts,
    Timing,
    Trial,
    Unavailable,
)

METHOD = "b6a1" * 16
STARTED = 1_790_000_000.123456

GPU = DeviceFacts(
    backend="cuda",
    index=1,
    name="NVIDIA H200",
    uuid="GPU-5b1f",
    memory_bytes=150_754_820_096,
    identity={"name": "NVIDIA H200", "capability": "9.0", "driver": "580.65"},
    details={"sm_count": 132, "l2_bytes": 62_914_560, "clocks": [1980, 345]},
)
CPU = DeviceFacts("cpu", 0, "AMD EPYC 9554", identity={"name": "AMD EPYC 9554", "numba": "0.62"})
CALIBRATION = Calibration("cuda", 4.1e12, 2400.5, {"copy_bandwidth": 3.9e12, "idle_w": 74.25})

FACTS = SweepFacts(
    name="study",
    experiment="reduction",
    family="reduction",
    baseline="interleaved",
    plan_hash="c0ffee" * 8,
    command_line="python -m cuprof sweep experiment=reduction 'problem.n=2**20,2**24'",
    configuration={"measure": {"target": 0.005, "methods": ["cold", "hot"]}, "retry": None},
    host="node-7",
    git={"commit": "0" * 40, "branch": "main", "dirty": True},
    software={"python": "3.12.1", "cupy": "14.0.1"},
)


def make_trial(variant: str = "interleaved", n: int = 2**20, block: int | None = 64, **changes: object) -> Trial:
    """Return a trial whose identity follows from what it is."""
    tunables = Point() if block is None else Point(block=block)
    source = f'// {variant}\nextern "C" __global__ void reduce(const float *x) {{}}\n'
    label = f"reduction/{variant} · n={n} · {tunables.label}"
    trial = Trial(
        identity="",
        family="reduction",
        variant=variant,
        backend="cuda",
        kind="kernel",
        problem=Point(n=n, dtype="float32"),
        tunables=tunables,
        label=label,
        device=GPU,
        source_text=source,
        source_hash=hashlib.sha256(source.encode()).hexdigest(),
        description=f"The {variant} step.",
        origin="kernel 1",
        expected="right",
        order=0,
        useful_bytes=4 * n,
        flops=n - 1,
    )
    trial = replace(trial, **changes)  # type: ignore[arg-type]
    device = trial.device.name if trial.device else "none"
    return replace(trial, identity=hashlib.sha256(f"{label} {device}".encode()).hexdigest()[:32])


UNAVAILABLE = make_trial(
    "opencl", device=None, backend="opencl", unavailable=Unavailable("no OpenCL device", "install a driver")
)


def make_timing(median_us: float, measure: Measure = Measure.COLD, method: str = METHOD, samples: int = 4) -> Timing:
    """Return a timing with that median and a few samples, one of them left out."""
    median = median_us * 1000
    taken = tuple(
        Sample(number, median + number, 1980.0 if number % 2 else None, "throttled" if number == 3 else "")
        for number in range(samples)
    )
    summary = Summary(
        count=samples - 1,
        excluded=1,
        median_ns=median,
        low_ns=median * 0.99,
        high_ns=median * 1.01,
        confidence=0.95,
        mean_ns=median * 1.001,
        stdev_ns=12.5,
        min_ns=median - 20,
        max_ns=median + 200,
        q1_ns=median - 5,
        q3_ns=median + 5,
    )
    details = {"correction_ns": 2400.0, "flush": "clean"}
    return Timing(
        measure, method, taken, summary, "interval", details, "c0ffee", Energy(0.5 * median / 1e9, 450.5, 80.0)
    )


def make_outcome(trial: Trial, *timings: Timing, state: State = State.OK, message: str = "") -> Outcome:
    """Return an outcome of the trial, checked and built, with the timings given."""
    return Outcome(
        identity=trial.identity,
        state=state,
        message=message,
        log="warning: unused variable 'q'",
        phase="time",
        check=Check(state is State.OK, 0.25, 1.5e-3, 2.5e-7, message, seed=2**100 + 1),
        build=BuildFacts(registers=32, shared_bytes=256, spill_bytes=0, cached=True, build_ns=41_000_000, log="ptxas"),
        timings=timings,
        started_at=STARTED,
        duration_ns=1_234_567_890,
    )


ARTIFACT = Artifact("reduction/0001.ncu-rep", "ab" * 32, 81_234, "ncu-rep", "2026.3.1", ("ncu", "--metrics", "a,b"))


def make_counter(metric: str, value: float | None, unit: str = "", **changes: object) -> CounterValue:
    """Return a counter that is summed over launches."""
    return replace(CounterValue(metric, value, unit, "sum", f"What {metric} says."), **changes)  # type: ignore[arg-type]


def make_profile(
    trial: Trial | None,
    *rolled: CounterValue,
    cache_mode: str = "cold",
    clock_control: str = "none",
    name: str = "",
    missing: Mapping[str, str] = MappingProxyType({"no__such.sum": "not on this chip"}),
) -> Profile:
    """Return a profile with two launches and the rolled-up values given."""
    opcodes = make_counter("sass__inst_executed_per_opcode", 6.0, "inst", instances={"LDG": 4.0, "STS": 2.0})
    advice = Advice("SOLBottleneck", "optimization", "Use more blocks.", "Latency issue", "SpeedOfLight", 12.5)
    launches = tuple(
        LaunchRecord(
            ordinal=ordinal,
            kernel="reduce(const float *)",
            grid=(2**18 >> ordinal, 1, 1),
            block=(64, 1, 1),
            registers=32,
            shared_static_bytes=0,
            shared_dynamic_bytes=256,
            duration_ns=17_900.5,
            counters=(make_counter("dram__bytes_read.sum", 100.0 + ordinal, "byte"), opcodes),
            advice=(advice,) if ordinal == 0 else (),
            details={"stream": 7},
        )
        for ordinal in range(2)
    )
    return Profile(
        identity=trial.identity if trial else None,
        name=name or (trial.label if trial else "foreign"),
        state=State.OK,
        conditions=Conditions(cache_mode, clock_control, "kernel"),
        metric_set="study",
        metrics=tuple(value.metric for value in rolled),
        missing=dict(missing),
        artifact=ARTIFACT,
        launches=launches,
        rolled=rolled,
        started_at=STARTED,
        duration_ns=3_000_000_000,
    )
