"""What a profiler's report file holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuprof.records import LaunchRecord


@dataclass(frozen=True)
class ReportLaunch:
    """One launch of a report.

    Attributes:
        identity: of the trial whose range encloses the launch, or None.
        record: its `ordinal` counts the launches of the same identity (or of none), from 0, in the order they ran.
    """

    identity: str | None
    record: LaunchRecord


@dataclass(frozen=True)
class Report:
    """What a report file holds."""

    path: Path
    launches: tuple[ReportLaunch, ...]

    def by_identity(self) -> dict[str, tuple[LaunchRecord, ...]]:
        """Return the launches inside ranges of ours, by the identity that their range carries."""
        found: dict[str, list[LaunchRecord]] = {}
        for launch in self.launches:
            if launch.identity is not None:
                found.setdefault(launch.identity, []).append(launch.record)
        return {identity: tuple(records) for identity, records in found.items()}

    def foreign(self) -> tuple[LaunchRecord, ...]:
        """Return the launches outside every range of ours."""
        return tuple(launch.record for launch in self.launches if launch.identity is None)
