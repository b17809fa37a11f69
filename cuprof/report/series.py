"""Figures over an axis: those that a study asks for in its study.yaml, and the scaling over its sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from cuprof.report import figure as plot
from cuprof.report.counter_section import left_out_notes, mode_notes
from cuprof.report.experiment import FigureSpec, agrees
from cuprof.report.grid import choose, describe, fact_label, keep, ordered
from cuprof.report.published import whole
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_sure_time, by_time, grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, format_value, is_number, value_label

LOW_IS_BEST = ("time", "energy", "power")
ROOFED = ("time", "cold", "hot", "bandwidth")
"""The values that a read bandwidth bounds."""
MOST_LINES = 14
ROOF_DASHES = ("longdash", "dot", "longdashdot", "dashdot")
"""All roofs are grey, so that no one takes them for a variant; the first that is drawn is long-dashed."""
MOST_ROOF_LABEL = 20


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


class Points(NamedTuple):
    """The points of a figure in the family's order, its roofs, and notes on the series that it leaves out."""

    measured: list[Point]
    published: list[Point]
    roofs: list[Roof]
    notes: list[str]


def study_figure(study: Study, spec: FigureSpec, styles: plot.Styles, index: int) -> plot.Figure | None:
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
    text = say_once(plot.CAPTIONS, "own", named, fact_label(spec.x), is_low, value_text, best.series, at)
    notes: list[str] = [spec.note]
    if value not in QUANTITIES:
        notes += [*mode_notes(study), *left_out_notes(study, keep(study.frame, spec.where), value)]
    notes += points.notes
    if points.published:
        devices = dict.fromkeys(each.device for each in points.published if each.device)
        notes += say(plot.CAPTIONS, "hollow", list(devices))
    title = spec.title or f"{heading} over {fact_label(spec.x)}"
    if spec.kind == "map":
        data, titles = [_map(points, spec, scale)], {"xaxis": spec.x, "yaxis": spec.y}
        layout = {
            "height": 380,
            **{name: plot.axis(fact_label(fact), type="category") for name, fact in titles.items()},
        }
    else:
        data, layout = _curves(points, spec, styles, scale, heading)
    return plot.Figure(f"figure-study-{index}", title, data, layout, text, tuple(filter(None, notes)))


def figure_points(study: Study, spec: FigureSpec) -> Points:
    """Return what a study's own figure draws."""
    is_map = spec.kind == "map"
    value, facts = (spec.value, (spec.series, spec.x, spec.y)) if is_map else (spec.y, (spec.series, spec.x))
    measured, published = list[Point](), list[Point]()
    for key, each in choose(study, spec.where, value, facts, spec.published).items():
        series, x, y = (*key, None)[:3]
        if each.value is not None and x is not None:
            measured.append(Point(each.trial, series, x, y, each.value))
        if (found := whole(each.published)) is not None and found.value is not None:
            published.append(Point(each.trial, series, x, y, found.value, found.device))
    sizes: dict[str, dict[Any, float]] = {}
    for point in reversed(measured if spec.roof and spec.y in ROOFED else []):
        sizes.setdefault(point.trial.device, {})[point.x] = point.trial.useful_bytes or 0.0
    roofs = list_roofs(study, sizes, is_flat=spec.y == "bandwidth")
    measured, published = (sorted(points, key=lambda each: each.trial.order) for points in (measured, published))
    series = grouped(measured, lambda each: each.series)
    if is_map or len(series) <= MOST_LINES:
        return Points(measured, published, roofs, [])
    kept = sorted(series, key=lambda name: min(each.value for each in series[name]))[:MOST_LINES]
    drawn = [[each for each in points if each.series in kept] for points in (measured, published)]
    return Points(drawn[0], drawn[1], roofs, [f"{MOST_LINES} of {len(series)} series are drawn."])


