"""Make one database of several: their rows, and the report files that belong to them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path, PurePosixPath

from cuprof.core.errors import StoreError
from cuprof.store import Store
from cuprof.store import tables as t
from cuprof.store.connection import database_file
from cuprof.store.merge import Merged
from cuprof.store.source import Source


def merge_source(source: Source, store: Store, artifacts: Path) -> Merged:
    """Merge a database into an open one, all of it or nothing, with the report files beside it.

    Args:
        artifacts: folder for report files.

    Raises:
        StoreError: it is damaged, or it contradicts this database.
    """
    paths, reports, missing = _bring_reports(source, artifacts)
    merged = store.merge(source, paths)
    merged.reports, merged.missing = reports, missing
    return merged


def _bring_reports(source: Source, artifacts: Path) -> tuple[dict[str, str], int, int]:
    """Copy the report files that are not here yet; return where they lie, how many are new, how many are not found."""
    file = database_file(source.url)
    paths: dict[str, str] = {}
    reports = missing = 0
    for row in (row for rows in source.read(t.artifact) for row in rows):
        path = PurePosixPath(row["path"])
        if path.is_absolute():
            continue  # it was never in that project's folder
        if ".." in path.parts:
            raise StoreError(f"database {source.place} is damaged: report {str(path)!r:.80} lies outside of its folder")
        kept = artifacts / path
        if kept.is_file() and _hash(kept) != row["sha256"]:
            kept = kept.with_name(f"{row['sha256'][:12]}-{path.name}")
        if not kept.is_file():
            found = file.parent / "artifacts" / path if file else None
            if found is None or not found.is_file():
                missing += 1
                continue
            _copy(found, kept, row["sha256"], (file or found).parent / "artifacts")
            reports += 1
        paths[row["sha256"]] = kept.relative_to(artifacts).as_posix()
    return paths, reports, missing


def _copy(found: Path, kept: Path, sha256: str, folder: Path) -> None:
    """Copy a file that is in that folder and has these contents; it is whole as soon as it has its name."""
    if not found.resolve().is_relative_to(folder.resolve()) or _hash(found) != sha256:
        raise StoreError(f"{found} is not the report that its database names; restore it, or move it away")
    part = kept.with_name(f".{kept.name}.{os.getpid()}.part")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, part)
        part.replace(kept)
    except OSError as error:
        raise StoreError(f"report {found} cannot be copied to {kept}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"report {path} cannot be read: {error.strerror}") from None
