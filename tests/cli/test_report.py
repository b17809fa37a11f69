"""`cuprof report`: which sweep the page is of."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))  # for the invented sweeps

from study_data import Made, fill

from cuprof.cli.results import write_page
from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.report.load import load_study
from cuprof.store.store import Store
from tests.conftest import Result, give_database

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Return a database and the sweeps in it."""
    file = tmp_path_factory.mktemp("filled") / "cuprof.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        return file, [
            fill(store, [Made("a")], name=str(place), experiment=name, family=name, finish=state)
            for place, (name, state) in enumerate(
                (("reduction", "finished"), ("reduction", "interrupted"), ("cuconv", "finished"))
            )
        ]


@pytest.fixture
def sweeps(project: Project, filled: tuple[Path, list[int]]) -> list[int]:
    """Store a finished sweep of the reduction study, an interrupted one, and one of another experiment."""
    give_database(project, filled[0])
    return filled[1]


def test_an_earlier_sweep_has_a_page_of_its_own(cli: Cli, sweeps: list[int]) -> None:
    newest = json.loads(cli("report", "output=json").out)
    chosen = json.loads(cli("report", f"report.sweep={sweeps[0]}", "output=json").out)
    assert (newest["sweep"], Path(newest["report"]).name) == (sweeps[1], "reduction.html")
    assert (chosen["sweep"], Path(chosen["report"]).name) == (sweeps[0], f"reduction-sweep-{sweeps[0]}.html")
    assert f"report.sweep={sweeps[0]}." in Path(newest["report"]).read_text(encoding="utf-8")
    assert "not finished" not in Path(chosen["report"]).read_text(encoding="utf-8")


def test_a_number_alone_says_which_sweep(cli: Cli, sweeps: list[int]) -> None:
    page = json.loads(cli("report", f"report.sweep={sweeps[2]}", "output=json").out)
    assert (page["sweep"], page["experiment"]) == (sweeps[2], "cuconv")
    assert Path(page["report"]).name == f"cuconv-sweep-{sweeps[2]}.html"


def test_a_family_that_is_only_stored_is_taken_by_its_name(cli: Cli, project: Project) -> None:
    with Store.open(project.database_url) as store:
        fill(store, [Made("a")], name="merged", experiment="", family="merged")
    assert Path(cli("report", "merged").out.strip()).name == "merged.html"
    assert "did you mean merged?" in cli("report", "mergd").err
    assert "did you mean measure=quick?" in cli("report", "quick").err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("report.sweep=77", "there is no sweep 77; the newest is 3"),
        (
            "experiment=reduction report.sweep=3",
            "sweep 3 is of experiment=cuconv, not of reduction; write experiment=cuconv report.sweep=3",
        ),
        ("report.sweep=0", "report.sweep is 0; it must be from 1 to"),
        ("report.sweep=last", "report.sweep is 'last'; it must be a whole number"),
    ],
)
def test_a_sweep_that_cannot_be_shown_is_one_line(cli: Cli, sweeps: list[int], setting: str, message: str) -> None:
    result = cli("report", *setting.split())
    assert result.exit_code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_where_only_a_swept_file_is_stored_its_family_is_named(cli: Cli, project: Project) -> None:
    url = f"sqlite:///{project.root / 'db' / 'cuprof.sqlite'}"
    with Store.open(url) as store:
        fill(store, [Made("a")], name="mine", experiment="", family="mine")
    for words in ((), ("family=other",)):
        refused = cli("report", *words)
        assert (refused.exit_code, refused.err.count("\n")) == (2, 1)
        assert "(the newest sweep is of family=mine; write that): there are mine" in refused.err
    assert "there is no file other.py, and no sweep of it is stored" in cli("report", "other.py").err
    for chosen in ("family=mine", "mine.py"):
        assert Path(cli("report", chosen).out.strip()).name == "mine.html"


def test_where_nothing_is_stored_a_sweep_comes_first(cli: Cli, project: Project) -> None:
    Store.open(f"sqlite:///{project.root / 'db' / 'cuprof.sqlite'}").close()
    assert "no experiment was named (run cuprof sweep experiment=NAME first): there are none" in cli("report").err


def test_a_sweeps_own_page_is_of_no_other_sweep(cli: Cli, project: Project) -> None:
    result = cli("sweep", "experiment=reduction", "report.sweep=1", "dry_run=true")
    assert result.exit_code == 2
    assert "report.sweep=1 is for cuprof report" in result.err


def test_a_familys_page_does_not_take_the_place_of_the_study_of_its_name(project: Project) -> None:
    (project.root / "conf" / "experiment").mkdir(parents=True)
    (project.root / "conf" / "experiment" / "both.yaml").write_text("# @package _global_\nfamily: both\n")
    names = []
    with Store.open(project.database_url) as store:
        for experiment, family in (("both", "both"), ("", "both"), ("", "mine")):
            sweep = fill(store, [Made("base")], experiment=experiment, family=family, name=family)
            study = load_study(store, sweep_id=sweep)
            names.append(write_page(store, study.sweep, SweepConfig("", family), project, study=study).stem)
    assert names == ["both", "family-both", "mine"]


def test_where_nobody_named_an_experiment_none_is_called_unknown(cli: Cli, project: Project) -> None:
    with Store.open(project.database_url) as store:
        fill(store, [Made("a")], name="add", experiment="", family="add")
    said = "error: no experiment was named (the newest sweep is of family=add; write that): there are add\n"
    refused = cli("report")
    assert (refused.exit_code, refused.err) == (2, said)
    for words, name in ((("experiment=reduction",), "experiment=reduction"), (("cuconv",), "family=cuconv")):
        none = f"no sweep of {name.partition('=')[2]} is stored; run cuprof sweep {name} first, or report one of add\n"
        assert cli("report", *words).err == f"error: {none}"


def test_the_page_of_a_file_is_not_that_of_an_experiment_of_its_name(cli: Cli, project: Project) -> None:
    Path("reduction.py").touch()
    with Store.open(project.database_url) as store:
        own = fill(store, [Made("a")], name="reduction", experiment="", family="reduction")
        study = fill(store, [Made("a")], name="reduction", experiment="reduction", family="reduction")
    page = json.loads(cli("report", "reduction.py", "output=json").out)
    assert (page["sweep"], Path(page["report"]).name) == (own, "family-reduction.html")
    assert "<title>reduction ·" in Path(page["report"]).read_text(encoding="utf-8")
    assert json.loads(cli("report", "experiment=reduction", "output=json").out)["sweep"] == study
