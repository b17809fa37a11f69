import os
import re
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

from cuprof.core.errors import FamilyError, UnknownNameError
from cuprof.families import Point
from cuprof.families.origin import Folder, Script, list_families, load_family, loading
from cuprof.interop.origins import find_origin

FAMILIES = Path(__file__).parent.parent / "data" / "families"


def write_family(folder: Path, body: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "family.py").write_text(body, encoding="utf-8")
    return folder


def test_listing_imports_nothing_and_is_sorted():
    before = set(sys.modules)
    names = list(list_families([FAMILIES]))
    assert {"vector", "siblings", "raises", "invalid"} <= set(names)
    assert names == sorted(names)
    assert set(sys.modules) == before


def test_earlier_folder_hides_later_one_and_missing_folder_is_empty(tmp_path):
    own = write_family(tmp_path / "vector", "")
    found = list_families([tmp_path / "none", tmp_path, FAMILIES])
    assert found["vector"] == own
    assert found["siblings"] == FAMILIES / "siblings"


def test_hidden_folders_and_folders_without_family_are_passed_over(tmp_path):
    write_family(tmp_path / ".hidden", "")
    write_family(tmp_path / "_private", "")
    (tmp_path / "empty").mkdir()
    assert list_families([tmp_path]) == {}


def test_loaded_family_knows_its_folder_and_its_variants_in_order():
    family = find_origin("vector", [FAMILIES]).load()
    assert family.folder == (FAMILIES / "vector").resolve()
    assert list(family.variants) == ["cpu_whole", "cpu_chunks", "wide", "cpu_wrong"]
    assert family.variant("cpu_whole").description == "One call for the whole array."


def test_unknown_family_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown family 'vectr' in .*: did you mean vector\?"):
        find_origin("vectr", [FAMILIES])


def test_a_path_is_no_name():
    with pytest.raises(UnknownNameError):
        find_origin("../families/vector", [FAMILIES])


def test_files_beside_family_py_are_imported_relatively_eagerly_and_late():
    family = load_family(FAMILIES / "siblings")
    x, y = np.arange(8.0), np.zeros(1)
    for name in ("eager", "lazy"):
        y[:] = np.nan
        family.variant(name).make(Point(n=8), Point(), {"x": x}, {"y": y})()
        assert y[0] == 28


def test_two_families_may_have_files_of_the_same_name(tmp_path):
    for name in ("one", "two"):
        body = (FAMILIES / "siblings" / "family.py").read_text().replace('"siblings"', f'"{name}"')
        write_family(tmp_path / name, body)
        for file in ("steps.py", "contract.py"):
            (tmp_path / name / file).write_text((FAMILIES / "siblings" / file).read_text())
    (tmp_path / "two" / "steps.py").write_text("def total(x, y):\n    y[0] = -1\n")
    results = []
    for name in ("one", "two"):
        y = np.zeros(1)
        load_family(tmp_path / name).variant("eager").make(Point(n=2), Point(), {"x": np.ones(2)}, {"y": y})()
        results.append(y[0])
    assert results == [2, -1]
    assert "steps" not in sys.modules


def test_an_edit_within_the_same_second_and_size_is_seen(tmp_path):
    body = (FAMILIES / "vector" / "family.py").read_text().replace('name="vector"', 'name="edited"')
    folder = write_family(tmp_path / "edited", body)
    assert load_family(folder).title == "y = 2x"
    write_family(folder, body.replace("y = 2x", "y = 3x"))
    assert load_family(folder).title == "y = 3x"


def test_a_script_finds_no_arguments_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cuprof", "sweep", "family=other"])
    script = tmp_path / "script.py"
    lines = ("import argparse, cuprof", "argparse.ArgumentParser().parse_args()", "cuprof.compare(abs, inputs=[1.0])")
    script.write_text("\n".join(lines))
    assert load_family(script).name == "script"
    assert sys.argv == ["cuprof", "sweep", "family=other"]


def test_loading_leaves_no_byte_code_beside_the_sources(tmp_path):
    folder = write_family(tmp_path / "siblings", (FAMILIES / "siblings" / "family.py").read_text())
    for file in ("steps.py", "contract.py"):
        (folder / file).write_text((FAMILIES / "siblings" / file).read_text())
    load_family(folder)
    assert not (folder / "__pycache__").exists()


