"""The progress file of a profiled process."""

from __future__ import annotations

from pathlib import Path

from cuprof.ncu.progress import Progress, Step, read_progress, write_progress

A, B = "a" * 32, "b" * 32


def test_progress_names_the_trial_that_was_open(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with path.open("a") as file:
        write_progress(file, A, Step.PREPARING)
        write_progress(file, A, Step.LAUNCHING)
        write_progress(file, A, Step.DONE)
        write_progress(file, B, Step.PREPARING)
        assert read_progress(path).open == B  # each line is out as soon as it is written
        write_progress(file, B, Step.FAILED, "no such kernel")
    progress = read_progress(path)
    assert progress == Progress({A: Step.DONE, B: Step.FAILED}, {B: "no such kernel"})
    assert progress.open is None


def test_a_line_cut_short_by_a_crash_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    with path.open("a") as file:
        write_progress(file, A, Step.LAUNCHING)
        file.write('{"identity": "' + A + '", "step": "do')
    assert read_progress(path).open == A
    assert read_progress(tmp_path / "absent") == Progress()
