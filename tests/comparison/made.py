"""Invented sweeps for comparisons, written through the real store. No number in here was measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuprof.core.point import Point
from cuprof.core.records import BuildFacts, DeviceFacts, Measure, Outcome, Sample, State, SweepFacts, Timing, Trial
from cuprof.statistics.median import summarise
from cuprof.store.outcomes import Origin
from cuprof.store.store import Store

GPU = DeviceFacts("cuda", 0, "Test GPU 9000", "u0", 2**34, {"name": "Test GPU 9000", "driver": "999.1"})
OTHER_GPU = DeviceFacts("cuda", 0, "Test GPU 8000", "u1", 2**33, {"name": "Test GPU 8000", "driver": "999.1"})
HOST = DeviceFacts("cpu", 0, "Test CPU", "", 2**34, {"name": "Test CPU", "threads": "2"})
MEASURING = {"flush": "clean", "interleave": True, "rotation": 16, "timer": "events"}
START = 1_800_000_000.0


@dataclass(frozen=True)
class Made:
    """Describe one invented trial; its time in µs, its noise relative."""

    variant: str = "first"
    time: float = 50.0
    noise: float = 0.003
    n: int = 2**20
    tune: Mapping[str, Any] = field(default_factory=lambda: {"block": 64})
    measures: Sequence[Measure] = (Measure.COLD,)
    state: State = State.OK
    message: str = ""
    expected: str = "right"
    source: str = "v1"
    device: DeviceFacts = GPU
    samples: int = 60
    method: str = "m1"
    rotation: str = "one"
    excluded: int = 0
    batch: int = 1
    version: str = ""
    job: str = ""
    again: bool = False
    code: str = ""


def fill(
    store: Store,
    made: Sequence[Made],
    *,
    seed: int = 1,
    commit: str = "",
    dirty: bool = False,
    family: str = "invented",
    experiment: str = "study",
    measuring: Mapping[str, Any] | None = None,
    finish: str = "finished",
    purpose: str = "timing",
) -> int:
    """Write one sweep with these trials and return its number."""
    rng = np.random.default_rng(seed)
    mark = hashlib.sha256(repr((made, seed, commit, family, experiment)).encode()).hexdigest()
    sweep = store.begin_sweep(
        SweepFacts(
            name=experiment,
            experiment=experiment,
            family=family,
            baseline=made[0].variant,
            plan_hash=mark,
            command_line="cuprof sweep",
            configuration={"measure": {**MEASURING, **(measuring or {})}},
            host="test-host",
            git={"commit": commit, "branch": "main", "dirty": dirty} if commit else {},
            software={"cuprof": "0.0-test"},
            purpose=purpose,
        )
    )
    trials = [_trial(each, family) for each in made]
    store.enlist(sweep, list({trial.identity: trial for trial in trials}.values()))
    for each, trial in zip(made, trials, strict=True):
        measures = each.measures if each.state is State.OK else ()
        timings = tuple(_timing(each, measure, rng, f"{mark} {each.rotation}") for measure in measures)
        store.record(
            sweep,
            Outcome(
                identity=trial.identity,
                state=each.state,
                message=each.message,
                timings=timings,
                started_at=START + 1000 * sweep,
                duration_ns=seed,
                build=BuildFacts(sass_hash=each.code) if each.code else None,
            ),
            Origin(job=each.job or None, again=each.again),
        )
    if finish:
        store.finish_sweep(sweep, finish)
    return sweep


def _trial(made: Made, family: str) -> Trial:
    problem, tunables = Point(n=made.n), Point(made.tune)
    label = f"{family}/{made.variant} · {problem.label} · {tunables.label}"
    text = f"{label} {made.source} {sorted(made.device.identity.items())}"
    return Trial(
        identity=hashlib.sha256(text.encode()).hexdigest()[:32],
        family=family,
        variant=made.variant,
        backend=made.device.backend,
        kind="kernel",
        problem=problem,
        tunables=tunables,
        label=label,
        device=made.device,
        source_text=made.source,
        source_hash=hashlib.sha256(made.source.encode()).hexdigest(),
        expected=made.expected,
    )


def _timing(made: Made, measure: Measure, rng: np.random.Generator, rotation: str) -> Timing:
    values = 1000 * made.time * (1 + made.noise * rng.standard_normal(made.samples))
    samples = tuple(
        Sample(number, float(value) * (9 if number < made.excluded else 1), None, "x" if number < made.excluded else "")
        for number, value in enumerate(values)
    )
    details: dict[str, Any] = {"batch": made.batch}
    if made.version:
        details["version"] = made.version
    return Timing(measure, made.method, samples, summarise(samples), "interval", details=details, rotation=rotation)
