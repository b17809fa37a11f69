from __future__ import annotations

from pathlib import Path

from cuprof.cli.jobs import JobRecords


def test_the_largest_code_of_several_jobs_counts(tmp_path: Path) -> None:
    records = JobRecords(tmp_path / "jobs")
    for number, code in enumerate((0, 2, 1)):
        records.note(number, None)
        records.note(number, code)
    assert records.exit_code(3) == 2
    assert JobRecords(tmp_path / "jobs").exit_code(3) == 2


def test_jobs_that_never_began_or_never_ended_are_failures(tmp_path: Path) -> None:
    records = JobRecords(tmp_path)
    records.note(0, 0)
    assert records.exit_code(1) == 0
    assert records.exit_code(2) == 1
    records.note(1, None)
    assert records.exit_code(2) == 1


def test_a_job_that_ended_before_its_time_is_told_and_a_fault_of_its_own_is_not(tmp_path: Path) -> None:
    records = JobRecords(tmp_path)
    records.note(0, None)
    records.note(1, None)
    records.note(1, 0)
    told = str(records.explain(RuntimeError("many lines")))
    assert "(RuntimeError); jobs without a result: 0;" in told
    records.note(0, 1)
    assert records.explain(RuntimeError()) is None
