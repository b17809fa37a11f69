import pytest

from cuprof.core.errors import FamilyError
from cuprof.families.sources import expand_includes, list_origins, relocate


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.cu").write_text(text, encoding="utf-8")
    return folder


def test_nested_includes_are_expanded_in_place(tmp_path):
    write(tmp_path, main='a\n  # include "one.cu" // why\nz\n', one='b\n#include "two.cu"\ny', two="c")
    assert expand_includes(tmp_path / "main.cu", tmp_path).split() == ["a", "b", "c", "y", "//", "why", "z"]


def test_angle_includes_and_comments_stay(tmp_path):
    text = '#include <cuda_fp16.h>\n// #include "none.cu"\n/*\n#include "none.cu"\n*/\nconst char* s = "/*";\n'
    write(tmp_path, main=text + '#include "one.cu"\n', one="int x; /* end */")
    assert expand_includes(tmp_path / "main.cu", tmp_path) == text + "int x; /* end */\n"


def test_renaming_an_included_file_changes_nothing_and_editing_does(tmp_path):
    write(tmp_path, main='#include "one.cu"\n', one="int x;\n")
    before = expand_includes(tmp_path / "main.cu", tmp_path)
    write(tmp_path, main='#include "renamed.cu"\n', renamed="int x;\n")
    assert expand_includes(tmp_path / "main.cu", tmp_path) == before
    write(tmp_path, renamed="int y;\n")
    assert expand_includes(tmp_path / "main.cu", tmp_path) != before


def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path):
    (tmp_path / "unix.cu").write_bytes(b"int x;\nint y;\n")
    (tmp_path / "windows.cu").write_bytes(b"\xef\xbb\xbfint x;\r\nint y;\r\n")
    assert expand_includes(tmp_path / "unix.cu", tmp_path) == expand_includes(tmp_path / "windows.cu", tmp_path)


def test_cycles_end(tmp_path):
    write(tmp_path, main='m\n#include "one.cu"\n', one='o\n#include "main.cu"\n#include "one.cu"\n')
    assert expand_includes(tmp_path / "main.cu", tmp_path).split() == ["m", "o"]


def test_pragma_once_enters_once_and_the_rest_as_often_as_written(tmp_path):
    write(
        tmp_path,
        main='#include "one.cu"\n#include "one.cu"\n#include "many.cu"\n#include "many.cu"\n',
        one="#pragma once\nonce\n",
        many="many\n",
    )
    assert expand_includes(tmp_path / "main.cu", tmp_path).split() == ["once", "many", "many"]


def test_a_name_is_looked_for_beside_the_file_then_in_the_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path, main='#include "deep/one.cu"\n', two="top", three="top3")
    write(tmp_path / "deep", one='#include "two.cu"\n#include "three.cu"\n', two="deep")
    assert expand_includes(tmp_path / "main.cu", tmp_path).split() == ["deep", "top3"]


def test_missing_include_names_both_files(tmp_path):
    write(tmp_path, main='#include "none.cuh"\n')
    with pytest.raises(FamilyError, match=r'main\.cu includes "none\.cuh".*#include <none\.cuh> for a header'):
        expand_includes(tmp_path / "main.cu", tmp_path)


def test_missing_and_unreadable_sources(tmp_path):
    with pytest.raises(FamilyError, match=r"gone\.cu cannot be read: No such file"):
        expand_includes(tmp_path / "gone.cu", tmp_path)
    (tmp_path / "latin.cu").write_bytes(b"// \xe4\n")
    with pytest.raises(FamilyError, match="not UTF-8 text"):
        expand_includes(tmp_path / "latin.cu", tmp_path)


def test_doubling_includes_are_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("cuprof.families.sources.MAX_CHARACTERS", 100_000)
    for level in range(30):
        write(tmp_path, **{f"f{level}": f'#include "f{level + 1}.cu"\n' * 2 + "x" * 1000})
    write(tmp_path, f30="int x;\n")
    with pytest.raises(FamilyError, match="grows beyond"):
        expand_includes(tmp_path / "f0.cu", tmp_path)


def test_each_line_of_an_expanded_text_has_its_file_and_line(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.cu").write_text(
        'int a1;\n#include "sub/b.cuh"\nint a3; /* x\ny */ int a4;\n#include "sub/b.cuh"\nint a6;'
    )
    (tmp_path / "sub" / "b.cuh").write_text('#pragma once\nint b2;\n#include "../c.cuh"\nint b4;\n')
    (tmp_path / "c.cuh").write_text("int c1;\nint c2;")
    file = tmp_path / "a.cu"
    lines = expand_includes(file, tmp_path).split("\n")
    origins = list_origins(file, tmp_path)
    assert len(lines) == len(origins)
    named = {
        line.split("int ")[1][:2]: (path.name, number)
        for line, (path, number) in zip(lines, origins, strict=True)
        if "int " in line
    }
    letters = {"a": "a.cu", "b": "b.cuh", "c": "c.cuh"}
    assert named == {
        name: (letters[name[0]], int(name[1])) for name in ("a1", "b2", "c1", "c2", "b4", "a3", "a4", "a6")
    }


def test_a_compilers_message_names_the_file_that_a_line_came_from(tmp_path):
    (tmp_path / "k.cu").write_text('#include "h.cuh"\nint x;\n')
    (tmp_path / "h.cuh").write_text("int one;\nint two;\n")
    told = relocate("NVRTC refused k.cu: k.cu(2): error; other.cu(2): k.cu(99) and k.cu(4)", "k.cu", tmp_path)
    assert told == "NVRTC refused k.cu: h.cuh(2): error; other.cu(2): k.cu(99) and k.cu(2)"
    assert relocate("<kernel>:1:7: error", "k.cu", tmp_path) == "h.cuh:1:7: error"
    assert relocate("lib: k.cu(2)", None, tmp_path) == relocate("lib: k.cu(2)", "k.cu", None) == "lib: k.cu(2)"
