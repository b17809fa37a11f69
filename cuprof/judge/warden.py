"""The sandboxes of candidates, and the workers that start in them while the command still imports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.backends.registry import CUDA
from cuprof.core.errors import UsageError
from cuprof.core.processes import count_at_once
from cuprof.core.project import is_database
from cuprof.engine.device_lock import list_folders
from cuprof.engine.launch import prestart
from cuprof.sandbox.probe import find_refusal
from cuprof.sandbox.seccomp import find_bindings
from cuprof.sandbox.settings import HIDDEN, Sandbox

SHARE_OF_MEMORY = 0.75
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite appends to a database's name for the files that it keeps beside it."""
LEAST_AHEAD = 2
"""Prepare no fewer legs at once: a single one had better start while the one before it is timed."""


@dataclass(frozen=True)
class Warden:
    """Give each candidate its sandbox.

    Args:
        root: the project's folder.
        files: the candidates, each of which sees its own alone.
        mode: "auto" uses as much as the system allows, "required" insists on all of it, "off" uses none.
        memory_bytes: how much a candidate may use; 0 for three quarters of the host's.
        databases: files that no candidate may lock, whatever their names.
        refusal: why the system has no namespaces; empty where it has, and until it is asked.
    """

    root: Path
    files: Sequence[Path]
    mode: str = "auto"
    memory_bytes: int = 0
    databases: Sequence[Path] = ()
    refusal: str = ""

    @property
    def is_off(self) -> bool:
        """Return whether there is no sandbox."""
        return self.mode == "off"

    def ask_system(self) -> Warden:
        """Return this one with what the system refuses.

        Raises:
            UsageError: it refuses what is required.
        """
        refusal = "" if self.is_off else find_refusal()
        if refusal and self.mode == "required":
            raise UsageError(f"this system refuses a sandbox ({refusal}); see docs/judging.md, or take --sandbox=auto")
        return replace(self, refusal=refusal)

    def confine(self, family: Path, file: Path | None, *, devices: bool) -> Sandbox | None:
        """Return the sandbox for a candidate, or for a baseline.

        Args:
            family: the family's folder, with a copy of a candidate's Python file.
            file: the candidate's own, beside which it may have others; none of a baseline, whose source may be one too.
            devices: it needs a GPU.
        """
        if self.is_off:
            return None
        folders = [family, *([file.parent] if file else [])]
        host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return Sandbox(
            namespaces=not self.refusal,
            devices=devices,
            memory_bytes=self.memory_bytes or int(SHARE_OF_MEMORY * host_bytes),
            covered=find_covered(),
            visible=tuple(str(path) for folder in folders for path in self._shown(folder, file)),
            hidden=(*map(str, self._find_lockable()), *(str(other) for other in self.files if file and other != file)),
        )

    def list_first(self, family: Path, rounds: int) -> list[Sandbox | None]:
        """Return the sandboxes of the legs that come first, as many as may get ready at once; None is a baseline's."""
        once = [None, *(self.confine(family, file, devices=True) for file in self.files)]
        turns = [*once * rounds, None][: count_at_once()]
        return turns if len(turns) >= LEAST_AHEAD else []

    def _shown(self, folder: Path, file: Path | None) -> Iterable[Path]:
        """Return what to show of a folder: of everybody's, the candidate alone; of one with the project, its files."""
        if file and str(folder) in (*HIDDEN, *find_covered()):
            return [file]
        if folder in (self.root, *self.root.parents):
            # `Path.is_file` raises for a link that leads to a place that is closed to us, or to no path at all
            files = (path for path in folder.iterdir() if os.path.isfile(path))  # noqa: PTH113
            return [path for path in files if not is_database(path.name)]
        return [folder]

    def _find_lockable(self) -> Iterator[Path]:
        """Yield the devices' locks, and all databases with the files that SQLite keeps beside them."""
        for folder in list_folders():
            yield from folder.glob("*.lock")
        for folder in (self.root, self.root / "db"):
            yield from (path for path in folder.glob("*.*") if is_database(path.name))
        for database in self.databases:
            yield from (Path(os.path.realpath(database) + ending) for ending in BESIDE)

    def describe(self) -> str:
        """Return the sandbox in one line."""
        if self.is_off:
            return "one process each"
        filtered = ", and a filter of system calls" if find_bindings() else ""
        apart = "with" if self.refusal else "without network, with its own view of files and processes, and"
        return f"one process each, {apart} limits on memory and time{filtered}"


def start_ahead(sandboxes: Sequence[Sandbox | None]) -> None:
    """Start the workers of the first legs; all legs run on CUDA."""
    for place, sandbox in enumerate(sandboxes):
        prestart(sandboxes[: place + 1].count(sandbox), CUDA.imports, sandbox)


def find_covered() -> tuple[str, ...]:
    """Return the folder of temporary files where no sandbox hides it anyway: others' copies and logs lie there."""
    folder = Path(os.path.realpath(tempfile.gettempdir()))
    places = (folder, *folder.parents)
    return () if folder == Path("/") or any(Path(each) in places for each in HIDDEN) else (str(folder),)
