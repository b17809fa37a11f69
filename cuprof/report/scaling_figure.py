"""Times over the problem axis with the most values."""

from __future__ import annotations

import math
from typing import Any

from cuprof.report.figure import Figure, Styles, axis_title, decades, integer_ticks, label, numbers, plain
from cuprof.report.roofs import roof_trace, roofs_sentence
from cuprof.report.series import scaling
from cuprof.report.study import Study
from cuprof.report.trials import by_time
from cuprof.report.units import choose_scale, format_value, shorten, value_label


def scaling_figure(study: Study, styles: Styles) -> Figure | None:
    """Return times over the problem axis with the most values, both axes logarithmic, with the roof of each device."""
    found = scaling(study)
    if found is None:
        return None
    scale = choose_scale("time", [found.middle_ns])
    data: list[dict[str, Any]] = []
    for contender, trials in found.lines.items():
        style = styles[contender]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label(contender),
                "x": [found.x_of(trial) for trial in trials],
                "y": numbers([trial.median_ns for trial in trials], scale),
                "line": {"color": style.color, "width": 2, "dash": style.dash},
                "marker": {"color": style.color, "size": 7, "symbol": style.symbol},
                "customdata": [
                    [plain(contender), plain(trial.tunables_label), format_value("time", trial.median_ns)]
                    for trial in trials
                ],
                "hovertemplate": "%{customdata[0]}<br>%{x}: %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
            }
        )
    drawn = [by_time(trial) / scale.divisor for trials in found.lines.values() for trial in trials]
    # around the measured values: a roof far below them is cut off
    ends = math.log10(min(drawn)) - 0.3, math.log10(max(drawn)) + 0.2
    for i, roof in enumerate(found.roofs):
        trace = roof_trace(i, roof, scale, (10 ** ends[0], 10 ** ends[1]))
        hover = f"useful bytes / read bandwidth<br>{plain(roof.device)}<br>%{{x}}: %{{customdata[0]}}<extra></extra>"
        values = [[format_value("time", value)] for value in roof.values]
        data.append({**trace, "customdata": values, "hovertemplate": hover})
    best = found.fastest_at_the_end
    first, last = (value_label(int(x) if x.is_integer() else x) for x in (found.xs[0], found.xs[-1]))
    text = (
        f"Time over {found.axis}, from {first} to {last}, both axes logarithmic"
        f"{f', {found.others}' if found.others else ''}; at the largest the fastest is {shorten(best.contender)} with "
        f"{format_value('time', best.median_ns)}. {roofs_sentence([roof.device for roof in found.roofs])}"
    )
    layout = {
        "height": 460,
        "xaxis": {"type": "log", "title": {"text": plain(found.axis)}, **integer_ticks(found.xs)},
        "yaxis": {
            "type": "log",
            "title": {"text": axis_title("Time", scale)},
            **decades(numbers([trial.median_ns for trial in found.trials], scale)),
            "range": list(ends),
        },
        "showlegend": True,
    }
    return Figure("figure-scaling", f"Scaling over {found.axis}", data, layout, text.strip(), found.notes)
