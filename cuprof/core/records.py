"""The records that travel from worker to engine to store: plain, frozen, without devices or databases.

Durations are nanoseconds, sizes bytes, clocks MHz, powers watts, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from cuprof.core.point import Point


class State(StrEnum):
    """The result of a trial, in one word."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    IMPLAUSIBLE = "implausible"
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    IMPOSSIBLE = "impossible"
    SKIPPED = "skipped"
    PLANNED = "planned"


FAILED = frozenset(
    {State.WRONG_RESULT, State.IMPLAUSIBLE, State.COMPILE_ERROR, State.LAUNCH_ERROR, State.CRASHED, State.TIMED_OUT}
)
"""The states that count as a failure of the trial itself; a skipped trial has not failed."""

NOT_RUN = frozenset({State.IMPOSSIBLE, State.SKIPPED})
"""The states of trials that the device cannot run, or that could not run here and now."""
OF_FAMILY = "family"
"""Phase of a trial that was skipped because a function of its family failed: the sweep failed, not the variant."""


class Measure(StrEnum):
    """Say what a duration measures."""

    COLD = "cold"  # kernel time, the inputs not in the L2 cache
    HOT = "hot"  # kernel time a repetition in a batch, caches as the previous repetition left them
    TOTAL = "total"  # host clock: inputs to the device, kernels, results back


@dataclass(frozen=True)
class DeviceFacts:
    """Describe a device and the software that drives it.

    Args:
        index: ordinal among the devices of this back end.
        name: the vendor's name of the model.
        uuid: the physical device's, empty where there is none.
        identity: the facts that make timings comparable (name, compute capability, driver, library versions), part of
            every trial's identity. Nothing in it names a host or one physical card.
        details: further facts for people (SM count, L2 bytes, clocks, host).
    """

    backend: str
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0
    identity: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Unavailable:
    """Say why a back end or a variant cannot run here, and which command fixes that."""

    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


Devices: TypeAlias = Mapping[str, DeviceFacts | Unavailable]
"""Back end → its device, or why there is none."""


@dataclass(frozen=True)
class Trial:
    """One variant at one problem with one choice of tunables on one device.

    Args:
        identity: content identity, 32 hexadecimal digits; see cuprof.plan.identity.
        label: "family/variant · problem · tunables", for people.
        device: None where no device of the variant's back end is there.
        source_text: the variant's source with its local includes expanded, or the text of its Python functions; for
            those of a judged candidate, its whole file.
        source_hash: SHA-256 of `source_text`, 64 hexadecimal digits.
        unavailable: why the trial cannot run on this machine, or None.
        threads: threads of its largest block, or work-items of its largest group; None if unknown before it runs.
    """

    identity: str
    family: str
    variant: str
    backend: str
    kind: str
    problem: Point
    tunables: Point
    label: str
    device: DeviceFacts | None = None
    source_text: str = ""
    source_hash: str = ""
    description: str = ""
    origin: str = ""
    expected: str = "right"
    order: int = 0
    useful_bytes: int | None = None
    flops: int | None = None
    unavailable: Unavailable | None = None
    threads: int | None = None


@dataclass(frozen=True)
class BuildFacts:
    """The compiler's report on the kernel with the largest footprint in a program."""

    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    cached: bool = False
    build_ns: int = 0
    log: str = ""
    sass_hash: str = ""
    """Of the program's machine code (see `cuprof.builds.machine_code`); empty where there is none to see."""


@dataclass(frozen=True)
class Check:
    """Compare one result with the reference.

    Args:
        passed: every element is finite where the reference is, and within tolerance.
        error: the largest |result - reference| / allowed; wrong above 1, NaN or infinite if it cannot be computed.
        error_absolute: the largest |result - reference| in the output's unit.
        error_relative: ‖result - reference‖₂ / ‖reference‖₂.
        message: for a wrong result, where and what: "sum[0] = 8386560.5, expected 8388608.25 ± 0.31 (…reason…)".
    """

    passed: bool
    error: float
    error_absolute: float
    error_relative: float
    message: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Sample:
    """One timed execution.

    Args:
        round: number of the randomised round it was taken in; samples of one round are paired in comparisons.
        duration_ns: after the documented correction.
        sm_clock_mhz: SM clock measured beside the sample, or None.
        excluded: why the summary leaves the sample out, or empty.
    """

    round: int
    duration_ns: float
    sm_clock_mhz: float | None = None
    excluded: str = ""


@dataclass(frozen=True)
class Summary:
    """Describe the samples that count.

    `low_ns` and `high_ns` bound the median at the level `confidence` (order statistics, no assumption on the
    distribution): the requested level, or with too few samples for that, their range and its level.
    """

    count: int
    excluded: int
    median_ns: float
    low_ns: float
    high_ns: float
    confidence: float
    mean_ns: float
    stdev_ns: float
    min_ns: float
    max_ns: float
    q1_ns: float
    q3_ns: float


