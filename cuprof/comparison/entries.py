"""One trial of one side: what it is, how it ended, and the samples of each of its measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from cuprof.core.point import Point, format_coordinate
from cuprof.core.records import Measure, State
from cuprof.statistics.series import Series


class Entry(NamedTuple):
    """One trial of one side.

    Args:
        run: trial, start and duration: equal on both sides where one sweep took over the other's measurement, or one
            database is a copy of the other; empty for files of other tools.
        device: name; `device_identity` is equal where timings are comparable.
        device_id: its number on its machine, where the source tells it and equal names may be several devices.
        device_repeats: the source has timings of several devices of this name.
        on_host: the device is the host's processor.
        several_launches: its cold samples are means over several executions, as those of several launches and of
            library calls are (docs/measurement.md, "Several launches").
        settings: measure → what the number means (flush, timer, …), compared between the sides.
        methods: measure → hash of the method.
        series: measure → samples; empty unless the trial is right.
        job: what was measured in one job has the same text; empty where that is not known.
        reference: the trial that was measured in this job and in others of the sweep; empty where there is none.
        references: measure → its samples in this job.
    """

    family: str
    variant: str
    problem: Point
    tunables: Point
    backend: str = ""
    device: str = ""
    device_identity: str = ""
    device_id: int | None = None
    device_repeats: bool = False
    on_host: bool = False
    several_launches: bool = False
    identity: str = ""
    state: State = State.OK
    message: str = ""
    is_expected_wrong: bool = False
    run: str = ""
    settings: Mapping[Measure, Mapping[str, Any]] = MappingProxyType({})
    methods: Mapping[Measure, str] = MappingProxyType({})
    series: Mapping[Measure, Series] = MappingProxyType({})
    job: str = ""
    reference: str = ""
    references: Mapping[Measure, Series] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Return "family/variant"."""
        return f"{self.family}/{self.variant}" if self.variant else self.family

    @property
    def label(self) -> str:
        """Return the trial for people, with the device's number where its name does not tell it."""
        number = f"device {self.device_id}" if self.device_repeats else ""
        return " · ".join(part for part in (self.name, self.problem.label, self.tunables.label, number) if part)

    @property
    def ending(self) -> str:
        """Return in one line how it ended."""
        return f"{self.label}: {self.state.value}: {self.message or 'no message'}"

    @property
    def coordinates(self) -> dict[str, str]:
        """Return problem and tunables as text, for matching with other tools."""
        return {name: format_coordinate(value) for name, value in {**self.problem, **self.tunables}.items()}


@dataclass(frozen=True)
class Side:
    """What BASE or NEW stands for.

    Args:
        text: as typed.
        kind: "sweep", "variant", "commit", "database", or the tool whose file it is, as in "nvbench".
        description: for people: "sweep 12 (reduction, 2026-11-20 09:00)".
        url: the database, empty for files of other tools.
        sweeps: the sweeps that the entries come from.
        notes: what a reader must know before believing a comparison with this side.
    """

    text: str
    kind: str
    description: str
    entries: Sequence[Entry]
    url: str = ""
    sweeps: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Return whether another tool measured it."""
        return self.kind not in ("sweep", "variant", "commit", "database")
