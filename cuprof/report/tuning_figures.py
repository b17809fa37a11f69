"""Time over the tunables of a variant, and what a search has learned of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cuprof.core.point import Coordinate
from cuprof.report.figure import (
    CAPTIONS,
    NEUTRAL,
    PALETTE,
    Figure,
    Style,
    Styles,
    axis_title,
    bars,
    heat_map,
    hovers,
    line,
    numbers,
    plain,
)
from cuprof.report.search import Found, find_search
from cuprof.report.study import Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_sure_time, by_time, grouped
from cuprof.report.units import choose_scale, format_value, shorten

FEWEST_CHOICES = 3
"""Two choices of tunables are two numbers, which tables hold; from three on they are drawn."""
MOST_MAPS = 6


@dataclass(frozen=True)
class TunableMap:
    """The right trials of one contender at the reference problem, over the one or two tunables with the most values.

    Args:
        axes: tunable → its values in order.
        median_ns: a value of each axis → the fastest time there.
        hidden: further tunables vary; their fastest choice is shown.
    """

    contender: str
    axes: Mapping[str, tuple[Coordinate | None, ...]]
    median_ns: Mapping[tuple[Coordinate | None, ...], float]
    best: StudyTrial
    worst: StudyTrial
    hidden: bool


def tunable_maps(study: Study) -> list[TunableMap]:
    """Return a map for every contender that was measured with several choices of tunables."""
    groups = grouped(study.rows(study.here[study.here["is_right"]]), lambda trial: trial.contender)
    return [made for name, trials in groups.items() if len(trials) >= FEWEST_CHOICES and (made := _map(name, trials))]


def _map(contender: str, trials: list[StudyTrial]) -> TunableMap | None:
    names = dict.fromkeys(name for trial in trials for name in trial.tunables)
    values = {name: {trial.tunables.get(name) for trial in trials} for name in names}
    varying = sorted((name for name in names if len(values[name]) > 1), key=lambda name: -len(values[name]))
    if not varying:
        return None
    axes = {name: _ordered(values[name]) for name in varying[:2]}
    cells = grouped(trials, lambda trial: tuple(trial.tunables.get(name) for name in axes))
    fastest = {place: by_time(min(here, key=by_sure_time)) for place, here in cells.items()}
    best, worst = min(trials, key=by_sure_time), max(trials, key=by_time)
    return TunableMap(contender, axes, fastest, best, worst, len(varying) > 2)


def _ordered(values: Iterable[Coordinate | None]) -> tuple[Coordinate | None, ...]:
    """Return values in order: numbers by size, then words, then none."""

    def rank(value: Any) -> tuple[bool, bool, Any]:
        return value is None, isinstance(value, str), 0.0 if value is None else value

    return tuple(sorted(values, key=rank))


def tunables_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return a map of the times over the tunables for every variant that was measured with several choices."""
    maps = tunable_maps(study)
    figures = [_tunables(each, i, styles[each.contender].color) for i, each in enumerate(maps[:MOST_MAPS])]
    if more := maps[MOST_MAPS:]:
        notes = (*figures[-1].notes, *say(CAPTIONS, "more_maps", len(more)))
        figures[-1] = replace(figures[-1], notes=notes)
    return figures


def _tunables(found: TunableMap, index: int, color: str) -> Figure:
    scale = choose_scale("time", [found.best.median_ns])
    names = [plain(name) for name in found.axes]
    xs, *rest = found.axes.values()
    columns = [plain(x) for x in xs]
    layout: dict[str, Any] = {"height": 320, "xaxis": {"type": "category", "title": {"text": names[0]}}}
    if not rest:
        heights = numbers([found.median_ns[x,] for x in xs], scale)
        hover = hovers(f"{names[0]} = %{{x}}: %{{y}} {scale.unit}")
        data = bars(plain(found.contender), columns, heights, color, hovertemplate=hover)
        layout |= {"yaxis": {"title": axis_title("Time", scale), "rangemode": "tozero"}, "bargap": 0.55}
    else:
        grid = [numbers([found.median_ns.get((x, y)) for x in xs], scale) for y in rest[0]]
        hover = f"{names[0]} = %{{x}}, {names[1]} = %{{y}}: %{{z}} {scale.unit}"
        data = heat_map(found.contender, columns, [plain(y) for y in rest[0]], grid, scale, hover)
        layout["yaxis"] = {"type": "category", "title": {"text": names[1]}}
    text, notes = say_once(CAPTIONS, "tunables", found, names), tuple(say(CAPTIONS, "hidden", found.hidden))
    return Figure(f"figure-tunables-{index}", f"Tunables of {shorten(found.contender)}", [data], layout, text, notes)


