"""Counters as text."""

from __future__ import annotations

import pytest

from cuprof.cli.labels import format_counter
from cuprof.cli.ncu import CounterRow, counter_parts
from cuprof.cli.output import to_text


def test_numbers_are_aligned_whole_and_explained() -> None:
    rows: list[CounterRow] = [
        ("scale/split", {"launch__grid_dim_z": 9.0, "dram__bytes_read.sum": 16780288.0, "x.y": "text"}, ""),
        ("scale/fused", {"launch__grid_dim_z": 1.0, "dram__bytes_read.sum": None}, ""),
        ("scale/broken", {}, "crashed"),
    ]
    metrics = ["launch__grid_dim_z", "dram__bytes_read.sum", "x.y"]
    parts = counter_parts(rows, metrics, {"dram__bytes_read.sum": "byte"})
    assert to_text(parts, 80).splitlines() == [
        "trial         [1]         [2]   [3]  note",
        "────────────────────────────────────────────",
        "scale/split     9  16,780,288  text",
        "scale/fused     1           –     –",
        "scale/broken                         crashed",
        "",
        "[1] launch__grid_dim_z: Blocks of the grid in z: the depth of the grid.",
        "[2] dram__bytes_read.sum in byte: Bytes read from device memory.",
        "[3] x.y",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(31.3421, "31.3421"), (0.288524030539563, "0.288524"), (0.0, "0"), (2.0**40, "1,099,511,627,776"), (None, "–")],
)
def test_values(value: float | None, text: str) -> None:
    assert format_counter(value) == text
