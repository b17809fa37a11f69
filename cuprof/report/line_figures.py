"""Lines over an axis: scaling over the problem's sizes, with the roofs that the measured read bandwidths set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    Figure,
    Style,
    Styles,
    axis_title,
    decades,
    hovers,
    integer_ticks,
    label,
    labels,
    line,
    numbers,
    plain,
)
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_sure_time, by_time, grouped
from cuprof.report.units import Scale, choose_scale, format_value, value_label

MOST_LINES = 14
ROOF_DASHES = ("longdash", "dot", "longdashdot", "dashdot")
"""All roofs are grey, so that no one takes them for a variant; the first that is drawn is long-dashed."""
MOST_ROOF_LABEL = 20


class Roof(NamedTuple):
    """What the measured read bandwidth of a device allows: a value for each x."""

    device: str
    xs: tuple[float, ...]
    values: tuple[float, ...]


def scaling_figure(study: Study, styles: Styles) -> Figure | None:
    """Return times over the problem axis with the most values, both axes logarithmic, with the roof of each device.

    The other axes are held at the reference problem. None where no axis has several values.
    """
    if (axis := _longest_axis(study)) is None:
        return None
    others = {name: value for name, value in study.reference.items() if name != axis}
    fits = (each for each in study.fastest if all(each.problem.get(name) == value for name, value in others.items()))
    best = sorted(fits, key=lambda trial: (trial.order, float(trial.problem[axis])))
    groups = grouped(best, lambda trial: trial.contender)
    kept = sorted(groups, key=lambda name: min(map(by_time, groups[name])))[:MOST_LINES]
    drawn = {name: own for name, own in groups.items() if name in kept or own[0].variant == study.baseline}
    scale = choose_scale("time", [median(map(by_time, best))])
    data = [
        _scaling_line(trials, name, axis, styles[contender], scale)
        for (contender, trials), name in zip(drawn.items(), labels(drawn), strict=True)
    ]
    heights = [by_time(trial) / scale.divisor for trials in drawn.values() for trial in trials]
    # around the measured values: a roof far below them is cut off
    ends = math.log10(min(heights)) - 0.3, math.log10(max(heights)) + 0.2
    sizes = {float(trial.problem[axis]): float(trial.useful_bytes) for trial in reversed(best) if trial.useful_bytes}
    roofs = list_roofs(study, dict.fromkeys((trial.device for trial in best), sizes))
    for i, roof in enumerate(roofs):
        hover = hovers("useful bytes / read bandwidth", plain(roof.device), "%{x}: %{customdata[0]}")
        custom = {"customdata": [[format_value("time", value)] for value in roof.values], "hovertemplate": hover}
        data.append(roof_trace(i, roof, scale, (10 ** ends[0], 10 ** ends[1])) | custom)
    xs = sorted({float(trial.problem[axis]) for trial in best})
    y_axis = {"type": "log", "title": axis_title("Time", scale), **decades(numbers(map(by_time, best), scale))}
    x_axis = {"type": "log", "title": {"text": plain(axis)}, **integer_ticks(xs)}
    layout = {"height": 460, "xaxis": x_axis, "yaxis": {**y_axis, "range": list(ends)}, "showlegend": True}
    first, last = (value_label(int(x) if x.is_integer() else x) for x in (xs[0], xs[-1]))
    fastest = min((trial for trial in best if float(trial.problem[axis]) == xs[-1]), key=by_sure_time)
    text = say_once(CAPTIONS, "scaling", axis, first, last, others, fastest, [roof.device for roof in roofs])
    notes = tuple(say(CAPTIONS, "fewer_lines", len(drawn), len(groups)))
    return Figure("figure-scaling", f"Scaling over {axis}", data, layout, text, notes)


def _scaling_line(trials: Sequence[StudyTrial], name: str, axis: str, style: Style, scale: Scale) -> dict[str, Any]:
    times = [[each.contender, each.tunables_label, format_value("time", each.median_ns)] for each in trials]
    return line(
        *(name, [float(trial.problem[axis]) for trial in trials], numbers(map(by_time, trials), scale), style),
        customdata=[list(map(plain, each)) for each in times],
        hovertemplate=hovers("%{customdata[0]}", "%{x}: %{customdata[2]}", "%{customdata[1]}"),
    )


def _longest_axis(study: Study) -> str | None:
    """Return the problem axis along which most problems lie that differ from the reference in it alone."""
    problems = {trial.problem for trial in study.fastest}
    alone = {
        axis: {
            problem[axis]
            for problem in problems
            if {name for name in {*problem, *study.reference} if problem.get(name) != study.reference.get(name)}
            <= {axis}
        }
        for axis in study.reference
    }
    fewest = 3 if study.experiment.problems else 2  # two of a study's named problems that share axes are no series
    numeric = {axis: found for axis, found in alone.items() if len(found) >= fewest and all(map(is_number, found))}
    return max(numeric, key=lambda axis: len(numeric[axis]), default=None)


def is_number(value: object) -> bool:
    """Return whether a fact is a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    y = numbers(roof.values, scale)
    low, high = range_ or (float("-inf"), float("inf"))
    seen = [place for place, value in enumerate(y) if value is not None and low <= value <= high]
    texts = [""] * len(y)
    if seen:  # two thirds along, so that the name has room to its right
        texts[seen[max(0, len(seen) * 2 // 3 - 1)]] = f"\N{NO-BREAK SPACE}roof, {label(roof.device, MOST_ROOF_LABEL)}"
    look: dict[str, Any] = {"mode": "lines+text", "text": texts, "textfont": {"color": NEUTRAL, "size": 11}}
    # the side that a rising line leaves free; a single point may be the axis's last, with no room to its right
    look["textposition"] = "bottom right" if len(seen) > 1 else "top left"
    style = Style(NEUTRAL, dash=ROOF_DASHES[index % len(ROOF_DASHES)])
    return line(label(f"roof: {roof.device}"), roof.xs, y, style, **look)