@dataclass(frozen=True)
class Energy:
    """The energy of one execution, from the device's supply.

    Args:
        energy_j: joules of one execution, the device's idle consumption included.
        mean_w: mean power over the loop of executions that was measured.
        idle_w: mean power without work, taken once in each rotation of trials.
    """

    energy_j: float
    mean_w: float
    idle_w: float


DOUBT = "doubt"
"""Key in a timing's details: why it is not credible."""

ENERGY_UNAVAILABLE = "energy_unavailable"
"""Key in a timing's details: why there is no energy although it was requested."""


@dataclass(frozen=True)
class Timing:
    """One measure of one trial.

    Args:
        method: hash of the settings and the version of the measuring method; timings of different methods are
            never mixed.
        stopped_by: "interval" (narrow enough), "samples" (the most allowed), "time" (a time bound, also below the
            least number of samples), "slower" (established to be slower than the best of its problem, `measure.race`)
            or "excluded" (too many left out; if all were, they count after all).
        details: what the method adds (correction_ns, batch size, flush, throttled samples, …).
        rotation: equal for timings whose samples of one round were taken side by side; empty if none were.
        energy: the energy of an execution, if it was requested and the device reports it.
    """

    measure: Measure
    method: str
    samples: tuple[Sample, ...]
    summary: Summary
    stopped_by: str
    details: Mapping[str, Any] = field(default_factory=dict)
    rotation: str = ""
    energy: Energy | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of running a trial once.

    Args:
        message: one line that says what happened, unless the state is "ok".
        log: longer text behind the message (compiler log, traceback, worker's stderr).
        opened: absolute paths of the data files that the variant opened while it prepared.
    """

    identity: str
    state: State
    message: str = ""
    log: str = ""
    phase: str = ""
    check: Check | None = None
    build: BuildFacts | None = None
    timings: tuple[Timing, ...] = ()
    started_at: float = 0.0
    """Seconds since the epoch, UTC."""
    duration_ns: int = 0
    opened: tuple[str, ...] = ()

    def find_timing(self, measure: Measure) -> Timing | None:
        """Return the timing of one measure, None where there is none."""
        return next((timing for timing in self.timings if timing.measure is measure), None)


@dataclass(frozen=True)
class Calibration:
    """The measured properties of a device in a sweep.

    Args:
        read_bandwidth: bytes a second when reading a buffer far larger than the caches, the roof in reports.
        event_overhead_ns: what a pair of timing events adds to a kernel's duration (cuda).
        details: further figures (copy bandwidth, empty-kernel time, idle power).
    """

    backend: str
    read_bandwidth: float | None = None
    event_overhead_ns: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SweepFacts:
    """The facts about a sweep when it starts.

    Args:
        plan_hash: hash of everything that decides the trials and the methods; the same for the same command.
        configuration: the composed configuration, plain data.
        git: commit, branch, dirty; empty outside a repository.
    """

    name: str
    experiment: str
    family: str
    baseline: str
    plan_hash: str
    command_line: str
    configuration: Mapping[str, Any]
    host: str
    git: Mapping[str, Any]
    software: Mapping[str, str]
    purpose: str = "timing"
    """"timing", or "profiling" if trials were only checked before they were profiled."""
    started_at: float = 0.0
    """When it began, in seconds since the epoch, if another database knows it already; 0.0 means now."""


@dataclass(frozen=True)
class Artifact:
    """Name a kept profiler report.

    Args:
        path: relative to the artifacts folder if it is inside, else absolute.
        sha256: hash of its contents, 64 hexadecimal digits; equal contents are one artifact.
        tool_version: the version of Nsight Compute that wrote it.
        command: the arguments that made it, empty for imported reports.
    """

    path: str
    sha256: str
    size_bytes: int = 0
    kind: str = "ncu-rep"
    tool_version: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class CounterValue:
    """One metric of one launch, under Nsight Compute's own name and in its own unit.

    Args:
        value: None where Nsight gave no number.
        rollup: rule that makes the trial's value from those of several launches ("sum", "max", "mean:METRIC", …).
        meaning: one sentence for people, empty if unknown.
        instances: instance name → value (opcode → executed), empty without any.
        text: the value of a metric that is not a number.
    """

    metric: str
    value: float | None
    unit: str = ""
    rollup: str = ""
    meaning: str = ""
    instances: Mapping[str, float] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Advice:
    """One piece of advice of a rule of Nsight Compute about one launch.

    Args:
        rule: identifier of the rule ("SOLBottleneck").
        severity: "ok", "optimization", "warning" or "error".
        speedup: the estimated speedup in percent, if Nsight gives one.
    """

    rule: str
    severity: str
    text: str
    title: str = ""
    section: str = ""
    speedup: float | None = None


INSTRUCTION_BYTES = 16
"""Size of a machine instruction on every GPU since Volta (CUDA Binary Utilities, "Instruction Set")."""


def read_opcode(sass: str) -> str:
    """Return an instruction's operation with its modifiers: "LDG.E.CONSTANT" of "@!P0 LDG.E.CONSTANT R4, [R2]"."""
    return next((word for word in sass.split() if not word.startswith("@")), "")


@dataclass(frozen=True)
class SourceCounters:
    """Counters of one launch by machine instruction, in the order of the code.

    All sequences have one entry an instruction, except `files` and the indices in `stalls`.

    Args:
        sass: the instructions; addresses in them count from the kernel's first.
        offsets: bytes from the kernel's first instruction.
        files: the source files that the line table names.
        file_numbers: index into `files`, -1 where the line table says nothing.
        lines: line in that file, 0 where unknown.
        executed: how many warps executed it.
        threads: how many threads did.
        stalls: reason ("long_scoreboard") → index of the instruction → samples of warps that waited there; `selected`
            and `not_selected` are no stalls.
        excessive: "shared" or "global" → index of the instruction → wavefronts of shared memory, or sectors of global
            memory, beyond what accesses without bank conflicts, or coalesced ones, would take.
        sample_count: samples of all kinds.
        interval_cycles: cycles between two samples of one scheduler.
        dropped_bytes: samples that the buffer had no room for, in bytes.
    """

    sass: tuple[str, ...]
    offsets: tuple[int, ...]
    files: tuple[str, ...]
    file_numbers: tuple[int, ...]
    lines: tuple[int, ...]
    executed: tuple[int, ...]
    threads: tuple[int, ...] = ()
    stalls: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    excessive: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    sample_count: int = 0
    interval_cycles: int = 0
    dropped_bytes: int = 0


@dataclass(frozen=True)
class LaunchRecord:
    """One kernel launch that a profiler saw.

    Args:
        ordinal: position among the launches of its trial, from 0.
        kernel: demangled name.
        details: further facts of the launch (occupancy limits, context, stream, position in the report).
    """

    ordinal: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int | None = None
    shared_static_bytes: int | None = None
    shared_dynamic_bytes: int | None = None
    duration_ns: float | None = None
    counters: tuple[CounterValue, ...] = ()
    advice: tuple[Advice, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    source: SourceCounters | None = None


@dataclass(frozen=True)
class Conditions:
    """Say how launches were profiled; counters from different conditions are never compared.

    Args:
        cache_mode: "cold" (caches flushed before every pass) or "hot".
        clock_control: Nsight Compute's --clock-control ("none", "base"), empty if unknown.
        replay: Nsight Compute's --replay-mode ("kernel", "application"), empty if unknown.
    """

    cache_mode: str
    clock_control: str = ""
    replay: str = ""


@dataclass(frozen=True)
class Profile:
    """The result of profiling one trial once, or one group of foreign launches imported under a name.

    Args:
        identity: the trial's identity, or None for launches that belong to no trial.
        name: the trial's label, or the name given to foreign launches.
        state: "ok", or as for trials: "crashed", "timed_out", "launch_error" (also: no kernel in the range), "skipped".
        metric_set: name of the requested set ("study").
        metrics: every metric requested by name, and "set:NAME" or "section:NAME" for those requested as a whole; they
            decide what need not be collected again.
        missing: requested metric that the chip does not have → why.
        rolled: the trial's values, one per metric, made from `launches`; `instances` likewise.
    """

    identity: str | None
    name: str
    state: State
    conditions: Conditions
    message: str = ""
    log: str = ""
    metric_set: str = ""
    metrics: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    artifact: Artifact | None = None
    launches: tuple[LaunchRecord, ...] = ()
    rolled: tuple[CounterValue, ...] = ()
    started_at: float = 0.0
    """Seconds since the epoch, UTC."""
    duration_ns: int = 0


class StoredTrial(NamedTuple):
    """What the database knows of a trial that has been run.

    Args:
        state: of its newest run; a skipped run does not hide an earlier one that was not skipped.
        complete: nothing is left to do for it: it failed, or one ok run has every timing that was asked for.
        run_id: that run; otherwise the newest.
        sweep_id: the sweep that made it.
        median_ns: of the shortest of the timings that were asked for, None without any.
        half_width: of the widest interval among them, as a share of its median; 0 without any.
    """

    identity: str
    state: State
    complete: bool
    run_id: int
    message: str = ""
    sweep_id: int = 0
    median_ns: float | None = None
    half_width: float = 0.0


@dataclass(frozen=True)
class StoredProfile:
    """What the database has on profiling a trial for certain metrics.

    Args:
        state: "ok" if every metric was requested and its launches are stored, else the state of the newest failure.
        missing: requested metric that the chip does not have → why.
    """

    state: State
    message: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
