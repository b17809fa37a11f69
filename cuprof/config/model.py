"""The configuration as frozen dataclasses, without Hydra; other packages know no other form of it.

A field's default is what `conf/` composes to without any choice (a test compares the two). Durations in settings are
seconds and say so in their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from cuprof.backends.registry import get_spec, list_backends
from cuprof.config.setting import Settings, check_choice
from cuprof.core.errors import ConfigError
from cuprof.core.plugins import list_plugins
from cuprof.core.point import Axes
from cuprof.core.project import Project, database_url
from cuprof.core.records import Measure
from cuprof.search.registry import DEFAULT, GROUP, STRATEGIES

MOST_DEVICES = 1024
DEFAULT_FRACTION = 0.1
"""Share of all configurations that a search tries by default."""

Seconds = Annotated[float, Meta(ge=0.1, le=86_400)]
Samples = Annotated[int, Meta(ge=1, le=1_000_000)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class MeasureConfig(Settings):
    """Say how a trial is timed.

    Attributes:
        modes: what to measure: "cold" and "hot" kernel time, "total" time with host-device transfers.
        target: half-width of the interval of the median, relative to the median, at which sampling stops.
        confidence: level of that interval.
        min_samples, max_samples: bounds of their number, whatever the interval or the time says.
        max_seconds: time bound for one measure of one trial; at least `min_samples` are taken all the same.
        patience_seconds: time bound that holds even below `min_samples`, for executions of seconds; the row records it.
        warmup: untimed executions before the first sample.
        flush: how the L2 cache is emptied before a cold sample: "clean" reads other data, "dirty" writes them (for
            comparison with tools that do), "none" leaves the cache alone.
        interleave: sample the variants of one problem in randomised rounds, so that drift hits all alike.
        rotation: at most this many trials share the device in interleaved rounds.
        blocking: hold the stream back until a sample's work is enqueued, so that launch gaps are not measured.
        host_memory: memory on the host side of the transfers in total time.
        graph: replay the launches as one CUDA graph.
        energy: measure joules a launch and mean watts as well, of executions repeated for `energy_seconds`.
        timer: "events" (CUDA events) or "cupti" (kernel durations from CUPTI, when cupti-python is there).
        settle_seconds: work before the first sample, so that the clocks rise.
        clock_tolerance: leave out samples with an SM clock further below the sweep's median than this fraction.
        race: stop sampling a trial once it is established to be slower than the best of its problem; None does so in
            searches alone.
    """

    modes: tuple[Measure, ...] = (Measure.COLD, Measure.TOTAL)
    target: Annotated[float, Meta(ge=1e-5, le=0.5)] = 0.005
    confidence: Annotated[float, Meta(ge=0.5, le=0.9999)] = 0.95
    min_samples: Samples = 20
    max_samples: Samples = 10_000
    max_seconds: Annotated[float, Meta(ge=0.001, le=86_400)] = 1.0
    patience_seconds: Annotated[float, Meta(ge=0.001, le=86_400)] = 10.0
    warmup: Annotated[int, Meta(ge=0, le=10_000)] = 3
    flush: Literal["clean", "dirty", "none"] = "clean"
    interleave: bool = True
    rotation: Annotated[int, Meta(ge=1, le=4096)] = 16
    blocking: bool = True
    host_memory: Literal["pinned", "pageable"] = "pinned"
    graph: bool = False
    energy: bool = False
    energy_seconds: Annotated[float, Meta(ge=0.05, le=600)] = 0.3
    timer: Literal["events", "cupti"] = "events"
    settle_seconds: Annotated[float, Meta(ge=0, le=600)] = 0.2
    clock_tolerance: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    race: bool | None = None

    def validate(self) -> None:
        if not self.modes:
            raise ConfigError("measure.modes is empty; name at least one of cold, hot, total")
        if len(set(self.modes)) < len(self.modes):
            raise ConfigError(f"measure.modes names {', '.join(self.modes)}; name each once")
        if self.min_samples > self.max_samples:
            raise ConfigError(
                f"measure.min_samples is {self.min_samples}, more than measure.max_samples, {self.max_samples}; "
                "raise the latter"
            )


@dataclass(frozen=True)
class CheckConfig(Settings):
    """Say how results are checked; `seed` fixes the random inputs, None draws fresh ones."""

    seed: Seed | None = None


@dataclass(frozen=True)
class DeviceConfig(Settings):
    """Say which devices take part.

    Attributes:
        backends: skip trials of any other back end.
        cuda: ordinals of CUDA devices, which share the work; or one word: "auto" for the first one, "all" for all of
            them, "each" to measure everything on every one of them.
        opencl: ordinal of the OpenCL device; None takes the first one.
        cpu_threads: threads of parallel CPU variants; None takes every core the process may use.
    """

    backends: tuple[str, ...] = field(default_factory=list_backends)
    cuda: tuple[str, ...] = ("auto",)
    opencl: Annotated[int, Meta(ge=0, le=1023)] | None = None
    cpu_threads: Annotated[int, Meta(ge=1, le=65_536)] | None = None

    def validate(self) -> None:
        check_choice("device.backends", self.backends, list_backends())
        if not self.backends:
            raise ConfigError(f"device.backends is empty; name at least one of {', '.join(list_backends())}")
        are_ordinals = self.cuda and all(text.isdecimal() and int(text) < MOST_DEVICES for text in self.cuda)
        if not are_ordinals and not (len(self.cuda) == 1 and self.cuda[0] in ("auto", "all", "each")):
            raise ConfigError(
                f"device.cuda is {','.join(self.cuda) or 'empty'}; it is auto, all, each, or ordinals from 0 to "
                f"{MOST_DEVICES - 1} with commas between them"
            )
        if len(set(self.cuda)) < len(self.cuda):
            raise ConfigError(f"device.cuda is {','.join(self.cuda)}; name each device once")

    @property
    def cuda_ordinals(self) -> tuple[int, ...]:
        """Return the CUDA devices that are named by ordinal; empty if a word stands for them."""
        return tuple(int(text) for text in self.cuda if text.isdecimal())

    def numbers(self) -> dict[str, int | None]:
        """Return back end → its device's number, as `BackendSpec` explains it; the first of several."""
        chosen = {**vars(self), "cuda": next(iter(self.cuda_ordinals), None)}
        return {backend: chosen.get(get_spec(backend).setting) for backend in list_backends()}


