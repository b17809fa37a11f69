from __future__ import annotations

from collections.abc import Callable

import pytest

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
        ("cuprof list fam", "families"),
        ("cuprof query --for", "--format"),
    ],
)
def test_words_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, expected: str) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    result = cli("-sc", "query=bash")
    assert result.exit_code == 0
    assert expected in result.out.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_function_is_for_cuprof(cli: Cli, shell: str) -> None:
    result = cli("-sc", f"install={shell}")
    assert result.exit_code == 0
    assert "cuprof" in result.out


def test_an_unknown_shell_is_refused(cli: Cli) -> None:
    result = cli("-sc", "install=tcsh")
    assert result.exit_code == 2
    assert "install=SHELL" in result.err
