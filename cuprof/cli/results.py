"""The table at the end of a sweep: one a problem, the same figures as the report's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.marks import mark_of, style_of
from cuprof.cli.output import print_json, show
from cuprof.cli.table import Column, Line, Part, Row, Table
from cuprof.core.records import Measure, State
from cuprof.core.text import summarize

if TYPE_CHECKING:
    from cuprof.report.study import Study
    from cuprof.report.trials import StudyTrial
    from cuprof.report.units import Scale

MOST_ROWS = 40
"""A problem with more trials than this shows the fastest tunables of each variant."""
TOP = 10
"""At most so many of a variant are shown then."""


def print_results(study: Study, output: str, page: Path | None = None) -> None:
    """Print a sweep's results and the path of its page to the standard output, as tables or as JSON."""
    if output == "json":
        study.foresee_speedups(study.trials)
        print_json(
            {
                "sweep": study.sweep.id,
                "experiment": study.sweep.experiment,
                "baseline": study.baseline,
                "report": page,
                "trials": [trial_facts(study, trial) for trial in study.trials],
            }
        )
    else:
        show(*result_parts(study), *([Line(f"report: {page}", "bold")] if page else []))


def trial_facts(study: Study, trial: StudyTrial) -> dict[str, Any]:
    """Return what `output=json` gives of a trial; times in ns, bandwidth in bytes a second, share and speedup plain.

    The bounds of a time of too few samples for an interval are null; its count is there all the same.
    """
    names = ("identity", "family", "variant", "kind", "backend", "device", "problem", "tunables", "state", "message")
    facts = {name: getattr(trial, name) for name in (*names, "expected")}
    for measure in Measure:
        timing = trial.timings.get(measure)
        low_ns, high_ns = (timing and timing.interval) or (None, None)
        facts |= {
            f"{measure}_ns": timing and timing.median_ns,
            f"{measure}_low_ns": low_ns,
            f"{measure}_high_ns": high_ns,
            f"{measure}_count": timing and timing.samples,
            f"{measure}_stopped_by": timing and timing.stopped_by,
        }
    energy = trial.energy
    facts |= {name: energy and getattr(energy, name) for name in ("energy_j", "mean_w", "idle_w")}
    return facts | {"bandwidth": trial.bandwidth, "share": trial.share, "speedup": study.speedup(trial)}


def result_parts(study: Study) -> Iterator[Part]:
    """Yield one table a problem and, below, why trials have no time."""
    for heading, table, note in problem_tables(study):
        yield from (Line(heading, "bold"), table, *([Line(note, "dim")] if note else ()), Line(""))
    yield from reasons(study.trials)