@dataclass(frozen=True)
class LimitsConfig(Settings):
    """Say how many seconds each step of a trial may take before its worker is ended and it counts as timed out.

    Attributes:
        build_s: compiling one variant, or its `make`.
        check_s: one check, or one timed sample (how long sampling goes on is `MeasureConfig.max_seconds`).
        trial_s: making the inputs and the reference of one problem.
        isolate: give each variant that runs its own code in the worker (a library's, a function on the CPU) a worker of
            its own, so that nothing it leaves in its process reaches another; such variants are not interleaved.
    """

    build_s: Seconds = 120.0
    check_s: Seconds = 60.0
    trial_s: Seconds = 300.0
    isolate: bool = False


@dataclass(frozen=True)
class StoreConfig(Settings):
    """Say where rows go: an SQLAlchemy URL or an SQLite file; empty means the project's own database."""

    url: str = ""

    def validate(self) -> None:
        object.__setattr__(self, "url", database_url(self.url))


@dataclass(frozen=True)
class NcuConfig(Settings):
    """Say what Nsight Compute collects, and how.

    Attributes:
        enabled: profile after timing (`sweep` only; `ncu-collect` always profiles).
        name: the metric set's name, stored with the counters.
        path: the ncu program; empty looks on PATH, in CUDA_HOME and in the usual folders.
        metrics: explicit metric names, regular expressions as ncu understands them.
        extra_metrics: metrics added on the command line by `+ncu.metrics=[…]`.
        set: one of ncu's own section sets ("basic", "full"), or empty.
        cache_control: "all" empties the caches before each pass (cold counters), "none" leaves them (hot).
        clock_control: "none" leaves the clocks alone, "base" locks them to base while profiling.
        replay: "kernel" repeats each launch for the passes it needs, "application" the whole process; "auto" takes the
            first for cold counters and the second for hot ones, whose caches kernel replay would disturb.
        batch: trials given to one ncu process.
        time_limit_s: seconds that one trial may take under ncu; a process may take this times its trials.
    """

    enabled: bool = False
    name: str = "study"
    path: str = ""
    metrics: tuple[str, ...] = ()
    extra_metrics: tuple[str, ...] = ()
    set: str = ""
    sections: tuple[str, ...] = ()
    cache_control: Literal["all", "none"] = "all"
    clock_control: Literal["none", "base"] = "none"
    replay: Literal["auto", "kernel", "application"] = "auto"
    batch: Annotated[int, Meta(ge=1, le=100_000)] = 64
    time_limit_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0


