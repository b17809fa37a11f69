from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from cuprof.cli.table import MOST_WRAPPED, Column, Row, Table, display_width, to_rich, to_text

COLUMNS = (Column("what", "left"), Column("time µs"))


def text(rows: list[tuple[str, ...]], width: int, columns: tuple[Column, ...] = COLUMNS) -> list[str]:
    return to_text([Table(columns, [Row(cells) for cells in rows])], width).splitlines()


def test_words_stand_left_and_numbers_right() -> None:
    assert text([("a", "1.5"), ("longer", "12345.5")], 40) == [
        "what    time µs",
        "───────────────",
        "a           1.5",
        "longer  12345.5",
    ]


def test_words_wrap_where_the_line_is_too_long() -> None:
    assert text([("one two three", "123456.7")], 17) == [
        "what      time µs",
        "─────────────────",
        "one two  123456.7",
        "three",
    ]


@given(
    st.lists(st.tuples(st.text("ab c", max_size=30), st.integers(0, 10**12).map(str)), max_size=6),
    st.integers(1, 100),
)
def test_neither_numbers_nor_words_are_cut(rows: list[tuple[str, str]], width: int) -> None:
    lines = text(list(rows), width)
    for words, number in rows:
        assert any(line.endswith(number) for line in lines)
        assert all(any(word in line for line in lines) for word in words.split())


def test_a_table_that_fits_looks_as_rich_draws_it() -> None:
    from io import StringIO

    from rich.console import Console

    table = Table((*COLUMNS, Column("why", "left")), [Row(("核 a", "1", "x")), Row(("µ", "22.5", "longer words"))])
    drawn = Console(file=StringIO(), width=100, color_system=None)
    drawn.print(to_rich(table, 100))
    assert [line.rstrip() for line in drawn.file.getvalue().splitlines()] == to_text([table], 100).splitlines()  # type: ignore[attr-defined]


def test_a_long_table_is_not_wrapped_and_takes_little_time() -> None:
    rows = [(f"variant {number} of many", f"{number}.5") for number in range(20 * MOST_WRAPPED)]
    begun = time.monotonic()
    lines = text(rows, 10)
    assert len(lines) == len(rows) + 2
    assert time.monotonic() - begun < 3, "rich takes 10 s for these"


def test_markup_is_text() -> None:
    assert text([("[red]a[/] b c", "1")], 12)[2:] == ["[red]a[/]        1", "b c"]


def test_wide_and_combining_letters_are_counted_as_shown() -> None:
    assert [display_width(each) for each in ("abc", "µs", "核", "e\u0301")] == [3, 2, 2, 1]
