"""The figures that a study asks for itself in its study.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cuprof.report.cells import choose, describe, fact_label, keep, ordered
from cuprof.report.counter_section import left_out_notes, mode_notes
from cuprof.report.experiment import FigureSpec
from cuprof.report.figure import (
    CAPTIONS,
    Figure,
    Style,
    Styles,
    axis_title,
    bars,
    decades,
    error_bars,
    heat_map,
    hovers,
    integer_ticks,
    label,
    labels,
    line,
    numbers,
    plain,
    styles_of,
)
from cuprof.report.line_figures import MOST_LINES, Roof, is_number, list_roofs, roof_trace
from cuprof.report.published import list_published, whole
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, value_label

LOW_IS_BEST = ("time", "energy", "power")
ROOFED = ("time", "cold", "hot", "bandwidth")
"""The values that a read bandwidth bounds."""


class Point(NamedTuple):
    """One point: `value` is the y of lines and bars, and the colour of a map, whose second axis is `y`.

    Args:
        device: of what is published; empty for what was measured here.
    """

    trial: StudyTrial
    series: Any
    x: Any
    y: Any
    value: float
    device: str = ""


class FigurePoints(NamedTuple):
    """The lines of a figure, points in the family's order, and notes on the trials that it leaves out."""

    measured: list[Point]
    published: list[Point]
    roofs: list[Roof]
    notes: tuple[str, ...] = ()


def study_figure(study: Study, spec: FigureSpec, styles: Styles, index: int) -> Figure | None:
    """Return the figure, or None where nothing was measured for it, or too little for a line."""
    points = figure_points(study, spec)
    measured = points.measured
    if not measured or (spec.kind == "lines" and len({point.x for point in measured}) < 2):
        return None
    value = spec.value if spec.kind == "map" else spec.y
    heading, unit, dimension = describe(study, value)
    values = [point.value for point in (*measured, *points.published)]
    scale = Scale(unit, 1.0, 2) if unit or dimension == "plain" else choose_scale(dimension, values)
    is_low = dimension in LOW_IS_BEST
    best = min(measured, key=lambda point: point.value if is_low else -point.value)
    named = heading if value in QUANTITIES or heading == value else f"{heading} ({value})"
    at, value_text = value_label(best.x), scale.format(best.value, unit=True)
    text = say_once(CAPTIONS, "own", named, fact_label(spec.x), is_low, value_text, best.series, at)
    title = spec.title or f"{heading} over {fact_label(spec.x)}"
    draw = _map if spec.kind == "map" else _curves
    data, layout = draw(points, spec, styles, scale, heading)
    return Figure(f"figure-study-{index}", title, data, layout, text, _notes(study, spec, value, points))


def _notes(study: Study, spec: FigureSpec, value: str, points: FigurePoints) -> tuple[str, ...]:
    notes: list[str] = [spec.note]
    if value not in QUANTITIES:
        notes += [*mode_notes(study), *left_out_notes(study, keep(study.frame, spec.where), value)]
    notes += points.notes
    if points.published:
        notes += say(CAPTIONS, "hollow", list(dict.fromkeys(each.device for each in points.published if each.device)))
    return tuple(filter(None, notes))


def figure_points(study: Study, spec: FigureSpec) -> FigurePoints:
    """Return what a study's own figure draws."""
    is_map = spec.kind == "map"
    value, facts = (spec.value, (spec.series, spec.x, spec.y)) if is_map else (spec.y, (spec.series, spec.x))
    numbers_of = [each for each in study.published if spec.published and each.table == spec.published]
    measured, published = list[Point](), list[Point]()
    for key, each in choose(study, spec.where, value, facts).items():
        series, x, y = (*key, None)[:3]
        if each.value is not None and x is not None:
            measured.append(Point(each.trial, series, x, y, each.value))
        found = whole(list_published(numbers_of, value, each.trial, facts, reference=study.baseline))
        if found is not None and found.value is not None:
            published.append(Point(each.trial, series, x, y, found.value, found.device))
    sizes: dict[str, dict[Any, float]] = {}
    for point in reversed(measured if spec.roof and spec.y in ROOFED else []):
        sizes.setdefault(point.trial.device, {})[point.x] = point.trial.useful_bytes or 0.0
    roofs = list_roofs(study, sizes, is_flat=spec.y == "bandwidth")
    measured, published = (sorted(points, key=lambda each: each.trial.order) for points in (measured, published))
    lowest = {
        name: min(each.value for each in own) for name, own in grouped(measured, lambda each: each.series).items()
    }
    if is_map or len(lowest) <= MOST_LINES:
        return FigurePoints(measured, published, roofs)
    kept = sorted(lowest, key=lambda name: lowest[name])[:MOST_LINES]
    drawn = [[each for each in points if each.series in kept] for points in (measured, published)]
    return FigurePoints(drawn[0], drawn[1], roofs, (f"{MOST_LINES} of {len(lowest)} series are drawn.",))


