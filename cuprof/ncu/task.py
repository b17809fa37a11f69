"""What a profiled process is given to do: a task file, and a note of who will write it.

A profiler runs `python -m cuprof.worker.profile TASKFILE`, perhaps before it is known which trials it will profile:
starting both takes seconds. The process then waits for its task file, and stops when whoever should write it is gone.
It prepares each trial (build from the cache, inputs, warm-up) and executes it once inside the profiler's mark.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cuprof.core.errors import ProfilerError
from cuprof.core.point import Point
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin

WAIT_S = 0.02
TASK, OWNER, PROGRESS = "task.json", "owner.json", "progress.jsonl"
"""The files of one profiled process, all in one folder."""


@dataclass(frozen=True)
class TaskTrial:
    """Name one trial so that another process can build and execute it."""

    identity: str
    variant: str
    problem: Point
    tunables: Point


@dataclass(frozen=True)
class ProfilingTask:
    """Say what one profiled process has to do.

    Args:
        origin: of the family of all the trials.
        trials: in the order they are executed.
        profiler: name of the one it runs under, whose mark encloses each execution.
        backend: the back end of all the trials.
        device_index: ordinal among the back end's devices.
        progress_path: file that `cuprof.ncu.progress.write_progress` appends to.
        warm_up: executions of a trial before the marked one, so that hot counters find the caches as a previous
            execution left them. A library call has one at least: it chooses its algorithm there.
        extension: what is added to the family.
    """

    origin: AnyOrigin
    trials: tuple[TaskTrial, ...]
    profiler: str
    backend: str
    device_index: int
    progress_path: str
    warm_up: int = 1
    extension: Extension | None = None


@dataclass(frozen=True)
class TaskOwner:
    """Say who will write a task file, and for which device, so that it can be opened meanwhile."""

    pid: int
    backend: str
    device_index: int


def write_task(task: ProfilingTask, path: Path) -> None:
    """Write a task file, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(
        msgspec.json.encode(task, enc_hook=lambda each: dict(each) if isinstance(each, Point) else str(each))
    )
    partial.replace(path)


def read_task(path: Path) -> ProfilingTask:
    """Read a task file.

    Raises:
        ProfilerError: the file is absent or is no task file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProfilingTask, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.MsgspecError) as error:
        raise ProfilerError(
            f"{path} is no task file of cuprof ({error}); a collection of counters writes it"
        ) from error


def write_owner(folder: Path, backend: str, device_index: int) -> None:
    """Note this process as the one that will write the task file of a folder."""
    (folder / OWNER).write_bytes(msgspec.json.encode(TaskOwner(os.getpid(), backend, device_index)))


def find_owner(task: Path) -> TaskOwner | None:
    """Return who will write a task file, or None where there is no note."""
    try:
        return msgspec.json.decode(task.with_name(OWNER).read_bytes(), type=TaskOwner)
    except (OSError, msgspec.MsgspecError):
        return None


def wait_for_task(task: Path) -> bool:
    """Wait for the task file in the profiled process; return False when whoever should write it is gone."""
    import psutil

    while not task.exists():
        owner = find_owner(task)
        if owner is None or not psutil.pid_exists(owner.pid):
            return task.exists()
        time.sleep(WAIT_S)
    return True
