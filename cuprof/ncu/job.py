"""The contract between the collection and the process that runs under Nsight Compute.

The collection writes a job file; `python -m cuprof.worker.profile JOBFILE` reads it, prepares each trial (build from
the cache, inputs, warm-up) and executes it once inside an NVTX push/pop range that carries its identity. Before and
after each step it appends a line to the progress file, so that a crash or a hang can be laid to one trial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Self

from cuprof.errors import ProfilerError
from cuprof.point import Coordinate, Point

RANGE_PREFIX = "cuprof-"
"""What the NVTX ranges of trials start with. They lie in the default domain, the one that `cupy.cuda.nvtx` offers."""

_RANGE = re.compile(rf"{RANGE_PREFIX}([0-9a-f]{{32}})")


class Phase(StrEnum):
    """Name a step of a trial in the profiled process."""

    PREPARING = "preparing"  # build from the cache, inputs, warm-up
    LAUNCHING = "launching"  # the NVTX range is open, or about to be
    DONE = "done"  # the range is closed and the device has finished
    FAILED = "failed"  # an error the process lived through; `message` says what


@dataclass(frozen=True)
class JobTrial:
    """Name one trial so that another process can build and execute it."""

    identity: str
    family_folder: str
    variant: str
    problem: Mapping[str, Coordinate]
    tunables: Mapping[str, Coordinate]


@dataclass(frozen=True)
class Job:
    """Say what one profiled process has to do.

    Args:
        trials: in the order they are executed.
        seed: seed of the inputs.
        device_index: ordinal of the CUDA device.
        progress_path: file that `ProgressWriter` appends to.
        warm_up: executions of a trial before the range, not profiled, so that hot counters find the caches as a
            previous execution left them. A library call has one at least: it chooses its algorithm there.
    """

    trials: tuple[JobTrial, ...]
    seed: int
    device_index: int
    progress_path: str
    warm_up: int = 1


@dataclass(frozen=True)
class ProgressEntry:
    """Hold one line of a progress file."""

    identity: str
    phase: Phase
    message: str = ""


@dataclass(frozen=True)
class Progress:
    """Summarise a progress file.

    Attributes:
        phases: the last phase of each trial that was begun, in the order begun.
        messages: identity → message of a trial that failed.
    """

    phases: dict[str, Phase] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def open(self) -> str | None:
        """Return the identity of the trial that was begun and neither done nor failed, or None."""
        begun = [name for name, phase in self.phases.items() if phase in (Phase.PREPARING, Phase.LAUNCHING)]
        return begun[-1] if begun else None


class ProgressWriter:
    """Append progress lines, each one durable against the death of the process when `write` returns."""

    def __init__(self, path: str | Path) -> None:
        self._file: IO[str] = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, identity: str, phase: Phase, message: str = "") -> None:
        """Append one line and hand it to the operating system."""
        self._file.write(json.dumps({"identity": identity, "phase": phase.value, "message": message}) + "\n")
        self._file.flush()


def range_name(identity: str) -> str:
    """Return the name of the NVTX range that wraps the execution of a trial."""
    return RANGE_PREFIX + identity


def find_identity(range_names: Sequence[str]) -> str | None:
    """Return the trial identity carried by the innermost range of ours, or None.

    Args:
        range_names: push/pop ranges around a launch, outermost first; a library may add its own.
    """
    for name in reversed(range_names):
        match = _RANGE.fullmatch(name)
        if match:
            return match.group(1)
    return None


def write_job(job: Job, path: Path) -> None:
    """Write a job file, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(asdict(job), indent=1, default=dict), encoding="utf-8")
    partial.replace(path)


def read_job(path: Path) -> Job:
    """Read a job file.

    Raises:
        ProfilerError: the file is absent or is no job file.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        data["trials"] = tuple(JobTrial(**trial) for trial in data["trials"])
        return Job(**data)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ProfilerError(
            f"{path} is no job file of cuprof ({error}); it is written by `cuprof ncu-collect`"
        ) from error


def job_trial(
    identity: str,
    family_folder: Path | str,
    variant: str,
    problem: Mapping[str, Coordinate],
    tunables: Mapping[str, Coordinate],
) -> JobTrial:
    """Return a job's trial with plain dictionaries for its points."""
    return JobTrial(identity, str(family_folder), variant, dict(problem), dict(tunables))


def trial_points(trial: JobTrial) -> tuple[Point, Point]:
    """Return (problem, tunables) of a job's trial."""
    return Point(trial.problem), Point(trial.tunables)


def read_progress(path: Path) -> Progress:
    """Read a progress file; an absent file is no progress, a last line cut short by a crash is ignored."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Progress()
    phases: dict[str, Phase] = {}
    messages: dict[str, str] = {}
    for line in lines:
        try:
            data = json.loads(line)
            entry = ProgressEntry(data["identity"], Phase(data["phase"]), data.get("message", ""))
        except (ValueError, KeyError, TypeError):
            continue
        phases[entry.identity] = entry.phase
        if entry.phase is Phase.FAILED:
            messages[entry.identity] = entry.message
    return Progress(phases, messages)
