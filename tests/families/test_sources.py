"""What enters a kernel variant's identity of its source file, in each language."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.core.errors import FamilyError
from cuprof.families.sources import (
    ENCODED,
    expand_includes,
    list_origins,
    read_variant_source,
    relocate,
    to_bytes,
    write_python,
)


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_binary_comes_back_byte_by_byte(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3
    text = read_variant_source(put(tmp_path, "k.cubin", content), tmp_path)
    assert text.startswith(ENCODED)
    assert to_bytes(text) == content


def test_ptx_and_scripts_are_text(tmp_path: Path) -> None:
    assert read_variant_source(put(tmp_path, "k.ptx", ".version 9.0\n"), tmp_path) == ".version 9.0\n"
    script = read_variant_source(put(tmp_path, "run", "#!/bin/sh\necho ü\n"), tmp_path)
    assert to_bytes(script).decode() == "#!/bin/sh\necho ü\n"


def test_c_plus_plus_is_expanded(tmp_path: Path) -> None:
    put(tmp_path, "a.h", "int a;\n")
    assert "int a;" in read_variant_source(put(tmp_path, "k.cpp", '#include "a.h"\n'), tmp_path)


def test_python_brings_the_files_that_it_imports_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, "lone.py", "LONE = 1\n")
    put(tmp_path, "deeper.py", "DEEPER = 1\n")
    put(tmp_path, "helpers.py", "from .deeper import DEEPER\n")
    main = put(tmp_path, "k.py", "import math\nfrom .helpers import DEEPER\nfrom . import kernel\n")
    text = read_variant_source(main, tmp_path)
    assert "DEEPER = 1" in text
    assert "LONE" not in text
    again = write_python(text, tmp_path / "again")
    assert again.read_text() == main.read_text()
    assert (again.parent / "deeper.py").read_text() == "DEEPER = 1\n"
    put(tmp_path, "deeper.py", "DEEPER = 2\n")
    assert read_variant_source(main, tmp_path) != text


def test_a_syntax_error_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(FamilyError, match=r"k\.py, line 2"):
        read_variant_source(put(tmp_path, "k.py", "x = 1\nx = = 2\n"), tmp_path)


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


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"main": '#include "empty.cu"\n' * 20_001, "empty": ""}, "has more than 20000 includes"),
        (
            {"main": '#include "f0.cu"\n', **{f"f{n}": f'#include "f{n + 1}.cu"\n' * 2 for n in range(16)}, "f16": ""},
            "has more than 20000 includes in all; give these `#pragma once`",
        ),
        (
            {"main": '#include "f1.cu"\n', **{f"f{n}": f'#include "f{n + 1}.cu"\n' for n in range(1, 2000)}},
            "nests includes more than 200 deep; include some files directly",
        ),
        ({"main": f'#include "{"x" * 300}"\n'}, 'includes "xxx'),
        ({"main": '#include "a\0b"\n'}, r"main\.cu includes .* neither beside it nor in"),
    ],
)
def test_includes_are_bounded_in_one_line(tmp_path, files, told):
    write(tmp_path, **files)
    with pytest.raises(FamilyError, match=told):
        expand_includes(tmp_path / "main.cu", tmp_path)


def test_as_many_includes_as_are_allowed_are_expanded(tmp_path):
    chain = {f"f{n}": f'#include "f{n + 1}.cu"\n' for n in range(1, 200)}
    write(tmp_path, main='#include "f1.cu"\n' + '#include "f200.cu"\n' * 19_800, **chain, f200="x")
    assert expand_includes(tmp_path / "main.cu", tmp_path).split() == ["x"] * 19_801


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
