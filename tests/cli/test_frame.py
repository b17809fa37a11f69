"""Rows of a query for people: nothing cut off."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from cuprof.cli.output import to_text
from cuprof.cli.query import frame_parts

COLUMNS: dict[str, list[Any]] = {
    "variant": ["last_warp", 'with "quotes", and\nlines'],
    "median_us": [16.25, None],
    "bytes": [67108864, None],
    "error": [math.inf, -math.inf],
    "run_at": [datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC), None],
}


def text(columns: dict[str, list[Any]], width: int = 200) -> str:
    return to_text(frame_parts(list(columns), list(columns.values()), width), width)


def test_a_table_aligns_words_left_and_numbers_right() -> None:
    assert text({name: COLUMNS[name][:1] for name in ("variant", "median_us", "bytes")}) == (
        "variant    median_us     bytes\n──────────────────────────────\nlast_warp     16.250  67108864\n"
    )


def test_a_table_wider_than_the_terminal_becomes_one_block_a_row() -> None:
    assert text(COLUMNS, width=40) == (
        "── 1 of 2\n"
        "variant    last_warp\n"
        "median_us  16.250\n"
        "bytes      67108864\n"
        "error      inf\n"
        "run_at     2026-01-02 03:04:05\n"
        "── 2 of 2\n"
        'variant    with "quotes", and lines\n'
        "median_us  -\n"
        "bytes      -\n"
        "error      -inf\n"
        "run_at     -\n"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (123456.0, "123456"),
        (0.0123456, "0.012346"),
        (1.5e-9, "1.5000e-09"),
        (9.99999, "10.0000"),
        (-2.5, "-2.5000"),
    ],
)
def test_numbers_have_five_digits(value: float, shown: str) -> None:
    assert text({"x": [value]}).splitlines()[2].strip() == shown


def test_an_empty_frame_names_its_columns() -> None:
    assert text({"variant": []}) == "no rows (variant)\n"
