"""The exact arguments that ncu is started with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cuprof.config.model import NcuConfig
from cuprof.ncu.setting import build_command
from cuprof.ncu.task import RANGE_FILTER, RANGE_PREFIX

NCU, REPORT, TARGET = (
    Path("/opt/ncu"),
    Path("/tmp/x/report.ncu-rep"),
    ["/usr/bin/python", "-m", "w", "/tmp/x/task.json"],
)


def test_the_arguments_of_a_cold_collection() -> None:
    collection = NcuConfig(replay="kernel", metrics=("dram__bytes_read.sum", "launch__grid_dim_z"))
    assert build_command(NCU, collection, REPORT, TARGET) == [
        "/opt/ncu",
        "--target-processes",
        "application-only",
        "--replay-mode",
        "kernel",
        "--cache-control",
        "all",
        "--clock-control",
        "none",
        "--nvtx",
        "--nvtx-include",
        "regex:cuprof-.+/",
        "--metrics",
        "dram__bytes_read.sum,launch__grid_dim_z",
        "--force-overwrite",
        "--export",
        "/tmp/x/report.ncu-rep",
        *TARGET,
    ]


def test_the_arguments_of_a_hot_collection_of_sections() -> None:
    collection = NcuConfig(
        replay="kernel", set="full", sections=("Occupancy", "LaunchStats"), cache_control="none", clock_control="base"
    )
    words = build_command(NCU, collection, REPORT, TARGET)
    assert words[5:9] == ["--cache-control", "none", "--clock-control", "base"]
    assert words[words.index("--set") :][:6] == ["--set", "full", "--section", "Occupancy", "--section", "LaunchStats"]
    assert "--metrics" not in words


def test_the_filter_is_one_that_the_recordings_show_to_work(recorded: Path) -> None:
    """The real ncu profiled the trial's launch with this filter, and none outside of ranges."""
    words = shlex.split((recorded / "study_alone.command").read_text())
    assert words[words.index("--nvtx-include") + 1] == RANGE_FILTER
    assert re.search(RANGE_FILTER.removeprefix("regex:").removesuffix("/"), RANGE_PREFIX + "1" * 32)
    assert "No kernels were profiled" in (recorded / "outside.stdout").read_text()


def test_every_option_is_in_the_help_of_the_real_program(recorded: Path) -> None:
    everything = NcuConfig(replay="kernel", metrics=("a",), set="full", sections=("b",))
    help_text = (recorded / "help.txt").read_text()
    for word in build_command(NCU, everything, REPORT, []):
        if word.startswith("--"):
            assert re.search(rf"{word}\b", help_text), word
