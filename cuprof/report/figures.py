"""The standard figures: time, ceilings and samples of the variants at the reference problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from cuprof.core.errors import UsageError
from cuprof.core.plugins import list_plugins, load_plugin
from cuprof.report import figure as plot
from cuprof.report.series import ROOF_DASHES
from cuprof.report.study import Device, Study
from cuprof.report.templates import say, say_once
from cuprof.report.trials import StudyTrial, by_time, rank_of
from cuprof.report.units import choose_scale, format_value

GROUP = "cuprof.figures"
"""The entry points' group: a name → a function from a study and its contenders' styles to a figure, several or None."""
BUILT_IN: Mapping[str, str] = {
    "time": "cuprof.report.figures:time_figure",
    "light": "cuprof.report.figures:light_figure",
    "roofline": "cuprof.report.figures:roofline_figure",
    "scaling": "cuprof.report.series:scaling_figure",
    "distribution": "cuprof.report.figures:distribution_figure",
    "search": "cuprof.report.tuning:search_figures",
    "tunables": "cuprof.report.series:tunables_figures",
}
Made = plot.Figure | Iterable[plot.Figure] | None
WIDE = 30.0
"""Times that differ by more than this are drawn as points on a logarithmic axis, not as bars: bars need a zero."""
REACH = 2.0
"""Error bars end at this many times the longest median, or one wide interval would squeeze all bars."""
MOST_BARS = 40
MOST_POINTS = 400
"""Samples a variant that are drawn."""
DRAM = dict.fromkeys(("dram__bytes_read.sum", "dram__bytes_write.sum"), 1)
OPERATIONS = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": count
    for kind in "fd"
    for name, count in (("add", 1), ("mul", 1), ("fma", 2))
}
"""Counter of floating-point instructions → operations that each of them does."""
STEPS = 24
"""Points of a roof, which is drawn on logarithmic axes."""


def standard_figures(study: Study, styles: plot.Styles) -> list[plot.Figure]:
    """Return the standard figures that this study has data for, the built-in ones first.

    Raises:
        UsageError: a package's figure cannot be loaded, or is not one.
    """
    figures: list[plot.Figure] = []
    for name in list_plugins(GROUP, BUILT_IN):
        make: Callable[[Study, plot.Styles], Made] = load_plugin(GROUP, name, BUILT_IN, "page figure")
        made = make(study, styles)
        found = [made] if isinstance(made, plot.Figure) else list(made or ())
        if any(not isinstance(each, plot.Figure) for each in found):
            raise UsageError(f"the page figure {name!r} gives something else than figures (cuprof.report.figure)")
        figures += found
    return figures


def fastest_variants(study: Study) -> tuple[list[StudyTrial], list[str]]:
    """Return the contenders at the reference problem, and a note where only the fastest are.

    Kernels come before libraries before CPU variants.
    """
    every = sorted(study.best, key=lambda trial: (rank_of(trial.kind), trial.order))
    kept = set(sorted(every, key=by_time)[:MOST_BARS])
    notes = say(plot.CAPTIONS, "fewer", MOST_BARS, len(every), "variant", "fastest")
    return [trial for trial in every if trial in kept], notes


def rows_layout(rows: int, x_axis: dict[str, Any], top: int = 0) -> dict[str, Any]:
    """Return the layout of a figure with one row a variant, the first on top."""
    y_axis = {"autorange": "reversed", "type": "category", "automargin": True}
    return plot.axes(90 + top + 30 * rows, x_axis, y_axis, margin={"t": 12 + top}, bargap=0.35, showlegend=False)


def time_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return the median time of every variant with the interval of its median."""
    trials, notes = fastest_variants(study)
    if not trials:
        return None
    medians_ns, intervals = [by_time(trial) for trial in trials], [trial.interval for trial in trials]
    longest_ns, shortest_ns = max(medians_ns), min(medians_ns)
    is_log = longest_ns / shortest_ns > WIDE
    first_ns, last_ns = shortest_ns / REACH if is_log else 0.0, longest_ns * REACH
    drawn = [(max(each[0], first_ns), min(each[1], last_ns)) if each else None for each in intervals]
    is_cut = [inside != whole for inside, whole in zip(drawn, intervals, strict=True)]
    notes += say(plot.CAPTIONS, "cut", sum(is_cut))
    scale = choose_scale("time", medians_ns)
    texts = [format_value("time", each) for each in medians_ns]
    bounds = [" to ".join(format_value("time", end) for end in each.interval or ()) for each in trials]
    known_by = [f"({bound or each.few_samples})" for each, bound in zip(trials, bounds, strict=True)]
    facts = [(each.contender, each.tunables.label, by) for each, by in zip(trials, known_by, strict=True)]
    look = plot.hover("%{customdata[0]}", "%{text} %{customdata[2]}", "%{customdata[1]}", facts=facts)
    look |= {"text": texts, "textposition": "none", "error_x": plot.error_bars(medians_ns, drawn, scale, 1.5)}
    names, colors = plot.labels(each.contender for each in trials), [styles[each.contender].color for each in trials]
    main = plot.bars("median time", plot.numbers(medians_ns, scale), names, colors, orientation="h", **look)
    # beyond the error bar, so that neither hides the other
    ends_ns = [each[1] if each else median for each, median in zip(drawn, medians_ns, strict=True)]
    marks = ["…\N{NO-BREAK SPACE}" if each else "" for each in is_cut]
    words = [f"\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}{mark}{text}" for mark, text in zip(marks, texts, strict=True)]
    beside: dict[str, Any] = {"type": "scatter", "mode": "text", "name": "", "y": names, "text": words}
    beside |= {
        "x": plot.numbers(ends_ns, scale),
        "textposition": "middle right",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    last = max(longest_ns, *ends_ns) / scale.divisor
    x_axis = plot.axis("Time", scale, rangemode="tozero", range=[0, last * 1.25])
    if is_log:
        main |= {"type": "scatter", "mode": "markers", "textposition": "middle center"}
        main["marker"] |= {"size": 11, "symbol": "circle"}
        ends_of = [math.log10(first_ns / scale.divisor) - 0.05, math.log10(last) + 0.7]
        x_axis = plot.axis("Time, logarithmic", scale, type="log", range=ends_of, dtick=1)
    extremes = min(trials, key=by_time), max(trials, key=by_time)
    text = say_once(plot.CAPTIONS, "time", trials, *extremes, study.confidence, None in intervals)
    layout = rows_layout(len(trials), x_axis)
    return plot.Figure("figure-time", "Time by variant", [main, beside], layout, text, tuple(notes))


def distribution_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return the spread of every variant's samples around their median, in percent of it."""
    every, notes = fastest_variants(study)
    drawn = [trial for trial in every if trial.measure in trial.sampled and trial.median_ns]
    if not drawn:
        return None
    samples = zip(drawn, study.samples(drawn), strict=True)
    around = {trial: np.sort(each.values / by_time(trial) - 1) * 100 for trial, each in samples}
    pooled = np.concatenate(list(around.values()))
    low, high = min(-1.0, 1.3 * float(np.quantile(pooled, 0.01))), max(1.0, 1.3 * float(np.quantile(pooled, 0.97)))
    inside = {trial: values[(values >= low) & (values <= high)] for trial, values in around.items()}
    beyond = int(pooled.size - sum(values.size for values in inside.values()))
    is_thinned = any(values.size > MOST_POINTS for values in inside.values())
    notes += say(plot.CAPTIONS, "points", beyond, pooled.size, MOST_POINTS, is_thinned)
    data = [
        _box(trial, name, thin(inside[trial]), styles[trial.contender].color)
        for name, trial in zip(plot.labels(trial.contender for trial in drawn), drawn, strict=True)
    ]
    widths = {trial: q3 - q1 for trial in drawn for q1, q3 in [_quartiles(trial)]}
    widest = max(widths, key=widths.__getitem__)
    text = say_once(plot.CAPTIONS, "distribution", len(drawn), pooled.size, widest, widths[widest])
    layout = rows_layout(len(drawn), plot.axis("Deviation from the median (%)", range=[low, high], zeroline=True))
    return plot.Figure("figure-distribution", "Distribution of the samples", data, layout, text, tuple(notes))


def _box(trial: StudyTrial, name: str, points: Sequence[float], color: str) -> dict[str, Any]:
    """Return the box of one trial, which is of all samples, not of the points that are drawn."""
    q1, q3 = _quartiles(trial)
    return {
        "type": "box",
        "name": name,
        "x": [[_short(value) for value in points]],
        "y": [name],
        **{end: [_short(value)] for end, value in (("q1", q1), ("median", 0.0), ("q3", q3))},
        "orientation": "h",
        "boxpoints": "all",
        "jitter": 0.6,
        "pointpos": 0,
        "fillcolor": "rgba(0,0,0,0)",
        "hoverinfo": "x+name",
        "marker": {"color": color, "size": 3, "opacity": 0.45},
        "line": {"color": color, "width": 1.5},
    }


def thin(values: np.ndarray) -> list[float]:
    """Return the values, at most `MOST_POINTS` of them, evenly over their order; the ends stay."""
    places = np.linspace(0, values.size - 1, min(values.size, MOST_POINTS)).round().astype(int)
    return list(map(float, values[places]))


def _quartiles(trial: StudyTrial) -> list[float]:
    """Return the quartiles around the median in percent, of readings spread over the timer's tick as everywhere."""
    timing = trial.timing
    return [(each / timing.median_ns - 1) * 100 for each in (timing.q1_ns, timing.q3_ns)] if timing else [0.0, 0.0]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


class Work(NamedTuple):
    """What a trial moved and computed a second: counted, or where it was not profiled what its family says.

    Args:
        is_counted: the bytes are those of DRAM, as counted.
        shares: ceiling that was measured on the device → the share of it that was reached. The L2 cache has none: its
            counter holds what is filled from memory besides what is read, and the rate that a calibration reads it at
            is no bound.
    """

    trial: StudyTrial
    device: Device
    bandwidth: float
    rate: float
    is_counted: bool
    shares: Mapping[str, float]

    @property
    def intensity(self) -> float:
        """Return operations a byte, 0 without either."""
        return self.rate / self.bandwidth if self.bandwidth else 0.0


CEILINGS: Mapping[str, Literal["bandwidth", "rate"]] = {"memory": "bandwidth", "FP32 arithmetic": "rate"}
"""Ceiling → the quantity that it bounds."""


def list_work(study: Study) -> tuple[list[Work], list[str]]:
    """Return the work of the variants at the reference problem, and a note where only the fastest are."""
    trials, notes = fastest_variants(study)
    devices = {device.label: device for device in study.devices if device.read_bandwidth}
    found = []
    for trial in trials:
        if trial.device in devices and trial.median_ns:
            device, time_s, dram = devices[trial.device], trial.median_ns / 1e9, _add_up(study, trial, DRAM)
            work = dram or trial.useful_bytes or 0.0, _add_up(study, trial, OPERATIONS) or trial.flops or 0.0
            bandwidth, rate = (each / time_s for each in work)
            reached = zip(CEILINGS, (bandwidth, rate), (device.read_bandwidth, _arithmetic_rate(device)), strict=True)
            shares = {name: each / top for name, each, top in reached if each and top}
            found.append(Work(trial, device, bandwidth, rate, bool(dram), shares))
    return found, notes


def _arithmetic_rate(device: Device) -> float | None:
    return device.calibration.details.get("fma_rate") if device.calibration else None


def _add_up(study: Study, trial: StudyTrial, weights: Mapping[str, int]) -> float:
    """Return a weighted sum of counters, 0 unless all of them are known."""
    counted = ((study.counters.value_of(trial.id, name), weight) for name, weight in weights.items())
    known = [value * weight for value, weight in counted if value is not None]
    return sum(known) if len(known) == len(weights) else 0.0


def light_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return the share of each measured ceiling that every variant reaches; None without a measured ceiling."""
    found, notes = list_work(study)
    works = [work for work in found if work.shares]
    if not works:
        return None
    names = plot.labels(work.trial.contender for work in works)
    data = []
    for (ceiling, quantity), color in zip(CEILINGS.items(), plot.PALETTE, strict=False):
        shares = [work.shares.get(ceiling) for work in works]
        if any(share is not None for share in shares):
            values = [None if share is None else float(f"{100 * share:.4g}") for share in shares]
            texts = [
                format_value(quantity, getattr(work, quantity)) if ceiling in work.shares else "" for work in works
            ]
            look = plot.hover(f"%{{y}}: %{{text}}, %{{x:.3~r}} % of the {ceiling}'s ceiling")
            look |= {"text": texts, "textposition": "outside", "cliponaxis": False}
            data.append(plot.bars(ceiling, values, names, color, orientation="h", **look))
    most = max(100 * share for work in works for share in work.shares.values())
    notes += say("tables.txt", "above_peak") if most > 100 else []
    ends = [0, 1.15 * max(100.0, most)]  # with room for the last bar's text
    layout = rows_layout(len(works), plot.axis("Share of the measured ceiling (%)", range=ends), top=24)
    layout |= {"showlegend": True, "barmode": "group"}
    layout["height"] += 10 * len(works) * len(data)
    best = max(works, key=lambda work: max(work.shares.values()))
    text = say_once(plot.CAPTIONS, "light", works, best, max(best.shares, key=best.shares.__getitem__))
    return plot.Figure("figure-light", "Speed of light", data, layout, text, tuple(notes))


def roofline_figure(study: Study, styles: plot.Styles) -> plot.Figure | None:
    """Return arithmetic rate over operations a byte, below the roofs measured on each device; None without either."""
    found, notes = list_work(study)
    works = [work for work in found if work.intensity]
    if not works:
        return None
    scale, xs = choose_scale("rate", [work.rate for work in works]), [work.intensity for work in works]
    low, high = min(xs) / 8, max(xs) * 8
    grid = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    data = []
    for i, device in enumerate(dict.fromkeys(work.device for work in works)):
        top = _arithmetic_rate(device) or math.inf  # the roof is the lower of the two
        heights = plot.numbers([min((device.read_bandwidth or 0.0) * x, float(top)) for x in grid], scale)
        style = plot.Style(plot.NEUTRAL, dash=ROOF_DASHES[i % len(ROOF_DASHES)])
        short = [float(f"{x:.6g}") for x in grid]
        data.append(
            plot.line(f"roof: {plot.plain(device.label)}", short, heights, style, mode="lines", hoverinfo="skip")
        )
    for work, x, name in zip(works, xs, plot.labels(work.trial.contender for work in works), strict=True):
        facts = [(work.trial.contender, format_value("rate", work.rate), f"{x:.3g}")]
        look = plot.hover("%{customdata[0]}", "%{customdata[1]}", "%{customdata[2]} FLOP/byte", facts=facts)
        place = [float(f"{x:.6g}")], plot.numbers([work.rate], scale)
        data.append(plot.line(name, *place, styles[work.trial.contender], 10, mode="markers", **look))
    text = say_once(plot.CAPTIONS, "roofline", works, max(works, key=lambda work: work.rate))
    x_axis = plot.axis("Operations a byte (FLOP/byte)", type="log", dtick=1)
    layout = plot.axes(460, x_axis, plot.axis("Arithmetic rate", scale, type="log", dtick=1))
    return plot.Figure("figure-roofline", "Roofline", data, layout, text, tuple(notes))