def _curves(
    points: Points, spec: FigureSpec, styles: plot.Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return lines, marks or bars, each series with the published one behind it, and the layout of their axes."""
    xs = [point.x for point in points.measured]
    numeric = all(map(is_number, xs))
    is_sized = numeric and spec.x.startswith("problem.") and spec.kind == "lines"
    log = spec.log if spec.log is not None else (("x", "y") if is_sized else ())
    measured, published = (grouped(each, lambda point: point.series) for each in (points.measured, points.published))
    looks = styles if spec.series == "variant" else plot.styles_of(measured)
    is_bars = spec.kind == "bars" and "y" not in log  # a logarithmic axis has no zero for bars
    data = []
    for name, (series, own) in zip(plot.labels(map(value_label, measured)), measured.items(), strict=True):
        trace = _series(name, own, looks[series], scale, numeric, has_errors=spec.y == "time")
        if is_bars:
            trace = {key: value for key, value in trace.items() if key not in ("mode", "line")}
            trace |= {"type": "bar", "marker": {"color": looks[series].color}}
        data.append(trace)
        if hollow := published.get(series):
            beside = f"{name} ({plot.label(hollow[0].device or 'published', 18)})"
            style = looks[series]._replace(symbol=f"{looks[series].symbol}-open")
            data.append(_series(beside, hollow, style, scale, numeric) | {"mode": "markers"})
    data += [{**roof_trace(i, roof, scale), "hoverinfo": "x+y+name"} for i, roof in enumerate(points.roofs)]
    if numeric:
        ticks = {**plot.integer_ticks(xs), **({"type": "log"} if "x" in log and min(xs) > 0 else {})}
    else:
        ticks = {"type": "category", "tickangle": -30 if len(set(xs)) > 6 else 0}
    heights = plot.numbers([point.value for point in points.measured], scale)
    y_axis = plot.axis(
        heading, scale, **({"type": "log", **plot.decades(heights)} if "y" in log else {"rangemode": "tozero"})
    )
    x_axis = plot.axis(fact_label(spec.x), **ticks)
    return data, plot.axes(440, x_axis, y_axis, barmode="group", showlegend=len(data) > 1)


def _series(
    name: str, points: Sequence[Point], style: plot.Style, scale: Scale, numeric: bool, *, has_errors: bool = False
) -> dict[str, Any]:
    """Return the line of one series, by rising x where that is a number; with error bars where it has intervals."""
    if numeric:
        points = sorted(points, key=lambda point: point.x)
    values, intervals = [point.value for point in points], [point.trial.interval for point in points]
    facts = [(point.series, "" if point.device else point.trial.tunables_label) for point in points]
    more = plot.hover("%{customdata[0]}", f"%{{x}}: %{{y}} {plot.plain(scale.unit)}", "%{customdata[1]}", facts=facts)
    if has_errors and any(intervals):
        more["error_y"] = plot.error_bars(values, intervals, scale, 1.2)
    xs = [point.x if numeric else plot.label(value_label(point.x)) for point in points]
    mode = "lines+markers" if numeric else "markers"
    return plot.line(name, xs, plot.numbers(values, scale), style, 8, mode=mode, **more)


def _map(points: Points, spec: FigureSpec, scale: Scale) -> dict[str, Any]:
    """Return the map of a value over two axes; of several series the lowest value."""
    measured = sorted(points.measured, key=lambda point: -point.value)
    keys = (ordered((getattr(point, name),) for point in points.measured) for name in "xy")
    xs, ys = ({key[0]: plot.label(value_label(key[0])) for key in each} for each in keys)
    cells: Mapping[Any, float] = {(point.x, point.y): point.value for point in measured}
    return plot.heat_map(spec.title or spec.value, (fact_label(spec.x), fact_label(spec.y)), xs, ys, cells, scale)


class Roof(NamedTuple):
    """What the measured read bandwidth of a device allows: a value for each x."""

    device: str
    xs: tuple[float, ...]
    values: tuple[float, ...]


def scaling_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return times over the problem axis with the most values, both axes logarithmic, with the roof of each device.

    The other axes are held at the reference problem. None where no axis has several values.
    """
    if (along := _longest_axis(study)) is None:
        return None
    others = {name: value for name, value in study.reference.items() if name != along}
    fits = (each for each in study.fastest if agrees(each.problem, others))
    best = sorted(fits, key=lambda trial: (trial.order, float(trial.problem[along])))
    groups = grouped(best, lambda trial: trial.contender)
    kept = sorted(groups, key=lambda name: min(map(by_time, groups[name])))[:MOST_LINES]
    drawn = {name: own for name, own in groups.items() if name in kept or own[0].variant == study.baseline}
    scale = choose_scale("time", [median(map(by_time, best))])
    data = []
    for name, (contender, trials) in zip(plot.labels(drawn), drawn.items(), strict=True):
        facts = [(each.contender, each.tunables_label, format_value("time", each.median_ns)) for each in trials]
        look = plot.hover("%{customdata[0]}", "%{x}: %{customdata[2]}", "%{customdata[1]}", facts=facts)
        sizes = [float(trial.problem[along]) for trial in trials]
        data.append(plot.line(name, sizes, plot.numbers(map(by_time, trials), scale), styles[contender], **look))
    heights = [by_time(trial) / scale.divisor for trials in drawn.values() for trial in trials]
    # around the measured values: a roof far below them is cut off
    ends = math.log10(min(heights)) - 0.3, math.log10(max(heights)) + 0.2
    useful = {float(trial.problem[along]): float(trial.useful_bytes) for trial in reversed(best) if trial.useful_bytes}
    roofs = list_roofs(study, dict.fromkeys((trial.device for trial in best), useful))
    for i, roof in enumerate(roofs):
        times = [[format_value("time", value)] for value in roof.values]
        look = plot.hover(
            "useful bytes / read bandwidth", plot.plain(roof.device), "%{x}: %{customdata[0]}", facts=times
        )
        data.append(roof_trace(i, roof, scale, (10 ** ends[0], 10 ** ends[1])) | look)
    xs = sorted({float(trial.problem[along]) for trial in best})
    y_axis = plot.axis(
        "Time", scale, type="log", **plot.decades(plot.numbers(map(by_time, best), scale)), range=list(ends)
    )
    layout = plot.axes(460, plot.axis(along, type="log", **plot.integer_ticks(xs)), y_axis)
    first, last = (value_label(int(x) if x.is_integer() else x) for x in (xs[0], xs[-1]))
    fastest = min((trial for trial in best if float(trial.problem[along]) == xs[-1]), key=by_sure_time)
    text = say_once(plot.CAPTIONS, "scaling", along, first, last, others, fastest, [roof.device for roof in roofs])
    notes = tuple(say(plot.CAPTIONS, "fewer_lines", len(drawn), len(groups)))
    return plot.Figure("figure-scaling", f"Scaling over {along}", data, layout, text, notes)


def _longest_axis(study: Study) -> str | None:
    """Return the problem axis along which most problems lie that differ from the reference in it alone."""
    alone: dict[str, set[Any]] = {name: {study.reference[name]} for name in study.reference}
    for problem in {trial.problem for trial in study.fastest}:
        differing = [name for name in {*problem, *study.reference} if problem.get(name) != study.reference.get(name)]
        if len(differing) == 1 and differing[0] in alone and differing[0] in problem:
            alone[differing[0]].add(problem[differing[0]])
    fewest = 3 if study.experiment.problems else 2  # two of a study's named problems that share axes are no series
    numeric = {name: found for name, found in alone.items() if len(found) >= fewest and all(map(is_number, found))}
    return max(numeric, key=lambda name: len(numeric[name]), default=None)


def list_roofs(study: Study, sizes: Mapping[str, Mapping[Any, float]], *, is_flat: bool = False) -> list[Roof]:
    """Return useful bytes over each device's measured read bandwidth, or that bandwidth itself.

    Args:
        sizes: label of a device → x → useful bytes.
    """
    roofs = []
    for device in study.devices:
        of_device, top = sizes.get(device.label, {}), device.read_bandwidth
        if of_device and top:
            values = {x: top if is_flat else of_device[x] / top * 1e9 for x in sorted(of_device)}
            roofs.append(Roof(device.label, tuple(values), tuple(values.values())))
    return roofs


def roof_trace(index: int, roof: Roof, scale: Scale, range_: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return the trace of one device's roof, its name written below a point of it that is seen.

    Args:
        index: place among the roofs of the figure, which decides over the dashes.
        range_: ends of the y axis in the scale's unit; None where the axis shows every point.
    """
    y = plot.numbers(roof.values, scale)
    low, high = range_ or (float("-inf"), float("inf"))
    seen = [place for place, value in enumerate(y) if value is not None and low <= value <= high]
    texts = [""] * len(y)
    if seen:  # two thirds along, so that the name has room to its right
        texts[seen[max(0, len(seen) * 2 // 3 - 1)]] = (
            f"\N{NO-BREAK SPACE}roof, {plot.label(roof.device, MOST_ROOF_LABEL)}"
        )
    look: dict[str, Any] = {"mode": "lines+text", "text": texts, "textfont": {"color": plot.NEUTRAL, "size": 11}}
    # the side that a rising line leaves free; a single point may be the axis's last, with no room to its right
    look["textposition"] = "bottom right" if len(seen) > 1 else "top left"
    style = plot.Style(plot.NEUTRAL, dash=ROOF_DASHES[index % len(ROOF_DASHES)])
    return plot.line(plot.label(f"roof: {roof.device}"), roof.xs, y, style, **look)
