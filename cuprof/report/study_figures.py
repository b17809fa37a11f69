"""The figures that a study asks for itself in its study.yaml."""

from __future__ import annotations

from typing import Any

import pandas as pd

from cuprof.analysis.cache_modes import left_out_notes, mode_note
from cuprof.analysis.cells import describe, ordered
from cuprof.analysis.experiment import FigureSpec
from cuprof.analysis.facts import fact_label, keep, value_label
from cuprof.analysis.quantities import QUANTITIES, Scale, choose_scale, shorten
from cuprof.analysis.series import figure_frame
from cuprof.analysis.study import Study, extreme
from cuprof.report.figure import (
    MOST_LINES,
    NEUTRAL,
    Figure,
    Styles,
    axis_title,
    decades,
    heat_map,
    integer_ticks,
    label,
    labels,
    numbers,
    plain,
)
from cuprof.report.roofs import roof_trace


def study_figure(study: Study, spec: FigureSpec, styles: Styles, index: int) -> Figure | None:
    """Return the figure, or None where nothing was measured for it, or too little for a line."""
    measured, published = figure_frame(study, spec)
    if measured.empty or (spec.kind == "lines" and measured["x"].nunique() < 2):
        return None
    value = spec.value if spec.kind == "map" else spec.y
    heading, unit, dimension = describe(study, value)
    values = [*measured["value"], *published["value"]]
    scale = Scale(unit, 1.0, 2) if unit or dimension == "plain" else choose_scale(dimension, values)
    title = spec.title or f"{heading} over {fact_label(spec.x)}"
    notes = [spec.note] if spec.note else []
    named = heading
    if value not in QUANTITIES:
        named = f"{heading} ({value})" if heading != value else heading
        notes += filter(None, (mode_note(study), *left_out_notes(study, keep(study.trials, spec.where), value)))
    identity = f"figure-study-{index}"
    low = dimension in ("time", "energy", "power")
    best = extreme(measured, "value", largest=not low)
    text = (
        f"{named} over {fact_label(spec.x)}; the {'lowest' if low else 'highest'} measured value is "
        f"{scale.format(best['value'], unit=True)}, "
        f"{shorten(best['series'])} at {fact_label(spec.x)} = {value_label(best['x'])}."
    )
    if spec.kind == "map":
        return Figure(identity, title, [_map(measured, spec, scale)], _map_layout(spec), text, tuple(notes))
    series = list(dict.fromkeys(measured["series"]))
    if len(series) > MOST_LINES:
        lowest = measured.groupby("series")["value"].min().nsmallest(MOST_LINES).index
        notes.append(f"{MOST_LINES} of {len(series)} series are drawn.")
        measured, published = (frame[frame["series"].isin(lowest)] for frame in (measured, published))
    numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in measured["x"])
    both = numeric and spec.x.startswith("problem.") and spec.kind == "lines"
    log = spec.log if spec.log is not None else (("x", "y") if both else ())
    data = _traces(measured, published, spec, styles, scale, numeric)
    if spec.roof:
        data += _roofs(study, measured, spec, scale)
    if not published.empty:
        devices = ", ".join(dict.fromkeys(str(name) for name in published["device"] if name)) or "another machine"
        notes.append(f"Hollow marks are published figures, measured by others on {devices}.")
    x_axis: dict[str, Any] = {"title": {"text": plain(fact_label(spec.x))}}
    if numeric:
        x_axis |= {
            **integer_ticks(measured["x"]),
            **({"type": "log"} if "x" in log and measured["x"].min() > 0 else {}),
        }
    else:
        x_axis |= {"type": "category", "tickangle": -30 if measured["x"].nunique() > 6 else 0}
    y_axis: dict[str, Any] = {"title": {"text": axis_title(heading, scale)}}
    y_axis |= {"type": "log", **decades(numbers(measured["value"], scale))} if "y" in log else {"rangemode": "tozero"}
    layout = {"height": 440, "xaxis": x_axis, "yaxis": y_axis, "showlegend": len(data) > 1, "barmode": "group"}
    return Figure(identity, title, data, layout, text, tuple(notes))


