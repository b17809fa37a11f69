"""What engine and worker say to each other; `cuprof.worker.wire` makes bytes of it.

engine → worker   WorkerSettings, Open, Describe, Calibrate, Load, Probe, Build, Prepare, Job
worker → engine   DeviceFacts (of a device), Calibration, or Unavailable; Probed
                  Built (some trials), Finished (a trial), JobDone

border → judge    Outlined, the trials of a candidate's file
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuprof.config.model import MeasureConfig
from cuprof.core.point import Point
from cuprof.core.records import Calibration, DeviceFacts, Measure, Outcome, Trial, Unavailable
from cuprof.families import Sample
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin
from cuprof.plan.model import Exclusion


@dataclass(frozen=True)
class WorkerSettings:
    """Which device of each back end a worker opens.

    Args:
        numbers: back end → its number, as `BackendSpec` explains it; those left out open as they do by default.
        workers: how many of them, this one included, build at the same time on the host.
    """

    numbers: Mapping[str, int | None] = field(default_factory=dict)
    workers: int = 1


@dataclass(frozen=True)
class Open:
    """Open the devices of these back ends for a job that may come; there is no answer."""

    backends: tuple[str, ...]


@dataclass(frozen=True)
class Describe:
    """Ask for the facts of one back end's device."""

    backend: str


@dataclass(frozen=True)
class Calibrate:
    """Request the calibration of one back end's device."""

    backend: str


@dataclass(frozen=True)
class Load:
    """Load a family ahead, while the engine loads it too; nothing answers."""

    origin: AnyOrigin


@dataclass(frozen=True)
class Probe:
    """Request what a family's own functions show of problems by running; see `Family.sample`."""

    origin: AnyOrigin
    problems: tuple[Point, ...]


@dataclass(frozen=True)
class Probed:
    """Answer `Probe`: a sample for each problem; `fault` says which function of the family failed, and where."""

    samples: tuple[Sample, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Outlined:
    """Say what a file adds to a family."""

    trials: tuple[Trial, ...] = ()
    excluded: tuple[Exclusion, ...] = ()


@dataclass(frozen=True)
class JobTrial:
    """One trial of a job; `source_text` is exactly what its identity was computed from."""

    identity: str
    variant: str
    tunables: Point
    source_text: str


@dataclass(frozen=True)
class Job:
    """All trials of one problem on one back end.

    Args:
        origin: of the family.
        seed: seed of the inputs.
        methods: the measures to take, with the hash of each method; empty to check only.
        extension: a file that adds to the family.
        isolated: its worker does nothing else, before or afterwards.
        code: the family's own files at planning; see `Family.code`. Empty if unchecked.
        is_block: further jobs of the same problem are likely to follow and to use the same arrays.
    """

    origin: AnyOrigin
    backend: str
    problem: Point
    trials: tuple[JobTrial, ...]
    seed: int
    measure: MeasureConfig = field(default_factory=MeasureConfig)
    methods: Mapping[Measure, str] = field(default_factory=dict)
    extension: Extension | None = None
    isolated: bool = False
    is_block: bool = False
    code: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Build:
    """Request the programs of a job that may follow, built in the background; its inputs are made meanwhile.

    Args:
        limit_s: a build that takes longer is refused.
    """

    job: Job
    limit_s: float


@dataclass(frozen=True)
class Built:
    """Answer `Build` or `Prepare`, in parts: these trials' programs are built or refused, or need no build."""

    identities: tuple[str, ...]


@dataclass(frozen=True)
class Prepare:
    """Request all of a job that takes none of the device's memory. The job follows when it may use the device."""

    job: Job


@dataclass(frozen=True)
class Finished:
    """One trial of the job is done.

    Args:
        lost: the worker ends because its device context is gone.
        has_company: other trials had run in the worker's process when this one ended.
        starved: it failed for want of memory on the device, which others may be holding.
    """

    index: int
    outcome: Outcome
    lost: bool = False
    has_company: bool = False
    starved: bool = False


@dataclass(frozen=True)
class JobDone:
    """Every trial of the job has been answered; `fault` says why none could even be tried.

    `unavailable` means that the back end cannot be opened, `of_family` that a function of the family failed to make
    inputs or reference; neither is a trial's fault. `starved` means that memory was short.
    """

    fault: str = ""
    log: str = ""
    unavailable: bool = False
    of_family: bool = False
    starved: bool = False


KINDS = {
    kind.__name__: kind
    for kind in (
        *(WorkerSettings, Open, Describe, DeviceFacts, Unavailable, Calibrate, Calibration, Load, Probe, Probed),
        *(Outlined, Build, Built, Prepare, Job, Finished, JobDone),
    )
}
"""Name → message that may be sent on its own."""