def test_exception_on_import_is_one_line_with_the_family_s_own_place():
    with pytest.raises(FamilyError) as caught:
        load_family(FAMILIES / "raises")
    message = str(caught.value)
    assert "\n" not in message
    assert str(FAMILIES / "raises" / "family.py") in message
    assert "JSONDecodeError: Expecting property name" in message
    assert re.search(r"on import \(family\.py, line \d+, in read_table\)", message)
    half_imported = str(FAMILIES / "raises" / "family.py")
    assert half_imported not in [getattr(module, "__file__", None) for module in sys.modules.values()]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def broken(:\n    pass\n", r"SyntaxError: .* \(line 1\)"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("raise BaseException('no')", "BaseException: no"),
        ("class Mute(Exception):\n    def __str__(self): raise self\nraise Mute", r"raised Mute on import"),
        ("import late_part", "write `from . import late_part`"),
        ("raise ValueError('one\\ntwo')", "ValueError: one two"),
        ("family = 3", "must define `family = Family"),
        ("", "there is none"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(tmp_path, body, said):
    folder = write_family(tmp_path / "strange name ü", body)
    (folder / "late_part.py").write_text("")
    with pytest.raises(FamilyError, match=said) as caught:
        load_family(folder)
    assert "\n" not in str(caught.value)


def test_folder_without_family_py(tmp_path):
    with pytest.raises(FamilyError, match=r"has no family\.py"):
        load_family(tmp_path)


@pytest.mark.parametrize("origin", [Folder, Script])
def test_a_family_py_that_is_no_file_is_refused_at_once(tmp_path, origin):
    os.mkfifo(tmp_path / "family.py")
    with pytest.raises(FamilyError, match=r"it is not a file|has no family\.py"):
        origin(tmp_path / "family.py" if origin is Script else tmp_path).load()


def test_a_failing_family_can_be_mended_and_loaded_again(tmp_path):
    folder = write_family(tmp_path / "vector", "1 / 0")
    with pytest.raises(FamilyError, match="ZeroDivisionError"):
        load_family(folder)
    write_family(folder, (FAMILIES / "vector" / "family.py").read_text())
    assert load_family(folder).name == "vector"


def test_invalid_family_is_refused():
    with pytest.raises(FamilyError, match="problem axis n has the default 0, but takes a whole number from 1 to 8"):
        find_origin("invalid", [FAMILIES]).load()


def test_functions_of_a_loaded_family_have_readable_tracebacks():
    family = load_family(FAMILIES / "vector")
    with pytest.raises(AssertionError) as caught:
        family.variant("wide").make(Point(n=1), Point(), {}, {})
    assert 'raise AssertionError("never called")' in "".join(traceback.format_exception(caught.value))


def test_origins_that_are_equal_are_one_and_travel_as_data(tmp_path):
    folder = Folder(tmp_path)
    assert folder == Folder(tmp_path) != Script(tmp_path)
    assert len({folder, Folder(tmp_path), Script(tmp_path)}) == 2
    assert folder.folder == tmp_path


def test_compare_in_an_imported_helper_defines_the_family_of_the_script(tmp_path):
    (tmp_path / "helper_of_this.py").write_text("import cuprof\ndef start(f):\n    cuprof.compare(f, inputs=[1.0])\n")
    (tmp_path / "script.py").write_text("from helper_of_this import start\nstart(abs)\n")
    family = load_family(tmp_path / "script.py")
    assert (family.name, [*family.variants]) == ("script", ["abs"])
    assert (family.path, family.origin) == (tmp_path / "script.py", Script(tmp_path / "script.py"))
    del sys.modules["helper_of_this"]


def test_nothing_is_being_loaded_before_and_after_nor_when_it_fails(tmp_path):
    assert loading.get() is None
    (tmp_path / "script.py").write_text("import cuprof\ncuprof.compare(abs, inputs=[1.0])\n1 / 0\n")
    with pytest.raises(FamilyError, match="ZeroDivisionError"):
        load_family(tmp_path / "script.py")
    assert loading.get() is None
