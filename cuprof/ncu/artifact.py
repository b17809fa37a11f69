"""Report files as artifacts: hashed, and kept where the store's rows can name them."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from cuprof.core.errors import ProfilerError
from cuprof.core.project import try_writing
from cuprof.core.records import Artifact


def check_folder(folder: Path) -> None:
    """Check that files can be written to the artifacts folder, before anything is profiled.

    Raises:
        ProfilerError: they cannot.
    """
    try:
        try_writing(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error


def keep_artifact(
    report: Path, folder: Path, *, tool_version: str = "", command: Sequence[str] = (), move: bool = False
) -> Artifact:
    """Copy a report file into the artifacts folder, under a name that follows from its contents.

    Args:
        move: move the file instead; it may be on another file system.

    Returns:
        The artifact, its path relative to the folder.

    Raises:
        ProfilerError: the folder cannot be written, or the disk is full.
    """
    with report.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = report.stat().st_size
    kept = next(folder.glob(f"ncu-*-{digest[:12]}.ncu-rep"), None)
    name = kept.name if kept else f"ncu-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{digest[:12]}.ncu-rep"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if move:
            shutil.move(report, folder / name)
        elif kept is None:
            shutil.copyfile(report, folder / name)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return Artifact(name, digest, size, tool_version=tool_version, command=tuple(command))


def _unwritable(folder: Path, error: OSError) -> ProfilerError:
    return ProfilerError(
        f"reports cannot be kept in {folder} ({error.strerror or error}); make room or give the folder write "
        "permission, and run the same command again"
    )
