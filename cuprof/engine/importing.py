"""Take in report files that were made elsewhere: by hand, on another machine, or by an earlier collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.core.records import Profile, State
from cuprof.core.text import count
from cuprof.ncu.files import find_conditions, keep_artifact
from cuprof.ncu.launches import Group, Owner, group_launches
from cuprof.ncu.report_file import read_report
from cuprof.results.sweeps import list_taken_in, read_known
from cuprof.store.store import Store


@dataclass(frozen=True)
class ImportResult:
    """The content of one imported report.

    Attributes:
        taken: newly stored profiles.
        already: how many groups of its launches were in the database before, in this cache mode.
    """

    path: Path
    taken: tuple[Group, ...]
    already: int
    name: str
    cache_mode: str

    def describe(self) -> str:
        """Describe the import in one line."""
        owners = Counter(group.owner for group in self.taken)
        joined, unknown, elsewhere = owners[Owner.TRIAL], owners[Owner.UNKNOWN], owners[Owner.OTHER_DEVICE]
        outside = sum(len(group.profile.launches) for group in self.taken if group.owner is Owner.FOREIGN)
        crashed = sum(group.profile.state is State.CRASHED for group in self.taken)
        under = f"under {self.name + '/IDENTITY'!r}"
        parts = {
            f"{count(joined, 'trial')} joined": joined,
            f"{count(unknown, 'trial')} of cuprof's not in this database, {under}": unknown,
            f"{count(elsewhere, 'trial')} of another device not joined, {under}": elsewhere,
            f"{count(outside, 'foreign launch', 'es')} under {self.name + '/KERNEL'!r}": outside,
            f"{crashed} crashed": crashed,
            f"{self.already} already imported" if self.taken else "already imported": self.already,
        }
        return f"{'; '.join(part for part, found in parts.items() if found)} ({self.cache_mode})"


def import_reports(
    paths: Sequence[Path], url: str, artifacts: Path, *, name: str = "", cache_mode: str = ""
) -> Iterator[ImportResult]:
    """Store each report's launches: by trial where a range names a known one of this device, the others under a name.

    Each trial, and each kernel outside our ranges, is stored in a transaction of its own. Launches imported before from
    the same contents are skipped, so an import may be repeated, even after an interruption.

    Args:
        artifacts: folder that a copy of each report is kept in.
        name: the name for launches that match no trial; empty takes the file's name without its suffix.
        cache_mode: "cold" or "hot"; empty takes the report's own.

    Raises:
        ProfilerError: a report cannot be read, and nothing has been stored; or it cannot be kept.
    """
    for path in paths:
        read_report(path)
    with Store.open(url) as store:
        for path in paths:
            yield _import_report(path, store, artifacts, name or path.stem, cache_mode)


def _import_report(path: Path, store: Store, artifacts: Path, name: str, cache_mode: str) -> ImportResult:
    launches = read_report(path)
    artifact = keep_artifact(path, artifacts)
    found = find_conditions(path)
    conditions = replace(found, cache_mode=cache_mode or found.cache_mode)
    common = Profile(None, name, State.OK, conditions, metric_set="imported", artifact=artifact)
    with store.snapshot() as connection:
        labels, devices = read_known(connection, [identity for identity in launches if identity is not None])
        before = list_taken_in(connection, artifact.sha256)
    groups, mode = group_launches(launches, labels, devices, common), conditions.cache_mode
    taken = [each for each in groups if (each.profile.identity or each.profile.name, mode) not in before]
    for group in taken:
        store.record_profile(None, group.profile)
    return ImportResult(path, tuple(taken), len(groups) - len(taken), name, mode)
