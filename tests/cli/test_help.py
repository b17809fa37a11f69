"""Help names every setting."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from cuprof.config.build import list_settings
from tests.conftest import Result


def unnamed(text: str, settings: list[str]) -> list[str]:
    """Return the settings that neither stand in the text as they are nor in the list of their group."""
    groups = {
        group: set(re.findall(r"\w+", names))
        for group, names in re.findall(r"^  (\w+) +((?:\w+,? ?)[^=]*?)(?=^  \w|^$)", text, re.MULTILINE)
    }
    return [
        key
        for key in settings
        if not re.search(rf"(?<![\w.]){re.escape(key)}[.=]", text)
        and key.partition(".")[2] not in groups.get(key.partition(".")[0], ())
    ]


@pytest.mark.parametrize("command", ["ncu-collect", "report"])
def test_the_other_commands_help_says_where_the_rest_is(cli: Callable[..., Result], command: str) -> None:
    assert "see cuprof sweep --help" in cli(command, "--help").out


def test_the_help_says_what_check_compiles(cli: Callable[..., Result]) -> None:
    assert "compile every CUDA variant" in cli("--help").out
    assert "OpenCL C are compiled where they run" in cli("check", "--help").out


def test_the_help_shows_first_how_a_file_is_swept(cli: Callable[..., Result]) -> None:
    assert "examples:\n  cuprof sweep my_kernels.py\n" in cli("--help").out


def test_sweeps_help_names_every_setting(cli: Callable[..., Result]) -> None:
    text = cli("sweep", "--help").out
    assert unnamed(text, list_settings()) == []
    assert unnamed(text, ["measure.tarmac", "famly", "store.path"]) == ["measure.tarmac", "famly", "store.path"]
