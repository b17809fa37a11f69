"""Help names every setting."""

from __future__ import annotations

import re

import pytest

from cuprof.cli import ncu_collect, report, sweep
from cuprof.config.build import list_settings


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


def test_sweeps_help_names_every_setting() -> None:
    assert unnamed(sweep.HELP, list_settings()) == []


def test_a_setting_that_is_left_out_is_found() -> None:
    assert unnamed(sweep.HELP, ["measure.tarmac", "famly", "store.path"]) == ["measure.tarmac", "famly", "store.path"]


@pytest.mark.parametrize("text", [ncu_collect.HELP, report.HELP])
def test_the_other_commands_help_says_where_the_rest_is(text: str) -> None:
    assert "cuprof sweep --help" in text
