"""Group the launches of a report by their owner, so that no two trials or kernels are rolled up together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cuprof.core.records import LaunchRecord, State
from cuprof.ncu.report_file import Launches

_VENDOR = re.compile(r"^nvidia\s+|\s+MIG\s.*$", re.IGNORECASE)
"""Parts of a device's name that drivers and profilers do not agree on."""


class Owner(StrEnum):
    """The owner of launches."""

    TRIAL = "trial"  # of a trial in the database
    UNKNOWN = "unknown"  # of a trial of cuprof's that is not in the database
    OTHER_DEVICE = "other_device"  # in a range of a trial in the database, which is of another device
    FOREIGN = "foreign"  # outside every range of ours


@dataclass(frozen=True)
class Group:
    """Launches that are rolled up together.

    Attributes:
        owner: launches of a trial are joined to it, all others are stored under the name.
        identity: of the range around them; empty outside our ranges.
        name: the trial's label; NAME/identity[:8] for those in a range of ours that belong to no trial here;
            NAME/kernel for foreign ones.
        state: "crashed" where one of the launches did not get to its end.
        message: why they were not joined, or what crashed; empty otherwise.
    """

    owner: Owner
    identity: str
    name: str
    launches: tuple[LaunchRecord, ...]
    state: State = State.OK
    message: str = ""


def group_launches(
    launches: Launches, labels: Mapping[str, str], devices: Mapping[str, str], name: str
) -> tuple[Group, ...]:
    """Return the launches of a report by trial, and those outside our ranges by kernel.

    Args:
        labels: identity → label of the trials that are in the database.
        devices: identity → model of the device that such a trial is of, where it is known.
        name: for launches that belong to no trial.
    """
    ours = [
        _group_of_ours(identity, found, labels.get(identity), devices.get(identity, ""), name)
        for identity, found in launches.items()
        if identity is not None
    ]
    return tuple(_with_crash(group) for group in (*ours, *_foreign(launches.get(None, ()), name)))


def _group_of_ours(
    identity: str, launches: tuple[LaunchRecord, ...], label: str | None, trial_device: str, name: str
) -> Group:
    apart = f"{name}/{identity[:8]}"
    if label is None:
        return Group(Owner.UNKNOWN, identity, apart, launches)
    devices = (str(launch.details.get("device") or "") for launch in launches)
    others = [device for device in devices if not _same_device(device, trial_device)]
    if others:
        message = f"not joined to {label}: the trial is of {trial_device}, the report of {others[0]}"
        return Group(Owner.OTHER_DEVICE, identity, apart, launches, message=message)
    return Group(Owner.TRIAL, identity, label, launches)


def _foreign(launches: Sequence[LaunchRecord], name: str) -> list[Group]:
    """Return a group for each kernel; the signature distinguishes the instances of a template."""
    by_kernel: dict[tuple[str, str], list[LaunchRecord]] = {}
    for launch in launches:
        by_kernel.setdefault((launch.kernel, str(launch.details.get("signature", ""))), []).append(launch)
    kernels = [kernel for kernel, _ in by_kernel]
    return [
        Group(
            Owner.FOREIGN,
            "",
            f"{name}/{kernel if kernels.count(kernel) == 1 else signature}",
            tuple(replace(launch, ordinal=ordinal) for ordinal, launch in enumerate(found)),
        )
        for (kernel, signature), found in by_kernel.items()
    ]


def _with_crash(group: Group) -> Group:
    crash = next(filter(None, map(_crash, group.launches)), "")
    if not crash:
        return group
    return replace(group, state=State.CRASHED, message="; ".join(filter(None, (group.message, crash))))


def _crash(launch: LaunchRecord) -> str:
    """Return why a launch counts as crashed, or an empty text: it has no grid, or a duration that is not a number.

    A range or graph that was profiled as a whole has no grid of its own.
    """
    lacks = []
    if "workload" not in launch.details and not all(launch.grid):
        lacks.append("grid")
    if launch.duration_ns is not None and math.isnan(launch.duration_ns):
        lacks.append("duration")
    what = " and no ".join(lacks)
    return f"launch {launch.ordinal} ({launch.kernel}) crashed: the report has no {what} of it" if lacks else ""


def _same_device(one: str, other: str) -> bool:
    """Return whether two names are of one model; an unknown name matches any."""
    first, second = (_VENDOR.sub("", device).strip().casefold() for device in (one, other))
    return first == second or not first or not second
