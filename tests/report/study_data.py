"""Test data: invented sweeps of an invented family, written through the real store. No number in here was measured."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.core.project import bundled
from cuprof.core.records import (
    ENERGY_UNAVAILABLE,
    Advice,
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
from cuprof.families import Point
from cuprof.report.load import load_study
from cuprof.report.study import Study
from cuprof.results.read import read_results
from cuprof.store.outcomes import NOWHERE
from cuprof.store.store import Store

GPU = DeviceFacts(
    "cuda", 0, "Test GPU 9000", "uuid-0", 16 * 2**30, {"name": "Test GPU 9000", "driver": "999.1"}, {"sm_count": 64}
)
CPU = DeviceFacts("cpu", 0, "Test CPU 5", "", 8 * 2**30, {"name": "Test CPU 5", "numba": "9.9"}, {"cores": 4})
ROOFS = {"cuda": 1e12, "opencl": 1e12, "cpu": 2e10}
NO_CUDA = Unavailable("no CUDA device was found", "install the NVIDIA driver, then: pip install 'cuprof[cuda13]'")
START = 1_800_000_000.0


@dataclass(frozen=True)
class Made:
    """Describe one invented trial; times in µs."""

    variant: str
    time: float = 10.0
    problem: Mapping[str, Any] = field(default_factory=lambda: {"n": 2**20})
    tune: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "kernel"
    device: DeviceFacts | None = GPU
    state: State = State.OK
    message: str = ""
    log: str = ""
    expected: str = "right"
    origin: str = ""
    order: int | None = None
    total: float | None = None
    useful_bytes: int | None = None
    spread: float = 0.01
    samples: int = 40
    error: float = 0.2
    unavailable: Unavailable | None = None
    energy_j: float | None = None
    energy_measure: Measure = Measure.COLD
    energy_unavailable: str = ""
    confidence: float = 0.95
    excluded: int = 0
    overlaps: bool = True
    stopped_by: str = "interval"
    source: str = ""
    code: str = ""


def fill(
    store: Store, trials: Sequence[Made], *, calibrate: bool = True, finish: str = "finished", **facts: Any
) -> int:
    """Write one sweep with these trials and return its number."""
    defaults: dict[str, Any] = {
        "name": "test",
        "experiment": "invented",
        "family": "invented",
        "baseline": trials[0].variant,
        "plan_hash": hashlib.sha256(repr((trials, facts)).encode()).hexdigest(),
        "command_line": "python -m cuprof sweep experiment=invented",
        "configuration": {"measure": {"samples": 40}, "variants": "all"},
        "host": "test-host",
        "git": {"commit": "0123abc", "branch": "main", "dirty": False},
        "software": {"cuprof": "0.0-test", "python": "3.11"},
    }
    sweep = store.begin_sweep(SweepFacts(**{**defaults, **facts}))
    orders = {name: i for i, name in enumerate(dict.fromkeys(made.variant for made in trials))}
    planned = [_trial(made, orders) for made in trials]
    left = [trial.identity for made, trial in zip(trials, planned, strict=True) if made.state is State.PLANNED]
    store.enlist(sweep, planned, reused=store.stored(left, {}))
    for device in {made.device.name: made.device for made in trials if made.device}.values():
        roof = ROOFS[device.backend] if calibrate else None
        store.save_calibration(sweep, device, Calibration(device.backend, roof, 800.0))
    ended = [each for each in enumerate(zip(trials, planned, strict=True)) if each[1][0].state is not State.PLANNED]
    store.record_all(sweep, [(_outcome(made, trial, i), NOWHERE) for i, (made, trial) in ended])
    if finish:
        store.finish_sweep(sweep, finish)
    return sweep


def add_counters(
    store: Store,
    sweep: int,
    variant: str,
    launches: Mapping[str, Mapping[str, tuple[float, str]]],
    cache_mode: str = "cold",
    clock_control: str = "none",
    duration_ns: float | None = None,
    rollups: Mapping[str, str] | None = None,
) -> None:
    """Write a profile of the variant's first trial: kernel → metric → (value, unit); rolled up as the first launch's.

    Args:
        duration_ns: of every launch.
        rollups: metric → rule; "max" for those left out.
    """
    rules = rollups or {}
    with store.snapshot() as connection:
        trial = read_results(connection, [sweep], [variant]).iloc[0]
    records = tuple(
        LaunchRecord(
            i,
            kernel,
            (8, 8, 1),
            (256, 1, 1),
            duration_ns=duration_ns,
            counters=tuple(
                CounterValue(name, value, unit, rules.get(name, "max"), "a test")
                for name, (value, unit) in values.items()
            ),
            advice=(
                Advice(
                    "TestRule", "OPT", f"Advice on {kernel}: coalesce @url:docs:https://example.invalid@", "Test rule"
                ),
            ),
        )
        for i, (kernel, values) in enumerate(launches.items())
    )
    rolled = {value.metric: value for record in reversed(records) for value in record.counters}
    store.record_profile(
        sweep,
        Profile(
            trial.identity,
            trial.variant,
            State.OK,
            Conditions(cache_mode, clock_control, "kernel"),
            metrics=tuple(rolled),
            launches=records,
            rolled=tuple(rolled.values()),
        ),
    )


def open_store(folder: Path) -> Store:
    """Return a new database in a folder."""
    return Store.open(f"sqlite:///{folder / 'test.sqlite'}")


def _trial(made: Made, orders: Mapping[str, int]) -> Trial:
    key = repr(
        (made.variant, sorted(made.problem.items()), sorted(made.tune.items()), made.device and made.device.name)
    )
    identity = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:32]
    problem, tune = Point(made.problem), Point(made.tune)
    size = made.useful_bytes if made.useful_bytes is not None else 4 * int(made.problem.get("n", 1))
    return Trial(
        identity=identity,
        family="invented",
        variant=made.variant,
        backend=made.device.backend if made.device else "cuda",
        kind=made.kind,
        problem=problem,
        tunables=tune,
        label=f"invented/{made.variant} · {problem.label} · {tune.label}",
        device=made.device,
        source_text=made.source or f"// {made.variant}",
        source_hash=hashlib.sha256(made.variant.encode("utf-8", "backslashreplace")).hexdigest(),
        description=f"Invented variant {made.variant}.",
        origin=made.origin,
        expected=made.expected,
        order=made.order if made.order is not None else orders[made.variant],
        useful_bytes=size,
        flops=size // 4,
        unavailable=made.unavailable,
    )


def _outcome(made: Made, trial: Trial, index: int) -> Outcome:
    if made.state is not State.OK:
        check = Check(False, made.error, 1.0, 0.5, made.message, 7) if made.state is State.WRONG_RESULT else None
        return Outcome(trial.identity, made.state, made.message, made.log, "check", check)
    timings = [_timing(Measure.COLD, made.time, made, index)]
    if made.total is not None:
        timings.append(_timing(Measure.TOTAL, made.total, made, index))
    check = Check(True, made.error, 1e-6, 1e-7, "", 7)
    build = BuildFacts(sass_hash=made.code) if made.code else None
    times = {"timings": tuple(timings), "started_at": START, "duration_ns": 10_000_000_000}
    return Outcome(trial.identity, State.OK, check=check, build=build, **times)


def _timing(measure: Measure, time: float, made: Made, index: int) -> Timing:
    random = np.random.default_rng(1000 + index)
    values = time * 1e3 * (1 + made.spread * np.abs(random.standard_normal(made.samples)))
    values += time * 1e3 - np.median(values)  # so that the median is what the test asked for
    low, high = np.quantile(values, (0.25, 0.75))
    middle, margin = float(np.median(values)), float(values.std() / np.sqrt(made.samples) * 2)
    summary = Summary(
        count=made.samples,
        excluded=made.excluded,
        median_ns=middle,
        low_ns=middle - margin,
        high_ns=middle + margin,
        confidence=made.confidence,
        mean_ns=float(values.mean()),
        stdev_ns=float(values.std()),
        min_ns=float(values.min()),
        max_ns=float(values.max()),
        q1_ns=float(low),
        q3_ns=float(high),
    )
    samples = tuple(Sample(i, float(value)) for i, value in enumerate(values))
    metered = made.energy_j is not None and measure is made.energy_measure
    energy = Energy(made.energy_j or 0.0, 250.0, 100.0) if metered else None
    rotation = "together" if made.overlaps else f"alone-{index}"
    details = {ENERGY_UNAVAILABLE: made.energy_unavailable} if made.energy_unavailable else {}
    return Timing(measure, "method-1", samples, summary, made.stopped_by, details, rotation, energy)


STEPS = ("interleaved_divergent", "interleaved_compacted", "sequential", "first_add", "last_warp")


def reduction(scale: Callable[[str, int], float] | None = None, *, gpu: bool = True) -> list[Made]:
    """Return an invented sweep with the names of the bundled reduction study, with or without a GPU."""
    speeds = dict(zip(STEPS, (14.0, 13.0, 9.0, 5.0, 3.2), strict=True)) | {
        "vector4": 1.35,
        "single_pass": 1.12,
        "cupy_sum": 1.2,
    }
    made = []
    for n in (2**20, 2**22, 2**24, 2**26):
        problem = {"n": n, "dtype": "float32"}
        for i, (name, factor) in enumerate(speeds.items()):
            time = 3.0 + factor * 4 * n / 1e12 * 1e6 if scale is None else scale(name, n)
            origin = f"kernel {i + 1}" if name in STEPS else ""
            one = Made(
                name,
                time,
                problem,
                kind="library" if name == "cupy_sum" else "kernel",
                origin=origin,
                total=time + n / 3e3,
            )
            if not gpu:
                reason = {"state": State.SKIPPED, "message": str(NO_CUDA), "unavailable": NO_CUDA, "device": None}
                made.append(replace(one, **reason))
            elif name == "vector4":
                made += [
                    replace(one, tune={"block": block, "per_thread": 8}, time=time * (1 + abs(block - 256) / 2000))
                    for block in (128, 256, 512)
                ]
            else:
                made.append(one)
        for name, factor in (("cpu_serial", 0.9e-3), ("cpu_numpy", 0.25e-3), ("cpu_parallel", 0.3e-3)):
            made.append(Made(name, 2.0 + n * factor, problem, kind="cpu", device=CPU, origin="CPU", spread=0.04))
    return made


@pytest.fixture(scope="session")
def reductions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """Return the invented sweeps of the bundled reduction study, with ("gpu") and without a GPU ("cpu")."""
    studies = {}
    for name in ("gpu", "cpu"):
        with open_store(tmp_path_factory.mktemp(name)) as opened:
            fill(opened, reduction(gpu=name == "gpu"), experiment="reduction", baseline="interleaved_divergent")
            studies[name] = load_study(opened, "reduction", folders=[bundled("experiments")])
    return studies


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "test.sqlite")
    with open_store(tmp_path) as opened:
        yield opened


@pytest.fixture
def make_study(store: Store, tmp_path: Path) -> Callable[..., Study]:
    """Return a function: trials (and the text of a study.yaml) → the study."""

    def make(trials: Sequence[Made], yaml: str = "", files: dict[str, str] | None = None, **facts: Any) -> Study:
        folder = tmp_path / "experiments" / facts.get("experiment", "invented")
        if yaml or files:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "study.yaml").write_text(yaml, encoding="utf-8")
            for name, text in (files or {}).items():
                (folder / name).write_text(text, encoding="utf-8")
        sweep = fill(store, trials, **facts)
        return load_study(store, facts.get("experiment", "invented"), sweep_id=sweep, folders=[folder.parent])

    return make
