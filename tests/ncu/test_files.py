"""Telling a whole report from a foreign file, a truncated one and one of another format."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuprof.core.errors import ProfilerError
from cuprof.core.records import Conditions
from cuprof.ncu.files import NEWEST_VERSION, check_frame, find_conditions
from cuprof.ncu.report_file import read_report


def test_recorded_reports_are_whole(recorded: Path) -> None:
    reports = [path for path in recorded.glob("*.ncu-rep") if path.name != "truncated.ncu-rep"]
    assert len(reports) >= 8
    frames = {path.stem: check_frame(path) for path in reports}
    assert {version for version, _ in frames.values()} == {NEWEST_VERSION}
    assert {name: results for name, (_, results) in frames.items() if results != 1} == {
        "crash": 2,
        "instructions": 2,
        "source_counters": 15,
    }


def test_the_recorded_truncated_report_is_refused(recorded: Path) -> None:
    with pytest.raises(ProfilerError, match=r"truncated\.ncu-rep is cut short") as raised:
        read_report(recorded / "truncated.ncu-rep")
    assert raised.value.exit_code == 2


def test_a_report_cut_anywhere_is_refused(recorded: Path, tmp_path: Path) -> None:
    whole = (recorded / "study_alone.ncu-rep").read_bytes()
    path = tmp_path / "cut.ncu-rep"
    for size in [*range(4, 200), *range(200, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:size])
        # A cut exactly between two blocks leaves a whole frame, without the launch.
        with pytest.raises(ProfilerError, match=r"is cut short|holds no launch"):
            read_report(path)


@pytest.mark.parametrize(("name", "size"), [("instructions", 49852), ("study_alone", 43356), ("study_alone", 51833)])
def test_a_report_cut_behind_its_first_launch_is_refused(recorded: Path, tmp_path: Path, name: str, size: int) -> None:
    """At these places a block ends, so nothing but the session's description is missing, and later launches."""
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes((recorded / f"{name}.ncu-rep").read_bytes()[:size])
    with pytest.raises(ProfilerError, match="is cut short"):
        read_report(path)


@pytest.mark.parametrize("data", [b"", b"NV", b"\x7fELF" + bytes(500), b"PK\x03\x04" + b"x" * 99, b"hello " * 99])
def test_foreign_files_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "it's “foreign”.ncu-rep"
    path.write_bytes(data)
    with pytest.raises(ProfilerError, match="is not an Nsight Compute report"):
        read_report(path)


def test_what_is_no_report_is_not_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.ncu-rep")
    (tmp_path / "zero.ncu-rep").symlink_to("/dev/zero")
    for name in ("fifo", "zero"):
        with pytest.raises(ProfilerError, match="it is not a file"):
            check_frame(tmp_path / f"{name}.ncu-rep")
    with (tmp_path / "sparse.ncu-rep").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(ProfilerError, match="is not an Nsight Compute report"):
        check_frame(tmp_path / "sparse.ncu-rep")


@pytest.mark.parametrize("rest", [bytes(300), b"\xff" * 300, b"\x10\0\0\0" + b"x" * 300])
def test_garbage_behind_the_magic_bytes_is_refused(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "garbage.ncu-rep"
    path.write_bytes(b"NVR\0" + rest)
    with pytest.raises(ProfilerError):
        read_report(path)


def test_a_format_that_the_reader_does_not_know_is_refused(recorded: Path, tmp_path: Path) -> None:
    data = bytearray((recorded / "study_alone.ncu-rep").read_bytes())
    assert data[8:10] == bytes([8, NEWEST_VERSION])
    data[9] = 3
    (tmp_path / "old.ncu-rep").write_bytes(data)
    with pytest.raises(ProfilerError, match=r"format version 3.*pip install --upgrade ncu-report"):
        read_report(tmp_path / "old.ncu-rep")


def test_absent_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ProfilerError, match="cannot be read: No such file"):
        check_frame(tmp_path / "absent.ncu-rep")
    with pytest.raises(ProfilerError, match="cannot be read"):
        check_frame(tmp_path)


def test_how_it_was_profiled_is_read_from_the_command_line_in_the_report(recorded: Path, tmp_path: Path) -> None:
    assert find_conditions(recorded / "memory_cold.ncu-rep") == Conditions("cold", "none", "kernel")
    assert find_conditions(recorded / "memory_hot.ncu-rep").cache_mode == "hot"
    (tmp_path / "x").write_bytes(b"NVR\0")
    assert find_conditions(tmp_path / "x") == Conditions("cold", "base", "kernel")
