"""The examinations of what this machine gives cuprof beside software: the database's place, disk, memory, locks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cuprof.core.errors import CuprofError, EmptyStoreError
from cuprof.core.project import Project

LEAST_FREE_BYTES = 2**30
"""Room below which a long sweep with counters may fill the disk: one .ncu-rep takes up to some hundred MiB."""


class Health(StrEnum):
    """Say how much a diagnosis matters."""

    GOOD = "good"
    OPTIONAL = "optional"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at: what was found, and the command that mends it."""

    what: str
    health: Health
    detail: str
    remedy: str = ""


def examine_host(project: Project, store: str = "") -> Iterator[Diagnosis]:
    """Yield every diagnosis about this machine and the project's database, or another one."""
    from cuprof.backends.cpu.backend import plan_calibration
    from cuprof.engine.device_lock import list_folders

    yield examine_database(store or project.database_url)
    yield examine_disk(project.root, shutil.disk_usage(_existing(project.root)).free)
    yield examine_memory(*plan_calibration())
    yield examine_locks(list_folders())


def examine_database(url: str) -> Diagnosis:
    """Judge whether rows can be written, and whether they are safe there; nothing is made or changed."""
    from cuprof.store import Store
    from cuprof.store.connection import database_file, parse_url, show
    from cuprof.store.network import describe_network

    try:
        parsed = parse_url(url)
        file, place = database_file(parsed), show(parsed)
        if file is not None:
            folder = _existing(file.parent)
            target = file if file.exists() else folder
            if not os.access(target, os.W_OK) or not os.access(folder, os.W_OK):
                remedy = f"chmod u+w {folder}, or name another database with --store sqlite:////PATH"
                return Diagnosis("database", Health.MISSING, f"{target} cannot be written", remedy)
            if risk := describe_network(file):
                detail, _, remedy = risk.partition("; ")
                return Diagnosis("database", Health.WARNING, detail, remedy)
            if not file.exists():
                return Diagnosis("database", Health.GOOD, f"{place} (made by the first sweep)")
        with Store.open(url, create=False, read_only=True):
            backup = "cuprof backup FILE copies it" if file else "pg_dump copies it"
            return Diagnosis("database", Health.GOOD, f"{place} ({backup})")
    except EmptyStoreError:
        return Diagnosis("database", Health.GOOD, f"{place} (its tables are made by the first sweep)")
    except CuprofError as error:
        return Diagnosis("database", Health.MISSING, str(error), "see the message")


def examine_disk(folder: Path, free_bytes: int) -> Diagnosis:
    """Judge the room for the database and reports."""
    detail = f"{free_bytes / 2**30:.1f} GiB free at {folder}"
    if free_bytes < LEAST_FREE_BYTES:
        return Diagnosis("disk", Health.WARNING, detail, "make room; reports of Nsight Compute are large")
    return Diagnosis("disk", Health.GOOD, detail)


def examine_memory(wanted_bytes: int, given_bytes: int) -> Diagnosis:
    """Judge whether the bandwidth of the host's memory can be measured.

    Args:
        wanted_bytes, given_bytes: as `cuprof.backends.cpu.backend.plan_calibration` returns them.
    """
    detail = f"the host's bandwidth is measured on {given_bytes >> 20} MiB"
    if given_bytes < wanted_bytes:
        detail += f" in place of {wanted_bytes >> 20}: caches help, and it comes out too high or not at all"
        return Diagnosis("memory", Health.WARNING, detail, "end other programs, or raise the container's limit")
    return Diagnosis("memory", Health.GOOD, detail)


def examine_locks(folders: Sequence[Path]) -> Diagnosis:
    """Judge whether cuprof's processes can take turns on a device; nothing is made.

    Args:
        folders: as `cuprof.engine.device_lock.list_folders` returns them; the last is for all users.
    """
    usable = [folder for folder in folders if os.access(_existing(folder), os.W_OK | os.X_OK)]
    shared = folders[-1]
    if not usable:
        return Diagnosis(
            "turns on devices",
            Health.WARNING,
            f"no lock can be made in {' or '.join(map(str, folders))}: sweeps side by side disturb each other",
            f"sudo chmod 1777 {shared}, or set CUPROF_LOCKS to a folder that all who share the devices can write",
        )
    if shared.exists() and shared.stat().st_mode & 0o7777 != 0o1777:
        return Diagnosis(
            "turns on devices",
            Health.WARNING,
            f"{shared} has mode {shared.stat().st_mode & 0o7777:o}: other users cannot take turns, or can undo them",
            f"sudo chmod 1777 {shared}",
        )
    return Diagnosis("turns on devices", Health.GOOD, f"locks in {' and '.join(map(str, usable))}")


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
