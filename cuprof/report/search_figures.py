"""What a search has learned: the best so far, what each tunable explains, and what lies around the best."""

from __future__ import annotations

from typing import Any

from cuprof.core.text import count
from cuprof.report.figure import NEUTRAL, PALETTE, Figure, axis_title, numbers, plain
from cuprof.report.search import Found, find_search
from cuprof.report.study import Study
from cuprof.report.trials import by_time
from cuprof.report.units import choose_scale, format_value


def search_figures(study: Study) -> list[Figure]:
    """Return the figures of a search; none for a sweep that ran everything."""
    found = find_search(study)
    if found is None:
        return []
    further = [*([_importance(found)] if found.parts else []), *([_slice(found)] if found.slices else [])]
    return [_progress(found), *further]


def _progress(found: Found) -> Figure:
    scale = choose_scale("time", list(found.best_ns))
    places = list(range(1, len(found.tried) + 1))
    best = found.tried[found.best_ns.index(found.best_ns[-1])]
    first = 1 + found.best_ns.index(found.best_ns[-1])
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "tried",
            "x": places,
            "y": numbers([by_time(trial) for trial in found.tried], scale),
            "marker": {"color": NEUTRAL, "size": 5},
            "customdata": [
                [plain(trial.contender), plain(trial.tunables_label), format_value("time", trial.median_ns)]
                for trial in found.tried
            ],
            "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<br>%{customdata[2]}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": places,
            "y": numbers(list(found.best_ns), scale),
            "line": {"color": PALETTE[0], "width": 2, "shape": "hv"},
            "hoverinfo": "skip",
        },
    ]
    text = (
        f"Times of {count(len(places), 'configuration')} with a right result at {plain(best.problem_name)}, in the "
        f"order in which they were tried, and the best so far; the best, {format_value('time', best.median_ns)}, was "
        f"number {first}."
    )
    layout = {
        "height": 400,
        "xaxis": {"title": {"text": "right configurations tried"}},
        "yaxis": {"type": "log", "title": {"text": axis_title("Time", scale)}},
        "showlegend": True,
    }
    return Figure("figure-search-progress", "Best so far", data, layout, text)


def _importance(found: Found) -> Figure:
    names = [plain(" × ".join(part.names)) for part in found.parts]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "x": [100 * part.share for part in found.parts][::-1],
            "y": names[::-1],
            "marker": {"color": [PALETTE[0] if len(part.names) == 1 else PALETTE[1] for part in found.parts][::-1]},
            "hovertemplate": "%{y}: %{x:.1f} %<extra></extra>",
        }
    ]
    layout = {
        "height": 120 + 26 * len(names),
        "xaxis": {"title": {"text": "share of the variation of log time, %"}},
        "yaxis": {"automargin": True},
        "showlegend": False,
    }
    text = (
        f"What single tunables of {plain(found.variant)} and pairs of them explain of its times, by the model that "
        f"searches; most: {names[0]}, {100 * found.parts[0].share:.0f} %."
    )
    return Figure("figure-search-importance", "What each tunable explains", data, layout, text)


def _slice(found: Found) -> Figure:
    best_ns = found.best_ns[-1]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": plain(name),
            "x": [plain(f"{name}={trial.tunables[name]}") for trial in trials],
            "y": [by_time(trial) / best_ns for trial in trials],
            "line": {"color": PALETTE[place % len(PALETTE)], "width": 2},
            "hovertemplate": "%{x}: %{y:.3f}<extra></extra>",
        }
        for place, (name, trials) in enumerate(found.slices.items())
    ]
    layout = {
        "height": 400,
        "xaxis": {"title": {"text": "one tunable changed"}, "type": "category"},
        "yaxis": {"title": {"text": "time over the best"}},
        "showlegend": True,
    }
    steepest = max((by_time(t) / best_ns, f"{n}={t.tunables[n]}") for n, trials in found.slices.items() for t in trials)
    text = (
        f"What was tried that differs from the best in one tunable alone; the largest step is to {plain(steepest[1])}, "
        f"{steepest[0]:.2f} times as long."
    )
    return Figure("figure-search-slice", "Around the best", data, layout, text)
