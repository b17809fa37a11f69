"""The standard figures of a study: time, bandwidth, scaling, distribution, tunables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cuprof.analysis.facts import value_label
from cuprof.analysis.intervals import few_samples, has_interval, level_text
from cuprof.analysis.quantities import Scale, choose_scale, count, format_value, shorten
from cuprof.analysis.series import distribution, scaling, variants_frame
from cuprof.analysis.study import Study, extreme
from cuprof.analysis.verdict import TELLING_SHARE
from cuprof.report.figure import (
    MOST_BARS,
    MOST_LINES,
    MOST_POINTS,
    NEUTRAL,
    Figure,
    Styles,
    axis_title,
    decades,
    integer_ticks,
    label,
    labels,
    numbers,
    plain,
    thin,
)
from cuprof.report.roofs import roof_trace, roofs_sentence
from cuprof.report.tunable_figures import tunables_figures

WIDE = 30.0
"""Times that differ by more than this are drawn as points on a logarithmic axis, not as bars: bars need a zero."""


def standard_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return the standard figures that this study has data for."""
    second = bandwidth_figure if limited_by_memory(study) else rate_figure
    found = [time_figure(study, styles), second(study, styles), scaling_figure(study, styles)]
    found += [distribution_figure(study, styles), *tunables_figures(study, styles)]
    return [figure for figure in found if figure is not None]


def limited_by_memory(study: Study) -> bool:
    """Return whether any variant comes near a device's read bandwidth, or nothing is known of its arithmetic."""
    return bool((study.best["share"] >= TELLING_SHARE).any() or study.best["rate"].isna().all())


