"""Lines over an axis: scaling over the problem's sizes, with the roofs that the measured read bandwidths set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import pandas as pd
import plotly.express as px

from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    Figure,
    Style,
    Styles,
    axis_title,
    decades,
    frame_of,
    hovers,
    integer_ticks,
    label,
    labels,
    numbers,
    plain,
    traces_of,
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
    drawn, notes = _fewer_lines(study, grouped(best, lambda trial: trial.contender))
    shown = [trial for trials in drawn.values() for trial in trials]
    scale = choose_scale("time", [median(map(by_time, best))])
    names = dict(zip(drawn, labels(drawn), strict=True))
    frame = frame_of(
        name=[names[trial.contender] for trial in shown],
        x=[float(trial.problem[axis]) for trial in shown],
        y=numbers(map(by_time, shown), scale),
        contender=[plain(trial.contender) for trial in shown],
        tunables=[plain(trial.tunables_label) for trial in shown],
        time=[format_value("time", trial.median_ns) for trial in shown],
    )
    hover = hovers("%{customdata[0]}", "%{x}: %{customdata[2]}", "%{customdata[1]}")
    looks = {names[contender]: styles[contender] for contender in drawn}
    data = lines(frame, looks, ["contender", "tunables", "time"], hovertemplate=hover, marker_size=7)
    heights = [by_time(trial) / scale.divisor for trial in shown]
    # around the measured values: a roof far below them is cut off
    ends = math.log10(min(heights)) - 0.3, math.log10(max(heights)) + 0.2
    sizes = {float(trial.problem[axis]): float(trial.useful_bytes) for trial in reversed(best) if trial.useful_bytes}
    roofs = list_roofs(study, dict.fromkeys((trial.device for trial in best), sizes))
    for i, roof in enumerate(roofs):
        trace = roof_trace(i, roof, scale, (10 ** ends[0], 10 ** ends[1]))
        hover = hovers("useful bytes / read bandwidth", plain(roof.device), "%{x}: %{customdata[0]}")
        values = [[format_value("time", value)] for value in roof.values]
        data.append({**trace, "customdata": values, "hovertemplate": hover})
    xs = sorted({float(trial.problem[axis]) for trial in best})
    layout = {
        "height": 460,
        "xaxis": {"type": "log", "title": {"text": plain(axis)}, **integer_ticks(xs)},
        "yaxis": {
            "type": "log",
            "title": {"text": axis_title("Time", scale)},
            **decades(numbers(map(by_time, best), scale)),
            "range": list(ends),
        },
        "showlegend": True,
    }
    devices = [roof.device for roof in roofs]
    first, last = (value_label(int(x) if x.is_integer() else x) for x in (xs[0], xs[-1]))
    fastest = min((trial for trial in best if float(trial.problem[axis]) == xs[-1]), key=by_sure_time)
    text = say_once(CAPTIONS, "scaling", axis, first, last, others, fastest, devices)
    return Figure("figure-scaling", f"Scaling over {axis}", data, layout, text, tuple(notes))


def _longest_axis(study: Study) -> str | None:
    problems = {trial.problem for trial in study.fastest}
    values = {
        axis: {problem[axis] for problem in problems if _differ(problem, study.reference) <= {axis}}
        for axis in study.reference
    }
    fewest = 3 if study.experiment.problems else 2  # two of a study's named problems that share axes are no series
    numeric = {axis: found for axis, found in values.items() if len(found) >= fewest and all(map(_is_number, found))}
    return max(numeric, key=lambda axis: len(numeric[axis]), default=None)


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the axes on which two problems differ."""
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fewer_lines(
    study: Study, by_contender: Mapping[str, Sequence[StudyTrial]]
) -> tuple[dict[str, Sequence[StudyTrial]], list[str]]:
    """Return the lines with the shortest times and the baseline's, and a note on the others."""
    fastest = sorted(by_contender, key=lambda name: min(map(by_time, by_contender[name])))[:MOST_LINES]
    drawn = {
        name: trials for name, trials in by_contender.items() if name in fastest or trials[0].variant == study.baseline
    }
    return drawn, say(CAPTIONS, "fewer_lines", len(drawn), len(by_contender))


def lines(frame: pd.DataFrame, looks: Mapping[str, Style], custom: list[str], **more: Any) -> list[dict[str, Any]]:
    """Return a line with marks for each name of a frame with columns name, x and y, and above and below where known.

    Args:
        looks: name → its style.
        custom: further columns, which `hovertemplate` names.
        more: what holds of every trace.
    """
    maps = {
        "color_discrete_map": {name: style.color for name, style in looks.items()},
        "symbol_map": {name: style.symbol for name, style in looks.items()},
        "line_dash_map": {name: style.dash for name, style in looks.items()},
    }
    series = dict.fromkeys(("color", "symbol", "line_dash"), "name")
    errors = {"error_y": "above", "error_y_minus": "below"} if "above" in frame else {}
    drawn = px.line(frame, x="x", y="y", markers=True, custom_data=custom, template="none", **series, **maps, **errors)
    traces = traces_of(drawn, line_width=2, **more)
    return [{**trace, "marker": {**trace["marker"], "color": trace["line"]["color"]}} for trace in traces]


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
    drawn = px.line(frame_of(x=roof.xs, y=y, text=texts), x="x", y="y", text="text", template="none")
    (trace,) = traces_of(
        drawn,
        name=label(f"roof: {roof.device}"),
        mode="lines+text",
        line={"color": NEUTRAL, "width": 2, "dash": ROOF_DASHES[index % len(ROOF_DASHES)]},
        # the side that a rising line leaves free; a single point may be the axis's last, with no room to its right
        textposition="bottom right" if len(seen) > 1 else "top left",
        textfont={"color": NEUTRAL, "size": 11},
        hovertemplate=None,
    )
    return trace