def problem_tables(study: Study) -> Iterator[tuple[str, Table, str]]:
    """Yield for each problem a heading, its table, and what is to be said below it."""
    from cuprof.report.trials import by_kind, by_sure_time, grouped

    possible = [trial for trial in study.trials if trial.state is not State.IMPOSSIBLE]
    for trials in grouped(possible or study.trials, lambda trial: trial.problem).values():
        shown = by_kind(trials)
        if len(shown) > MOST_ROWS:
            groups = grouped(shown, lambda trial: trial.contender).values()
            most = max(1, min(TOP, MOST_ROWS // len(groups)))
            shown = [trial for group in groups for trial in sorted(group, key=by_sure_time)[:most]]
        hidden = len(trials) - len(shown)
        note = f"the fastest tunables of each variant; {hidden} more: cuprof query timings" if hidden else ""
        yield _heading(study, trials), _table(study, shown), note


def _table(study: Study, trials: Sequence[StudyTrial]) -> Table:
    from cuprof.report.units import choose_scale

    right = [trial for trial in trials if trial.state is State.OK and not trial.is_expected_wrong]
    study.foresee_speedups(right)
    time = choose_scale("time", [trial.median_ns for trial in right])
    total = choose_scale("time", [trial.median_of(Measure.TOTAL) for trial in right])
    # The unit of the fastest: a slow host beside a device must not turn the device's figures into six digits.
    fastest = max((trial.bandwidth or 0.0 for trial in right), default=0.0)
    bandwidth = replace(choose_scale("bandwidth", [fastest]), decimals=1)
    names = {trial: trial.contender + (" (base)" if trial.variant == study.baseline else "") for trial in trials}
    times = {trial: mark_of(trial.state, trial.expected) for trial in trials}
    times |= {trial: _text(time, trial.median_ns) for trial in right}
    always = [
        (Column("variant", "left"), names),
        (Column(f"time {time.unit}"), times),
        (Column("±%"), {trial: _half_width(trial) for trial in right}),
        (Column(bandwidth.unit), {trial: _text(bandwidth, trial.bandwidth) for trial in right}),
    ]
    tunables = (Column("tunables", "left"), {trial: trial.tunables_label for trial in trials})
    filled = [
        (Column("% peak"), {trial: f"{trial.share * 100:.1f}" for trial in right if trial.share is not None}),
        (Column("speedup"), {trial: f"{ratio:.2f}×" for trial in right if (ratio := study.speedup(trial))}),
        (Column(f"total {total.unit}"), {trial: _text(total, trial.median_of(Measure.TOTAL)) for trial in right}),
        (Column("stopped by", "left"), {trial: _stopped_by(trial) for trial in right}),
    ]
    shown = [each for each in (always[0], tunables, *always[1:], *filled) if each in always or any(each[1].values())]
    rows = []
    for trial in trials:
        cells = [texts.get(trial, "") for _, texts in shown]
        rows.append(Row(tuple(cells), "" if trial in right else style_of(trial.state, trial.expected)))
    return Table([column for column, _ in shown], rows)


def _text(scale: Scale, value: float | None) -> str:
    """Return a number without the spaces that part its thousands on a page: columns stand apart by spaces here."""
    return scale.format(value).replace("\N{NARROW NO-BREAK SPACE}", "").replace("–", "")


def _half_width(trial: StudyTrial) -> str:
    """Return half the width of the median's interval in percent, or how many samples where they are too few for one."""
    if not trial.median_ns or not trial.interval:
        return trial.few_samples
    low, high = trial.interval
    return f"{(high - low) / 2 / trial.median_ns * 100:.1f}"


def _stopped_by(trial: StudyTrial) -> str:
    """Return the bound that ended the sampling and the count by then; nothing where the interval was narrow enough."""
    if trial.timing is None or trial.timing.stopped_by == "interval":
        return ""
    samples = "" if trial.few_samples else f", {trial.timing.samples} samples"  # said in place of the interval
    return f"{trial.timing.stopped_by}{samples}"


def _heading(study: Study, trials: Sequence[StudyTrial]) -> str:
    from cuprof.report.units import format_value

    measures = dict.fromkeys(trial.measure for trial in trials if trial.measure)
    parts = [f"{study.sweep.family} · {trials[0].problem.label}", *(f"{measure} kernel time" for measure in measures)]
    for device in study.devices:
        if any(trial.device == device.label for trial in trials):
            roof = device.read_bandwidth
            parts.append(device.label + (f" (reads {format_value('bandwidth', roof)})" if roof else ""))
    return " · ".join(parts).replace("\N{NO-BREAK SPACE}", " ")


def reasons(trials: Sequence[StudyTrial]) -> Iterator[Line]:
    """Yield one line a reason, with the trials that share it."""
    from cuprof.report.trials import grouped
    from cuprof.report.units import list_names

    impossible = [trial for trial in trials if trial.state is State.IMPOSSIBLE]
    for device, group in grouped(impossible, lambda trial: trial.device).items():
        for count, reason in summarize(trial.message for trial in group):
            yield Line(f"{count} impossible on {device}: {reason}", style_of(State.IMPOSSIBLE))
    without = [trial for trial in trials if trial.state not in (State.OK, State.IMPOSSIBLE)]
    reasons = grouped(without, lambda trial: (trial.state, trial.expected, trial.message))
    for (state, expected, message), group in reasons.items():
        names = list_names(dict.fromkeys(trial.contender for trial in group))
        yield Line(f"{mark_of(state, expected)} {names}: {message or state.value}", style_of(state, expected))
