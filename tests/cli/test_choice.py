"""What a command line chooses to run, and what it says where nothing is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.cli.choice import find_meant, is_chosen
from cuprof.cli.init import make_project
from cuprof.core.project import Project, checkout, find_project
from tests.conftest import Result

Cli = Callable[..., Result]


@pytest.fixture
def own(project: Project) -> Project:
    """Return a project that `cuprof init` has made."""
    (project.root / "cuprof.toml").unlink()
    make_project(project.root)
    return find_project()


@pytest.mark.parametrize("words", [(), ("--",)])
@pytest.mark.parametrize("command", ["sweep", "ncu-collect"])
def test_in_an_empty_folder_nothing_runs_and_it_says_what_could(
    cli: Cli, project: Project, command: str, words: tuple[str, ...]
) -> None:
    done = cli(command, *words)
    assert (done.exit_code, done.out) == (2, "")
    heading, first, *_, last = done.err.splitlines()
    assert heading == f"error: name what cuprof {command} is to run"
    assert first.split()[:3] == ["cuprof", command, "FILE.py"]
    assert f"  cuprof {command} experiment=reduction" in done.err
    assert last.split()[:2] == ["cuprof", "init"]
    assert not (project.root / "db").exists()


def test_a_projects_own_come_first(cli: Cli, own: Project) -> None:
    (own.root / "mine.py").write_text("import cuprof\ncuprof.compare()\n")
    (own.root / "other.py").write_text("print(1)\n")
    lines = [line.split() for line in cli("sweep").err.splitlines()[1:]]
    assert [words[2] for words in lines[:3]] == ["mine.py", "scale", "experiment=scale"]
    assert all(words[-1] == "cuprof" for words in lines[3:])


def test_files_are_named_as_the_shell_takes_them(cli: Cli, own: Project) -> None:
    for name in ("my kernel.py", "-mine.py"):
        (own.root / name).write_text("import cuprof\ncuprof.compare()\n")
    said = cli("sweep").err
    assert "  cuprof sweep 'my kernel.py' " in said
    assert "  cuprof sweep ./-mine.py " in said


def test_a_name_alone_is_a_family_or_an_experiment(cli: Cli, own: Project) -> None:
    for word, trials in (("scale", 2), ("experiment=scale", 4)):
        done = cli("sweep", word, "dry_run=true")
        assert done.exit_code == 0, done.err
        assert done.out.count("scale/") == trials
    assert cli("sweep", "all_studies", "dry_run=true", "problem.n=1").err.startswith(
        "error: problem.n is of one family"
    )
    assert "did you mean scale?" in cli("sweep", "scael").err
    (own.root / "conf" / "experiment" / "scale.yaml").unlink()
    assert cli("sweep", "experiment=scale").err == "error: scale is a family: write family=scale\n"


@pytest.mark.parametrize(
    ("argv", "chosen"),
    [
        ([], False),
        (["measure=quick", "--store", "x.sqlite", "-m"], False),
        (["experiment=reduction"], True),
        (["+family=x"], True),
        (["reduction"], True),
        (["-cn", "mine"], True),
        (["--cfg", "job"], True),
        (["--help"], True),
    ],
)
def test_when_something_is_chosen(project: Project, argv: list[str], chosen: bool) -> None:
    assert is_chosen(argv, project) is chosen
    assert is_chosen(argv, Project(checkout() or Path())) is True


def test_a_configuration_of_ones_own_chooses(project: Project) -> None:
    (project.root / "conf").mkdir()
    (project.root / "conf" / "config.yaml").touch()
    assert is_chosen([], project)


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--quick", "measure=quick"),
        ("--measure", "measure=…"),
        ("--measure=hot", "measure=hot"),
        ("--gpu", "device=cuda"),
        ("--json", "output=json"),
        ("--variant=a", "variants=a"),
        ("--dry-run", ""),
        ("--nonsense", ""),
    ],
)
def test_options_that_people_try_are_settings(option: str, meant: str) -> None:
    assert find_meant(option) == meant


def test_what_was_meant_is_said(cli: Cli, project: Project) -> None:
    for words, said in {
        ("sweep", "reduction", "--quick"): "write measure=quick",
        ("sweep", "reduction", "quick"): "did you mean measure=quick?",
        ("sweep", "reduction", "device=gpu"): "did you mean cuda?",
        ("bench",): "did you mean sweep?",
        ("status", "--wach"): "unknown option --wach",
        ("compare", "a", "b", "--markdwn"): "did you mean --markdown",
        ("check",): "\n  cuprof check reduction    a family\n",
    }.items():
        done = cli(*words)
        assert (done.exit_code, done.out) == (2, "")
        assert said in done.err