@dataclass(frozen=True)
class ReportConfig(Settings):
    """Say whether a sweep ends with a report, where it goes, and which sweep `report` shows.

    Attributes:
        enabled: write the page at the end of a sweep.
        path: the folder; empty means the project's reports/out.
        sweep: number of the sweep that `report` shows; None takes the newest. A sweep's own page always shows that
            sweep.
    """

    enabled: bool = True
    path: str = ""
    sweep: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None

    def folder(self, project: Project) -> Path:
        """Return the folder that pages go to."""
        return Path(self.path or project.root / "reports" / "out")


@dataclass(frozen=True)
class SearchConfig(Settings):
    """Say whether to search for the best of many configurations instead of running all, and how long.

    Attributes:
        name: the strategy; empty runs everything.
        budget: the time that the search may take, such as "90s", "5min" or "1h", with its final comparisons.
        trials: how many configurations it may try.
        fraction: the same as a share of all; 0.1 if none of the three is given.
        objective: what to minimize: "time", "energy", the name of a counter, or a product such as "time*energy".
        finalists: the most candidates of a problem to compare with one another at the end.
        effect: times that differ by less than this share are level.
        error_rate: chance that the final comparison of a problem calls equal times different.
        seed: seeds the strategy's random choices; None draws a seed.
    """

    name: str = ""
    budget: str = ""
    trials: Samples | None = None
    fraction: Annotated[float, Meta(ge=1e-6, le=1)] | None = None
    objective: str = "time"
    finalists: Annotated[int, Meta(ge=2, le=64)] = 8
    effect: Annotated[float, Meta(ge=0, le=0.5)] = 0.01
    error_rate: Annotated[float, Meta(ge=1e-8, le=0.5)] = 0.05
    seed: Seed | None = None

    def validate(self) -> None:
        if self.name not in ("", *STRATEGIES):  # installed ones take milliseconds to list
            check_choice("search.name", [self.name], ["", *list_plugins(GROUP, STRATEGIES)])
        given = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        if given and not self.name:
            raise ConfigError(f"search.{given[0]} is about a search and none is chosen; add search={DEFAULT}")
        if self.budget and self.budget_s is None:
            raise ConfigError(f"search.budget is {self.budget!r}; give a time such as 90s, 5min or 1h")
        if not all(re.fullmatch(r"[A-Za-z]\w*(\.\w+)*", factor) for factor in self.factors):
            raise ConfigError(
                f"search.objective is {self.objective!r}; give time, energy, a counter (cuprof list metrics), or a "
                "product of some, such as time*energy"
            )

    @property
    def factors(self) -> tuple[str, ...]:
        """Return the factors of the value to minimize."""
        return tuple(factor.strip() for factor in self.objective.split("*"))

    @property
    def counters(self) -> tuple[str, ...]:
        """Return the factors that a profiler measures."""
        return tuple(dict.fromkeys(factor for factor in self.factors if factor not in ("time", "energy")))

    @property
    def budget_s(self) -> float | None:
        """Return the time that the search may take in seconds, None without such a bound."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", self.budget.strip())
        seconds = float(found[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[found[2]] if found else 0.0
        return seconds or None

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return the settings that end the search."""
        given = [name for name in ("budget", "trials", "fraction") if getattr(self, name)]
        return tuple(f"search.{name}" for name in given or ["fraction"])

    def most_trials(self, size: int) -> int:
        """Return how many configurations the search may try out of `size`."""
        share = self.fraction or (DEFAULT_FRACTION if self.bounds == ("search.fraction",) else 1.0)
        return min(size, self.trials or size, max(1, round(share * size)))


