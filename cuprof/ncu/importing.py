"""Take in report files that were made elsewhere: by hand, on another machine, or by an earlier collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuprof.ncu.artifact import keep_artifact
from cuprof.ncu.collect import ProfileStore
from cuprof.ncu.report_file import read_report
from cuprof.ncu.report_frame import find_cache_control
from cuprof.ncu.rollup import roll_up
from cuprof.records import Artifact, LaunchRecord, Profile, State

METRIC_SET = "imported"


@dataclass(frozen=True)
class ImportSetting:
    """Say how reports are taken in.

    Args:
        artifacts: folder that a copy of each report is kept in.
        known: identity → label of the trials that are in the store, of those the reports may hold.
        name: what launches outside our ranges go by; the file's name without its ending when empty.
        cache_mode: "cold" or "hot"; empty takes it from the ncu command line in the report, where --cache-control all
            is the default and makes cold counters.
    """

    artifacts: Path
    known: Mapping[str, str]
    name: str = ""
    cache_mode: str = ""


@dataclass(frozen=True)
class ImportResult:
    """What one report held: trials that its launches were joined to, and launches taken in under a name."""

    path: Path
    artifact: Artifact
    joined: tuple[str, ...]
    foreign: int
    name: str
    cache_mode: str


def list_identities(paths: Sequence[Path]) -> list[str]:
    """Return the trial identities that the ranges of these reports carry.

    Every value is read, so that a damaged report is refused before another one has been stored.

    Raises:
        ProfilerError: one of them cannot be read; nothing has been stored.
    """
    return list(dict.fromkeys(identity for path in paths for identity in read_report(path).by_identity()))


def import_report(path: Path, setting: ImportSetting, store: ProfileStore) -> ImportResult:
    """Store a report's launches: by trial where a range names a known one, the others under a name.

    Each trial, and the foreign launches together, are stored in a transaction of their own.

    Raises:
        ProfilerError: the report cannot be read or kept.
    """
    report = read_report(path)
    artifact = keep_artifact(path, setting.artifacts)
    name = setting.name or path.stem
    cache_mode = setting.cache_mode or ("hot" if find_cache_control(path) == "none" else "cold")
    by_identity = report.by_identity()
    joined = tuple(identity for identity in by_identity if identity in setting.known)
    for identity in joined:
        store.record_profile(
            None, _profile(identity, setting.known[identity], by_identity[identity], artifact, cache_mode)
        )
    unknown = [record for identity, found in by_identity.items() if identity not in setting.known for record in found]
    foreign = _renumber([*report.foreign(), *unknown])
    if foreign:
        store.record_profile(None, _profile(None, name, foreign, artifact, cache_mode))
    return ImportResult(path, artifact, joined, len(foreign), name, cache_mode)


def _profile(
    identity: str | None,
    name: str,
    launches: tuple[LaunchRecord, ...],
    artifact: Artifact,
    cache_mode: str,
) -> Profile:
    rolled = roll_up(launches)
    return Profile(
        identity=identity,
        name=name,
        state=State.OK,
        cache_mode=cache_mode,
        metric_set=METRIC_SET,
        metrics=tuple(counter.metric for counter in rolled),
        artifact=artifact,
        launches=launches,
        rolled=rolled,
    )


def _renumber(records: Sequence[LaunchRecord]) -> tuple[LaunchRecord, ...]:
    """Count the launches of several trials as one sequence."""
    return tuple(LaunchRecord(**{**vars(record), "ordinal": place}) for place, record in enumerate(records))
