"""The files that variants were seen to open while they prepared, remembered from sweep to sweep.

Their contents are part of the identity of a variant's trials, as if it had named them (`Variant.files`). Which they are
shows only when it has prepared: the first time, the trial is stored under the identity that includes them. From then on
it is planned with them, so a file that has changed makes the trial another one, which has not been measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import DeviceFacts, Trial, Unavailable
from cuprof.families import Family
from cuprof.plan import Plan, plan


class OpenedFiles:
    """Remember, for one family of a project, variant → files, in a file below the project's `db`."""

    def __init__(self, project: Project, family: Family) -> None:
        place = str(family.path or family.name)
        self._file = project.root / "db" / "opened" / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
        self._known: dict[str, list[str]] = {}
        with contextlib.suppress(OSError, ValueError):
            read = json.loads(self._file.read_text(encoding="utf-8"))
            if isinstance(read, dict):
                self._known = {str(name): list(map(str, paths)) for name, paths in read.items()}

    def add_to(self, family: Family) -> None:
        """Let variants name the files that they were seen to open; one that is gone decides nothing any more."""
        for name, variant in family.variants.items():
            seen = [path for path in self._known.get(name, ()) if Path(path).is_file() and path not in variant.files]
            if seen:
                family.variants[name] = replace(variant, files=(*variant.files, *seen))

    def learn(self, variant: str, paths: Iterable[str]) -> None:
        """Add files to those known for a variant."""
        self._known[variant] = sorted({*self._known.get(variant, ()), *paths})
        with contextlib.suppress(OSError):  # a folder that cannot be written costs a measurement the next time
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._file.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(self._known, stream)
            Path(temporary).replace(self._file)


class Replanner:
    """Find the trial that was really run, if the plan did not yet know the files that its variant opens.

    Args:
        devices: the plan's devices.
    """

    def __init__(self, project: Project, planned: Plan, devices: Mapping[str, DeviceFacts | Unavailable]) -> None:
        self.project, self.plan, self.devices = project, planned, devices
        self._again: dict[tuple[str, Point, Point], Trial] = {}

    def find(self, trial: Trial, opened: Iterable[str]) -> Trial:
        """Return the trial, or another one of the same problem and tunables, and remember its variant's files."""
        family, name = self.plan.family, trial.variant
        folder = family.folder or self.project.root
        named = {str((folder / file).absolute()) for file in family.variant(name).files}
        if unforeseen := set(opened) - named:
            files = OpenedFiles(self.project, family)
            files.learn(name, unforeseen)
            files.add_to(family)
            selection = replace(self.plan.selection, variants=(name,), optional=frozenset(self.plan.selection.tune))
            again = plan(family, selection, self.devices).trials
            self._again |= {(name, one.problem, one.tunables): one for one in again}
        return self._again.get((name, trial.problem, trial.tunables), trial)
