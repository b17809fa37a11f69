"""The job file and the progress file between a collection and the process under ncu."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.errors import ProfilerError
from cuprof.ncu.job import (
    Job,
    Phase,
    Progress,
    ProgressWriter,
    find_identity,
    job_trial,
    range_name,
    read_job,
    read_progress,
    trial_points,
    write_job,
)
from cuprof.point import Point

A, B = "a" * 32, "b" * 32


def test_a_job_survives_the_file(tmp_path: Path) -> None:
    trial = job_trial(A, Path("/some where/scale"), "plain", Point(n=2**24, dtype="float32"), Point(block=256))
    job = Job((trial,), seed=7, device_index=1, progress_path=str(tmp_path / "p"), warm_up=2)
    write_job(job, tmp_path / "job.json")
    read = read_job(tmp_path / "job.json")
    assert read == job
    assert trial_points(read.trials[0]) == (Point(n=2**24, dtype="float32"), Point(block=256))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"trials": [{"identity": "x"}]}'])
def test_what_is_no_job_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(ProfilerError, match="no job file"):
        read_job(tmp_path / "job.json")


def test_progress_names_the_trial_that_was_open(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with ProgressWriter(path) as writer:
        writer.write(A, Phase.PREPARING)
        writer.write(A, Phase.LAUNCHING)
        writer.write(A, Phase.DONE)
        writer.write(B, Phase.PREPARING)
        assert read_progress(path).open == B  # each line is out as soon as it is written
        writer.write(B, Phase.FAILED, "no such kernel")
    progress = read_progress(path)
    assert progress == Progress({A: Phase.DONE, B: Phase.FAILED}, {B: "no such kernel"})
    assert progress.open is None


def test_a_line_cut_short_by_a_crash_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with ProgressWriter(path) as writer:
        writer.write(A, Phase.LAUNCHING)
    with path.open("a") as file:
        file.write('{"identity": "' + A + '", "phase": "do')
    assert read_progress(path).open == A
    assert read_progress(tmp_path / "absent") == Progress()


def test_identities_are_found_in_our_ranges_only() -> None:
    assert find_identity(["outer", range_name(A), "inner"]) == A
    assert find_identity([range_name(A), range_name(B)]) == B
    assert find_identity(["outer", A, f"x{range_name(A)}", range_name(A) + "0", "cuprof-" + "A" * 32]) is None
