"""The figures that a study asks for itself in its study.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuprof.report.cache_modes import left_out_notes, mode_note
from cuprof.report.cells import describe, fact_label, keep, ordered
from cuprof.report.experiment import FigureSpec
from cuprof.report.figure import (
    Figure,
    Style,
    Styles,
    axis_title,
    decades,
    error_bars,
    heat_map,
    integer_ticks,
    label,
    labels,
    numbers,
    plain,
    styles_of,
)
from cuprof.report.roofs import roof_trace
from cuprof.report.series import FigurePoint, FigurePoints, figure_points
from cuprof.report.study import Study
from cuprof.report.trials import grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, shorten, value_label

LOW_IS_BEST = ("time", "energy", "power")


def study_figure(study: Study, spec: FigureSpec, styles: Styles, index: int) -> Figure | None:
    """Return the figure, or None where nothing was measured for it, or too little for a line."""
    points = figure_points(study, spec)
    measured = points.measured
    xs = [point.x for point in measured]
    if not measured or (spec.kind == "lines" and len(set(xs)) < 2):
        return None
    value = spec.value if spec.kind == "map" else spec.y
    heading, unit, dimension = describe(study, value)
    values = [point.value for point in (*measured, *points.published)]
    scale = Scale(unit, 1.0, 2) if unit or dimension == "plain" else choose_scale(dimension, values)
    title = spec.title or f"{heading} over {fact_label(spec.x)}"
    notes = [spec.note] if spec.note else []
    named = heading
    if value not in QUANTITIES:
        named = f"{heading} ({value})" if heading != value else heading
        notes += filter(None, (mode_note(study), *left_out_notes(study, keep(study.trials, spec.where), value)))
    notes += points.notes
    identity = f"figure-study-{index}"
    low = dimension in LOW_IS_BEST
    best = (min if low else max)(measured, key=lambda point: point.value)
    text = (
        f"{named} over {fact_label(spec.x)}; the {'lowest' if low else 'highest'} measured value is "
        f"{scale.format(best.value, unit=True)}, "
        f"{shorten(best.series)} at {fact_label(spec.x)} = {value_label(best.x)}."
    )
    if spec.kind == "map":
        return Figure(identity, title, [_map(measured, spec, scale)], _map_layout(spec), text, tuple(notes))
    numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in xs)
    both = numeric and spec.x.startswith("problem.") and spec.kind == "lines"
    log = spec.log if spec.log is not None else (("x", "y") if both else ())
    data = _traces(points, spec, styles, scale, numeric)
    for i, roof in enumerate(points.roofs):
        data.append({**roof_trace(i, roof, scale), "hoverinfo": "x+y+name"})
    if points.published:
        devices = ", ".join(dict.fromkeys(point.device for point in points.published if point.device))
        notes.append(f"Hollow marks are published figures, measured by others on {devices or 'another machine'}.")
    x_axis: dict[str, Any] = {"title": {"text": plain(fact_label(spec.x))}}
    if numeric:
        x_axis |= {**integer_ticks(xs), **({"type": "log"} if "x" in log and min(xs) > 0 else {})}
    else:
        x_axis |= {"type": "category", "tickangle": -30 if len(set(xs)) > 6 else 0}
    y_axis: dict[str, Any] = {"title": {"text": axis_title(heading, scale)}}
    heights = numbers([point.value for point in measured], scale)
    y_axis |= {"type": "log", **decades(heights)} if "y" in log else {"rangemode": "tozero"}
    layout = {"height": 440, "xaxis": x_axis, "yaxis": y_axis, "showlegend": len(data) > 1, "barmode": "group"}
    return Figure(identity, title, data, layout, text, tuple(notes))


def _traces(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, numeric: bool
) -> list[dict[str, Any]]:
    lines = grouped(points.measured, lambda point: point.series)
    published = grouped(points.published, lambda point: point.series)
    shorts = labels([value_label(name) for name in lines])
    own = styles if spec.series == "variant" else styles_of(lines)
    bars = spec.kind == "bars" and "y" not in (spec.log or ())  # a bar needs a zero; a logarithmic axis has none
    data: list[dict[str, Any]] = []
    for short, (name, measured) in zip(shorts, lines.items(), strict=True):
        style = own[name]
        look: dict[str, Any] = {"type": "bar", "marker": {"color": style.color}}
        if not bars:
            look = _marks(style, style.symbol, "lines+markers" if numeric else "markers")
        data.append({**_trace(short, measured, scale, numeric), **look})
        if hollow := published.get(name):
            beside = f"{short} ({label(hollow[0].device or 'published', 18)})"
            look = _marks(style, f"{style.symbol}-open", "markers")
            data.append({**_trace(beside, hollow, scale, numeric), **look})
    return data


def _marks(style: Style, symbol: str, mode: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "marker": {"color": style.color, "size": 8, "symbol": symbol},
        "line": {"color": style.color, "width": 2, "dash": style.dash},
    }


def _trace(name: str, points: Sequence[FigurePoint], scale: Scale, numeric: bool) -> dict[str, Any]:
    points = sorted(points, key=lambda point: point.x) if numeric else points
    trace: dict[str, Any] = {
        "name": name,
        "x": [point.x if numeric else label(value_label(point.x)) for point in points],
        "y": numbers([point.value for point in points], scale),
        "customdata": [[plain(point.series), plain(point.tunables)] for point in points],
        "hovertemplate": f"%{{customdata[0]}}<br>%{{x}}: %{{y}} {plain(scale.unit)}<br>"
        "%{customdata[1]}<extra></extra>",
    }
    if any(point.interval for point in points):
        bars = error_bars([point.value for point in points], [point.interval for point in points], scale)
        trace["error_y"] = bars | {"thickness": 1.2}
    return trace


def _map(measured: Sequence[FigurePoint], spec: FigureSpec, scale: Scale) -> dict[str, Any]:
    xs = [key[0] for key in ordered((point.x,) for point in measured)]
    ys = [key[0] for key in ordered((point.y,) for point in measured)]
    # of several series the lowest value
    cells = {(point.x, point.y): point.value for point in sorted(measured, key=lambda point: -point.value)}
    hover = f"{plain(fact_label(spec.x))} = %{{x}}, {plain(fact_label(spec.y))} = %{{y}}: %{{z}} {plain(scale.unit)}"
    grid = [numbers([cells.get((x, y)) for x in xs], scale) for y in ys]
    columns, rows = ([label(value_label(value)) for value in values] for values in (xs, ys))
    return heat_map(spec.title or spec.value, columns, rows, grid, scale, hover)


def _map_layout(spec: FigureSpec) -> dict[str, Any]:
    return {
        "height": 380,
        "xaxis": {"type": "category", "title": {"text": plain(fact_label(spec.x))}},
        "yaxis": {"type": "category", "title": {"text": plain(fact_label(spec.y))}},
    }
