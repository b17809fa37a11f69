"""Frames as text: nothing cut off, strict JSON, numbers as numbers."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import pandas as pd
import pytest

from cuprof.errors import MissingDependencyError, StoreError, UnknownNameError, UsageError
from cuprof.reading.export import to_parquet, to_table, to_text, write_frame
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


def test_a_table_aligns_words_left_and_numbers_right() -> None:
    assert to_table(FRAME[["variant", "median_us", "bytes"]].head(1)) == (
        "variant    median_us     bytes\n---------  ---------  --------\nlast_warp     16.250  67108864\n"
    )


def test_a_table_wider_than_the_terminal_becomes_one_block_a_row() -> None:
    assert to_table(FRAME, width=40) == (
        "-- 1 of 2\n"
        "variant    last_warp\n"
        "median_us  16.250\n"
        "bytes      67108864\n"
        "error      inf\n"
        "run_at     2026-01-02 03:04:05\n"
        "-- 2 of 2\n"
        'variant    with "quotes", and lines\n'
        "median_us  -\n"
        "bytes      -\n"
        "error      -inf\n"
        "run_at     -\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (123456.0, "123456"),
        (0.0123456, "0.012346"),
        (1.5e-9, "1.5000e-09"),
        (9.99999, "10.0000"),
        (-2.5, "-2.5000"),
    ],
)
def test_numbers_have_five_digits(value: float, text: str) -> None:
    assert to_table(pd.DataFrame({"x": [value]})).splitlines()[2].strip() == text


def test_json_is_strict_and_keeps_whole_numbers() -> None:
    text = to_text(FRAME, "json")
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
    assert to_text(FRAME.head(0), "json") == "[]\n"


def test_csv_reads_back() -> None:
    read = pd.read_csv(io.StringIO(to_text(FRAME, "csv")))
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
        to_text(make_frame(["a", "a"], [(1, 2)]), "json")
    with pytest.raises(UsageError, match=r"column b holds bytes, which JSON has no form for; write hex\(b\)"):
        to_text(make_frame(["a", "b"], [(1, b"\x00\xff")]), "json")


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        to_parquet(FRAME)


def test_an_empty_frame_names_its_columns() -> None:
    assert to_table(FRAME[["variant"]].head(0)) == "no rows (variant)\n"


def test_frames_are_written_to_files_and_streams(tmp_path: Path) -> None:
    write_frame(FRAME, "csv", tmp_path / "a.csv")
    stream = io.BytesIO()
    write_frame(FRAME, "csv", stream)
    assert (tmp_path / "a.csv").read_bytes() == stream.getvalue() != b""
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        write_frame(FRAME, "csv", tmp_path / "no" / "a.csv")
    with pytest.raises(UnknownNameError, match="did you mean csv"):
        write_frame(FRAME, "cvs", stream)
