"""How near kernels come to the ceilings that were measured on their device: speed of light, and the roofline."""

from __future__ import annotations

from typing import Any, NamedTuple

from cuprof.report.figure import CAPTIONS, NEUTRAL, PALETTE, Figure, Style, Styles, bars, hovers, labels, line, plain
from cuprof.report.line_figures import ROOF_DASHES
from cuprof.report.row_figures import fastest_variants, rows_layout
from cuprof.report.study import Device, Study
from cuprof.report.templates import say_once
from cuprof.report.trials import StudyTrial
from cuprof.report.units import choose_scale, format_value

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
OPERATIONS = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": count
    for kind in "fd"
    for name, count in (("add", 1), ("mul", 1), ("fma", 2))
}
"""Counter of floating-point instructions → operations that each of them does."""
STEPS = 24
"""Points of a roof, which is drawn on logarithmic axes."""


class Work(NamedTuple):
    """What a trial moved and computed: counted, or where it was not profiled what its family says.

    Args:
        is_counted: the bytes are those of DRAM, as counted.
    """

    trial: StudyTrial
    device: Device
    time_s: float
    moved: float
    operations: float
    is_counted: bool

    @property
    def shares(self) -> dict[str, float]:
        """Return ceiling → the share of it that was reached; of those that were measured on the device.

        The L2 cache has none: its counter holds what is filled from memory besides what is read, and the rate that a
        calibration reads it at is no bound.
        """
        details = self.device.calibration.details if self.device.calibration else {}
        ceilings = {
            "memory": (self.moved, self.device.read_bandwidth),
            "FP32 arithmetic": (self.operations, details.get("fma_rate")),
        }
        return {name: amount / self.time_s / top for name, (amount, top) in ceilings.items() if amount and top}


def list_work(study: Study) -> tuple[list[Work], list[str]]:
    """Return the work of the variants at the reference problem, and a note where only the fastest are."""
    trials, notes = fastest_variants(study)
    devices = {device.label: device for device in study.devices if device.read_bandwidth}
    found = []
    for trial in trials:
        if trial.device in devices and trial.median_ns:
            counted = {name: study.counters.value_of(trial.id, name) for name in (*DRAM, *OPERATIONS)}
            dram, operations = _sum(counted, dict.fromkeys(DRAM, 1)), _sum(counted, OPERATIONS)
            moved, computed = dram or trial.useful_bytes or 0.0, operations or trial.flops or 0.0
            time_s = trial.median_ns / 1e9
            found.append(Work(trial, devices[trial.device], time_s, moved, computed, bool(dram)))
    return found, notes


def _sum(counted: dict[str, float | None], weights: dict[str, int]) -> float:
    """Return a weighted sum of counters, 0 unless all of them are known."""
    known = [(counted[name], weight) for name, weight in weights.items()]
    return (
        sum(value * weight for value, weight in known if value) if all(each is not None for each, _ in known) else 0.0
    )


def light_figure(study: Study, styles: Styles) -> Figure | None:
    """Return the share of each measured ceiling that every variant reaches; None without a measured ceiling."""
    found, notes = list_work(study)
    works = [work for work in found if work.shares]
    if not works:
        return None
    names = labels(work.trial.contender for work in works)
    data = []
    for ceiling, color in zip(("memory", "FP32 arithmetic"), PALETTE, strict=False):
        shares = [work.shares.get(ceiling) for work in works]
        if any(share is not None for share in shares):
            values = [None if share is None else float(f"{100 * share:.4g}") for share in shares]
            hover = hovers(f"%{{y}}: %{{x:.3~r}} % of the {ceiling}'s ceiling")
            data.append(bars(ceiling, values, names, color, orientation="h", hovertemplate=hover))
    most = max(100 * share for work in works for share in work.shares.values())
    axis = {"title": {"text": "Share of the measured ceiling (%)"}, "range": [0, max(100.0, 1.05 * most)]}
    layout = rows_layout(len(works), axis, top=24) | {"showlegend": True, "barmode": "group"}
    layout["height"] += 10 * len(works) * len(data)
    best = max(works, key=lambda work: max(work.shares.values()))
    ceiling = max(best.shares, key=lambda name: best.shares[name])
    text = say_once(CAPTIONS, "light", works, best, ceiling, best.shares[ceiling])
    return Figure("figure-light", "Speed of light", data, layout, text, tuple(notes))


def roofline_figure(study: Study, styles: Styles) -> Figure | None:
    """Return arithmetic rate over operations a byte, below the roofs measured on each device; None without either."""
    found, notes = list_work(study)
    works = [work for work in found if work.moved and work.operations]
    if not works:
        return None
    scale = choose_scale("rate", [work.operations / work.time_s for work in works])
    xs = [work.operations / work.moved for work in works]
    low, high = min(xs) / 8, max(xs) * 8
    grid = [low * (high / low) ** (step / STEPS) for step in range(STEPS + 1)]
    devices = dict.fromkeys(work.device for work in works)
    data = [
        _roof(device, grid, scale.divisor, dash)
        for device, dash in zip(devices, ROOF_DASHES * len(devices), strict=False)
    ]
    for work, x, name in zip(works, xs, labels(work.trial.contender for work in works), strict=True):
        rate = work.operations / work.time_s
        facts = [plain(work.trial.contender), format_value("rate", rate), f"{x:.3g}"]
        point = {"mode": "markers", "customdata": [facts]}
        hover = hovers("%{customdata[0]}", "%{customdata[1]}", "%{customdata[2]} FLOP/byte")
        y = float(f"{rate / scale.divisor:.6g}")
        data.append(
            line(name, [float(f"{x:.6g}")], [y], styles[work.trial.contender], 10, hovertemplate=hover, **point)
        )
    best = max(works, key=lambda work: work.operations / work.time_s)
    text = say_once(CAPTIONS, "roofline", works, best)
    layout = {
        "height": 460,
        "xaxis": {"type": "log", "dtick": 1, "title": {"text": "Operations a byte (FLOP/byte)"}},
        "yaxis": {"type": "log", "dtick": 1, "title": {"text": f"Arithmetic rate ({scale.unit})"}},
        "showlegend": True,
    }
    return Figure("figure-roofline", "Roofline", data, layout, text, tuple(notes))


def _roof(device: Device, grid: list[float], divisor: float, dash: str) -> dict[str, Any]:
    """Return the least of the device's read bandwidth times x and of its arithmetic rate, where that was measured."""
    top = (device.calibration.details if device.calibration else {}).get("fma_rate") or float("inf")
    heights = [min((device.read_bandwidth or 0.0) * x, float(top)) / divisor for x in grid]
    xs, ys = ([float(f"{value:.6g}") for value in values] for values in (grid, heights))
    style = Style(NEUTRAL, dash=dash)
    return line(f"roof: {plain(device.label)}", xs, ys, style, mode="lines", hoverinfo="skip")
