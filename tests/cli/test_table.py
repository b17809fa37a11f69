from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cuprof.cli.terminal.table import Column, Row, display_width, layout

COLUMNS = (Column("what", "left"), Column("time µs"))


def text(rows: list[tuple[str, ...]], width: int, columns: tuple[Column, ...] = COLUMNS) -> list[str]:
    return [line.text for line in layout(columns, [Row(cells) for cells in rows], width)]


def test_words_stand_left_and_numbers_right() -> None:
    assert text([("a", "1.5"), ("longer", "12345.5")], 40) == [
        "what    time µs",
        "──────  ───────",
        "a           1.5",
        "longer  12345.5",
    ]


def test_words_wrap_where_the_line_is_too_long() -> None:
    assert text([("one two three", "123456.7")], 17) == [
        "what      time µs",
        "───────  ────────",
        "one two  123456.7",
        "three",
    ]


@given(
    st.lists(st.tuples(st.text("ab c", max_size=30), st.integers(0, 10**12).map(str)), max_size=6),
    st.integers(1, 100),
)
def test_numbers_are_never_cut_off(rows: list[tuple[str, str]], width: int) -> None:
    lines = text(list(rows), width)
    for _, number in rows:
        assert any(line.endswith(number) for line in lines)


def test_a_row_keeps_its_style() -> None:
    lines = layout(COLUMNS, [Row(("aa bb", "1"), "red")], 11)
    assert [line.style for line in lines[2:]] == ["red", "red"]


def test_wide_and_combining_letters_are_counted_as_shown() -> None:
    assert [display_width(each) for each in ("abc", "µs", "核", "e\u0301")] == [3, 2, 2, 1]
