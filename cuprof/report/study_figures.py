"""The figures that a study asks for itself in its study.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.express as px

from cuprof.report.cells import choose, describe, fact_label, keep, ordered
from cuprof.report.counter_section import left_out_notes, mode_notes
from cuprof.report.experiment import FigureSpec
from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    Figure,
    Styles,
    axis_title,
    decades,
    error_bars,
    frame_of,
    heat_map,
    hovers,
    integer_ticks,
    label,
    labels,
    numbers,
    plain,
    styles_of,
    traces_of,
)
from cuprof.report.line_figures import MOST_LINES, Roof, lines, list_roofs, roof_trace
from cuprof.report.published import list_published, whole
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.units import QUANTITIES, Scale, choose_scale, value_label

LOW_IS_BEST = ("time", "energy", "power")
ROOFED = ("time", "cold", "hot", "bandwidth")
"""The values that a read bandwidth bounds."""


class FigurePoints(NamedTuple):
    """What a figure draws: frames of points in the family's order, roofs, and notes on what is left out.

    The frames' columns: `series`, `x`, `value` (the y of lines and bars, the colour of a map), `y` (the second axis of
    a map), `order`, `device`, `interval`, `tunables`.
    """

    measured: pd.DataFrame
    published: pd.DataFrame
    roofs: list[Roof]
    notes: tuple[str, ...] = ()


def study_figure(study: Study, spec: FigureSpec, styles: Styles, index: int) -> Figure | None:
    """Return the figure, or None where nothing was measured for it, or too little for a line."""
    points = figure_points(study, spec)
    measured = points.measured
    if measured.empty or (spec.kind == "lines" and measured["x"].nunique() < 2):
        return None
    value = spec.value if spec.kind == "map" else spec.y
    heading, unit, dimension = describe(study, value)
    values = [*measured["value"], *points.published["value"]]
    scale = Scale(unit, 1.0, 2) if unit or dimension == "plain" else choose_scale(dimension, values)
    is_low = dimension in LOW_IS_BEST
    best = measured.sort_values("value", ascending=is_low, kind="stable").iloc[0]
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
    if len(points.published):
        notes += say(CAPTIONS, "hollow", [device for device in points.published["device"].unique() if device])
    return tuple(filter(None, notes))


def figure_points(study: Study, spec: FigureSpec) -> FigurePoints:
    """Return what a study's own figure draws."""
    value = spec.value if spec.kind == "map" else spec.y
    facts = (spec.series, spec.x, spec.y) if spec.kind == "map" else (spec.series, spec.x)
    numbers_of = [each for each in study.published if spec.published and each.table == spec.published]
    measured, published, shown = [], [], []
    for key, each in choose(study, spec.where, value, facts).items():
        trial, place = each.trial, dict(zip(("series", "x", "y"), key, strict=False))
        if each.value is not None and key[1] is not None:
            interval = trial.interval if value == "time" else None
            own = {"device": trial.device, "interval": interval, "tunables": trial.tunables_label}
            shown.append((key[1], trial))
            measured.append({**place, "value": each.value, "order": trial.order, **own})
        found = whole(list_published(numbers_of, value, trial, facts, reference=study.baseline))
        if found is not None and found.value is not None:
            published.append({**place, "value": found.value, "order": trial.order, "device": found.device})
    frames = _in_order(measured), _in_order(published)
    sizes: dict[str, dict[Any, float]] = {}
    for x, trial in reversed(shown if spec.roof and spec.y in ROOFED else []):
        sizes.setdefault(trial.device, {})[x] = trial.useful_bytes or 0.0
    roofs = list_roofs(study, sizes, is_flat=spec.y == "bandwidth")
    lowest = frames[0].groupby("series", sort=False)["value"].min().sort_values(kind="stable")
    if spec.kind == "map" or len(lowest) <= MOST_LINES:
        return FigurePoints(*frames, roofs)
    drawn = [frame[frame["series"].isin(lowest.index[:MOST_LINES])] for frame in frames]
    return FigurePoints(drawn[0], drawn[1], roofs, (f"{MOST_LINES} of {len(lowest)} series are drawn.",))


