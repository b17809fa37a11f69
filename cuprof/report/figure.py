"""What every figure is made of: traces as plain data, its words, one colour a variant."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    symbol: str = "circle"
    dash: str = "solid"


Styles = Mapping[object, Style]
"""Contender → its style, the same in every figure of a page."""


def styles_of(names: Iterable[object]) -> Styles:
    """Return a style for each of some names, in the order of the family."""
    size = len(PALETTE)
    return {
        name: Style(PALETTE[i % size], SYMBOLS[(i + i // size) % len(SYMBOLS)], DASHES[i // size % len(DASHES)])
        for i, name in enumerate(dict.fromkeys(names))
    }


def line(name: str, xs: Iterable[Any], ys: Iterable[Any], style: Style, size: int = 7, **more: Any) -> dict[str, Any]:
    """Return the trace of one series: a line with marks, or what `mode` says."""
    return {
        "type": "scatter",
        "name": name,
        "mode": "lines+markers",
        "x": list(xs),
        "y": list(ys),
        "marker": {"color": style.color, "symbol": style.symbol, "size": size},
        "line": {"color": style.color, "width": 2, "dash": style.dash},
        **more,
    }


def bars(name: str, xs: Iterable[Any], ys: Iterable[Any], color: Any, **more: Any) -> dict[str, Any]:
    """Return a trace of bars."""
    return {"type": "bar", "name": name, "x": list(xs), "y": list(ys), "marker": {"color": color}, **more}


def hover(*lines: str, facts: Iterable[Iterable[object]] = ()) -> dict[str, Any]:
    """Return what hovering over a trace shows: Plotly's template with these lines, without the trace's name beside it.

    Args:
        facts: for each point the texts that the lines name as `%{customdata[0]}` and so on.
    """
    found = [list(map(plain, each)) for each in facts]
    return {"hovertemplate": f"{'<br>'.join(lines)}<extra></extra>", **({"customdata": found} if found else {})}


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
    values: Sequence[float], intervals: Sequence[tuple[float, float] | None], scale: Scale, thickness: float
) -> dict[str, Any]:
    """Return error bars from values to the ends of their intervals; none of the values without one."""
    pairs = list(zip(values, intervals, strict=True))
    ends = {
        "array": numbers([given[1] - value if given else None for value, given in pairs], scale),
        "arrayminus": numbers([value - given[0] if given else None for value, given in pairs], scale),
    }
    return {**ends, "type": "data", "symmetric": False, "color": NEUTRAL, "thickness": thickness}


def axis(heading: str, scale: Scale | None = None, **more: Any) -> dict[str, Any]:
    """Return an axis with the title "Time (µs)"."""
    return {"title": {"text": plain(f"{heading} ({scale.unit})" if scale and scale.unit else heading)}, **more}


def axes(height: int, x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the layout of a figure with two axes and a legend."""
    return {"height": height, "xaxis": x, "yaxis": y, "showlegend": True, **more}


def integer_ticks(values: Iterable[float]) -> dict[str, Any]:
    """Return ticks at the measured values of an axis, powers of two written as such, at most nine of them."""
    unique = sorted({float(value) for value in values})
    step = max(1, math.ceil(len(unique) / 9))
    shown = unique[::-1][::step][::-1]
    return {"tickvals": shown, "ticktext": list(map(_tick, shown))}


def _tick(value: float) -> str:
    whole = int(value)
    if value == whole and whole >= PLAIN_BELOW and whole & (whole - 1) == 0:
        return f"2<sup>{whole.bit_length() - 1}</sup>"
    return f"{value:,.6g}".replace(",", "\N{NARROW NO-BREAK SPACE}")
