"""The figures with one row a variant: time, bandwidth, arithmetic rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuprof.core.text import count, level_text
from cuprof.report.conclusions import TELLING_SHARE
from cuprof.report.figure import NEUTRAL, Figure, Styles, axis_title, error_bars, label, labels, numbers, plain
from cuprof.report.series import fastest_variants
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, by_time
from cuprof.report.units import Scale, choose_scale, format_value, shorten

WIDE = 30.0
"""Times that differ by more than this are drawn as points on a logarithmic axis, not as bars: bars need a zero."""


def time_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the median time of every variant with the interval of its median."""
    trials, notes = fastest_variants(study)
    if not trials:
        return None
    medians_ns = [by_time(trial) for trial in trials]
    best, worst = min(trials, key=by_time), max(trials, key=by_time)
    scale = choose_scale("time", medians_ns)
    wide = max(medians_ns) / min(medians_ns) > WIDE
    names = labels([trial.contender for trial in trials])
    colors = [styles[trial.contender].color for trial in trials]
    intervals = [trial.interval for trial in trials]
    texts = [format_value("time", each) for each in medians_ns]
    written = {
        "type": "scatter",
        "mode": "text",
        "name": "",
        "y": names,
        # beyond the error bar, so that neither hides the other
        "x": numbers([trial.interval[1] if trial.interval else by_time(trial) for trial in trials], scale),
        "text": [f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{text}" for text in texts],
        "textposition": "middle right",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    trace: dict[str, Any] = {
        "name": "median time",
        "y": names,
        "x": numbers(medians_ns, scale),
        "error_x": error_bars(medians_ns, intervals, scale) | {"thickness": 1.5},
        "customdata": [[plain(trial.contender), plain(trial.tunables_label), _interval(trial)] for trial in trials],
        "text": texts,
        "hovertemplate": "%{customdata[0]}<br>%{text} %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
    }
    longest = max(medians_ns) / scale.divisor
    if wide:
        trace |= {"type": "scatter", "mode": "markers", "marker": {"color": colors, "size": 11}}
        shortest = min(medians_ns) / scale.divisor
        ends = [math.log10(shortest) - 0.25, math.log10(longest) + 0.7]
        axis: dict[str, Any] = {"type": "log", "range": ends, "dtick": 1}
    else:
        trace |= {"type": "bar", "orientation": "h", "marker": {"color": colors}, "textposition": "none"}
        axis = {"rangemode": "tozero", "range": [0, longest * 1.25]}
    text = (
        f"Median time of {count(len(trials), 'variant')} at {best.problem_name}; the shortest is "
        f"{shorten(best.contender)} with {format_value('time', best.median_ns)}, the longest "
        f"{shorten(worst.contender)} with {format_value('time', worst.median_ns)}. Error bars are "
        f"{level_text(study.confidence)} intervals of the median"
    )
    text += "; times of too few samples for one have none." if None in intervals else "."
    axis["title"] = {"text": axis_title("Time" + (", logarithmic" if wide else ""), scale)}
    layout = rows_layout(len(trials), axis)
    return Figure("figure-time", "Time by variant", [trace, written], layout, text, notes)


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
    roofs = [(device.label, device.read_bandwidth) for device in study.devices if device.label in used]
    tops = [(name, top) for name, top in roofs if top]
    best = max(trials, key=_bandwidth)
    most = max(_bandwidth(best), *(top for _, top in tops), 0.0)
    scale = choose_scale("bandwidth", [most / 10 if most < 1e13 else most])
    trace = {
        **_bars(trials, styles, "bandwidth", [trial.bandwidth for trial in trials], scale),
        "customdata": [[plain(trial.contender), plain(trial.device), _share(trial)] for trial in trials],
        "text": [_share(trial) for trial in trials],
        "hovertemplate": f"%{{customdata[0]}}<br>%{{x}} {scale.unit}, %{{customdata[2]}} of peak<br>"
        "%{customdata[1]}<extra></extra>",
    }
    shapes, annotations = [], []
    for i, (name, top) in enumerate(tops):
        at = top / scale.divisor
        line = {"color": NEUTRAL, "width": 2, "dash": "dash"}
        mine = [place for place, trial in enumerate(trials) if trial.device == name]
        ends = {"y0": min(mine) - 0.5, "y1": max(mine) + 0.5}  # beside the device's own bars only
        shapes.append({"type": "line", "xref": "x", "yref": "y", "x0": at, "x1": at, **ends, "line": line})
        annotations.append(
            {
                "x": at,
                "y": 1,
                "xref": "x",
                "yref": "paper",
                "text": f"roof, {label(name, 16)}: {format_value('bandwidth', top)}",
                "showarrow": False,
                "xanchor": "right" if at > 0.5 * most / scale.divisor else "left",
                "yanchor": "bottom",
                "yshift": 16 * i,
            }
        )
    text = (
        f"Bandwidth (useful bytes over median time) of {count(len(trials), 'variant')}; the highest is "
        f"{shorten(best.contender)} with {format_value('bandwidth', best.bandwidth)}"
    )
    text += f", {_share(best)} of the read bandwidth measured on {best.device}." if best.share is not None else "."
    axis = {"title": {"text": axis_title("Bandwidth", scale)}, "range": [0, most / scale.divisor * 1.15]}
    layout = {**rows_layout(len(trials), axis, top=16 * len(tops)), "shapes": shapes, "annotations": annotations}
    return Figure("figure-bandwidth", "Bandwidth by variant", [trace], layout, text, notes)


def rate_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful operations over time for every variant; for computations that memory does not limit."""
    trials, notes = fastest_variants(study, "rate")
    if not trials:
        return None
    best = max(trials, key=_rate)
    scale = choose_scale("rate", [best.rate])
    trace = {
        **_bars(trials, styles, "arithmetic rate", [trial.rate for trial in trials], scale),
        "customdata": [[plain(trial.contender), plain(trial.device)] for trial in trials],
        "text": [format_value("rate", trial.rate) for trial in trials],
        "hovertemplate": "%{customdata[0]}<br>%{text}<br>%{customdata[1]}<extra></extra>",
    }
    text = (
        f"Arithmetic rate (the computation's own operations over median time) of {count(len(trials), 'variant')} at "
        f"{best.problem_name}; the highest is {shorten(best.contender)} with {format_value('rate', best.rate)}."
    )
    more = (*notes, "No variant comes near the read bandwidth of its device, so this is drawn in its place.")
    axis = {
        "title": {"text": axis_title("Arithmetic rate", scale)},
        "range": [0, _rate(best) / scale.divisor * 1.4],
    }
    return Figure("figure-rate", "Arithmetic rate by variant", [trace], rows_layout(len(trials), axis), text, more)


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


def _bars(
    trials: Sequence[StudyTrial], styles: Styles, name: str, values: Sequence[float | None], scale: Scale
) -> dict[str, Any]:
    """Return a bar a variant, its text outside."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": labels([trial.contender for trial in trials]),
        "x": numbers(values, scale),
        "marker": {"color": [styles[trial.contender].color for trial in trials]},
        "textposition": "outside",
        "cliponaxis": False,
    }


def _bandwidth(trial: StudyTrial) -> float:
    return trial.bandwidth or 0.0


def _rate(trial: StudyTrial) -> float:
    return trial.rate or 0.0


def _interval(trial: StudyTrial) -> str:
    if trial.interval is None:
        return f"({trial.few_samples})" if trial.few_samples else ""
    low, high = (format_value("time", end) for end in trial.interval)
    return f"({low} to {high})"


def _share(trial: StudyTrial) -> str:
    return "" if trial.share is None else f"{trial.share * 100:.0f}\N{NO-BREAK SPACE}%"
