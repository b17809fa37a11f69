"""The table at the end of a sweep: one a problem, the same figures as the report's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.records import State
from cuprof.terminal.marks import mark_of, style_of
from cuprof.terminal.output import frame_records, print_json, print_lines, terminal_width
from cuprof.terminal.table import Column, Line, Row, layout

if TYPE_CHECKING:
    import pandas as pd

    from cuprof.analysis.quantities import Scale
    from cuprof.analysis.study import Study

MOST_ROWS = 40
"""A problem with more trials than this shows the fastest tunables of each variant."""

JSON_COLUMNS = (
    *(
        "identity",
        "family",
        "variant",
        "kind",
        "backend",
        "device",
        "problem",
        "tunables",
        "state",
        "message",
        "expected",
    ),
    *(
        f"{measure}_{part}"
        for measure in ("cold", "hot", "total")
        for part in ("ns", "low_ns", "high_ns", "count", "stopped_by")
    ),
    *("energy_j", "mean_w", "idle_w", "bandwidth", "share", "speedup"),
)
"""What `output=json` gives of each trial; times in ns, bandwidth in bytes a second, share and speedup plain.

The bounds of a time of too few samples for an interval are null; its count is there all the same."""


def print_results(study: Study, output: str, page: Path | None = None) -> None:
    """Print a sweep's results and the path of its page to the standard output, as tables or as JSON."""
    if output == "json":
        print_json(
            {
                "sweep": study.sweep.id,
                "experiment": study.sweep.experiment,
                "baseline": study.baseline,
                "report": page,
                "trials": frame_records(study.trials, JSON_COLUMNS),
            }
        )
    else:
        print_lines(result_lines(study, terminal_width()))
        if page:
            print_lines([Line(f"report: {page}", "bold")])


def result_lines(study: Study, width: int) -> list[Line]:
    """Return one table a problem and, below, why trials have no time."""
    lines: list[Line] = []
    for _, trials in study.trials.groupby("problem_label", sort=False):
        lines += [*_problem_lines(study, trials, width), Line("")]
    return [*lines, *_reasons(study.trials)]


def _problem_lines(study: Study, trials: pd.DataFrame, width: int) -> list[Line]:
    from cuprof.analysis.trials import by_kind

    shown = by_kind(trials)
    hidden = 0
    if len(shown) > MOST_ROWS:
        fastest = shown[shown["time_ns"].notna()].groupby("contender", sort=False)["time_ns"].idxmin()
        untimed = shown[~shown["contender"].isin(fastest.index)].drop_duplicates("contender")
        hidden = len(shown)
        shown = by_kind(trials.loc[[*fastest, *untimed.index]])
        hidden -= len(shown)
    columns, rows = _columns(study, shown)
    lines = [Line(_heading(study, trials), "bold"), *layout(columns, rows, width)]
    if hidden:
        lines.append(Line(f"the fastest tunables of each variant; {hidden} more: cuprof query timings", "dim"))
    return lines


