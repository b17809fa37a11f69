"""The figures with one row a variant: time, bandwidth, arithmetic rate, distribution of the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    Figure,
    Styles,
    axis_title,
    bars,
    error_bars,
    hovers,
    label,
    labels,
    numbers,
    plain,
)
from cuprof.report.study import Study
from cuprof.report.summary import TELLING_SHARE
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_kind, by_time
from cuprof.report.units import choose_scale, format_value

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


def row_bars(trials: Sequence[StudyTrial], styles: Styles, name: str, values: Sequence[Any], **more: Any) -> Any:
    """Return a trace with a bar a variant, in the variant's colour."""
    colors = [styles[trial.contender].color for trial in trials]
    custom = [[plain(trial.contender), plain(trial.device)] for trial in trials]
    names = labels(trial.contender for trial in trials)
    return bars(name, values, names, colors, **{"orientation": "h", "customdata": custom, **more})


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


def time_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the median time of every variant with the interval of its median."""
    trials, notes = fastest_variants(study)
    if not trials:
        return None
    medians_ns, intervals = [by_time(trial) for trial in trials], [trial.interval for trial in trials]
    scale = choose_scale("time", medians_ns)
    texts = [format_value("time", each) for each in medians_ns]
    main = row_bars(
        *(trials, styles, "median time", numbers(medians_ns, scale)),
        text=texts,
        textposition="none",
        customdata=[[plain(each.contender), plain(each.tunables_label), _interval(each)] for each in trials],
        error_x=error_bars(medians_ns, intervals, scale, 1.5),
        hovertemplate=hovers("%{customdata[0]}", "%{text} %{customdata[2]}", "%{customdata[1]}"),
    )
    # beyond the error bar, so that neither hides the other
    ends = numbers([trial.interval[1] if trial.interval else by_time(trial) for trial in trials], scale)
    words = [f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{text}" for text in texts]
    beside = {"type": "scatter", "mode": "text", "name": "", "x": ends, "y": main["y"], "text": words}
    beside |= {"textposition": "middle right", "cliponaxis": False, "hoverinfo": "skip"}
    longest, shortest = max(medians_ns) / scale.divisor, min(medians_ns) / scale.divisor
    axis: dict[str, Any] = {"rangemode": "tozero", "range": [0, longest * 1.25], "title": axis_title("Time", scale)}
    if longest / shortest > WIDE:
        main |= {"type": "scatter", "mode": "markers", "textposition": "middle center"}
        main["marker"] |= {"size": 11, "symbol": "circle"}
        axis = {"type": "log", "range": [math.log10(shortest) - 0.25, math.log10(longest) + 0.7], "dtick": 1}
        axis["title"] = axis_title("Time, logarithmic", scale)
    ends_of = min(trials, key=by_time), max(trials, key=by_time)
    text = say_once(CAPTIONS, "time", trials, *ends_of, study.confidence, None in intervals)
    layout = rows_layout(len(trials), axis)
    return Figure("figure-time", "Time by variant", [main, beside], layout, text, tuple(notes))


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
    shares = ["" if each.share is None else f"{each.share * 100:.0f}\N{NO-BREAK SPACE}%" for each in trials]
    hover = hovers("%{customdata[0]}", f"%{{x}} {scale.unit}, %{{text}} of peak", "%{customdata[1]}")
    look = {"text": shares, "textposition": "outside", "cliponaxis": False, "hovertemplate": hover}
    values = numbers([trial.bandwidth for trial in trials], scale)
    axis = {"title": axis_title("Bandwidth", scale), "range": [0, most * 1.15 / scale.divisor]}
    layout = rows_layout(len(trials), axis, top=16 * len(roofs)) | {"shapes": [], "annotations": []}
    for i, (name, roof) in enumerate(roofs.items()):
        at, mine = roof / scale.divisor, [place for place, trial in enumerate(trials) if trial.device == name]
        beside = {"y0": min(mine) - 0.5, "y1": max(mine) + 0.5}  # beside its own bars only
        dashed = {"color": NEUTRAL, "width": 2, "dash": "dash"}
        words = {"text": f"roof, {label(name, 16)}: {format_value('bandwidth', roof)}", "showarrow": False}
        words |= {"x": at, "y": 1, "xref": "x", "yref": "paper", "yanchor": "bottom", "yshift": 16 * i}
        words["xanchor"] = "right" if roof > 0.5 * most else "left"
        layout["shapes"].append(
            {"type": "line", "xref": "x", "yref": "y", "x0": at, "x1": at, "line": dashed, **beside}
        )
        layout["annotations"].append(words)
    if any((trial.share or 0.0) > 1 for trial in trials):
        notes += say("tables.txt", "above_peak")
    data = [row_bars(trials, styles, "bandwidth", values, **look)]
    text = say_once(CAPTIONS, "bandwidth", trials, best)
    return Figure("figure-bandwidth", "Bandwidth by variant", data, layout, text, tuple(notes))


def rate_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful operations over time for every variant; for computations that memory does not limit."""
    trials, notes = fastest_variants(study, "rate")
    if not trials:
        return None
    best = max(trials, key=lambda trial: trial.rate or 0.0)
    scale = choose_scale("rate", [best.rate])
    texts = [format_value("rate", trial.rate) for trial in trials]
    hover = hovers("%{customdata[0]}", "%{text}", "%{customdata[1]}")
    look = {"text": texts, "textposition": "outside", "cliponaxis": False, "hovertemplate": hover}
    values = numbers([trial.rate for trial in trials], scale)
    axis = {"title": axis_title("Arithmetic rate", scale), "range": [0, (best.rate or 0.0) * 1.4 / scale.divisor]}
    text, notes = say_once(CAPTIONS, "rate", trials, best), [*notes, *say(CAPTIONS, "in_place")]
    data, layout = [row_bars(trials, styles, "arithmetic rate", values, **look)], rows_layout(len(trials), axis)
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
    """Return the box of one trial, whose ends are those of all samples, not of the points that are drawn."""
    q1, q3 = _quartiles(trial)
    reach = WHISKER * (q3 - q1)
    near = values[(values >= q1 - reach) & (values <= q3 + reach)]
    fences = (float(near[0]), float(near[-1])) if near.size else (q1, q3)
    ends = {"q1": q1, "median": 0.0, "q3": q3, "lowerfence": fences[0], "upperfence": fences[1]}
    return {
        "type": "box",
        "name": name,
        "x": [[_short(value) for value in points]],
        "y": [name],
        **{end: [_short(value)] for end, value in ends.items()},
        "orientation": "h",
        "boxpoints": "all",
        "jitter": 0.6,
        "pointpos": 0,
        "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "x+name",
        "marker": {"color": color, "size": 3, "opacity": 0.45},
        "line": {"color": color, "width": 1.5},
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


def _interval(trial: StudyTrial) -> str:
    if trial.interval is None:
        return f"({trial.few_samples})" if trial.few_samples else ""
    return f"({' to '.join(format_value('time', end) for end in trial.interval)})"
