from __future__ import annotations

import math

import pytest

from cuprof.report.units import Scale, choose_scale, format_ratio, format_value


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([1234.0, 8_000_000.0], "µs", ["1.23", "8\u202f000"]),
        ([999.0], "ns", ["999"]),
        ([999.9, 2000.0], "µs", ["1.000", "2.000"]),
        ([43_871_647.0, 14e6], "ms", ["43.9", "14.0"]),
        ([0.5], "ns", ["0.500"]),
        ([None, math.nan], "µs", ["–", "–"]),
        ([2.5e9], "s", ["2.50"]),
    ],
)
def test_a_column_of_times_has_one_unit_in_which_the_smallest_is_one_or_more(values, unit, texts) -> None:
    scale = choose_scale("time", values)
    assert scale.unit == unit
    assert [scale.format(value) for value in values] == texts


def test_rounding_never_leaves_nothing() -> None:
    assert Scale("s", 1.0, 1).format(0.0004) == "0.0004"
    assert [Scale("×", 1.0, 2).format(value) for value in (0.0000961, 0.0072, 0.25, 0.0996)] == [
        "0.000096",
        "0.0072",
        "0.25",
        "0.10",
    ]
    assert Scale("s", 1.0, 1).format(-12.34) == "−12.3"
    assert Scale("", 1.0, 1).format(math.inf) == "∞"


def test_no_more_than_four_significant_digits_but_whole_numbers_whole() -> None:
    scale = choose_scale("bandwidth", [5.51e9, 3449.62e9])
    assert [scale.format(value) for value in (5.51e9, 751.64e9, 3449.62e9)] == ["5.51", "751.6", "3\u202f450"]
    assert Scale("", 1.0, 0).format(19_464_192) == "19\u202f464\u202f192"


def test_shares_ratios_and_bandwidths_have_their_own_units() -> None:
    assert format_value("share", 0.894) == "89.4\u00a0%"
    assert format_value("bandwidth", 4.1e12) == "4.10\u00a0TB/s"
    assert format_value("energy", 0.0123) == "12.3\u00a0mJ"
    assert [format_ratio(value) for value in (1.0123, 3.4159, 34.159, 9508.2)] == [
        "1.012",
        "3.42",
        "34.2",
        "9\u202f508",
    ]


def test_many_bytes_are_written_in_thousands_and_other_counters_as_they_are() -> None:
    assert choose_scale("plain", [2e6, 5e6, None], "byte") == Scale("MB", 1e6, 0)
    assert choose_scale("plain", [2.5e3, 1.0], "byte") == Scale("kB", 1e3, 2)
    assert choose_scale("plain", [900.0], "byte") == Scale("byte", 1.0, 0)
    assert choose_scale("plain", [2e6, 25.87], "byte/sector") == Scale("byte/sector", 1.0, 2)
