"""The spread of every variant's samples around their median."""

from __future__ import annotations

from cuprof.core.text import count
from cuprof.report.distribution import distribution
from cuprof.report.figure import Figure, Styles, labels
from cuprof.report.study import Study
from cuprof.report.units import shorten
from cuprof.report.variant_figures import rows_layout


def distribution_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the spread of every variant's samples around their median."""
    found = distribution(study)
    if found is None:
        return None
    data = []
    names = labels([spread.trial.contender for spread in found.spreads])
    for name, spread in zip(names, found.spreads, strict=True):
        color = styles[spread.trial.contender].color
        data.append(
            {
                "type": "box",
                "orientation": "h",
                "name": name,
                "y": [name],
                "x": [[_short(value) for value in spread.points]],
                "q1": [_short(spread.q1)],
                "median": [0.0],
                "q3": [_short(spread.q3)],
                "lowerfence": [_short(spread.fences[0])],
                "upperfence": [_short(spread.fences[1])],
                "boxpoints": "all",
                "jitter": 0.6,
                "pointpos": 0,
                "marker": {"color": color, "size": 3, "opacity": 0.45},
                "line": {"color": color, "width": 1.5},
                "fillcolor": "rgba(0,0,0,0)",
                "hoverinfo": "x+name",
            }
        )
    widest = max(found.spreads, key=lambda spread: spread.q3 - spread.q1)
    width = widest.q3 - widest.q1
    text = (
        f"Samples of {count(len(found.spreads), 'variant')} around their medians ({found.samples} samples); the widest "
        f"middle half is that of {shorten(widest.trial.contender)}, {width:{'.2g' if width < 10 else '.0f'}} % of its "
        "median."
    )
    axis = {"title": {"text": "Deviation from the median (%)"}, "range": [found.low, found.high], "zeroline": True}
    layout = rows_layout(len(found.spreads), axis)
    return Figure("figure-distribution", "Distribution of the samples", data, layout, text, found.notes)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
