from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from cuprof.cli.init import make_project
from cuprof.cli.main import COMMANDS
from cuprof.core.project import Project
from tests.conftest import Result

Cli = Callable[..., Result]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cuprof swe", "sweep"),
        ("cuprof sweep measu", "measure="),
        ("cuprof sweep measure=qu", "measure=quick"),
        ("cuprof sweep measure=quick measure.tar", "measure.target="),
        ("cuprof report experiment=filter", "experiment=filter3x3"),
        ("cuprof report report.sw", "report.sweep="),
        ("cuprof list fam", "families"),
        ("cuprof query --for", "--format"),
        ("cuprof judge reduc", "reduction"),
        ("cuprof judge reduction --sand", "--sandbox"),
    ],
)
def test_words_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, expected: str) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    result = cli("-sc", "query=bash")
    assert result.exit_code == 0
    assert expected in result.out.split()


def complete(cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, shell: str = "bash") -> list[str]:
    monkeypatch.setenv("COMP_LINE", line)
    result = cli("-sc", f"query={shell}")
    assert (result.exit_code, result.err) == (0, "")
    return result.out.split("\n" if shell == "fish" else None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cuprof sweep variants=last", ["variants=last_warp"]),
        ("cuprof sweep variants=sequential,first", ["variants=sequential,first_add"]),
        ("cuprof sweep baseline=cupy", ["baseline=cupy_sum"]),
        ("cuprof sweep problem.", ["problem.n=", "problem.dtype=", "problem.preset="]),
        ("cuprof sweep problem.dtype=f", ["problem.dtype=float32"]),
        ("cuprof sweep problem.n=2**16,2**18,2**2", [f"problem.n=2**16,2**18,2**{k}" for k in (20, 22, 24, 26)]),
        ("cuprof report experiment=cuconv problem.preset=E", [f"problem.preset=E{number}" for number in range(1, 5)]),
        ("cuprof ncu-collect experiment=reduction tune.block=1", ["tune.block=128", "tune.block=1024"]),
        ("cuprof sweep vari", ["variants="]),
        ("cuprof sweep experiment=nowhere variants=", []),
        ("cuprof sweep experiment=all_studies variants=", []),
        ("cuprof sweep measure.modes=", []),
    ],
)
def test_what_a_family_decides_is_completed_from_it(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]
) -> None:
    assert complete(cli, monkeypatch, line) == expected


def test_a_typed_family_is_the_one_completed(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "cuprof.toml").unlink()
    make_project(project.root)
    for choice in ("family=scale", "experiment=scale"):
        found = complete(cli, monkeypatch, f"cuprof sweep {choice} variants=")
        assert found == ["variants=numpy", "variants=plain", "variants=all"]
    assert complete(cli, monkeypatch, "cuprof sweep family=scale tune.") == ["tune.block="]


def test_named_queries_and_views_are_completed(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project.root / "db" / "queries"
    folder.mkdir(parents=True)
    (folder / "mine.sql").write_text("SELECT 1")
    found = complete(cli, monkeypatch, "cuprof query ", "fish")
    assert {"mine", "best", "sweep_fastest", "failures", "--format"} <= set(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_function_is_for_cuprof(cli: Cli, shell: str) -> None:
    result = cli("-sc", f"install={shell}")
    assert result.exit_code == 0
    assert "cuprof" in result.out


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    result = cli("-sc", "install=tcsh")
    assert result.exit_code == 2
    assert "install=SHELL" in result.err


@pytest.mark.parametrize("command", [name for name, command in COMMANDS.items() if not command.is_hydra])
def test_every_option_of_a_command_is_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    offered = set(re.findall(r"^  (--[a-z-]+)", cli(command, "--help").out, re.MULTILINE))
    assert offered == set(complete(cli, monkeypatch, f"cuprof {command} --"))
