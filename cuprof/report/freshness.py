"""Find out whether a page is up to date, by a digest of its sources that the page keeps."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import sqlalchemy as sa

import cuprof
from cuprof.core.project import bundled
from cuprof.report.experiment import find_experiment
from cuprof.report.load import list_sweep_devices
from cuprof.report.templates import list_folders
from cuprof.results.sweeps import SweepRow, is_search, read_configurations
from cuprof.store import Store
from cuprof.store import tables as t
from cuprof.store.rows import CHUNK

HEAD_BYTES = 4096
"""The digest is in a page's first lines."""


def page_name(sweep: SweepRow, experiment: str = "", sweep_id: int | None = None) -> str:
    """Return the page's file name without ending: the experiment's, with nothing in it that a file system dislikes.

    Args:
        experiment: the name that was asked for, where the sweep has no experiment.
        sweep_id: the sweep that was asked for by number, so that its page does not take the newest one's place.
    """
    name = sweep.experiment or experiment or sweep.name or sweep.family
    name = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or f"sweep-{sweep.id}"
    return name if sweep_id is None else f"{name}-sweep-{sweep_id}"


def digest(
    store: Store, sweep: SweepRow, name: str = "", *, experiments: Sequence[Path] = (), reports: Sequence[Path] = ()
) -> str:
    """Return a digest of what the page of a sweep is made of: trials' runs and counters, the study, templates, program.

    A sweep that found everything stored has the digest of the one that measured it, whose page stays.

    Args:
        name: the experiment's or family's, as it was asked for.
        experiments, reports: the project's folders of experiments and of page templates.
    """
    found = hashlib.sha256(_program().encode())
    with store.snapshot() as connection:
        configuration = read_configurations(connection, [sweep.id])[sweep.id]
        whole = sweep.is_finished and not is_search(configuration)
        about = (sweep.experiment, sweep.family, sweep.name, sweep.baseline, sweep.state, store.place)
        for part in (about, configuration, list_sweep_devices(connection, sweep.id), None if whole else sweep):
            found.update(repr(part).encode("utf-8", "surrogatepass"))
        columns = [t.sweep_trial.c[each] for each in ("trial_id", "run_id", "device_id", "unavailable_reason")]
        members = sa.select(*columns).where(t.sweep_trial.c.sweep_id == sweep.id).order_by(t.sweep_trial.c.ordinal)
        profiles = sa.select(t.profile.c.id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.profile.c.trial_id)
        for query in (members, profiles.where(t.sweep_trial.c.sweep_id == sweep.id).order_by(t.profile.c.id)):
            for rows in connection.execute(query).partitions(CHUNK):
                found.update(repr([tuple(row) for row in rows]).encode("utf-8", "surrogatepass"))
    folder = find_experiment(name or sweep.experiment, experiments).folder
    found.update(_contents([*([folder] if folder else []), *list_folders(reports), bundled("reports") / "vendor"]))
    return found.hexdigest()


def is_current(page: Path, made_of: str) -> bool:
    """Return whether a page is there and made of what the digest stands for."""
    try:
        with page.open("rb") as file:
            return f'content="{made_of}"'.encode() in file.read(HEAD_BYTES)
    except OSError:
        return False


@cache
def _program() -> str:
    """Return a digest of this program: a checkout changes without its version."""
    root = Path(cuprof.__file__).parent
    return f"{cuprof.__version__} {hashlib.sha256(_contents([root], '*.py')).hexdigest()}"


def _contents(folders: Iterable[Path], pattern: str = "*") -> bytes:
    """Return the names and bytes of all files in some folders."""
    files = [(path, folder) for folder in folders for path in sorted(folder.rglob(pattern)) if path.is_file()]
    return b"\0".join(part for path, top in files for part in (os.fsencode(path.relative_to(top)), path.read_bytes()))
