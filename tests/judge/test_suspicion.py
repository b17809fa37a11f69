"""What a look at a candidate's text finds, and that no text ends the look of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.judge.suspicion import suspect


@pytest.mark.parametrize(
    "text", ["x = " + "-" * 100_000 + "1", "x = " + "(" * 5000 + ")" * 5000, "x = a" + ".b" * 20_000]
)
def test_text_that_is_nested_deeply_is_read_or_said_to_be_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "deep.py").write_text(text)
    said = [each.detail for each in suspect(tmp_path / "deep.py")]
    assert said in ([], ["it is nested too deeply to be read"])


def test_what_reaches_past_the_computation_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import numpy\nimport socket\nnumpy.add = max\nexec('1')\n")
    assert [each.detail for each in suspect(tmp_path / "odd.py")] == [
        "line 2: imports socket, which speaks to the network",
        "line 3: replaces numpy.add",
        "line 4: calls exec",
    ]


@pytest.mark.parametrize("module", ["cuprof.families", "cuprof.family", "cuprof.interop"])
def test_what_a_candidate_is_written_with_is_not_unusual(tmp_path: Path, module: str) -> None:
    (tmp_path / "plain.py").write_text(f"import {module}\n")
    assert suspect(tmp_path / "plain.py") == ()
