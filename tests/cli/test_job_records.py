from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace

from cuprof.cli.job_records import JobRecords
from cuprof.cli.typed_record import NoTypedRecord


def test_one_job_keeps_its_code_in_memory() -> None:
    records = JobRecords()
    records.note(0, None)
    assert records.exit_code() == 1
    records.note(0, 0)
    assert records.exit_code() == 0


def test_no_job_at_all_is_a_failure() -> None:
    assert JobRecords().exit_code() == 1


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
    assert JobRecords().explain(RuntimeError()) is None


def test_what_jobs_are_given_is_their_owner_s_alone(tmp_path: Path) -> None:
    folder = tmp_path / "db" / "jobs" / "one"
    NoTypedRecord().on_multirun_start(SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir=str(folder)))))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "multirun.yaml").is_symlink()
