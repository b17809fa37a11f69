"""What every figure is made of: its data and layout as plain mappings, its words, one colour a variant."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuprof.core.point import PLAIN_BELOW
from cuprof.core.text import visible
from cuprof.report.units import Scale, shorten

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999933", "#AA4499")
"""Okabe and Ito's colours (jfly.uni-koeln.de/color) without black and yellow, and two of Paul Tol's muted scheme."""

NEUTRAL = "#808890"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross")
DASHES = ("solid", "dash", "dot", "dashdot")
MOST_LABEL = 26
MOST_WRITTEN_CELLS = 100
SEQUENTIAL = "Cividis"
"""A scale that reads the same with and without colour vision (Nuñez et al. 2018)."""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Args:
        id: of its element, fixed, so that two renders are equal.
        data, layout: as Plotly takes them, plain data.
        text: what it shows in a sentence with the main number, for readers who do not see it.
        notes: what is left out of it.
    """

    id: str
    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Style:
    """Say how a series is drawn: colours first, then symbols and dashes, so that no two are alike for long."""

    color: str
    symbol: str
    dash: str


Styles = Mapping[object, Style]
"""Contender → its style, the same in every figure of a page."""


def styles_of(names: Iterable[object]) -> Styles:
    """Return a style for each of some names, in the order of the family."""
    return {name: _style(i) for i, name in enumerate(dict.fromkeys(names))}


def _style(index: int) -> Style:
    turn = index // len(PALETTE)
    return Style(PALETTE[index % len(PALETTE)], SYMBOLS[(index + turn) % len(SYMBOLS)], DASHES[turn % len(DASHES)])


def plain(text: object) -> str:
    """Return text that Plotly shows as it is: Plotly reads a few HTML tags and entities in every label."""
    return html.escape(visible(str(text)), quote=False)


def label(text: object, most: int = MOST_LABEL) -> str:
    """Return a label for an axis or a legend, shortened in the middle when long; hovering shows all of it."""
    return plain(shorten(text, most))


def labels(names: Sequence[object]) -> list[str]:
    """Return distinct labels: names that shorten to the same text are numbered."""
    made: list[str] = []
    for name in names:
        short = label(name)
        made.append(short if short not in made else f"{short} ({len(made) + 1})")
    return made


def numbers(values: Iterable[float | None], scale: Scale) -> list[float | None]:
    """Return values in the scale's unit with six significant digits, missing ones as None."""
    return [
        None if value is None or not math.isfinite(value) else float(f"{value / scale.divisor:.6g}") for value in values
    ]


def error_bars(
    values: Sequence[float], intervals: Sequence[tuple[float, float] | None], scale: Scale
) -> dict[str, Any]:
    """Return error bars from the values to the ends of their intervals; none where there is no interval."""
    pairs = list(zip(values, intervals, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": numbers([ends[1] - value if ends else None for value, ends in pairs], scale),
        "arrayminus": numbers([value - ends[0] if ends else None for value, ends in pairs], scale),
        "color": NEUTRAL,
    }


def axis_title(heading: str, scale: Scale) -> str:
    """Return "Time (µs)"."""
    return plain(f"{heading} ({scale.unit})" if scale.unit else heading)


def heat_map(
    name: object, xs: Sequence[str], ys: Sequence[str], grid: Sequence[Sequence[Any]], scale: Scale, hover: str
) -> dict[str, Any]:
    """Return the trace of a map, its numbers written into the cells while they have room.

    Args:
        grid: a row a `ys`, in units of the scale.
        hover: Plotly's template of what is shown of a cell.
    """
    return {
        "type": "heatmap",
        "name": plain(name),
        "x": xs,
        "y": ys,
        "z": grid,
        "colorscale": SEQUENTIAL,
        "reversescale": True,
        "texttemplate": "%{z:.3~r}" if len(xs) * len(ys) <= MOST_WRITTEN_CELLS else "",
        "colorbar": {"title": {"text": plain(scale.unit)}, "thickness": 12},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def integer_ticks(values: Iterable[float]) -> dict[str, Any]:
    """Return ticks at the measured values of an axis, powers of two written as such, at most nine of them."""
    unique = sorted({float(value) for value in values})
    step = max(1, math.ceil(len(unique) / 9))
    shown = unique[::-1][::step][::-1]
    texts = []
    for value in shown:
        whole = int(value)
        power = value == whole and whole >= PLAIN_BELOW and whole & (whole - 1) == 0
        texts.append(
            f"2<sup>{whole.bit_length() - 1}</sup>"
            if power
            else f"{value:,.6g}".replace(",", "\N{NARROW NO-BREAK SPACE}")
        )
    return {"tickvals": shown, "ticktext": texts}


def decades(values: Iterable[float | None]) -> dict[str, Any]:
    """Return ticks of a logarithmic axis: powers of ten, and 2 and 5 times them where it spans less than two of them.

    Args:
        values: in the unit of the axis.
    """
    sizes = [value for value in values if value is not None and value > 0]
    if not sizes or max(sizes) / min(sizes) > 50:
        return {"dtick": 1}
    powers = range(math.floor(math.log10(min(sizes))) - 1, math.ceil(math.log10(max(sizes))) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return {"tickvals": ticks, "ticktext": [f"{tick:,.6g}".replace(",", "\N{NARROW NO-BREAK SPACE}") for tick in ticks]}
