"""What is said of an exception that a family's code raised."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cuprof.families.trace import last_frames, place_of


def invert(x: np.ndarray) -> np.ndarray:
    return np.linalg.inv(x)


def test_the_author_s_last_line_and_the_last_frames_are_named() -> None:
    with pytest.raises(np.linalg.LinAlgError) as caught:
        invert(np.zeros(3))
    said = last_frames(caught.value)
    assert said.startswith(" (test_trace.py, line 15, in invert; _linalg.py, line ")
    assert said.endswith(", in _assert_stacked_square)")
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(".")
    assert last_frames(caught.value).count("; ") == 2


def test_frames_of_cuprof_are_left_out_and_those_of_bundled_families_are_not(tmp_path: Path) -> None:
    import cuprof

    package = Path(cuprof.__file__).parent
    for place, is_shown in ((package / "worker" / "x.py", False), (package / "_bundled" / "kernels" / "x.py", True)):
        with pytest.raises(ZeroDivisionError) as caught:
            exec(compile("1 / 0", str(place), "exec"))
        assert ("x.py, line 1" in last_frames(caught.value)) == is_shown


def test_a_frame_of_no_file_is_no_place_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("exec('1 / 0')", str(tmp_path / "mine.py"), "exec"))
    assert place_of(caught.value, tmp_path) == " (mine.py, line 1, in <module>)"


def test_names_of_frames_are_shown_without_what_a_terminal_obeys() -> None:
    code = compile("1 / 0", "\x1b[31mred.py", "exec").replace(co_name="\x1b]0;title" + "x" * 400)
    with pytest.raises(ZeroDivisionError) as caught:
        exec(code)
    said = last_frames(caught.value)
    assert said.isprintable()
    assert len(said) < 310
