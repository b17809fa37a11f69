"""Reading files that may be anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuprof.core.errors import UsageError
from cuprof.core.files import open_regular, read_regular


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("fifo", "circle", "zero", ".", "absent", "null\0"):
        with pytest.raises(UsageError, match="cannot be read"):
            open_regular(tmp_path / name)


def test_a_file_of_too_many_bytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UsageError, match="has 1099511627776 bytes; at most 67108864 are read"):
        read_regular(file)
    os.truncate(file, 2)
    assert read_regular(file, 2) == b"\0\0"


def test_a_read_that_fails_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad").symlink_to("/proc/self/mem")  # opens as a file, and has no first byte
    with pytest.raises(UsageError, match=f"{tmp_path}/bad cannot be read: Input/output error"):
        read_regular(tmp_path / "bad")
    with open_regular(tmp_path / "bad") as stream, pytest.raises(UsageError, match="bad cannot be read"):
        stream.read(9)