def search_figures(study: Study, styles: Styles) -> list[Figure]:
    """Return the figures of a search; none for a sweep that ran everything."""
    found = find_search(study)
    if found is None:
        return []
    further = [*([_importance(found)] if found.parts else []), *([_slice(found)] if found.slices else [])]
    return [_progress(found), *further]


def _progress(found: Found) -> Figure:
    scale = choose_scale("time", list(found.best_ns))
    first = found.best_ns.index(found.best_ns[-1])
    best, places = found.tried[first], range(1, len(found.tried) + 1)
    words = [[each.contender, each.tunables_label, format_value("time", each.median_ns)] for each in found.tried]
    tried = line(
        *("tried", places, numbers(map(by_time, found.tried), scale), Style(NEUTRAL), 5),
        mode="markers",
        customdata=[list(map(plain, each)) for each in words],
        hovertemplate=hovers("%{customdata[0]}", "%{customdata[1]}", "%{customdata[2]}"),
    )
    so_far = line("best so far", places, numbers(found.best_ns, scale), Style(PALETTE[0]), mode="lines")
    so_far["line"]["shape"] = "hv"
    layout = {
        "height": 400,
        "xaxis": {"title": {"text": "right configurations tried"}},
        "yaxis": {"type": "log", "title": axis_title("Time", scale)},
        "showlegend": True,
    }
    text = say_once(CAPTIONS, "progress", len(places), plain(best.problem_name), best, first + 1)
    return Figure("figure-search-progress", "Best so far", [tried, {**so_far, "hoverinfo": "skip"}], layout, text)


def _importance(found: Found) -> Figure:
    parts = found.parts[::-1]  # the first is drawn at the bottom
    names = [plain(" × ".join(part.names)) for part in parts]
    colors = [PALETTE[0] if len(part.names) == 1 else PALETTE[1] for part in parts]
    shares = [100 * part.share for part in parts]
    data = bars("", shares, names, colors, orientation="h", hovertemplate=hovers("%{y}: %{x:.1f} %"))
    layout = {
        "height": 120 + 26 * len(parts),
        "xaxis": {"title": {"text": "share of the variation of log time, %"}},
        "yaxis": {"automargin": True},
        "showlegend": False,
    }
    text = say_once(CAPTIONS, "importance", plain(found.variant), names[-1], parts[-1].share)
    return Figure("figure-search-importance", "What each tunable explains", [data], layout, text)


def _slice(found: Found) -> Figure:
    best_ns = found.best_ns[-1]
    points = {
        plain(name): {plain(f"{name}={each.tunables[name]}"): by_time(each) / best_ns for each in trials}
        for name, trials in found.slices.items()
    }
    hover = hovers("%{x}: %{y:.3f}")
    data = [
        line(name, each, each.values(), Style(PALETTE[i % len(PALETTE)]), hovertemplate=hover)
        for i, (name, each) in enumerate(points.items())
    ]
    layout = {
        "height": 400,
        "xaxis": {"title": {"text": "one tunable changed"}, "type": "category"},
        "yaxis": {"title": {"text": "time over the best"}},
        "showlegend": True,
    }
    ratio, where = max((ratio, where) for each in points.values() for where, ratio in each.items())
    return Figure("figure-search-slice", "Around the best", data, layout, say_once(CAPTIONS, "slice", where, ratio))