def _in_order(points: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    names = ("series", "x", "y", "value", "order", "device", "interval", "tunables")
    frame = frame_of(**{name: [point.get(name) for point in points] for name in names})
    return frame.sort_values("order", kind="stable")


def _curves(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return lines, marks or bars, with the layout of their axes."""
    xs = list(points.measured["x"])
    numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in xs)
    is_sized = numeric and spec.x.startswith("problem.") and spec.kind == "lines"
    log = spec.log if spec.log is not None else (("x", "y") if is_sized else ())
    data = _traces(points, spec, styles, scale, numeric)
    data += [{**roof_trace(i, roof, scale), "hoverinfo": "x+y+name"} for i, roof in enumerate(points.roofs)]
    x_axis: dict[str, Any] = {"title": {"text": plain(fact_label(spec.x))}}
    if numeric:
        x_axis |= {**integer_ticks(xs), **({"type": "log"} if "x" in log and min(xs) > 0 else {})}
    else:
        x_axis |= {"type": "category", "tickangle": -30 if len(set(xs)) > 6 else 0}
    y_axis: dict[str, Any] = {"title": {"text": axis_title(heading, scale)}}
    heights = numbers(points.measured["value"], scale)
    y_axis |= {"type": "log", **decades(heights)} if "y" in log else {"rangemode": "tozero"}
    return data, {"height": 440, "xaxis": x_axis, "yaxis": y_axis, "showlegend": len(data) > 1, "barmode": "group"}


def _traces(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, numeric: bool
) -> list[dict[str, Any]]:
    """Return the measured series, each with the published one behind it."""
    series = list(dict.fromkeys(points.measured["series"]))
    names = dict(zip(series, labels(map(value_label, series)), strict=True))
    own = styles if spec.series == "variant" else styles_of(names)
    looks = {name: own[series] for series, name in names.items()}
    hover = hovers("%{customdata[0]}", f"%{{x}}: %{{y}} {plain(scale.unit)}", "%{customdata[1]}")
    frame = _frame(points.measured, names, scale, numeric)
    custom = ["series", "tunables"]
    if spec.kind == "bars" and "y" not in (spec.log or ()):  # a bar needs a zero; a logarithmic axis has none
        colors = {name: style.color for name, style in looks.items()}
        errors = {"error_y": "above", "error_y_minus": "below"} if "above" in frame else {}
        drawn = px.bar(
            frame, x="x", y="y", color="name", color_discrete_map=colors, custom_data=custom, template="none", **errors
        )
        data = traces_of(drawn, hovertemplate=hover)
    else:
        mode = "lines+markers" if numeric else "markers"
        data = lines(frame, looks, custom, hovertemplate=hover, marker_size=8, mode=mode)
    beside = _published_traces(points.published, names, looks, scale, numeric, hover)
    return [trace for each in data for trace in (_with_bars(each), *beside.get(each["name"], ()))]


def _published_traces(
    points: pd.DataFrame, names: dict[Any, str], looks: Any, scale: Scale, numeric: bool, hover: str
) -> dict[str, list[dict[str, Any]]]:
    """Return name of a series → its published points, hollow and named with their device."""
    found = {}
    for series, hollow in points[points["series"].isin(names)].groupby("series", sort=False):
        name, style = names[series], looks[names[series]]
        beside = f"{name} ({label(hollow['device'].iloc[0] or 'published', 18)})"
        look = {beside: style._replace(symbol=f"{style.symbol}-open")}
        more = {"hovertemplate": hover, "marker_size": 8, "mode": "markers"}
        found[name] = lines(_frame(hollow, {series: beside}, scale, numeric), look, ["series", "tunables"], **more)
    return found


def _frame(points: pd.DataFrame, names: dict[Any, str], scale: Scale, numeric: bool) -> pd.DataFrame:
    """Return points for plotly.express: series in order of appearance, each by rising x where x is a number."""
    points = points.sort_values("x", kind="stable") if numeric else points
    points = pd.concat([points[[each == name for each in points["series"]]] for name in names])
    intervals = list(points["interval"])
    return frame_of(
        name=[names[series] for series in points["series"]],
        x=points["x"] if numeric else [label(value_label(x)) for x in points["x"]],
        y=numbers(points["value"], scale),
        series=map(plain, points["series"]),
        tunables=[plain(tunables or "") for tunables in points["tunables"]],
        **(error_bars(list(points["value"]), intervals, scale) if any(intervals) else {}),
    )


def _with_bars(trace: dict[str, Any]) -> dict[str, Any]:
    """Return a trace with its error bars drawn thin and grey; without any where no point of it has an interval."""
    bars = trace.pop("error_y", None)
    if bars is None or not any(value is not None for value in bars["array"]):
        return trace
    return trace | {"error_y": bars | {"type": "data", "symmetric": False, "color": NEUTRAL, "thickness": 1.2}}


def _map(
    points: FigurePoints, spec: FigureSpec, styles: Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the map of a value over two axes; of several series the lowest value."""
    measured = points.measured.sort_values("value", ascending=False, kind="stable")
    cells = dict(zip(zip(measured["x"], measured["y"], strict=True), measured["value"], strict=True))
    xs, ys = ([key[0] for key in ordered((each,) for each in points.measured[axis])] for axis in ("x", "y"))
    x_name, y_name = plain(fact_label(spec.x)), plain(fact_label(spec.y))
    hover = f"{x_name} = %{{x}}, {y_name} = %{{y}}: %{{z}} {plain(scale.unit)}"
    grid = [numbers([cells.get((x, y)) for x in xs], scale) for y in ys]
    columns, rows = ([label(value_label(value)) for value in values] for values in (xs, ys))
    layout = {
        "height": 380,
        "xaxis": {"type": "category", "title": {"text": x_name}},
        "yaxis": {"type": "category", "title": {"text": y_name}},
    }
    return heat_map(spec.title or spec.value, columns, rows, grid, scale, hover), layout