def _traces(
    measured: pd.DataFrame, published: pd.DataFrame, spec: FigureSpec, styles: Styles, scale: Scale, numeric: bool
) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(measured["series"]))
    shorts = dict(zip(names, labels([value_label(name) for name in names]), strict=True))
    own = styles if spec.series == "variant" else Styles.of([str(name) for name in names])
    data: list[dict[str, Any]] = []
    for name in names:
        style = own[name]
        for frame, hollow in ((measured, False), (published, True)):
            rows = frame[frame["series"].map(lambda each, name=name: each == name)]
            if rows.empty:
                continue
            rows = rows.sort_values("x", kind="stable") if numeric else rows
            trace: dict[str, Any] = {
                "name": shorts[name] + (f" ({label(rows.iloc[0]['device'] or 'published', 18)})" if hollow else ""),
                "x": rows["x"].tolist() if numeric else [label(value_label(x)) for x in rows["x"]],
                "y": numbers(rows["value"], scale),
                "customdata": [[plain(name), plain(row.get("tunables") or "")] for row in rows.to_dict("records")],
                "hovertemplate": f"%{{customdata[0]}}<br>%{{x}}: %{{y}} {plain(scale.unit)}<br>"
                "%{customdata[1]}<extra></extra>",
            }
            # a bar needs a zero to stand on; a logarithmic axis has none, so points take its place
            if spec.kind == "bars" and "y" not in (spec.log or ()) and not hollow:
                trace |= {"type": "bar", "marker": {"color": style.color}}
            else:
                mode = "markers" if hollow or not numeric else "lines+markers"
                symbol = f"{style.symbol}-open" if hollow else style.symbol
                trace |= {
                    "type": "scatter",
                    "mode": mode,
                    "marker": {"color": style.color, "size": 8, "symbol": symbol},
                }
                trace["line"] = {"color": style.color, "width": 2, "dash": style.dash}
            if not hollow and rows["low"].notna().any():
                trace["error_y"] = {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers(rows["high"].astype(float) - rows["value"], scale),
                    "arrayminus": numbers(rows["value"] - rows["low"].astype(float), scale),
                    "color": NEUTRAL,
                    "thickness": 1.2,
                }
            data.append(trace)
    return data


def _roofs(study: Study, measured: pd.DataFrame, spec: FigureSpec, scale: Scale) -> list[dict[str, Any]]:
    """Return useful bytes over the measured read bandwidth (of a time), or that bandwidth itself."""
    data: list[dict[str, Any]] = []
    for device in study.devices:
        rows = measured[measured["device"] == device.label].drop_duplicates("x").sort_values("x", kind="stable")
        if not device.read_bandwidth or rows.empty or spec.y not in ("time", "cold", "hot", "bandwidth"):
            continue
        if spec.y == "bandwidth":
            values = [float(device.read_bandwidth)] * len(rows)
        else:
            values = (rows["useful_bytes"].astype(float) / device.read_bandwidth * 1e9).tolist()
        trace = roof_trace(len(data), device.label, rows["x"].tolist(), values, scale)
        data.append({**trace, "hoverinfo": "x+y+name"})
    return data


def _map(measured: pd.DataFrame, spec: FigureSpec, scale: Scale) -> dict[str, Any]:
    xs = [key[0] for key in ordered((x,) for x in measured["x"])]
    ys = [key[0] for key in ordered((y,) for y in measured["y"])]
    cells: dict[tuple[Any, Any], float] = {}
    for row in measured.sort_values("value", ascending=False, kind="stable").to_dict("records"):
        cells[row["x"], row["y"]] = row["value"]
    hover = f"{plain(fact_label(spec.x))} = %{{x}}, {plain(fact_label(spec.y))} = %{{y}}: %{{z}} {plain(scale.unit)}"
    grid = [numbers([cells.get((x, y), float("nan")) for x in xs], scale) for y in ys]
    columns, rows = ([label(value_label(value)) for value in values] for values in (xs, ys))
    return heat_map(spec.title or spec.value, columns, rows, grid, scale, hover)


def _map_layout(spec: FigureSpec) -> dict[str, Any]:
    return {
        "height": 380,
        "xaxis": {"type": "category", "title": {"text": plain(fact_label(spec.x))}},
        "yaxis": {"type": "category", "title": {"text": plain(fact_label(spec.y))}},
    }
