from __future__ import annotations

import json

import pytest

from cuprof.cli.output import emit, preview_parts, to_text
from cuprof.engine.preview import Preview, PreviewRow

ROWS = (
    PreviewRow("f/a · n=1", "0123456789abcdef" * 2, "stored"),
    PreviewRow("f/b · n=1", "fedcba9876543210" * 2, "unavailable", "no GPU"),
    PreviewRow("f/c · block=7", "", "excluded", "block is odd"),
)


def test_lines() -> None:
    assert to_text(preview_parts(Preview(ROWS)), 80).splitlines() == [
        "trial          identity  state        reason",
        "──────────────────────────────────────────────────",
        "f/a · n=1      01234567  stored",
        "f/b · n=1      fedcba98  unavailable  no GPU",
        "f/c · block=7            excluded     block is odd",
        "",
        "1 stored, 1 unavailable, 1 excluded; nothing was run",
    ]


def test_what_has_no_effect_is_said() -> None:
    lines = to_text(preview_parts(Preview(ROWS, ("problem.N is not used",))), 80).splitlines()
    assert lines[-2:] == ["problem.N is not used", "1 stored, 1 unavailable, 1 excluded; nothing was run"]


def test_json_has_whole_identities(capsys: pytest.CaptureFixture[str]) -> None:
    emit(ROWS, as_json=True)
    first, *_, last = json.loads(capsys.readouterr().out)
    assert first == {"label": "f/a · n=1", "identity": "0123456789abcdef" * 2, "state": "stored", "reason": ""}
    assert last["reason"] == "block is odd"
