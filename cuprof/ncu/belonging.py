"""Group the launches of a report by their owner, so that no two trials or kernels are rolled up together."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    groups = []
    for identity, found in launches.items():
        if identity is not None:
            label, device = labels.get(identity), devices.get(identity, "")
            theirs = (str(launch.details.get("device") or "") for launch in found)
            other = next((each for each in theirs if not _same_device(each, device)), None)
            owner = Owner.UNKNOWN if label is None else Owner.OTHER_DEVICE if other is not None else Owner.TRIAL
            message = f"not joined to {label}: the trial is of {device}, the report of {other}"
            called = label if label and owner is Owner.TRIAL else f"{name}/{identity[:8]}"
            words = message if owner is Owner.OTHER_DEVICE else ""
            groups.append(Group(owner, identity, called, found, message=words))
    groups += _foreign(launches.get(None, ()), name)
    return tuple(map(_with_crash, groups))


def _foreign(launches: Sequence[LaunchRecord], name: str) -> Iterator[Group]:
    """Yield a group for each kernel; the signature distinguishes the instances of a template."""
    by_kernel: dict[tuple[str, str], list[LaunchRecord]] = defaultdict(list)
    for launch in launches:
        own = by_kernel[launch.kernel, str(launch.details.get("signature", ""))]
        own.append(replace(launch, ordinal=len(own)))
    kernels = [kernel for kernel, _ in by_kernel]
    for (kernel, signature), found in by_kernel.items():
        called = kernel if kernels.count(kernel) == 1 else signature
        yield Group(Owner.FOREIGN, "", f"{name}/{called}", tuple(found))


def _with_crash(group: Group) -> Group:
    """Return a group whose launch has no grid, or a duration that is not a number, as crashed.

    A range or graph that was profiled as a whole has no grid of its own.
    """
    for launch in group.launches:
        lacks = ["grid"] if "workload" not in launch.details and not all(launch.grid) else []
        lacks += ["duration"] if launch.duration_ns is not None and math.isnan(launch.duration_ns) else []
        if lacks:
            crash = (
                f"launch {launch.ordinal} ({launch.kernel}) crashed: the report has no {' and no '.join(lacks)} of it"
            )
            return replace(group, state=State.CRASHED, message="; ".join(filter(None, (group.message, crash))))
    return group


def _same_device(one: str, other: str) -> bool:
    """Return whether two names are of one model; an unknown name matches any."""
    first, second = (_VENDOR.sub("", device).strip().casefold() for device in (one, other))
    return first == second or not first or not second
