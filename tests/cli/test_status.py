"""`cuprof status --log`: why a variant failed, as it was stored."""

from __future__ import annotations

from collections.abc import Callable

from cuprof.core.project import Project
from cuprof.core.records import State
from cuprof.store.store import Store
from tests.conftest import Result
from tests.report.study_data import Made, fill

Cli = Callable[..., Result]


def test_the_log_of_a_variants_newest_failure_is_printed_whole(cli: Cli, project: Project) -> None:
    failed = {"state": State.LAUNCH_ERROR, "message": "ValueError: no"}
    made = [
        Made("mine", problem={"n": n}, log="".join(f"line {i} of {n}\n" for i in range(50)), **failed) for n in (1, 2)
    ]
    with Store.open(project.database_url) as store:
        fill(store, [Made("base"), *made])
    done = cli("status", "--log", "mine")
    assert done.exit_code == 0
    heading, *log = done.out.splitlines()
    assert heading.endswith("launch_error: ValueError: no")
    assert log == [f"line {i} of 2" for i in range(50)]


def test_a_variant_that_left_no_log_is_named(cli: Cli, project: Project) -> None:
    with Store.open(project.database_url) as store:
        fill(store, [Made("base")])
    done = cli("status", "--log", "base")
    assert (done.exit_code, done.out) == (2, "")
    assert "no failure of 'base' has left a log; cuprof query failures lists what failed" in done.err
    assert "unknown variant 'bsae': did you mean base?" in cli("status", "--log", "bsae").err