def time_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the median time of every variant with the interval of its median."""
    frame, notes = _most(variants_frame(study))
    if frame.empty:
        return None
    scale = choose_scale("time", frame["time_ns"])
    wide = frame["time_ns"].max() / frame["time_ns"].min() > WIDE
    names = labels(list(frame["contender"]))
    colors = [styles[name].color for name in frame["contender"]]
    low = frame["time_ns"] - frame["time_low_ns"].astype(float)
    high = frame["time_high_ns"].astype(float) - frame["time_ns"]  # NaN, which is no bar, where samples are too few
    texts = [format_value("time", value) for value in frame["time_ns"]]
    written = {
        "type": "scatter",
        "mode": "text",
        "name": "",
        "y": names,
        "x": numbers(frame["time_ns"] + high.fillna(0), scale),  # beyond the error bar, so that neither hides the other
        "text": [f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{text}" for text in texts],
        "textposition": "middle right",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    trace: dict[str, Any] = {
        "name": "median time",
        "y": names,
        "x": numbers(frame["time_ns"], scale),
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": numbers(high, scale),
            "arrayminus": numbers(low, scale),
            "color": NEUTRAL,
            "thickness": 1.5,
        },
        "customdata": [
            [plain(row["contender"]), plain(row["tunables_label"]), _interval(row)] for row in frame.to_dict("records")
        ],
        "text": texts,
        "textposition": "none",
        "hovertemplate": "%{customdata[0]}<br>%{text} %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
    }
    if wide:
        trace |= {"type": "scatter", "mode": "markers"}
        del trace["textposition"]
        trace["marker"] = {"color": colors, "size": 11}
        span = np.log10(frame["time_ns"] / scale.divisor)
        axis = {"type": "log", "range": [float(span.min()) - 0.25, float(span.max()) + 0.7], "dtick": 1}
    else:
        trace |= {"type": "bar", "orientation": "h", "marker": {"color": colors}}
        axis = {"rangemode": "tozero", "range": [0, float(frame["time_ns"].max() / scale.divisor) * 1.25]}
    best, worst = extreme(frame, "time_ns"), extreme(frame, "time_ns", largest=True)
    text = (
        f"Median time of {count(len(frame), 'variant')} at {best['problem_name']}; the shortest is "
        f"{shorten(best['contender'])} with "
        f"{format_value('time', best['time_ns'])}, the longest {shorten(worst['contender'])} with "
        f"{format_value('time', frame['time_ns'].max())}. Error bars are "
        f"{level_text(study.confidence)} intervals of the median"
    )
    text += "; times of too few samples for one have none." if high.isna().any() else "."
    layout = _rows_layout(
        len(frame), {**axis, "title": {"text": axis_title("Time" + (", logarithmic" if wide else ""), scale)}}
    )
    return Figure("figure-time", "Time by variant", [trace, written], layout, text, notes)


def bandwidth_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful bytes over time for every variant, with the measured read bandwidth of each device as a line."""
    frame, notes = _most(variants_frame(study).dropna(subset=["bandwidth"]))
    if frame.empty:
        return None
    roofs = [device for device in study.devices if device.read_bandwidth and device.label in set(frame["device"])]
    tops = [float(device.read_bandwidth or 0) for device in roofs]
    most = max([float(frame["bandwidth"].max()), *tops])
    scale = choose_scale("bandwidth", [most / 10 if most < 1e13 else most])
    trace = {
        **_bars(frame, styles, "bandwidth", scale),
        "customdata": [
            [plain(row["contender"]), plain(row["device"]), _share(row["share"])] for row in frame.to_dict("records")
        ],
        "text": [_share(share) for share in frame["share"]],
        "hovertemplate": f"%{{customdata[0]}}<br>%{{x}} {scale.unit}, %{{customdata[2]}} of peak<br>"
        "%{customdata[1]}<extra></extra>",
    }
    shapes, annotations = [], []
    for i, (device, top) in enumerate(zip(roofs, tops, strict=True)):
        at = top / scale.divisor
        line = {"color": NEUTRAL, "width": 2, "dash": "dash"}
        mine = [place for place, label_ in enumerate(frame["device"]) if label_ == device.label]
        ends = {"y0": min(mine) - 0.5, "y1": max(mine) + 0.5}  # beside the device's own bars only
        shapes.append({"type": "line", "xref": "x", "yref": "y", "x0": at, "x1": at, **ends, "line": line})
        side = "right" if at > 0.5 * most / scale.divisor else "left"
        words = f"roof, {label(device.label, 16)}: {format_value('bandwidth', top)}"
        annotations.append(
            {
                "x": at,
                "y": 1,
                "xref": "x",
                "yref": "paper",
                "text": words,
                "showarrow": False,
                "xanchor": side,
                "yanchor": "bottom",
                "yshift": 16 * i,
            }
        )
    best = extreme(frame, "bandwidth", largest=True)
    top_value = format_value("bandwidth", best["bandwidth"])
    text = f"Bandwidth (useful bytes over median time) of {count(len(frame), 'variant')}; the highest is "
    text += f"{shorten(best['contender'])} with "
    text += top_value
    text += (
        f", {_share(best['share'])} of the read bandwidth measured on {best['device']}."
        if pd.notna(best["share"])
        else "."
    )
    axis = {"title": {"text": axis_title("Bandwidth", scale)}, "range": [0, most / scale.divisor * 1.15]}
    layout = {**_rows_layout(len(frame), axis, top=16 * len(roofs)), "shapes": shapes, "annotations": annotations}
    return Figure("figure-bandwidth", "Bandwidth by variant", [trace], layout, text, notes)


def rate_figure(study: Study, styles: Styles) -> Figure | None:
    """Return useful operations over time for every variant; for computations that memory does not limit."""
    frame, notes = _most(variants_frame(study).dropna(subset=["rate"]))
    if frame.empty:
        return None
    scale = choose_scale("rate", [float(frame["rate"].max())])
    trace = {
        **_bars(frame, styles, "rate", scale),
        "name": "arithmetic rate",
        "customdata": [[plain(row["contender"]), plain(row["device"])] for row in frame.to_dict("records")],
        "text": [format_value("rate", value) for value in frame["rate"]],
        "hovertemplate": "%{customdata[0]}<br>%{text}<br>%{customdata[1]}<extra></extra>",
    }
    best = extreme(frame, "rate", largest=True)
    text = (
        f"Arithmetic rate (the computation's own operations over median time) of {count(len(frame), 'variant')} at "
        f"{best['problem_name']}; the highest is {shorten(best['contender'])} with "
        f"{format_value('rate', best['rate'])}."
    )
    more = (*notes, "No variant comes near the read bandwidth of its device, so this is drawn in its place.")
    axis = {
        "title": {"text": axis_title("Arithmetic rate", scale)},
        "range": [0, float(frame["rate"].max() / scale.divisor) * 1.4],
    }
    layout = _rows_layout(len(frame), axis)
    return Figure("figure-rate", "Arithmetic rate by variant", [trace], layout, text, more)