@dataclass(frozen=True)
class LaunchConfig(Settings):
    """Say what starts the jobs that share a sweep, and what each of them takes.

    Attributes:
        name: "local" is this process; slurm, ray, joblib, or a launcher of an installed package.
        gpus: GPUs that a job takes.
        time: the most time that a job may take, as Slurm reads it (minutes, or hours:minutes:seconds).
        address: of a Ray cluster; empty takes RAY_ADDRESS, or the cluster of this host.
        job: name of this job, which launchers give it.
        since: when the job's launcher began, in seconds since the epoch; 0 for a job that no launcher started.
    """

    name: str = "local"
    jobs: Annotated[int, Meta(ge=1, le=10_000)] = 1
    gpus: Annotated[int, Meta(ge=0, le=1024)] = 0
    partition: str = ""
    time: str = ""
    address: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    job: str = ""
    since: Annotated[float, Meta(ge=0, le=10**11)] = 0.0

    def validate(self) -> None:
        if self.name == "local" and self.jobs > 1:
            raise ConfigError(f"launch.jobs is {self.jobs} and launch=local is this process; take launch=joblib")


@dataclass(frozen=True)
class SweepConfig(Settings):
    """Describe one sweep completely.

    Attributes:
        experiment: the name that `experiment=` chose.
        baseline: the variant that others are compared with; empty takes the family's own.
        variants: names or patterns such as "cuda_*"; "all" stands for every one, a leading "!" excludes.
        problem: problem axis → values; axes left out take the family's default.
        presets: names of the family's presets; each fixes its axes, the others vary as `problem` says.
        tune: tunable → values; tunables left out take their default.
        optional: tunables that the experiment names and the user did not type; the chosen variants need not have them.
        retry: "" takes over what is stored, "failed" tries failed trials again, "noisy" times those again whose
            interval is wider than `retry_above`, "all" measures everything anew.
        retry_above: half-width of an interval as a share of the median; None stands for `measure.target`.
        exit: what the exit code of a sweep says: how the "trials" went, or "done": 0 once nothing is left to measure.
        dry_run: list the trials and what is stored; run nothing.
        command_line, composed: what was typed, and the whole configuration as plain data, for the record.
        purpose: what the sweep is stored as; if empty, it follows from what is measured.
    """

    experiment: str
    family: str
    baseline: str = ""
    variants: tuple[str, ...] = ("all",)
    problem: Axes = field(default_factory=dict, hash=False)
    presets: tuple[str, ...] = ()
    tune: Axes = field(default_factory=dict, hash=False)
    optional: frozenset[str] = field(default=frozenset(), compare=False)
    measure: MeasureConfig = MeasureConfig()
    check: CheckConfig = CheckConfig()
    device: DeviceConfig = DeviceConfig()
    limits: LimitsConfig = LimitsConfig()
    store: StoreConfig = StoreConfig()
    ncu: NcuConfig = NcuConfig()
    report: ReportConfig = ReportConfig()
    search: SearchConfig = SearchConfig()
    launch: LaunchConfig = LaunchConfig()
    retry: Literal["", "failed", "noisy", "all"] = ""
    retry_above: Annotated[float, Meta(gt=0, le=100)] | None = None
    exit: Literal["trials", "done"] = "trials"
    dry_run: bool = False
    output: Literal["table", "json"] = "table"
    command_line: str = field(default="", compare=False)
    composed: Mapping[str, Any] = field(default_factory=dict, compare=False)
    purpose: str = field(default="", compare=False)

    def validate(self) -> None:
        if not self.family:
            raise ConfigError("no family is chosen; add family=NAME or an experiment that names one")
        if not self.variants:
            raise ConfigError("variants is empty; name at least one, or variants=all")
        if self.search.name and self.device.cuda == ("each",):
            raise ConfigError(
                "device.cuda=each measures everything on every GPU and a search measures a part; take device.cuda=all"
            )
