"""Sorting the launches of a report by whose they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cuprof.core.records import Conditions, LaunchRecord, Profile, State
from cuprof.ncu.launches import Owner, group_launches
from cuprof.ncu.report_file import Launches

ONE = "1" * 32
COMMON = Profile(None, "x", State.OK, Conditions("cold"))


def _launch(kernel: str = "k", **changes: Any) -> LaunchRecord:
    given: dict[str, Any] = {"grid": (4, 1, 1), "block": (32, 1, 1), "duration_ns": 5.0, **changes}
    return LaunchRecord(0, kernel, **given)


def _of_device(name: str) -> Launches:
    return {ONE: (_launch(details={"device": name}),)}


@pytest.mark.parametrize(
    ("trial", "report", "owner"),
    [
        ("NVIDIA H200", "NVIDIA H200", Owner.TRIAL),
        ("GeForce RTX 2080", "NVIDIA GeForce RTX 2080", Owner.TRIAL),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB", Owner.TRIAL),
        ("", "NVIDIA H200", Owner.TRIAL),
        ("NVIDIA H200", "", Owner.TRIAL),
        ("NVIDIA H200", "NVIDIA H200 NVL", Owner.OTHER_DEVICE),
        ("Tesla T4", "NVIDIA H200", Owner.OTHER_DEVICE),
    ],
)
def test_a_trial_is_joined_where_its_device_may_be_the_report_s(trial: str, report: str, owner: Owner) -> None:
    (group,) = group_launches(_of_device(report), {ONE: "label"}, {ONE: trial}, replace(COMMON, name="name"))
    assert group.owner is owner
    assert group.profile.name == ("label" if owner is Owner.TRIAL else "name/11111111")


def test_instances_of_a_template_are_kernels_of_their_own() -> None:
    signatures = ["add<4>(float *)", "add<1>(float *)", "add<4>(float *)"]
    launches = [_launch(kernel="add", details={"signature": signature}) for signature in signatures]
    groups = group_launches({None: (*launches, _launch(kernel="other"))}, {}, {}, COMMON)
    found = [(group.profile.name, [launch.ordinal for launch in group.profile.launches]) for group in groups]
    assert found == [("x/add<4>(float *)", [0, 1]), ("x/add<1>(float *)", [0]), ("x/other", [0])]


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, State.OK),
        ({"duration_ns": None}, State.OK),
        ({"duration_ns": math.nan}, State.CRASHED),
        ({"grid": (0, 0, 0)}, State.CRASHED),
        ({"grid": (0, 0, 0), "details": {"workload": "range"}}, State.OK),
    ],
)
def test_a_launch_without_grid_or_duration_crashed(changes: dict[str, Any], state: State) -> None:
    (group,) = group_launches({None: (_launch(**changes),)}, {}, {}, COMMON)
    assert (group.profile.state, bool(group.profile.message)) == (state, state is State.CRASHED)