def scaling_figure(study: Study, styles: Styles) -> Figure | None:
    """Return times over the problem axis with the most values, both axes logarithmic, with the roof of each device."""
    found = scaling(study)
    if found is None:
        return None
    points = found.points
    fastest = points.groupby("contender")["time_ns"].min().sort_values(kind="stable").index
    drawn = set(fastest[:MOST_LINES]) | set(points.loc[points["variant"] == study.baseline, "contender"])
    notes = (
        [f"The {len(drawn)} of {len(fastest)} variants with the shortest times (and the baseline) are drawn."]
        if len(drawn) < len(fastest)
        else []
    )
    scale = choose_scale("time", [float(points["time_ns"].median())])
    data: list[dict[str, Any]] = []
    for contender, rows in points[points["contender"].isin(drawn)].groupby("contender", sort=False):
        style = styles[contender]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain_legend(contender),
                "x": rows["x"].tolist(),
                "y": numbers(rows["time_ns"], scale),
                "line": {"color": style.color, "width": 2, "dash": style.dash},
                "marker": {"color": style.color, "size": 7, "symbol": style.symbol},
                "customdata": [
                    [plain(contender), plain(row["tunables_label"]), format_value("time", row["time_ns"])]
                    for row in rows.to_dict("records")
                ],
                "hovertemplate": "%{customdata[0]}<br>%{x}: %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
            }
        )
    ends = _log_range(points.loc[points["contender"].isin(drawn), "time_ns"] / scale.divisor)
    roofs = [(str(device), rows) for device, rows in found.roof.groupby("device", sort=False)]
    for i, (device, rows) in enumerate(roofs):
        trace = roof_trace(
            i, device, rows["x"].tolist(), rows["time_ns"].tolist(), scale, (10 ** ends[0], 10 ** ends[1])
        )
        hover = f"useful bytes / read bandwidth<br>{plain(device)}<br>%{{x}}: %{{customdata[0]}}<extra></extra>"
        values = [[format_value("time", value)] for value in rows["time_ns"]]
        data.append({**trace, "customdata": values, "hovertemplate": hover})
    largest = points[points["x"] == points["x"].max()]
    best = extreme(largest, "time_ns")
    text = f"Time over {found.axis}, from {_place(points['x'].min())} to {_place(points['x'].max())}, both axes "
    text += "logarithmic"
    text += f", {found.others}" if found.others else ""
    text += (
        f"; at the largest the fastest is {shorten(best['contender'])} with {format_value('time', best['time_ns'])}. "
    )
    text += roofs_sentence([device for device, _ in roofs])
    layout = {
        "height": 460,
        "xaxis": {"type": "log", "title": {"text": plain(found.axis)}, **integer_ticks(points["x"])},
        "yaxis": {
            "type": "log",
            "title": {"text": axis_title("Time", scale)},
            **decades(numbers(points["time_ns"], scale)),
            "range": ends,
        },
        "showlegend": True,
    }
    return Figure("figure-scaling", f"Scaling over {found.axis}", data, layout, text.strip(), tuple(notes))


