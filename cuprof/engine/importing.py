"""Take in report files that were made elsewhere: by hand, on another machine, or by an earlier collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.profiling.belonging import Group, Owner, group_launches
from cuprof.profiling.contract import Profiler
from cuprof.reading.imports import KnownTrial, list_taken_in, read_known
from cuprof.records import Artifact, Conditions, Profile, State
from cuprof.store import Store

METRIC_SET = "imported"


@dataclass(frozen=True)
class ImportSetting:
    """Say how reports are taken in.

    Args:
        artifacts: folder that a copy of each report is kept in.
        known: the trials that are in the store, by identity, of those the reports may hold.
        name: what launches that are joined to no trial go by; the file's name without its ending when empty.
        cache_mode: "cold" or "hot"; empty takes it from what the report says of how it was made.
    """

    artifacts: Path
    known: Mapping[str, KnownTrial]
    name: str = ""
    cache_mode: str = ""


@dataclass(frozen=True)
class ImportResult:
    """What one report held.

    Attributes:
        taken: what was stored now.
        already: how many groups of its launches were in the database before, in this cache mode.
    """

    path: Path
    artifact: Artifact
    taken: tuple[Group, ...]
    already: int
    name: str
    cache_mode: str

    @property
    def joined(self) -> tuple[str, ...]:
        """Return the trials that launches were joined to."""
        return tuple(group.identity for group in self._of(Owner.TRIAL))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a person should know: trials that were not joined and why, launches that crashed."""
        return tuple(f"{group.name}: {group.message}" for group in self.taken if group.message)

    def describe(self) -> str:
        """Return in one line what was taken in."""
        outside = sum(len(group.launches) for group in self._of(Owner.FOREIGN))
        unknown, elsewhere = len(self._of(Owner.UNKNOWN)), len(self._of(Owner.OTHER_DEVICE))
        crashed = sum(group.state is State.CRASHED for group in self.taken)
        under = f"under {self.name + '/IDENTITY'!r}"
        parts = {
            f"{_count(len(self.joined), 'trial')} joined": len(self.joined),
            f"{_count(unknown, 'trial')} of cuprof's not in this database, {under}": unknown,
            f"{_count(elsewhere, 'trial')} of another device not joined, {under}": elsewhere,
            f"{_count(outside, 'foreign launch', 'es')} under {self.name + '/KERNEL'!r}": outside,
            f"{crashed} crashed": crashed,
            f"{self.already} already taken in" if self.taken else "already taken in": self.already,
        }
        return f"{'; '.join(part for part, count in parts.items() if count)} ({self.cache_mode})"

    def _of(self, owner: Owner) -> list[Group]:
        return [group for group in self.taken if group.owner is owner]


def import_reports(
    paths: Sequence[Path], profiler: Profiler, url: str, artifacts: Path, *, name: str = "", cache_mode: str = ""
) -> Iterator[ImportResult]:
    """Store each report's launches, or none where one cannot be read; see `import_report` and `ImportSetting`.

    Args:
        url: the database.
    """
    identities = list_identities(paths, profiler)
    with Store.open(url) as store:
        with store.snapshot() as connection:
            known = read_known(connection, identities)
        setting = ImportSetting(artifacts, known, name, cache_mode)
        for path in paths:
            yield import_report(path, setting, store, profiler)


def list_identities(paths: Sequence[Path], profiler: Profiler) -> list[str]:
    """Return the trial identities that the ranges of these reports carry.

    Every value is read, so that a damaged report is refused before another one has been stored.

    Raises:
        ProfilerError: one of them cannot be read; nothing has been stored.
    """
    return list(dict.fromkeys(identity for path in paths for identity in profiler.read_report(path).by_identity()))


def import_report(path: Path, setting: ImportSetting, store: Store, profiler: Profiler) -> ImportResult:
    """Store a report's launches: by trial where a range names a known one of this device, the others under a name.

    Each trial, and each kernel outside our ranges, is stored in a transaction of its own. What was taken in from the
    same contents before is left alone, so that an import may be repeated, also one that was interrupted.

    Raises:
        ProfilerError: the report cannot be read or kept.
    """
    report = profiler.read_report(path)
    artifact = profiler.keep_report(path, setting.artifacts)
    name = setting.name or path.stem
    found = profiler.find_conditions(path)
    conditions = replace(found, cache_mode=setting.cache_mode or found.cache_mode)
    labels = {identity: trial.label for identity, trial in setting.known.items()}
    devices = {identity: trial.device for identity, trial in setting.known.items()}
    groups = group_launches(report, labels, devices, name)
    with store.snapshot() as connection:
        before = list_taken_in(connection, artifact.sha256)
    taken = []
    for group in groups:
        profile = _profile(group, artifact, conditions, profiler)
        if (profile.identity or profile.name, conditions.cache_mode) not in before:
            store.record_profile(None, profile)
            taken.append(group)
    return ImportResult(path, artifact, tuple(taken), len(groups) - len(taken), name, conditions.cache_mode)


def _profile(group: Group, artifact: Artifact, conditions: Conditions, profiler: Profiler) -> Profile:
    # A crash has left counters of a part of the work at most, which are kept by launch but make no value of a trial.
    rolled = profiler.roll_up(group.launches) if group.state is State.OK else ()
    return Profile(
        identity=group.identity if group.owner is Owner.TRIAL else None,
        name=group.name,
        state=group.state,
        conditions=conditions,
        message=group.message,
        metric_set=METRIC_SET,
        metrics=tuple(counter.metric for counter in rolled),
        artifact=artifact,
        launches=group.launches,
        rolled=rolled,
    )


def _count(count: int, word: str, plural: str = "s") -> str:
    return f"{count} {word}{plural if count != 1 else ''}"
