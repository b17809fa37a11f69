from __future__ import annotations

from cProfile import Profile

from hypothesis import given
from hypothesis import strategies as st

from cuprof.cli.output import Table, display_width, iter_lines, to_text

COLUMNS = ("what", "time µs")


def text(rows: list[tuple[str, ...]], width: int) -> list[str]:
    return to_text([Table(COLUMNS, rows, COLUMNS[1:])], width).splitlines()


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


def test_a_long_table_takes_little_time() -> None:
    rows = [(f"variant {number} of many", f"{number}.5") for number in range(20_000)]
    counted = Profile()  # of calls, since a busy host takes any time
    assert len(counted.runcall(text, rows, 40)) == len(rows) + 2
    assert len(counted.runcall(text, rows, 20)) > len(rows) + 2
    calls = sum(each.callcount for each in counted.getstats())
    assert calls < 400 * len(rows), "rich makes 1000 a row for the first alone"


def test_a_row_keeps_its_style() -> None:
    lines = iter_lines(Table(COLUMNS, [("aa bb", "1")], COLUMNS[1:], ["red"]), 11)
    assert [line.style for line in lines] == ["bold", "", "red", "red"]


def test_markup_is_text() -> None:
    assert text([("[red]a[/] b c", "1")], 12)[2:] == ["[red]a[/]        1", "b c"]


def test_wide_and_combining_letters_are_counted_as_shown() -> None:
    assert [display_width(each) for each in ("abc", "µs", "核", "e\u0301")] == [3, 2, 2, 1]
