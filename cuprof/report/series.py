"""Figures over an axis: those that study.yaml asks for, the scaling over sizes, and the times over tunables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from cuprof.report import figure as plot
from cuprof.report.counter_section import left_out_notes
from cuprof.report.experiment import FigureSpec, agrees
from cuprof.report.grid import choose, describe, fact_label, keep, ordered
from cuprof.report.published import whole
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import QUANTITIES, Scale, choose_scale, is_number, shorten, value_label

LOW_IS_BEST = ("time", "energy", "power")
ROOFED = ("time", "cold", "hot", "bandwidth")
"""The values that a read bandwidth bounds."""
MOST_LINES, MOST_MAPS, MOST_WRITTEN_CELLS = 14, 6, 100
FEWEST_CHOICES = 3
"""Two choices of tunables are two numbers, which tables hold; from three on they are drawn."""
FAR = 10.0
"""A roof this many times below the shortest time is cut off."""
SEQUENTIAL = "Cividis"
"""A scale that reads the same with and without colour vision (Nuñez et al. 2018)."""
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


Roofs = Mapping[str, Mapping[float, float]]
"""Device → x → what the measured read bandwidth of the device allows there."""


class Points(NamedTuple):
    """The points of a figure in the family's order, its roofs, and notes on the series that it leaves out."""

    measured: list[Point]
    published: list[Point]
    roofs: Roofs
    notes: list[str]


def study_figure(
    study: Study,
    spec: FigureSpec,
    styles: plot.Styles,
    name: str,
    trials: pd.DataFrame,
    caption: str = "own",
) -> plot.Figure | None:
    """Return the figure, or None where nothing was measured for it, or too little for a line.

    Args:
        name: the figure's id is `figure-NAME`.
        trials: rows of the study's frame, of which it draws those that `where` keeps.
        caption: the macro that gives its text.
    """
    trials = keep(trials, spec.where)
    points = figure_points(study, spec, trials)
    measured = points.measured
    if not measured or (spec.kind == "lines" and len({point.x for point in measured}) < 2):
        return None
    value = spec.value if spec.kind == "map" else spec.y
    heading, unit, dimension = describe(study, value)
    notes: list[str] = [spec.note, *points.notes]
    if value not in QUANTITIES:
        notes += [*say("counters.txt", "mode", study.counters.mode), *left_out_notes(study, trials, value)]
    if points.published:
        devices = dict.fromkeys(each.device for each in points.published if each.device)
        notes += say(plot.CAPTIONS, "hollow", list(devices))
    values = [point.value for point in (*measured, *points.published)]
    scale = choose_scale(dimension, values, unit)
    data, layout = (_map if spec.kind == "map" else _curves)(points, spec, styles, scale, heading)
    superlative = "fastest" if value == "time" else "lowest" if dimension in LOW_IS_BEST else "highest"
    sign = -1 if superlative == "highest" else 1
    best = min(measured, key=lambda point: point.trial.sure_ns if value == "time" else sign * point.value)
    named = heading if value in QUANTITIES or heading == value else f"{heading} ({value})"
    axes = {spec.x: best.x, **({spec.y: best.y} if spec.kind == "map" else {})}
    facts = {fact_label(fact): value_label(each) for fact, each in axes.items()}
    shown = named, superlative, scale.format(best.value, unit=True), best, facts
    text = say_once(plot.CAPTIONS, caption, study, points, *shown)
    title = spec.title or f"{heading} over {fact_label(spec.x)}"
    return plot.Figure(f"figure-{name}", title, data, layout, text, tuple(filter(None, notes)))


def figure_points(study: Study, spec: FigureSpec, trials: pd.DataFrame) -> Points:
    """Return what a figure over an axis draws of some rows of the study's frame."""
    is_map = spec.kind == "map"
    value, facts = (spec.value, (spec.series, spec.x, spec.y)) if is_map else (spec.y, (spec.series, spec.x))
    measured, published = list[Point](), list[Point]()
    for key, each in choose(study, trials, value, facts, spec.published).items():
        series, x, y = (*key, None)[:3]
        if each.value is not None and x is not None:
            measured.append(Point(each.trial, series, x, y, each.value))
        if (found := whole(each.published)) is not None and found.value is not None:
            published.append(Point(each.trial, series, x, y, found.value, found.device))
    roofs = list_roofs(study, measured, is_flat=spec.y == "bandwidth") if spec.roof and spec.y in ROOFED else {}
    measured, published = (sorted(points, key=lambda each: each.trial.order) for points in (measured, published))
    series = grouped(measured, lambda each: each.series)
    if is_map or len(series) <= MOST_LINES:
        return Points(measured, published, roofs, [])
    kept = sorted(series, key=lambda name: min(each.value for each in series[name]))[:MOST_LINES]
    kept += [name for name, own in series.items() if own[0].trial.variant == study.baseline and name not in kept]
    drawn = [[each for each in points if each.series in kept] for points in (measured, published)]
    return Points(drawn[0], drawn[1], roofs, say(plot.CAPTIONS, "fewer_lines", len(kept), len(series)))


