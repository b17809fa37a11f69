"""Frames for programs: strict JSON, numbers as numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cuprof.core.errors import MissingDependencyError, StoreError, UsageError
from cuprof.results.export import iter_csv, iter_json, iter_parquet, write_file
from cuprof.results.queries import Batch, Rows, make_frame

NAMES = ("variant", "median_us", "bytes", "error", "run_at")
FIRST = ("last_warp", 16.25, 67108864, math.inf, "2026-01-02 03:04:05.500123")
SECOND = ('with "quotes", and\nlines', None, None, -math.inf, None)


def rows(*batches: Batch, names: Sequence[str] = NAMES) -> Rows:
    return Rows(names, batches)


def text(pieces: Iterable[str]) -> str:
    return "".join(pieces)


EVERY = [FIRST, SECOND]


def test_json_is_strict_and_keeps_whole_numbers() -> None:
    found = json.loads(
        text(iter_json(rows([FIRST], [SECOND]))), parse_constant=lambda name: pytest.fail(f"{name} is not JSON")
    )
    assert found == [
        {
            "variant": "last_warp",
            "median_us": 16.25,
            "bytes": 67108864,
            "error": "Infinity",
            "run_at": "2026-01-02T03:04:05.500123+00:00",
        },
        {
            "variant": 'with "quotes", and\nlines',
            "median_us": None,
            "bytes": None,
            "error": "-Infinity",
            "run_at": None,
        },
    ]
    assert text(iter_json(rows())) == "[]\n"


def test_csv_is_what_pandas_writes() -> None:
    expected = str(make_frame(NAMES, EVERY).to_csv(index=False, lineterminator="\n"))
    assert text(iter_csv(rows(EVERY))) == text(iter_csv(rows([FIRST], [SECOND]))) == expected
    assert text(iter_csv(rows())) == ",".join(NAMES) + "\n"


@pytest.mark.parametrize(
    "column",
    [
        [1e-5, 2.5, None, 1e16],
        [0.1 + 0.2, -0.0, 5e-324, 1.7e308],
        [1.0, 2, None],
        [1, None, 2**62],
        ["", None, "a,b", '"', "x\ny"],
        [True, None, False],
        [None, None],
        [math.nan, 1.5],
        [b"a", "a"],
    ],
)
def test_every_kind_of_cell_is_as_pandas_writes_it(column: list[Any]) -> None:
    cells = [(value, "x") for value in column]
    expected = str(make_frame(["a", "b"], cells).to_csv(index=False, lineterminator="\n"))
    assert text(iter_csv(rows(cells, names=("a", "b")))) == expected


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-inf", "\n=1", "＝1", "a\r=1", "a,\n=1"]
)
def test_no_spreadsheet_runs_a_cell(text: str) -> None:
    written = "".join(iter_csv(rows([(text, -1.5, "-1.5e3", -2)], names=("=a", "b", "c", "d"))))
    head, cells = csv.reader(io.StringIO(written, newline=""))
    assert head == ["'=a", "b", "c", "d"]
    assert cells == [text if text[0] == "a" else f"'{text}", "-1.5", "-1.5e3", "-2"]


def test_a_row_of_nothing_is_a_row() -> None:
    assert text(iter_csv(rows([(None,), ("",)], names=("a",)))) == 'a\n""\n""\n'


def test_parquet_reads_back() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    read = pd.read_parquet(io.BytesIO(b"".join(iter_parquet(rows(EVERY)))))
    assert read["bytes"][0] == 67108864
    assert str(read["run_at"].dtype).endswith("UTC]")


def test_parquet_of_many_parts_is_one_file_of_the_same_content_in_little_memory() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    count, at_once, names = 60_000, 1000, ("whole", "number", "text", "late")
    every = [(number, None if number < 9000 else 0.5 * number, "x" * 1000, None) for number in range(count)]
    every[100] = (100, 7, None, None)  # so the second column is whole in the first parts, and a float in the end
    every[-1] = (count - 1, None, "last", "only here")
    pool, usual = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool()), pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pool)
    try:
        written = b"".join(
            iter_parquet(rows(*(every[at : at + at_once] for at in range(0, count, at_once)), names=names))
        )
    finally:
        pyarrow.set_memory_pool(usual)
    assert pool.max_memory() < 0.6 * 1000 * count
    read = parquet.read_table(io.BytesIO(written))
    assert [tuple(row[name] for name in names) for row in read.to_pylist()] == every
    assert parquet.ParquetFile(io.BytesIO(written)).num_row_groups == 7
    assert [str(field.type) for field in read.schema] == ["int64", "double", "string", "string"]


def test_what_parquet_cannot_hold_is_named() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    with pytest.raises(UsageError, match=r"column a: .*; CAST each column to one type"):
        list(iter_parquet(rows([(1,), ("x",)], names=["a"])))
    with pytest.raises(UsageError, match=r"a.*; CAST each column to one type"):
        list(iter_parquet(rows([(1,)], [("x",)], names=["a"])))
    with pytest.raises(UsageError, match="2 columns are named a, and Parquet takes each name once"):
        list(iter_parquet(rows([(1, 2)], names=["a", "a"])))


def test_json_loses_no_column_and_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(UsageError, match="2 columns are named a, and JSON takes each name once"):
        text(iter_json(rows([(1, 2)], names=["a", "a"])))
    with pytest.raises(UsageError, match=r"column b holds bytes, which JSON has no form for; write hex\(b\)"):
        text(iter_json(rows([(1, b"\x00\xff")], names=["a", "b"])))


def test_parquet_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        list(iter_parquet(rows(EVERY)))


def test_a_file_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    write_file([b"a"], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b"a"
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        write_file([b"a"], tmp_path / "no" / "a.csv")