def distribution_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the spread of every variant's samples around their median."""
    samples = distribution(study)
    every = variants_frame(study)
    frame, notes = _most(every[every["contender"].isin(set(samples["contender"]))])
    if frame.empty:
        return None
    data, beyond, thinned, spreads = [], 0, False, []
    around = {}
    for name in frame["contender"]:
        times = samples.loc[samples["contender"] == name, "duration_ns"].to_numpy(float)
        around[name] = np.sort((times / np.median(times) - 1) * 100)
    pooled = np.concatenate(list(around.values()))
    low, high = min(-1.0, 1.3 * float(np.quantile(pooled, 0.01))), max(1.0, 1.3 * float(np.quantile(pooled, 0.97)))
    for name, short in zip(frame["contender"], labels(list(frame["contender"])), strict=True):
        values = around[name]
        q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75])
        inside = values[(values >= low) & (values <= high)]
        beyond += len(values) - len(inside)
        thinned |= len(inside) > MOST_POINTS
        spreads.append((q3 - q1, name))
        near = values[(values >= q1 - 1.5 * (q3 - q1)) & (values <= q3 + 1.5 * (q3 - q1))]
        ends = (near.min(), near.max()) if len(near) else (q1, q3)
        data.append(
            {
                "type": "box",
                "orientation": "h",
                "name": short,
                "y": [short],
                "x": [[float(f"{value:.4g}") for value in thin(inside.tolist())]],
                **{
                    key: [float(f"{value:.4g}")]
                    for key, value in zip(("q1", "median", "q3"), (q1, median, q3), strict=True)
                },
                "lowerfence": [float(f"{ends[0]:.4g}")],
                "upperfence": [float(f"{ends[1]:.4g}")],
                "boxpoints": "all",
                "jitter": 0.6,
                "pointpos": 0,
                "marker": {"color": styles[name].color, "size": 3, "opacity": 0.45},
                "line": {"color": styles[name].color, "width": 1.5},
                "fillcolor": "rgba(0,0,0,0)",
                "hoverinfo": "x+name",
            }
        )
    more = list(notes)
    if beyond:
        more.append(f"{beyond} of {len(pooled)} samples lie outside the axis and are not drawn; the boxes count them.")
    if thinned:
        more.append(f"At most {MOST_POINTS} points a variant are drawn; the boxes are of all samples.")
    widest = max(spreads)
    text = (
        f"Samples of {count(len(frame), 'variant')} around their medians ({len(pooled)} samples); the widest middle "
        f"half is that of {shorten(widest[1])}, {widest[0]:{'.2g' if widest[0] < 10 else '.0f'}} % of its median."
    )
    axis = {"title": {"text": "Deviation from the median (%)"}, "range": [low, high], "zeroline": True}
    return Figure(
        "figure-distribution", "Distribution of the samples", data, _rows_layout(len(frame), axis), text, tuple(more)
    )


def plain_legend(name: object) -> str:
    """Return a name for a legend."""
    return labels([name])[0]


def _most(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    if len(frame) <= MOST_BARS:
        return frame, ()
    keep = frame.nsmallest(MOST_BARS, "time_ns").index
    return frame[frame.index.isin(keep)], (
        f"The {MOST_BARS} fastest of {count(len(frame), 'variant')} are drawn; the table has all.",
    )


def _bars(frame: pd.DataFrame, styles: Styles, column: str, scale: Scale) -> dict[str, Any]:
    """Return a bar a variant, its text outside."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": column,
        "y": labels(list(frame["contender"])),
        "x": numbers(frame[column], scale),
        "marker": {"color": [styles[name].color for name in frame["contender"]]},
        "textposition": "outside",
        "cliponaxis": False,
    }


def _rows_layout(rows: int, axis: dict[str, Any], top: int = 0) -> dict[str, Any]:
    """Return the layout of a figure with one row a variant, the first on top."""
    return {
        "height": 90 + top + 30 * rows,
        "margin": {"t": 12 + top},
        "xaxis": axis,
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "bargap": 0.35,
        "showlegend": False,
    }


def _log_range(values: pd.Series) -> list[float]:
    """Return the ends of a logarithmic axis around the measured values; a roof far below them is cut off."""
    return [float(np.log10(values.min())) - 0.3, float(np.log10(values.max())) + 0.2]


def _interval(row: Any) -> str:
    if not has_interval(row):
        return f"({few})" if (few := few_samples(row)) else ""
    return f"({format_value('time', row['time_low_ns'])} to {format_value('time', row['time_high_ns'])})"


def _place(value: float) -> str:
    return value_label(int(value) if float(value).is_integer() else value)


def _share(share: float) -> str:
    return "" if pd.isna(share) else f"{share * 100:.0f}\N{NO-BREAK SPACE}%"
