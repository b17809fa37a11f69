"""What the author of a candidate is told of a file that adds nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from cuprof.core.errors import FamilyError
from cuprof.families.candidate import copy_family, extend
from cuprof.families.origin import load_family
from cuprof.judge.border.inside import refuse

FAMILY = Path(__file__).parents[1] / "data" / "families" / "vector"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mine.py adds no variant; register one with @family.cuda, @family.cpu, …"),
        ("def (:\n", "mine.py raised SyntaxError: invalid syntax (line 1)"),
        (
            '\n@famly.cpu("m")\ndef m(): pass\n',
            "mine.py raised NameError: name 'famly' is not defined (mine.py, line 2, in <module>)",
        ),
    ],
)
def test_an_input_mistake_is_one_line_with_the_author_s_line_and_no_log(tmp_path: Path, text: str, said: str) -> None:
    copy, extension = copy_family(FAMILY, tmp_path / "copy", tmp_path / "mine.py", text.encode())
    with pytest.raises(FamilyError) as caught:
        extend(load_family(copy), extension)
    told = msgspec.json.decode(refuse(caught.value))
    assert (told["message"], told["log"]) == (said, "")


def test_a_name_with_dots_reaches_the_family_too(tmp_path: Path) -> None:
    lines = "from .family import FACTOR\n@family.cpu('mine')\ndef mine(problem, tune, inputs, outputs): pass\n"
    copy, extension = copy_family(FAMILY, tmp_path / "copy", tmp_path / "mine.v2.py", lines.encode())
    assert extend(load_family(copy), extension) == ("mine",)


def test_a_copy_has_none_of_the_other_candidates(tmp_path: Path) -> None:
    folder = tmp_path / "vector"
    shutil.copytree(FAMILY, folder)
    (folder / "below").mkdir()
    for name in ("one.py", "below/two.py", "below/three.py"):
        (folder / name).write_text(name)
    (folder / "link.py").symlink_to("one.py")
    without = [str(folder / name) for name in ("one.py", "below/two.py")]
    copy, _ = copy_family(folder, tmp_path / "copy", folder / "mine.py", b"", without)
    copied = {str(path.relative_to(copy)) for path in copy.rglob("*.py")}
    own = {str(path.relative_to(FAMILY)) for path in FAMILY.rglob("*.py")}
    assert copied == {"below/three.py", "mine.py", *own}


def test_an_error_of_the_author_s_own_keeps_its_log() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        divmod(1, 0)
    assert "Traceback" in msgspec.json.decode(refuse(caught.value))["log"]
