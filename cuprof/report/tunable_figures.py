"""Time over the tunables, a figure a variant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cuprof.report.figure import Figure, Styles, axis_title, heat_map, numbers, plain
from cuprof.report.study import Study
from cuprof.report.tunable_maps import TunableMap, tunable_maps
from cuprof.report.units import choose_scale, format_value, shorten

MOST_MAPS = 6


def tunables_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return a map of the times over the tunables for every variant that was measured with several choices."""
    maps = tunable_maps(study)
    figures = [_tunables(each, i, styles[each.contender].color) for i, each in enumerate(maps[:MOST_MAPS])]
    if len(maps) > MOST_MAPS:
        note = f"{len(maps) - MOST_MAPS} more variants have several tunables; their times are in the database."
        figures[-1] = replace(figures[-1], notes=(*figures[-1].notes, note))
    return figures


def _tunables(found: TunableMap, index: int, color: str) -> Figure:
    scale = choose_scale("time", [found.best.median_ns])
    names = [plain(name) for name in found.axes]
    xs, *rest = found.axes.values()
    columns = [plain(x) for x in xs]
    text = (
        f"Time of {shorten(found.contender)} over {' and '.join(names)}: the shortest is "
        f"{format_value('time', found.best.median_ns)} at {shorten(found.best.tunables_label)}, the longest "
        f"{format_value('time', found.worst.median_ns)}."
    )
    layout: dict[str, Any] = {"height": 320, "xaxis": {"type": "category", "title": {"text": names[0]}}}
    if not rest:
        trace: dict[str, Any] = {
            "type": "bar",
            "name": plain(found.contender),
            "x": columns,
            "y": numbers([found.median_ns[x,] for x in xs], scale),
            "marker": {"color": color},
            "hovertemplate": f"{names[0]} = %{{x}}: %{{y}} {scale.unit}<extra></extra>",
        }
        layout |= {"yaxis": {"title": {"text": axis_title("Time", scale)}, "rangemode": "tozero"}, "bargap": 0.55}
    else:
        grid = [numbers([found.median_ns.get((x, y)) for x in xs], scale) for y in rest[0]]
        hover = f"{names[0]} = %{{x}}, {names[1]} = %{{y}}: %{{z}} {scale.unit}"
        trace = heat_map(found.contender, columns, [plain(y) for y in rest[0]], grid, scale, hover)
        layout["yaxis"] = {"type": "category", "title": {"text": names[1]}}
    notes = ("The fastest over the tunables that are not on an axis is shown.",) if found.hidden else ()
    title = f"Tunables of {shorten(found.contender)}"
    return Figure(f"figure-tunables-{index}", title, [trace], layout, text, notes)