def _columns(study: Study, trials: pd.DataFrame) -> tuple[list[Column], list[Row]]:
    from cuprof.analysis.quantities import choose_scale

    right = trials[trials["state"] == State.OK.value]
    time = choose_scale("time", right["time_ns"])
    total = choose_scale("time", right["total_ns"])
    # The unit of the fastest: a slow host beside a device must not turn the device's figures into six digits.
    bandwidth = replace(choose_scale("bandwidth", [right["bandwidth"].max()]), decimals=1)
    tunables, shares = bool((trials["tunables_label"] != "").any()), bool(right["share"].notna().any())
    totals, ratios = bool(right["total_ns"].notna().any()), bool(right["speedup"].notna().any())
    bounds = any(_stopped_at_a_bound(trial) for trial in right.to_dict("records"))
    columns = [
        Column("variant", "left"),
        *([Column("tunables", "left")] if tunables else []),
        Column(f"time {time.unit}"),
        Column("±%"),
        Column(bandwidth.unit),
        *([Column("% peak")] if shares else []),
        *([Column("speedup")] if ratios else []),
        *([Column(f"total {total.unit}")] if totals else []),
        *([Column("stopped by", "left")] if bounds else []),
    ]
    rows = []
    for trial in trials.to_dict("records"):
        state = State(trial["state"])
        expected = str(trial["expected"])
        is_right = state is State.OK and expected != "wrong"
        cells = [
            trial["contender"] + (" (base)" if trial["variant"] == study.baseline else ""),
            *([trial["tunables_label"]] if tunables else []),
            _text(time, trial["time_ns"]) if is_right else mark_of(state, expected),
            _half_width(trial) if is_right else "",
            _text(bandwidth, trial["bandwidth"]) if is_right else "",
            *(
                [f"{trial['share']:.1%}".rstrip("%") if is_right and trial["share"] == trial["share"] else ""]
                if shares
                else []
            ),
            *([f"{trial['speedup']:.2f}×" if trial["speedup"] == trial["speedup"] else ""] if ratios else []),
            *([_text(total, trial["total_ns"]) if is_right else ""] if totals else []),
            *([_stopped_by(trial) if is_right else ""] if bounds else []),
        ]
        rows.append(Row(tuple(cells), "" if is_right else style_of(state, expected)))
    return columns, rows


def _text(scale: Scale, value: float) -> str:
    """Return a number without the spaces that part its thousands on a page: columns stand apart by spaces here."""
    return scale.format(value).replace("\N{NARROW NO-BREAK SPACE}", "").replace("–", "")


def _half_width(trial: Mapping[Any, Any]) -> str:
    """Return half the width of the median's interval in percent, or how many samples where they are too few for one."""
    from cuprof.analysis.intervals import few_samples

    median = trial["time_ns"]
    if not median or median != median:
        return ""
    if few := few_samples(trial):
        return few
    return f"{(trial['time_high_ns'] - trial['time_low_ns']) / 2 / median * 100:.1f}"


def _stopped_by(trial: Mapping[Any, Any]) -> str:
    """Return the bound that ended the sampling and the count by then; nothing where the interval was narrow enough."""
    from cuprof.analysis.intervals import few_samples

    if not _stopped_at_a_bound(trial):
        return ""
    samples = "" if few_samples(trial) else f", {trial['time_count']:.0f} samples"  # said in place of the interval
    return f"{trial['time_stopped_by']}{samples}"


def _stopped_at_a_bound(trial: Mapping[Any, Any]) -> bool:
    return bool(trial["time_ns"] == trial["time_ns"] and trial["time_stopped_by"] != "interval")


def _heading(study: Study, trials: pd.DataFrame) -> str:
    from cuprof.analysis.quantities import format_value

    measures = {"cold": "cold kernel time", "hot": "hot kernel time"}
    kinds = [measures[name] for name in dict.fromkeys(trials["time_measure"]) if name in measures]
    parts = [f"{study.sweep.family} · {trials.iloc[0]['problem_label']}", *kinds]
    for device in study.devices:
        if device.label in set(trials["device"]):
            roof = device.read_bandwidth
            parts.append(device.label + (f" (reads {format_value('bandwidth', roof)})" if roof else ""))
    return " · ".join(parts).replace("\N{NO-BREAK SPACE}", " ")


def _reasons(trials: pd.DataFrame) -> Iterator[Line]:
    """Yield one line a reason, with the trials that share it."""
    without = trials[trials["state"] != State.OK.value]
    for (state, expected, message), group in without.groupby(
        ["state", "expected", "message"], sort=False, dropna=False
    ):
        kind = State(str(state))
        names = list(dict.fromkeys(group["contender"]))
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        yield Line(f"{mark_of(kind, str(expected))} {listed}: {message or kind.value}", style_of(kind, str(expected)))
