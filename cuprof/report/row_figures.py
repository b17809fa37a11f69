"""The figures with one row a variant: time, bandwidth, arithmetic rate, distribution of the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.express as px

from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    Figure,
    Styles,
    axis_title,
    error_bars,
    frame_of,
    hovers,
    label,
    labels,
    numbers,
    plain,
    traces_of,
)
from cuprof.report.study import Study
from cuprof.report.summary import TELLING_SHARE
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_kind, by_time
from cuprof.report.units import Scale, choose_scale, format_value

WIDE = 30.0
"""Times that differ by more than this are drawn as points on a logarithmic axis, not as bars: bars need a zero."""
MOST_BARS = 40
MOST_POINTS = 400
"""Samples a variant that are drawn."""
WHISKER = 1.5
"""Fences reach to the last sample within this many interquartile ranges of the box (Tukey 1977, Exploratory Data
Analysis, 2D)."""


def fastest_variants(study: Study, quantity: str = "median_ns") -> tuple[list[StudyTrial], list[str]]:
    """Return the contenders that have a quantity at the reference problem, and a note where only the fastest are.

    Kernels come before libraries before CPU variants.
    """
    every = [trial for trial in by_kind(study.best) if getattr(trial, quantity) is not None]
    kept = set(sorted(every, key=by_time)[:MOST_BARS])
    notes = say(CAPTIONS, "fewer", MOST_BARS, len(every), "variant", "fastest")
    return [trial for trial in every if trial in kept], notes


def time_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the median time of every variant with the interval of its median."""
    trials, notes = fastest_variants(study)
    if not trials:
        return None
    medians_ns, intervals = [by_time(trial) for trial in trials], [trial.interval for trial in trials]
    scale = choose_scale("time", medians_ns)
    is_wide = max(medians_ns) / min(medians_ns) > WIDE
    frame = _rows(
        trials,
        x=numbers(medians_ns, scale),
        **error_bars(medians_ns, intervals, scale),
        text=[format_value("time", each) for each in medians_ns],
        interval=[_interval(trial) for trial in trials],
    )
    own = {"mode": "markers", "marker_size": 11} if is_wide else {}
    hover = hovers("%{customdata[0]}", "%{text} %{customdata[2]}", "%{customdata[1]}")
    bars = {"type": "data", "symmetric": False, "color": NEUTRAL, "thickness": 1.5}
    draw = px.scatter if is_wide else px.bar
    given = {"x": "x", "y": "name", "error_x": "above", "error_x_minus": "below", "text": "text", "orientation": "h"}
    drawn = draw(frame, **given, custom_data=["contender", "tunables", "interval"], template="none")
    look = own or {"textposition": "none"}
    colors = [styles[trial.contender].color for trial in trials]
    data = traces_of(drawn, name="median time", hovertemplate=hover, marker_color=colors, error_x=bars, **look)
    # beyond the error bar, so that neither hides the other
    ends = numbers([trial.interval[1] if trial.interval else by_time(trial) for trial in trials], scale)
    words = [f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{text}" for text in frame["text"]]
    beside = px.scatter(_rows(trials, x=ends, text=words), x="x", y="name", text="text", template="none")
    look = {"mode": "text", "textposition": "middle right", "cliponaxis": False, "hoverinfo": "skip"}
    data += traces_of(beside, name="", hovertemplate=None, marker=None, **look)
    longest, shortest = max(medians_ns) / scale.divisor, min(medians_ns) / scale.divisor
    axis: dict[str, Any] = {"rangemode": "tozero", "range": [0, longest * 1.25]}
    if is_wide:
        axis = {"type": "log", "range": [math.log10(shortest) - 0.25, math.log10(longest) + 0.7], "dtick": 1}
    axis["title"] = {"text": axis_title("Time" + (", logarithmic" if is_wide else ""), scale)}
    ends_of = min(trials, key=by_time), max(trials, key=by_time)
    text = say_once(CAPTIONS, "time", trials, *ends_of, study.confidence, None in intervals)
    return Figure("figure-time", "Time by variant", data, rows_layout(len(trials), axis), text, tuple(notes))


def memory_or_rate_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the bandwidths, or the arithmetic rates where no variant comes near a device's read bandwidth."""
    near = any(trial.share and trial.share >= TELLING_SHARE for trial in study.best)
    known = any(trial.rate is not None for trial in study.best)
    return bandwidth_figure(study, styles) if near or not known else rate_figure(study, styles)


def bandwidth_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful bytes over time for every variant, with the measured read bandwidth of each device as a line."""
    trials, notes = fastest_variants(study, "bandwidth")
    if not trials:
        return None
    used = {trial.device for trial in trials}
    roofs = {each.label: each.read_bandwidth for each in study.devices if each.label in used and each.read_bandwidth}
    best = max(trials, key=lambda trial: trial.bandwidth or 0.0)
    most = max(best.bandwidth or 0.0, *roofs.values(), 0.0)
    scale = choose_scale("bandwidth", [most / 10 if most < 1e13 else most])
    hover = hovers("%{customdata[0]}", f"%{{x}} {scale.unit}, %{{text}} of peak", "%{customdata[1]}")
    data = _bars(trials, styles, "bandwidth", scale, [_share(trial) for trial in trials], hover)
    layout = rows_layout(len(trials), _value_axis("Bandwidth", scale, most * 1.15), top=16 * len(roofs))
    layout |= {"shapes": [], "annotations": []}
    for i, (name, roof) in enumerate(roofs.items()):
        mine = [place for place, trial in enumerate(trials) if trial.device == name]
        shape, words = _roof(name, roof, scale, most)
        layout["shapes"].append(shape | {"y0": min(mine) - 0.5, "y1": max(mine) + 0.5})  # beside its own bars only
        layout["annotations"].append(words | {"yshift": 16 * i})
    if any((trial.share or 0.0) > 1 for trial in trials):
        notes += say("tables.txt", "above_peak")
    text = say_once(CAPTIONS, "bandwidth", trials, best)
    return Figure("figure-bandwidth", "Bandwidth by variant", data, layout, text, tuple(notes))


def _roof(name: str, top: float, scale: Scale, most: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the line at a device's read bandwidth, and the words above it."""
    at = top / scale.divisor
    line = {"color": NEUTRAL, "width": 2, "dash": "dash"}
    words = {
        "x": at,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "text": f"roof, {label(name, 16)}: {format_value('bandwidth', top)}",
        "showarrow": False,
        "xanchor": "right" if at > 0.5 * most / scale.divisor else "left",
        "yanchor": "bottom",
    }
    return {"type": "line", "xref": "x", "yref": "y", "x0": at, "x1": at, "line": line}, words


def rate_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful operations over time for every variant; for computations that memory does not limit."""
    trials, notes = fastest_variants(study, "rate")
    if not trials:
        return None
    best = max(trials, key=lambda trial: trial.rate or 0.0)
    scale = choose_scale("rate", [best.rate])
    texts = [format_value("rate", trial.rate) for trial in trials]
    hover = hovers("%{customdata[0]}", "%{text}", "%{customdata[1]}")
    data = _bars(trials, styles, "rate", scale, texts, hover, name="arithmetic rate")
    layout = rows_layout(len(trials), _value_axis("Arithmetic rate", scale, (best.rate or 0.0) * 1.4))
    text, notes = say_once(CAPTIONS, "rate", trials, best), [*notes, *say(CAPTIONS, "in_place")]
    return Figure("figure-rate", "Arithmetic rate by variant", data, layout, text, tuple(notes))


def distribution_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the spread of every variant's samples around their median, in percent of it."""
    every, notes = fastest_variants(study)
    drawn = [trial for trial in every if trial.measure in trial.sampled and trial.median_ns]
    if not drawn:
        return None
    samples = zip(drawn, study.samples(drawn), strict=True)
    around = {trial: np.sort(each.values / by_time(trial) - 1) * 100 for trial, each in samples}
    pooled = np.concatenate(list(around.values()))
    low, high = min(-1.0, 1.3 * float(np.quantile(pooled, 0.01))), max(1.0, 1.3 * float(np.quantile(pooled, 0.97)))
    inside = {trial: values[(values >= low) & (values <= high)] for trial, values in around.items()}
    beyond = int(pooled.size - sum(values.size for values in inside.values()))
    is_thinned = any(values.size > MOST_POINTS for values in inside.values())
    notes += say(CAPTIONS, "points", beyond, pooled.size, MOST_POINTS, is_thinned)
    data = [
        _box(trial, name, around[trial], thin(inside[trial].tolist()), styles[trial.contender].color)
        for name, trial in zip(labels(trial.contender for trial in drawn), drawn, strict=True)
    ]
    widths = {trial: q3 - q1 for trial in drawn for q1, q3 in [_quartiles(trial)]}
    widest = max(widths, key=widths.__getitem__)
    text = say_once(CAPTIONS, "distribution", len(drawn), pooled.size, widest, widths[widest])
    axis = {"title": {"text": "Deviation from the median (%)"}, "range": [low, high], "zeroline": True}
    layout = rows_layout(len(drawn), axis)
    return Figure("figure-distribution", "Distribution of the samples", data, layout, text, tuple(notes))


def _box(trial: StudyTrial, name: str, values: np.ndarray, points: Sequence[float], color: str) -> dict[str, Any]:
    """Return the box of one trial: it is given, since plotly.express would make it of the points that are drawn."""
    q1, q3 = _quartiles(trial)
    reach = WHISKER * (q3 - q1)
    near = values[(values >= q1 - reach) & (values <= q3 + reach)]
    fences = (float(near[0]), float(near[-1])) if near.size else (q1, q3)
    ends = {"q1": q1, "median": 0.0, "q3": q3, "lowerfence": fences[0], "upperfence": fences[1]}
    return {
        "type": "box",
        "orientation": "h",
        "name": name,
        "y": [name],
        "x": [[_short(value) for value in points]],
        **{end: [_short(value)] for end, value in ends.items()},
        "boxpoints": "all",
        "jitter": 0.6,
        "pointpos": 0,
        "marker": {"color": color, "size": 3, "opacity": 0.45},
        "line": {"color": color, "width": 1.5},
        "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "x+name",
    }


def thin(values: Sequence[float]) -> list[float]:
    """Return the values, at most `MOST_POINTS` of them, evenly over their order; the ends stay."""
    if len(values) <= MOST_POINTS:
        return list(values)
    return [values[round(i * (len(values) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]


def _quartiles(trial: StudyTrial) -> tuple[float, float]:
    """Return the quartiles around the median in percent, of readings spread over the timer's tick as everywhere."""
    timing = trial.timing
    return tuple((each / timing.median_ns - 1) * 100 for each in (timing.q1_ns, timing.q3_ns)) if timing else (0.0, 0.0)  # type: ignore[return-value]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def rows_layout(rows: int, axis: dict[str, Any], top: int = 0) -> dict[str, Any]:
    """Return the layout of a figure with one row a variant, the first on top."""
    return {
        "height": 90 + top + 30 * rows,
        "margin": {"t": 12 + top},
        "xaxis": axis,
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "bargap": 0.35,
        "showlegend": False,
    }


def _value_axis(heading: str, scale: Scale, most: float) -> dict[str, Any]:
    return {"title": {"text": axis_title(heading, scale)}, "range": [0, most / scale.divisor]}


def _rows(trials: Sequence[StudyTrial], **columns: Any) -> pd.DataFrame:
    """Return a row a trial with its names beside some columns."""
    names = labels(trial.contender for trial in trials)
    about = {each: [plain(getattr(trial, each)) for trial in trials] for each in ("contender", "device")}
    return frame_of(name=names, tunables=[plain(trial.tunables_label) for trial in trials], **about, **columns)


def _bars(
    trials: Sequence[StudyTrial],
    styles: Styles,
    quantity: str,
    scale: Scale,
    texts: Sequence[str],
    hover: str,
    name: str = "",
) -> list[dict[str, Any]]:
    """Return a bar a variant, its text outside."""
    frame = _rows(trials, x=numbers([getattr(trial, quantity) for trial in trials], scale), text=texts)
    custom = ["contender", "device"]
    bars = px.bar(frame, x="x", y="name", text="text", orientation="h", custom_data=custom, template="none")
    colors = [styles[trial.contender].color for trial in trials]
    look = {"textposition": "outside", "cliponaxis": False, "hovertemplate": hover}
    return traces_of(bars, name=name or quantity, marker_color=colors, **look)


def _interval(trial: StudyTrial) -> str:
    if trial.interval is None:
        return f"({trial.few_samples})" if trial.few_samples else ""
    return f"({' to '.join(format_value('time', end) for end in trial.interval)})"


def _share(trial: StudyTrial) -> str:
    return "" if trial.share is None else f"{trial.share * 100:.0f}\N{NO-BREAK SPACE}%"
