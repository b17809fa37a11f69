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
    is_full = free_bytes < LEAST_FREE_BYTES
    remedy = "make room; reports of Nsight Compute are large" if is_full else ""
    health, detail = Health.WARNING if is_full else Health.GOOD, f"{free_bytes / 2**30:.1f} GiB free at {folder}"
    return Diagnosis("disk", health, detail, remedy)


def examine_memory(wanted_bytes: int, given_bytes: int) -> Diagnosis:
    """Judge whether the bandwidth of the host's memory can be measured.

    Args:
        wanted_bytes, given_bytes: as `cuprof.backends.cpu.backend.plan_calibration` returns them.
    """
    detail = f"the host's bandwidth is measured on {given_bytes >> 20} MiB"
    if given_bytes >= wanted_bytes:
        return Diagnosis("memory", Health.GOOD, detail)
    detail += f" in place of {wanted_bytes >> 20}: caches help, and it comes out too high or not at all"
    return Diagnosis("memory", Health.WARNING, detail, "end other programs, or raise the container's limit")


def examine_locks(folders: Sequence[Path]) -> Diagnosis:
    """Judge whether cuprof's processes can take turns on a device; nothing is made.

    Args:
        folders: as `cuprof.engine.device_lock.list_folders` returns them; the last is for all users.
    """
    usable = [str(folder) for folder in folders if os.access(_existing(folder), os.W_OK | os.X_OK)]
    shared = folders[-1]
    mode = shared.stat().st_mode & 0o7777 if shared.exists() else 0o1777
    detail, remedy = f"locks in {' and '.join(usable)}", ""
    if not usable:
        where = " or ".join(map(str, folders))
        detail = f"no lock can be made in {where}: sweeps side by side disturb each other"
        remedy = f"sudo chmod 1777 {shared}, or set CUPROF_LOCKS to a folder that all who share the devices can write"
    elif mode != 0o1777:
        detail = f"{shared} has mode {mode:o}: other users cannot take turns, or can undo them"
        remedy = f"sudo chmod 1777 {shared}"
    return Diagnosis("turns on devices", Health.WARNING if remedy else Health.GOOD, detail, remedy)


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.exists())
