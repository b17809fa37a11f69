"""What a search has learned: its best so far, what each tunable explains, and its standing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, combinations
from typing import Any

import numpy as np

from cuprof.core.point import Coordinate
from cuprof.core.records import Measure
from cuprof.report import figure as plot
from cuprof.report.figures import rows_layout
from cuprof.report.study import Study
from cuprof.report.templates import say_once
from cuprof.report.trials import RANKING, StudyTrial, by_time
from cuprof.report.units import choose_scale, format_value
from cuprof.search.space import Space
from cuprof.search.standing import LOOKS, describe_failed, find_differing, look
from cuprof.statistics.verdict import Rule

LEAST = 12
"""A model of fewer trials says nothing."""
MOST_FITTED, MOST_DRAWN, MOST_PARTS = 200, 2000, 12
SEED = 20240


def describe_standing(study: Study) -> str:
    """Return one sentence about a search's last comparison at the reference problem, or nothing where there was none.

    It rests on what was measured last there, and follows the rule and the words of the search itself.
    """
    settings = study.configuration.get("search") or {}
    if not study.is_search or study.sweep.state != "finished" or settings.get("objective") != "time":
        return ""
    own = study.here[(study.here["run_sweep_id"] == study.sweep.id) & (study.here["job"] != "")]
    latest = own.sort_values(["run_id", "job"])["job"].tail(1)
    last = study.rows(own[own["job"].isin(latest)].sort_index())  # side by side, failed ones included
    right = [trial for trial in last if trial.is_right and trial.measure in trial.sampled]
    if last and not right:
        return f"Of the search's candidates {describe_failed(len(last))}."
    known = [trial for trial in right if trial.interval]
    measures = {trial.measure for trial in known}
    if len(known) < 2 or len(measures) > 1:  # a single candidate, or looks of few samples
        return ""
    on_host = (measures.pop() or RANKING[0]) is Measure.COLD and any(trial.on_host for trial in known)
    series = dict(zip(known, study.samples(known), strict=True))
    effect, error_rate = float(settings["effect"]), float(settings["error_rate"])
    standing = look(series, Rule(effect, error_rate / LOOKS), on_host=on_host)
    best = standing.best

    def describe(trial: StudyTrial) -> str:
        """Return what a trial has otherwise than the best."""
        is_other = trial.contender != best.contender
        return trial.setting if is_other else find_differing(trial.tunables, best.tunables).label

    said = standing.describe(describe, effect, error_rate)
    return f"The search compared its last candidates side by side: {best.setting} is {said}."


def explain(trials: Sequence[StudyTrial]) -> dict[tuple[str, ...], float]:
    """Return the share of the variation of the logarithm of the time that tunables explain, the largest first.

    A pair's is what it explains beyond each of the two. They are first-order and pairwise shares of a functional
    analysis of variance (Hutter, Hoos & Leyton-Brown, ICML 2014) over all combinations of the values tried, of the
    model that the search itself uses. What more than two do together is left out.
    """
    names = list(dict.fromkeys(name for trial in trials for name in trial.tunables))
    values = {name: sorted({trial.tunables[name] for trial in trials}, key=str) for name in names}
    names = [name for name in names if len(values[name]) > 1]
    if len(trials) < LEAST or not names:
        return {}
    random = np.random.default_rng(SEED)
    kept = sorted(trials, key=by_time)[:MOST_FITTED]
    drawn: list[dict[str, Coordinate]] = [
        {name: values[name][int(random.integers(len(values[name])))] for name in names} for _ in range(MOST_DRAWN)
    ]
    from cuprof.search.gaussian import Kernel, Process, fit  # SciPy's optimisers take a second to import

    space = Space([*({name: trial.tunables[name] for name in names} for trial in kept), *drawn])
    logs = np.log([by_time(trial) for trial in kept])
    count = len(kept)
    kernel = fit(
        Kernel.default(space.features.shape[1]), space.features[:count], (logs - logs.mean()) / (logs.std() or 1.0)
    )
    pool = np.arange(count, space.size)
    process = Process(kernel, space.features, pool, range(count), np.ones((space.size, 1)))
    means, _ = process.predict(logs[:, None])
    surface, codes = means[:, 0], space.codes[count:]
    total = float(surface.var())
    if not total > 0:
        return {}
    single = {name: _explained(surface, codes[:, [k]]) / total for k, name in enumerate(names)}
    parts: dict[tuple[str, ...], float] = {(name,): share for name, share in single.items()}
    for (i, one), (k, two) in combinations(enumerate(names), 2):
        share = _explained(surface, codes[:, [i, k]]) / total - single[one] - single[two]
        parts[one, two] = max(0.0, share)
    return dict(sorted(parts.items(), key=lambda part: -part[1])[:MOST_PARTS])


def _explained(surface: np.ndarray, codes: np.ndarray) -> float:
    """Return the variance of the means of cells, less what so few points a cell would show by chance."""
    _, cells, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    cells = cells.ravel()
    means = np.bincount(cells, surface) / counts
    within = float(((surface - means[cells]) ** 2).mean())
    between = float((counts * (means - surface.mean()) ** 2).sum()) / surface.size
    return max(0.0, between - within * (counts.size - 1) / max(1, surface.size - counts.size))


def search_figures(study: Study, styles: plot.Styles) -> list[plot.Figure]:
    """Return the figures of a search at the reference problem; none for a sweep that ran everything."""
    tried = study.rows(study.here[study.here["is_right"]].sort_values("ordinal")) if study.is_search else []
    return [_progress(tried), *_importance(tried), *_slice(tried)] if tried else []


def _progress(tried: Sequence[StudyTrial]) -> plot.Figure:
    """Return each time and the best until then, in the order in which they were first tried.

    A best time of few samples counts by the longest of them.
    """
    best_ns = list(accumulate((trial.sure_ns for trial in tried), min))
    scale, first = choose_scale("time", best_ns), best_ns.index(best_ns[-1])
    best, places = tried[first], range(1, len(tried) + 1)
    facts = [(each.contender, each.tunables.label, format_value("time", each.median_ns)) for each in tried]
    look = plot.hover("%{customdata[0]}", "%{customdata[1]}", "%{customdata[2]}", facts=facts)
    times = plot.numbers(map(by_time, tried), scale)
    marks = plot.line("tried", places, times, plot.Style(plot.NEUTRAL), 5, mode="markers", **look)
    so_far = plot.line("best so far", places, plot.numbers(best_ns, scale), plot.Style(plot.PALETTE[0]), mode="lines")
    so_far["line"]["shape"] = "hv"
    layout = plot.axes(400, plot.axis("right configurations tried"), plot.axis("Time", scale, type="log"))
    text = say_once(plot.CAPTIONS, "progress", len(places), plot.plain(best.problem_name), best, first + 1)
    return plot.Figure("figure-search-progress", "Best so far", [marks, {**so_far, "hoverinfo": "skip"}], layout, text)


def _importance(tried: Sequence[StudyTrial]) -> list[plot.Figure]:
    """Return what the tunables of the variant that was tried most explain of its times, if anything."""
    variant, _ = Counter(trial.variant for trial in tried).most_common(1)[0]
    if not (parts := explain([trial for trial in tried if trial.variant == variant])):
        return []
    names = [plot.plain(" × ".join(part)) for part in parts]
    colors = [plot.PALETTE[len(part) - 1] for part in parts]
    shares = [100 * share for share in parts.values()]
    data = plot.bars("", shares, names, colors, orientation="h", **plot.hover("%{y}: %{x:.1f} %"))
    layout = rows_layout(len(names), plot.axis("share of the variation of log time, %"))
    text = say_once(plot.CAPTIONS, "importance", plot.plain(variant), names[0], shares[0])
    return [plot.Figure("figure-search-importance", "What each tunable explains", [data], layout, text)]


def _slice(tried: Sequence[StudyTrial]) -> list[plot.Figure]:
    """Return the times of trials that differ from the best in one tunable alone, where there are any.

    The best is among them; words stand after numbers.
    """
    best = min(tried, key=lambda trial: trial.sure_ns)
    contender, names = best.contender, best.tunables.keys()
    of_it = [trial for trial in tried if trial.contender == contender and trial.tunables.keys() == names]
    data, ratios = list[dict[str, Any]](), dict[str, float]()
    for name in best.tunables:
        near = [each for each in of_it if find_differing(each.tunables, best.tunables).keys() <= {name}]
        near = sorted(near, key=lambda each: (isinstance(each.tunables[name], str), each.tunables[name]))
        points = {plot.plain(f"{name}={each.tunables[name]}"): by_time(each) / best.sure_ns for each in near}
        if len(near) > 1:
            style = plot.Style(plot.PALETTE[len(data) % len(plot.PALETTE)])
            data.append(plot.line(plot.plain(name), points, points.values(), style, **plot.hover("%{x}: %{y:.3f}")))
            ratios |= points
    if not data:
        return []
    layout = plot.axes(400, plot.axis("one tunable changed", type="category"), plot.axis("time over the best"))
    ratio, where = max((ratio, where) for where, ratio in ratios.items())
    text = say_once(plot.CAPTIONS, "slice", where, ratio)
    return [plot.Figure("figure-search-slice", "Around the best", data, layout, text)]
