"""Quantities and their units; values, coordinates and names as text for people.

Inside, times are nanoseconds, bandwidths bytes a second, shares and ratios plain fractions, energies joules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from cuprof.core.point import format_coordinate
from cuprof.core.text import list_first

Dimension = Literal["time", "bandwidth", "rate", "share", "ratio", "energy", "power", "count", "plain"]

UNITS: dict[Dimension, tuple[tuple[str, float], ...]] = {
    "time": (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    "bandwidth": (("MB/s", 1e6), ("GB/s", 1e9), ("TB/s", 1e12)),
    "rate": (("MFLOP/s", 1e6), ("GFLOP/s", 1e9), ("TFLOP/s", 1e12)),
    "share": (("%", 0.01),),
    "ratio": (("×", 1.0),),
    "energy": (("µJ", 1e-6), ("mJ", 1e-3), ("J", 1.0)),
    "power": (("W", 1.0),),
    "count": (("", 1.0),),
    "plain": (("", 1.0),),
}
"""Dimension → units, smallest first, each with its size in the base unit."""
BYTES = (("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))
DECIMALS: dict[Dimension, int] = {"share": 1, "ratio": 2, "count": 0}
"""Dimension → decimals, where they are the same for all values."""

PUBLISHED_UNITS = {unit: size for units in UNITS.values() for unit, size in units} | {"us": 1e3, "GiB/s": float(2**30)}
"""Unit as others write it → its size in the base unit."""


class Quantity(NamedTuple):
    """Name a value: its heading, its dimension, and the trial's attribute that holds it (none for a ratio of two)."""

    heading: str
    dimension: Dimension
    attribute: str


QUANTITIES: dict[str, Quantity] = {
    "time": Quantity("Time", "time", "median_ns"),
    "cold": Quantity("Time, cold", "time", "cold_ns"),
    "hot": Quantity("Time, hot", "time", "hot_ns"),
    "total": Quantity("Total time", "time", "total_ns"),
    "bandwidth": Quantity("Bandwidth", "bandwidth", "bandwidth"),
    "rate": Quantity("Arithmetic rate", "rate", "rate"),
    "share": Quantity("Share of the measured peak", "share", "share"),
    "theoretical_share": Quantity("Share of the data sheet's peak", "share", "theoretical_share"),
    "speedup": Quantity("Speedup", "ratio", ""),
    "total_speedup": Quantity("Speedup with transfers", "ratio", ""),
    "energy": Quantity("Energy", "energy", "energy_j"),
    "power": Quantity("Mean power", "power", "mean_w"),
    "registers": Quantity("Registers a thread", "count", "registers"),
    "error": Quantity("Error / allowed", "plain", "check_error"),
}


@dataclass(frozen=True)
class Scale:
    """Write values of one column: one unit, and the decimals that the smallest value needs."""

    unit: str
    divisor: float
    decimals: int

    def format(self, value: float | None, *, unit: bool = False) -> str:
        """Return the value as text: whole numbers whole, others with at most four significant digits.

        Values so small that the decimals would leave one digit or none get two significant ones.
        """
        if value is None or math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        scaled = value / self.divisor
        size = abs(scaled)
        text = f"{scaled:,.{min(self.decimals, max(0, 3 - math.floor(math.log10(size))) if size else 3)}f}"
        if 0 < size < 10.0 ** (1 - self.decimals):
            short = Decimal(f"{scaled:.2g}")
            if (self.decimals and abs(short) < Decimal(10) ** (1 - self.decimals)) or float(text.replace(",", "")) == 0:
                text = f"{short:f}"
        text = text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")
        return f"{text}\N{NO-BREAK SPACE}{self.unit}" if unit and self.unit else text


def choose_scale(dimension: Dimension, values: Iterable[float | None], unit: str = "") -> Scale:
    """Return the unit in which the values read best: the largest one in which the smallest value is still 1 or more.

    Three digits of the smallest value are kept, at most three decimals. What is plain has two decimals or none.

    Args:
        unit: of plain values; many bytes are written in thousands, millions and so on.
    """
    units = UNITS[dimension]
    if dimension in DECIMALS:
        return Scale(*units[0], DECIMALS[dimension])
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value != 0]
    if dimension == "plain":
        largest, size = max(sizes, default=0.0), 1.0
        if unit == "byte" and largest >= BYTES[0][1]:
            unit, size = next(each for each in reversed(BYTES) if largest >= each[1])
        return Scale(unit, size, 0 if all((each / size).is_integer() for each in sizes) else 2)
    if not sizes:
        return Scale(*units[min(1, len(units) - 1)], 1)
    smallest = min(sizes)
    # 0.9995 rounds up to 1.00 of the larger unit
    unit, divisor = next((each for each in reversed(units) if smallest >= 0.9995 * each[1]), units[0])
    digits = 2 - math.floor(math.log10(max(0.1, smallest / divisor)))
    return Scale(unit, divisor, max(0, digits))


def format_value(dimension: Dimension, value: float | None) -> str:
    """Return one value in the unit that fits it, with the unit: "12.3 µs"."""
    return choose_scale(dimension, [value]).format(value, unit=True)


def format_ratio(ratio: float) -> str:
    """Return a ratio for a sentence: "3.41 times"; more digits near 1, fewer when large."""
    decimals = 3 if 0.95 < ratio < 1.05 else 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"{ratio:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def format_counter(value: float | None, text: str | None = None) -> str:
    """Return a counter's value with the digits that matter, whole numbers whole; its text where it has no value."""
    if value is None or math.isnan(value):
        return text or "–"
    if math.isinf(value):
        return "∞"
    if float(value).is_integer() or abs(value) >= 100_000:
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.4g}"


def is_number(value: object) -> bool:
    """Return whether a fact is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def describe_age(seconds: float) -> str:
    """Return a span of time in its largest unit: "18 min", "3 days"."""
    for unit, size in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''}"
    return "less than a minute"


def moment(seconds: float | None) -> str:
    """Return a point in time for people, UTC; empty for none."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else ""


def value_label(value: Any) -> str:
    """Return a fact's value as text for people, 16777216 as 2^24."""
    return "–" if value is None else format_coordinate(value)


def shorten(text: object, most: int = 60) -> str:
    """Return a name for a sentence or a label, without its middle when it is longer than `most` characters."""
    name = str(text)
    tail = (most - 1) // 3
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[-tail:]}"


def list_names(names: Iterable[object], most: int = 6) -> str:
    """Return names for a sentence, shortened: "a, b" or "a, b and 3 more"."""
    return list_first([shorten(name) for name in names], most)
