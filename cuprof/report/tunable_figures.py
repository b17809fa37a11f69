"""Time over the tunables, a figure a variant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from cuprof.analysis.quantities import choose_scale, format_value, shorten
from cuprof.analysis.series import tunable_maps
from cuprof.analysis.study import Study, extreme
from cuprof.report.figure import Figure, Styles, axis_title, heat_map, numbers, plain

MOST_MAPS = 6
FEWEST_CHOICES = 3
"""Two choices of tunables are two numbers, which tables hold; from three on they are drawn."""


def tunables_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return a map of the times over the tunables for every variant that was measured with several choices."""
    maps = {name: frame for name, frame in tunable_maps(study).items() if len(frame) >= FEWEST_CHOICES}
    figures = [
        _tunables(name, frame, i, styles[name].color) for i, (name, frame) in enumerate(list(maps.items())[:MOST_MAPS])
    ]
    if len(maps) > MOST_MAPS and figures:
        last = figures[-1]
        note = f"{len(maps) - MOST_MAPS} more variants have several tunables; their times are in the database."
        figures[-1] = Figure(last.id, last.title, last.data, last.layout, last.text, (*last.notes, note))
    return figures


def _tunables(contender: str, frame: pd.DataFrame, index: int, color: str) -> Figure:
    varying = [str(name) for name in frame if str(name).startswith("tune.")]
    facts = sorted(varying, key=lambda name: -frame[name].nunique())[:2]
    best, worst = extreme(frame, "time_ns"), extreme(frame, "time_ns", largest=True)
    scale = choose_scale("time", [float(best["time_ns"])])
    table = pd.DataFrame(frame.groupby(facts, as_index=False)["time_ns"].min())
    xs = _sorted(table[facts[0]])
    names = [plain(name.partition(".")[2]) for name in facts]
    text = (
        f"Time of {shorten(contender)} over {' and '.join(names)}: the shortest is "
        f"{format_value('time', best['time_ns'])} at "
        f"{shorten(best['tunables_label'])}, the longest {format_value('time', worst['time_ns'])}."
    )
    layout: dict[str, Any] = {"height": 320, "xaxis": {"type": "category", "title": {"text": names[0]}}}
    if len(facts) == 1:
        times = dict(zip(table[facts[0]], table["time_ns"], strict=True))
        trace: dict[str, Any] = {
            "type": "bar",
            "name": plain(contender),
            "x": [plain(x) for x in xs],
            "y": numbers([times[x] for x in xs], scale),
            "marker": {"color": color},
            "hovertemplate": f"{names[0]} = %{{x}}: %{{y}} {scale.unit}<extra></extra>",
        }
        layout |= {"yaxis": {"title": {"text": axis_title("Time", scale)}, "rangemode": "tozero"}, "bargap": 0.55}
    else:
        ys = _sorted(table[facts[1]])
        cells = {(row[facts[0]], row[facts[1]]): row["time_ns"] for row in table.to_dict(orient="records")}
        grid = [numbers([cells.get((x, y), float("nan")) for x in xs], scale) for y in ys]
        hover = f"{names[0]} = %{{x}}, {names[1]} = %{{y}}: %{{z}} {scale.unit}"
        trace = heat_map(contender, [plain(x) for x in xs], [plain(y) for y in ys], grid, scale, hover)
        layout["yaxis"] = {"type": "category", "title": {"text": names[1]}}
    notes = ("The fastest over the tunables that are not on an axis is shown.",) if len(varying) > 2 else ()
    return Figure(f"figure-tunables-{index}", f"Tunables of {shorten(contender)}", [trace], layout, text, notes)


def _sorted(values: Iterable[Any]) -> list[Any]:
    unique = list(dict.fromkeys(values))
    return sorted(unique, key=lambda value: (isinstance(value, str), value if isinstance(value, str) else float(value)))
