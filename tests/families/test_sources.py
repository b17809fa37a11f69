"""What enters a kernel variant's identity of its source file, in each language."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuprof.core.errors import FamilyError
from cuprof.families.sources import ENCODED, read_variant_source, to_bytes, write_python


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
