"""What ncu says on its console, recorded from the real program wherever it can be provoked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cuprof.ncu.executable import (
    find_explanation,
    get_executable,
    list_messages,
    list_metric_names,
    list_unknown_metrics,
    missing_metric_reason,
)

PERMISSION = (
    "==PROF== Connected to process 9012 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 9012\n"
)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("disk_full", "make room or point TMPDIR elsewhere"),
        ("unwritable", "make room or point TMPDIR elsewhere"),
        ("unknown_option", "ncu --list-sets"),
        ("unknown_section", "ncu --list-sections"),
    ],
)
def test_recorded_failures_are_explained(console: Callable[[str], str], name: str, part: str) -> None:
    explanation = find_explanation(console(name))
    assert explanation is not None
    assert part in explanation


@pytest.mark.parametrize(
    "name", ["study_alone", "crash", "hang_interrupted", "outside", "target_fails", "instructions"]
)
def test_nothing_is_read_into_the_others(console: Callable[[str], str], name: str) -> None:
    assert find_explanation(console(name)) is None


def test_missing_permission_names_both_ways_to_grant_it() -> None:
    explanation = find_explanation(PERMISSION)
    assert explanation is not None
    assert "CAP_SYS_ADMIN" in explanation
    assert "NVreg_RestrictProfilingToAdminUsers=0" in explanation


@pytest.mark.parametrize(
    "line",
    [
        "==ERROR== Another tool is already attached to this device.",
        "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
        "is concurrently collecting profiling data.",
    ],
)
def test_another_profiler_is_named(line: str) -> None:
    explanation = find_explanation(line)
    assert explanation is not None
    assert explanation.startswith("another profiler")


def test_what_the_profiled_program_prints_is_no_error_of_ncu() -> None:
    assert find_explanation("No space left on device\nERR_NVGPUCTRPERM\n") is None


def test_messages_by_level(console: Callable[[str], str]) -> None:
    assert list_messages(console("crash")) == ["LaunchFailed", "The application returned an error code (9)."]
    assert "No kernels were profiled." in console("outside")
    assert "No kernels were profiled." not in list_messages(console("outside"))


def test_unknown_metrics_as_older_releases_report_them() -> None:
    output = (
        "==ERROR== Failed to find metric regex:^sm__active_cycles_sum\\.(sum|min|max|avg|pct|ratio|max_rate)$\n"
        "==ERROR== Failed to find metric dram__bytes_raed.sum\n==ERROR== Failed to find metric dram__bytes_raed.sum\n"
    )
    assert list_unknown_metrics(output) == ["sm__active_cycles_sum", "dram__bytes_raed.sum"]
    assert list_unknown_metrics("dram__bytes_raed.sum: Failed to find metric x") == []


def test_the_nearest_names_are_suggested_with_the_suffix_asked_for(fake_ncu) -> None:
    known = list_metric_names(get_executable(str(fake_ncu.path)))
    reason = missing_metric_reason("dram__bytes_raed.sum", known)
    assert reason.startswith(
        "metric dram__bytes_raed.sum does not exist on this chip; did you mean dram__bytes_read.sum"
    )
    assert missing_metric_reason("zzz", known).endswith("see cuprof list metrics")


def test_what_a_line_announces_belongs_to_it() -> None:
    output = "==ERROR== An error was reported by the driver:\n\n  out of patience\n==ERROR== Failed:\n==ERROR== End\n"
    assert list_messages(output) == ["An error was reported by the driver: out of patience", "Failed:", "End"]