def _curves(
    points: Points, spec: FigureSpec, styles: plot.Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return lines, marks or bars, each series with the published one behind it, and the layout of their axes."""
    xs = [x for (x,) in ordered((point.x,) for point in points.measured)]
    numeric = spec.kind == "lines" and all(map(is_number, xs))
    is_sized = numeric and spec.x.startswith("problem.")
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
    if numeric:
        ticks = {**plot.integer_ticks(xs), **({"type": "log"} if "x" in log and min(xs) > 0 else {})}
    else:
        order = [plot.label(value_label(x)) for x in xs]
        ticks = {"type": "category", "categoryarray": order, "tickangle": -30 if len(xs) > 6 else 0}
    heights = plot.numbers([point.value for point in points.measured], scale)
    y_ticks: dict[str, Any] = {"rangemode": "tozero"}
    seen = -math.inf, math.inf
    if "y" in log:
        sizes = [height for height in heights if height and height > 0]
        spans_two = not sizes or max(sizes) / min(sizes) > 50  # of fewer than two decades 2 and 5 times 10^n are marked
        y_ticks = {"type": "log", "dtick": 1 if spans_two else "D2"}
        if points.roofs and spec.y != "bandwidth":
            tops = (value / scale.divisor for roof in points.roofs.values() for value in roof.values())
            lowest = min(each for each in (*sizes, *tops) if each >= min(sizes) / FAR)
            seen = lowest / 2, 1.6 * max(sizes)
            y_ticks |= {"range": [math.log10(seen[0]), math.log10(seen[1])]}
    data += [
        roof_trace(i, *roof, scale, seen) | {"hoverinfo": "x+y+name"} for i, roof in enumerate(points.roofs.items())
    ]
    x_axis, y_axis = plot.axis(fact_label(spec.x), **ticks), plot.axis(heading, scale, **y_ticks)
    return data, plot.axes(440, x_axis, y_axis, barmode="group", showlegend=len(data) > 1)


def _series(
    name: str, points: Sequence[Point], style: plot.Style, scale: Scale, numeric: bool, *, has_errors: bool = False
) -> dict[str, Any]:
    """Return the line of one series, by rising x where that is a number; with error bars where it has intervals."""
    if numeric:
        points = sorted(points, key=lambda point: point.x)
    values, intervals = [point.value for point in points], [point.trial.interval for point in points]
    facts = [(point.series, "" if point.device else point.trial.tunables.label) for point in points]
    more = plot.hover("%{customdata[0]}", f"%{{x}}: %{{y}} {plot.plain(scale.unit)}", "%{customdata[1]}", facts=facts)
    if has_errors and any(intervals):
        more["error_y"] = plot.error_bars(values, intervals, scale, 1.2)
    xs = [point.x if numeric else plot.label(value_label(point.x)) for point in points]
    mode = "lines+markers" if numeric else "markers"
    return plot.line(name, xs, plot.numbers(values, scale), style, 8, mode=mode, **more)


def _map(
    points: Points, spec: FigureSpec, styles: plot.Styles, scale: Scale, heading: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the map of a value over two axes, of several series the lowest value, and the layout of its axes.

    Its numbers are written into the cells while they have room.
    """
    keys = (ordered((getattr(point, name),) for point in points.measured) for name in "xy")
    xs, ys = ({key[0]: plot.label(value_label(key[0])) for key in each} for each in keys)
    cells = {(point.x, point.y): point.value for point in sorted(points.measured, key=lambda point: -point.value)}
    x_name, y_name, unit = plot.plain(fact_label(spec.x)), plot.plain(fact_label(spec.y)), plot.plain(scale.unit)
    trace = {
        "type": "heatmap",
        "name": plot.plain(heading),
        "x": list(xs.values()),
        "y": list(ys.values()),
        "z": [plot.numbers([cells.get((x, y)) for x in xs], scale) for y in ys],
        "colorscale": SEQUENTIAL,
        "reversescale": True,
        "texttemplate": "%{z:.3~r}" if len(xs) * len(ys) <= MOST_WRITTEN_CELLS else "",
        "colorbar": {"title": {"text": unit}, "thickness": 12},
        **plot.hover(f"{x_name} = %{{x}}, {y_name} = %{{y}}: %{{z}} {unit}"),
    }
    x_axis, y_axis = (plot.axis(fact_label(fact), type="category") for fact in (spec.x, spec.y))
    return [trace], {"height": 380, "xaxis": x_axis, "yaxis": y_axis}


def scaling_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return times over the problem axis with the most values, both axes logarithmic, with the roof of each device.

    The other axes are held at the reference problem. None where no axis has several values.
    """
    if (along := _longest_axis(study)) is None:
        return None
    others = {name: value for name, value in study.reference.items() if name != along}
    trials = study.standings[[agrees(problem, others) for problem in study.standings["problem"]]]
    spec = FigureSpec(title=f"Scaling over {along}", x=f"problem.{along}", y="time", roof=True)
    return study_figure(study, spec, styles, "scaling", trials, "scaling")


def tunables_figures(study: Study, styles: plot.Styles) -> list[plot.Figure]:
    """Return the times at the reference problem over the one or two tunables with the most values.

    There is a figure for each contender that was measured with several choices of them.
    """
    asked = []
    for contender, trials in study.here[study.here["is_right"]].groupby("contender", sort=False):
        values = pd.DataFrame(list(map(dict, trials["tunables"]))).nunique(dropna=False)
        axes = [f"tune.{name}" for name in values[values > 1].sort_values(ascending=False, kind="stable").index]
        if axes and len(trials) >= FEWEST_CHOICES:
            asked.append((contender, trials, axes))
    drawn = []
    for number, (contender, trials, axes) in enumerate(asked[:MOST_MAPS]):
        more = len(asked) - MOST_MAPS if number == MOST_MAPS - 1 else 0
        title, note = f"Tunables of {shorten(contender)}", say_once(plot.CAPTIONS, "map_notes", len(axes) > 2, more)
        kind, x, y = "map" if len(axes) > 1 else "bars", *[*axes, "time"][:2]
        spec = FigureSpec(title=title, kind=kind, x=x, y=y, note=note)
        drawn.append(study_figure(study, spec, styles, f"tunables-{number}", trials))
    return [each for each in drawn if each]


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


def list_roofs(study: Study, points: Sequence[Point], *, is_flat: bool) -> Roofs:
    """Return useful bytes of points over the measured read bandwidth of their device, or that bandwidth itself."""
    roofs = {}
    for device in study.devices:
        own = [point for point in reversed(points) if point.trial.device == device.label]
        sizes, top = {point.x: point.trial.useful_bytes or 0.0 for point in own}, device.read_bandwidth
        if sizes and top:
            roofs[device.label] = {x: top if is_flat else sizes[x] / top * 1e9 for x in sorted(sizes)}
    return roofs


def roof_trace(
    index: int, device: str, roof: Mapping[float, float], scale: Scale, ends: tuple[float, float]
) -> dict[str, Any]:
    """Return the trace of one device's roof, its name written below a point of it that is seen.

    Args:
        index: place among the roofs of the figure, which decides over the dashes.
        ends: of the y axis in the scale's unit.
    """
    y = plot.numbers(roof.values(), scale)
    seen = [place for place, value in enumerate(y) if value is not None and ends[0] <= value <= ends[1]]
    texts = [""] * len(y)
    if seen:  # two thirds along, so that the name has room to its right
        texts[seen[max(0, len(seen) * 2 // 3 - 1)]] = f"\N{NO-BREAK SPACE}roof, {plot.label(device, MOST_ROOF_LABEL)}"
    look: dict[str, Any] = {"mode": "lines+text", "text": texts, "textfont": {"color": plot.NEUTRAL, "size": 11}}
    # the side that a rising line leaves free; a single point may be the axis's last, with no room to its right
    look["textposition"] = "bottom right" if len(seen) > 1 else "top left"
    style = plot.Style(plot.NEUTRAL, dash=ROOF_DASHES[index % len(ROOF_DASHES)])
    return plot.line(plot.label(f"roof: {device}"), roof, y, style, **look)
