"""What every figure is made of: traces by plotly.express as plain data, its words, one colour a variant."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
import plotly.express as px

from cuprof.core.point import PLAIN_BELOW
from cuprof.core.text import visible
from cuprof.report.units import Scale, shorten

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999933", "#AA4499")
"""Okabe and Ito's colours (jfly.uni-koeln.de/color) without black and yellow, and two of Paul Tol's muted scheme."""

CAPTIONS = "figures.txt"
NEUTRAL = "#808890"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross")
DASHES = ("solid", "dash", "dot", "dashdot")
MOST_LABEL = 26
MOST_WRITTEN_CELLS = 100
SEQUENTIAL = "Cividis"
"""A scale that reads the same with and without colour vision (Nuñez et al. 2018)."""
UNUSED = ("legendgroup", "showlegend", "xaxis", "yaxis", "alignmentgroup", "offsetgroup", "coloraxis")
"""Keys of plotly.express that would be the same in every trace."""


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


class Style(NamedTuple):
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


def frame_of(**columns: Iterable[Any]) -> pd.DataFrame:
    """Return columns as a frame for plotly.express; its numbers stay numbers in the page, not packed arrays."""
    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in columns.items()})


def traces_of(figure: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the traces of a figure of plotly.express as plain data.

    Args:
        more: what `update_traces` is to change in each of them.
    """
    data = json.loads(figure.update_traces(**more).to_json())["data"]
    return [
        {key: value for key, value in trace.items() if key not in UNUSED and (key, value) != ("orientation", "v")}
        for trace in data
    ]


def hovers(*lines: str) -> str:
    """Return Plotly's hover template with these lines, without the trace's name beside it."""
    return f"{'<br>'.join(lines)}<extra></extra>"


def plain(text: object) -> str:
    """Return text that Plotly shows as it is: Plotly reads a few HTML tags and entities in every label."""
    return html.escape(visible(str(text)), quote=False)


def label(text: object, most: int = MOST_LABEL) -> str:
    """Return a label for an axis or a legend, shortened in the middle when long; hovering shows all of it."""
    return plain(shorten(text, most))


def labels(names: Iterable[object]) -> list[str]:
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
) -> dict[str, list[float | None]]:
    """Return the columns `above` and `below` of error bars: from values to the ends of their intervals, where known."""
    pairs = list(zip(values, intervals, strict=True))
    return {
        "above": numbers([ends[1] - value if ends else None for value, ends in pairs], scale),
        "below": numbers([value - ends[0] if ends else None for value, ends in pairs], scale),
    }


def axis_title(heading: str, scale: Scale) -> str:
    """Return "Time (µs)"."""
    return plain(f"{heading} ({scale.unit})" if scale.unit else heading)


def heat_map(
    name: object, xs: Sequence[str], ys: Sequence[str], grid: Sequence[Sequence[Any]], scale: Scale, hover: str
) -> list[dict[str, Any]]:
    """Return the trace of a map, its numbers written into the cells while they have room.

    Args:
        grid: a row a `ys`, in units of the scale.
        hover: the line that hovering over a cell shows.
    """
    (trace,) = traces_of(
        px.imshow(list(grid), x=list(xs), y=list(ys), template="none"),
        name=plain(name),
        colorscale=SEQUENTIAL,
        reversescale=True,
        texttemplate="%{z:.3~r}" if len(xs) * len(ys) <= MOST_WRITTEN_CELLS else "",
        colorbar={"title": {"text": plain(scale.unit)}, "thickness": 12},
        hovertemplate=hovers(hover),
    )
    return [{**trace, "z": list(grid)}]  # plotly.express packs the numbers of its array


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