def _curves(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return lines, marks or bars, with the layout of their axes."""
    xs = [point.x for point in points.measured]
    numeric = all(map(is_number, xs))
    is_sized = numeric and spec.x.startswith("problem.") and spec.kind == "lines"
    log = spec.log if spec.log is not None else (("x", "y") if is_sized else ())
    data = _traces(points, spec, styles, scale, numeric)
    data += [{**roof_trace(i, roof, scale), "hoverinfo": "x+y+name"} for i, roof in enumerate(points.roofs)]
    x_axis: dict[str, Any] = {"title": {"text": plain(fact_label(spec.x))}}
    if numeric:
        x_axis |= {**integer_ticks(xs), **({"type": "log"} if "x" in log and min(xs) > 0 else {})}
    else:
        x_axis |= {"type": "category", "tickangle": -30 if len(set(xs)) > 6 else 0}
    y_axis: dict[str, Any] = {"title": axis_title(heading, scale)}
    heights = numbers([point.value for point in points.measured], scale)
    y_axis |= {"type": "log", **decades(heights)} if "y" in log else {"rangemode": "tozero"}
    return data, {"height": 440, "xaxis": x_axis, "yaxis": y_axis, "showlegend": len(data) > 1, "barmode": "group"}


def _traces(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, numeric: bool
) -> list[dict[str, Any]]:
    """Return the measured series, each with the published one behind it, hollow and named with its device."""
    measured = grouped(points.measured, lambda point: point.series)
    published = grouped(points.published, lambda point: point.series)
    looks = styles if spec.series == "variant" else styles_of(measured)
    is_bars = spec.kind == "bars" and "y" not in (spec.log or ())  # a logarithmic axis has no zero for bars
    mode = "lines+markers" if numeric else "markers"
    has_errors = spec.y == "time"
    data = []
    for name, (series, own) in zip(labels(map(value_label, measured)), measured.items(), strict=True):
        draw = _bars if is_bars else line
        data.append(_series(draw, name, own, looks[series], scale, numeric, has_errors, mode))
        if hollow := published.get(series):
            beside = f"{name} ({label(hollow[0].device or 'published', 18)})"
            style = looks[series]._replace(symbol=f"{looks[series].symbol}-open")
            data.append(_series(line, beside, hollow, style, scale, numeric, False, "markers"))
    return data


def _series(
    draw: Callable[..., dict[str, Any]],
    name: str,
    points: Sequence[Point],
    style: Style,
    scale: Scale,
    numeric: bool,
    has_errors: bool,
    mode: str,
) -> dict[str, Any]:
    """Return the trace of one series, by rising x where that is a number; with error bars where it has intervals."""
    if numeric:
        points = sorted(points, key=lambda point: point.x)
    values, intervals = [point.value for point in points], [point.trial.interval for point in points]
    more: dict[str, Any] = {
        "customdata": [
            [plain(point.series), "" if point.device else plain(point.trial.tunables_label)] for point in points
        ],
        "hovertemplate": hovers("%{customdata[0]}", f"%{{x}}: %{{y}} {plain(scale.unit)}", "%{customdata[1]}"),
    }
    if has_errors and any(intervals):
        more["error_y"] = error_bars(values, intervals, scale, 1.2)
    xs = [point.x if numeric else label(value_label(point.x)) for point in points]
    return draw(name, xs, numbers(values, scale), style, mode=mode, size=8, **more)


def _bars(name: str, xs: Any, ys: Any, style: Style, *, mode: str, size: int, **more: Any) -> dict[str, Any]:
    return bars(name, xs, ys, style.color, **more)


def _map(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the map of a value over two axes; of several series the lowest value."""
    measured = sorted(points.measured, key=lambda point: -point.value)
    cells: Mapping[Any, float] = {(point.x, point.y): point.value for point in measured}
    xs = [key[0] for key in ordered((point.x,) for point in points.measured)]
    ys = [key[0] for key in ordered((point.y,) for point in points.measured)]
    x_name, y_name = plain(fact_label(spec.x)), plain(fact_label(spec.y))
    hover = f"{x_name} = %{{x}}, {y_name} = %{{y}}: %{{z}} {plain(scale.unit)}"
    grid = [numbers([cells.get((x, y)) for x in xs], scale) for y in ys]
    columns, rows = ([label(value_label(value)) for value in values] for values in (xs, ys))
    layout = {
        "height": 380,
        "xaxis": {"type": "category", "title": {"text": x_name}},
        "yaxis": {"type": "category", "title": {"text": y_name}},
    }
    return [heat_map(spec.title or spec.value, columns, rows, grid, scale, hover)], layout
