from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.comparison.compare import Options, compare
from cuprof.comparison.sample_more import sample_more
from cuprof.comparison.sides import load_sides
from cuprof.core.errors import WorkerError
from cuprof.core.project import Project
from cuprof.core.records import State
from cuprof.engine.observer import Observer
from cuprof.results.queries import query
from cuprof.statistics.verdict import Rule, Verdict
from cuprof.store.store import Store
from tests.conftest import Result, give_database

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from made import Made, fill

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database with two sweeps."""
    file = tmp_path_factory.mktemp("filled") / "cuprof.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        fill(store, [Made("first"), Made("second", 53.0), Made("third", 50.01)])
        fill(store, [Made("first", source="new"), Made("second", 50.0, source="new")], seed=2)
    return file


@pytest.fixture
def url(project: Project, filled: Path) -> str:
    """Return the project's database, with two sweeps."""
    return give_database(project, filled)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("invented/first", "invented/second", "--sweep", "1"), 1),
        (("invented/second", "invented/first", "--sweep", "1"), 0),
        (("first", "third", "experiment=study"), 0),
        (("latest~1", "latest"), 0),
        (("2", "1", "--noise", "0.1%"), 1),
        (("2", "1", "--effect", "10%"), 0),
        (("--measure", "hot", "1", "2"), 2),
        (("1",), 2),
        (("1", "2", "3"), 2),
        (("1", "2", "--effect", "much"), 2),
        (("1", "2", "--effect", "100%"), 2),
        (("1", "2", "--noise", "-1"), 2),
        (("1", "2", "--json", "--markdown"), 2),
        (("nonsense", "2"), 2),
    ],
)
def test_exit_codes(cli: Cli, url: str, words: tuple[str, ...], code: int) -> None:
    result = cli("compare", *words)
    assert result.exit_code == code, result.err
    if code == 2:
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1
        assert result.out == ""
    else:
        assert result.err == ""


def test_output_formats(cli: Cli, url: str) -> None:
    assert "SLOWER" in cli("compare", "2", "1").out
    data = json.loads(cli("compare", "2", "1", "--json").out)
    assert data["counts"]["slower"] == 1
    assert "| SLOWER |" in cli("compare", "2", "1", "--markdown").out


def test_another_database_by_url_and_by_file(
    cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("compare", "1", "2").exit_code == 2
    assert cli("compare", "1", "2", "--store", url).exit_code == 0
    file = url.removeprefix("sqlite:///")
    assert cli("compare", f"{file}:2", f"{file}:1").exit_code == 1
    assert cli("compare", f"{url}#2", f"{url}#1").exit_code == 1


def test_sampling_more_of_sweeps_says_that_it_cannot_be(cli: Cli, url: str) -> None:
    result = cli("compare", "1", "2", "--sample-more")
    assert result.exit_code == 0
    assert result.err.count("\n") == 1
    assert "only variants of the source that is here" in result.err


def test_a_variant_that_is_wrong_fails_the_comparison_with_the_reason(cli: Cli, project: Project) -> None:
    wrong = Made("wrong", state=State.WRONG_RESULT, message="y[671] = 3, expected 4")
    with Store.open(project.database_url) as store:
        fill(store, [Made("right"), wrong])
    result = cli("compare", "invented/right", "invented/wrong")
    assert (result.exit_code, result.err) == (1, "")
    assert "BROKEN invented/wrong" in result.out
    assert "wrong_result: y[671] = 3, expected 4" in result.out


def test_a_file_that_no_parser_can_take_is_bad_input(cli: Cli, project: Project) -> None:
    path = project.root / "deep.json"
    path.write_text("[" * 200_000, encoding="utf-8")
    result = cli("compare", str(path), str(path))
    assert (result.exit_code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1


def test_an_error_of_cuprofs_own_shows_itself_and_is_never_taken_for_slower(
    cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("cuprof.comparison.compare.compare", fail)
    result = cli("compare", "1", "2")
    assert result.exit_code == 2
    assert "Traceback" in result.err
    assert result.err.endswith("ZeroDivisionError: a mistake\n")


def test_a_known_error_is_never_taken_for_slower(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise WorkerError("the worker did not start")

    monkeypatch.setattr("cuprof.comparison.compare.compare", fail)
    result = cli("compare", "1", "2")
    assert (result.exit_code, result.err) == (2, "error: the worker did not start\n")


QUICK = ("measure=quick", "measure.settle_seconds=0", "measure.max_seconds=0.1")


@pytest.mark.slow
def test_undecided_variants_are_timed_again_side_by_side(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = project.database_url
    words = ["compare", "reduction/cpu_numpy", "reduction/cpu_serial", "--sample-more"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/cuprof", *words])
    # At 2^14, in 17 µs, what is assumed of one preparation hides the effect by chance, and nothing is timed again.
    swept = cli(
        "sweep", "experiment=reduction", "variants=cpu_numpy,cpu_serial", "problem.n=2**20", "report=none", *QUICK
    )
    assert swept.exit_code == 0, swept.err
    sides = load_sides("reduction/cpu_numpy", "reduction/cpu_serial", url)
    first = compare(*sides, Options(Rule(0.1, 0.025)))
    first = replace(first, rows=first.rows.assign(verdict=Verdict.UNDECIDED.value))
    again = sample_more(first, project, lambda: nullcontext(Observer()))
    row, before = again.rows.iloc[0], first.rows.iloc[0]
    assert len(again.rows) == 1
    with Store.open(url, read_only=True, create=False) as store:
        sweeps = query(store.url, "SELECT id, command_line FROM sweep ORDER BY id").to_dict("records")
    assert [sweep["command_line"] for sweep in sweeps[1:]] == [" ".join(["cuprof", *words])]
    assert row.base_run_id != before.base_run_id
    assert row.base_identity == before.base_identity
    assert any("timed again in sweep 2" in text for text in again.warnings)
