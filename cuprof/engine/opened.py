"""The files that variants were seen to open while they prepared, remembered from sweep to sweep.

Their contents are part of the identity of a variant's trials, as if it had named them (`Variant.files`). Which they are
shows only when it has prepared: the first time, the trial is stored under the identity that includes them. From then on
it is planned with them, so a file that has changed makes the trial another one, which has not been measured.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import Devices, Trial
from cuprof.core.scratch import write_whole
from cuprof.families import Family
from cuprof.plan import Plan, plan


class OpenedFiles:
    """Remember, for one family of a project, variant → files, in a file below the project's `db`."""

    def __init__(self, project: Project, family: Family) -> None:
        self.family, self.folder = family, family.folder or project.root
        place = str(family.path or family.name)
        self._file = project.root / "db" / "opened" / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
        self._known = self._read()
        self._again: dict[tuple[str, Point, Point], Trial] = {}

    def _read(self) -> dict[str, list[str]]:
        with contextlib.suppress(OSError, ValueError):
            read = json.loads(self._file.read_text(encoding="utf-8"))
            if isinstance(read, dict):
                return {name: [*map(str, paths)] for name, paths in read.items() if isinstance(paths, list)}
        return {}

    def add_to_family(self) -> None:
        """Let variants name the files that they were seen to open; one that is gone decides nothing any more."""
        for name, variant in self.family.variants.items():
            seen = [path for path in self._known.get(name, ()) if Path(path).is_file() and path not in variant.files]
            if seen:
                self.family.variants[name] = replace(variant, files=(*variant.files, *seen))

    def _learn(self, variant: str, paths: Iterable[str]) -> None:
        self._known = self._read()  # others may have added some
        self._known[variant] = sorted({*self._known.get(variant, ()), *paths})
        with contextlib.suppress(OSError):  # a folder that cannot be written costs a measurement the next time
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(self._known).encode())

    def find_ran(self, trial: Trial, opened: Iterable[str], planned: Plan, devices: Devices) -> Trial:
        """Return the trial that was really run, if the plan did not yet know the files that its variant opens.

        Args:
            planned: the trial's plan, for these devices.
        """
        name = trial.variant
        named = {str((self.folder / file).absolute()) for file in self.family.variant(name).files}
        if unforeseen := set(opened) - named:
            self._learn(name, unforeseen)
            self.add_to_family()
            selection = replace(planned.selection, variants=(name,), optional=frozenset(planned.selection.tune))
            again = plan(self.family, selection, devices).trials
            self._again |= {(name, one.problem, one.tunables): one for one in again}
        return self._again.get((name, trial.problem, trial.tunables), trial)
