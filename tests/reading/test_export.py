"""Frames for programs: strict JSON, numbers as numbers."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import pandas as pd
import pytest

from cuprof.errors import MissingDependencyError, StoreError, UsageError
from cuprof.reading.export import to_bytes, to_parquet, write_file
from cuprof.reading.frames import make_frame

FRAME = pd.DataFrame(
    {
        "variant": ["last_warp", 'with "quotes", and\nlines'],
        "median_us": [16.25, math.nan],
        "bytes": pd.Series([67108864, None], dtype="Int64"),
        "error": [math.inf, -math.inf],
        "run_at": pd.to_datetime(["2026-01-02T03:04:05.5Z", None], utc=True),
    }
)


def test_json_is_strict_and_keeps_whole_numbers() -> None:
    text = to_bytes(FRAME, "json").decode()
    rows = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert rows == [
        {
            "variant": "last_warp",
            "median_us": 16.25,
            "bytes": 67108864,
            "error": "Infinity",
            "run_at": "2026-01-02T03:04:05.500000+00:00",
        },
        {
            "variant": 'with "quotes", and\nlines',
            "median_us": None,
            "bytes": None,
            "error": "-Infinity",
            "run_at": None,
        },
    ]
    assert to_bytes(FRAME.head(0), "json").decode() == "[]\n"


def test_csv_reads_back() -> None:
    read = pd.read_csv(io.StringIO(to_bytes(FRAME, "csv").decode()))
    assert read["variant"].tolist() == FRAME["variant"].tolist()
    assert read["median_us"][0] == 16.25


def test_parquet_reads_back() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    read = pd.read_parquet(io.BytesIO(to_parquet(FRAME)))
    assert read["bytes"][0] == 67108864
    assert str(read["run_at"].dtype).endswith("UTC]")


def test_what_parquet_cannot_hold_is_named() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    with pytest.raises(UsageError, match="column a with type object; CAST each column to one type"):
        to_parquet(make_frame(["a"], [(1,), ("x",)]))
    with pytest.raises(UsageError, match="2 columns are named a, and Parquet takes each name once"):
        to_parquet(make_frame(["a", "a"], [(1, 2)]))


def test_json_loses_no_column_and_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(UsageError, match="2 columns are named a, and JSON takes each name once"):
        to_bytes(make_frame(["a", "a"], [(1, 2)]), "json").decode()
    with pytest.raises(UsageError, match=r"column b holds bytes, which JSON has no form for; write hex\(b\)"):
        to_bytes(make_frame(["a", "b"], [(1, b"\x00\xff")]), "json").decode()


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        to_parquet(FRAME)


def test_a_file_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    write_file(b"a", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b"a"
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        write_file(b"a", tmp_path / "no" / "a.csv")
