"""The end of a sweep: a table a problem, the failures, and the best; or the same as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuprof.cli.compare import MARK, NOISY, OF_PAIRS, is_beside_medians
from cuprof.cli.marks import mark_of, style_of
from cuprof.cli.output import print_json, show
from cuprof.cli.table import Column, Line, Part, Row, Table
from cuprof.cli.units import format_time
from cuprof.core.records import Measure, State
from cuprof.core.text import count, summarize

if TYPE_CHECKING:
    from cuprof.report.study import Study
    from cuprof.report.trials import StudyTrial
    from cuprof.report.units import Scale

MOST_ROWS = 40
"""A problem with more trials than this shows the fastest tunables of each variant."""
TOP = 10
"""The most tunables of one variant that are shown then."""
CACHED = "cached"
LEGEND = {
    MARK: f"{MARK} an interval wider than ±{NOISY:.0%}: time it again before you rank by it (retry=noisy)",
    "before": "measured before this sweep: a speed-up stands there only where both agree; retry=all times it anew",
    CACHED: f"{CACHED} faster than the memory reads: caches served it",
}
"""End of a cell → its meaning."""
NO_VERDICT = "without a verdict"
BASES = ("the baseline", "in place of the baseline")
VERDICTS = ("faster", "slower", "same", "undecided", "")
"""The order of the counts in a summary; the last is of trials that are not comparable."""
UNPLACED = (State.IMPOSSIBLE, State.SKIPPED)
"""States that are counted below the tables."""


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
    facts |= {name: getattr(trial, name) for name in ("energy_j", "mean_w", "idle_w")}
    return facts | {"bandwidth": trial.bandwidth, "share": trial.share, "speedup": study.speedup(trial)}


def result_parts(study: Study) -> Iterator[Part]:
    """Yield a table a problem, the failures, and the best of one problem or the verdicts at several."""
    from cuprof.report.trials import grouped

    placed = [trial for trial in study.trials if trial.state not in UNPLACED]
    problems = list(grouped(placed, lambda trial: trial.problem).values())
    bests = [best_line(study, trials) for trials in problems]
    marks, is_beside = set[str](), False
    for trials, best in zip(problems, bests, strict=True):
        shown = _choose_shown(trials)
        table, hidden = _table(study, shown), len(trials) - len(shown)
        is_beside = is_beside or any(_is_beside_medians(study, trial) for trial in shown)
        names = sum(column.heading in ("variant", "tunables") for column in table.columns)
        yield from (Line(_heading(study, trials), "bold"), table)
        if hidden:
            yield Line(f"the fastest tunables of each variant; {hidden} more: cuprof query timings", "dim")
        if len(problems) > 1 and best:
            yield Line(best, "bold")
        yield Line("")
        marks |= {mark for row in table.rows for cell in row.cells[names:] for mark in LEGEND if cell.endswith(mark)}
    yield from (Line(meaning, "dim") for mark, meaning in LEGEND.items() if mark in marks)
    if is_beside:
        yield Line(OF_PAIRS, "dim")
    yield from reasons(study.trials)
    if study.stand_in and len({trial.contender for trial in study.right}) > 1:
        text = f"the baseline {study.baseline} has no right, timed result here: {study.stand_in} stands in for it"
        yield Line(text, "dim")
    if len(problems) > 1:
        lines = list(verdict_lines(study))
        if lines:
            yield Line(f"against {_base(study)}, at {len(problems)} problems:", "bold")
        yield from (Line(f"  {line}") for line in lines)
    elif bests and bests[0]:
        yield Line(bests[0], "bold")


def _choose_shown(trials: Sequence[StudyTrial]) -> list[StudyTrial]:
    """Return those of one problem's trials that its table shows, the fastest first."""
    from cuprof.report.trials import by_kind, by_time, grouped

    shown = by_kind(trials)
    if len(shown) > MOST_ROWS:
        groups = grouped(shown, lambda trial: trial.contender).values()
        most = max(1, min(TOP, MOST_ROWS // len(groups)))
        shown = [trial for group in groups for trial in sorted(group, key=by_time)[:most]]
    return sorted(shown, key=lambda trial: (not _has_time(trial), by_time(trial)))


def best_line(study: Study, trials: Sequence[StudyTrial]) -> str:
    """Return the fastest of one problem's trials and how many times as fast as the baseline it is, with the interval.

    It is the surest: a median of a few samples may lie below it. The text is empty where nothing has a time.
    """
    from cuprof.report.trials import by_sure_time, median_over_best

    right = [trial for trial in trials if trial.is_right]
    if not right:
        return ""
    best = min(right, key=by_sure_time)
    base = study.baseline_of(best, _base(study))
    if base is None or base is best or _is_base(study, best):
        others = len({trial.contender for trial in right}) > 1
        of_base = f", {BASES[bool(study.stand_in)]}" if _is_base(study, best) and others else ""
        if not others and len(right) > 1:
            middle = f"its median configuration takes {median_over_best(right):.2f} × as long"
            of_base = f" (no baseline: one variant; {middle})"
        return f"best: {best.setting}, {format_time(best.median_ns or 0.0)}{of_base}"
    compared, speedup = study.compare(base, best), study.speedup(best, _base(study))
    if compared is None and speedup is None:
        return f"best: {best.setting}, {format_time(best.median_ns or 0.0)} (not comparable with {base.setting})"
    if compared is None:
        times = f"{speedup:.2f}" if speedup else "?"
        return f"best: {best.setting}, {times} × as fast as {base.setting} (no verdict)"
    verdict, ratio, low, high = compared.verdict, compared.ratio, compared.low, compared.high
    half = (1 / low - 1 / high) / 2 if low > 0 else float("inf")
    decimals = 3 if half < 0.01 else 2
    uncertain = "" if verdict == "faster" else f" ({verdict})"
    return (
        f"best: {best.setting}, {1 / ratio:.{decimals}f} ± {half:.{decimals}f} × as fast as {base.setting}{uncertain}"
    )


def list_verdicts(study: Study) -> list[tuple[StudyTrial, str]]:
    """Return the best trial of each variant at each problem, and its verdict against the baseline there.

    Problems without a right result of the baseline are left out. A verdict is empty where the two are not comparable.
    """
    found = []
    for trial in study.fastest:
        base = study.baseline_of(trial, _base(study))
        if base is not None and not _is_base(study, trial):
            verdict = study.verdict(base, trial)
            found.append((trial, verdict.value if verdict else ""))
    return found


def verdict_lines(study: Study) -> Iterator[str]:
    """Yield at how many problems each variant is faster or slower than the baseline, the same or undecided."""
    from cuprof.report.trials import grouped
    from cuprof.report.units import list_names

    found: dict[str, Counter[str]] = {}
    for trial, verdict in list_verdicts(study):
        found.setdefault(trial.contender, Counter())[verdict] += 1
    said = {
        name: ", ".join(f"{counts[verdict]} {verdict or NO_VERDICT}" for verdict in VERDICTS if counts[verdict])
        for name, counts in found.items()
    }
    for verdicts, names in grouped(said, said.__getitem__).items():
        yield f"{list_names(names)}: {verdicts}"


def _base(study: Study) -> str:
    """Return the contender that speed-ups are against: the baseline, or its substitute."""
    return study.stand_in or study.baseline


def _is_base(study: Study, trial: StudyTrial) -> bool:
    return _base(study) in (trial.variant, trial.contender)


def _has_time(trial: StudyTrial) -> bool:
    return trial.state is State.OK and not trial.is_expected_wrong


def _table(study: Study, trials: Sequence[StudyTrial]) -> Table:
    from cuprof.report.units import choose_scale

    right = [trial for trial in trials if _has_time(trial)]
    study.foresee_speedups(right)
    time = choose_scale("time", [trial.median_ns for trial in right])
    hot = {trial: trial.median_of(Measure.HOT) for trial in right if trial.measure is Measure.COLD}
    hot_scale = choose_scale("time", hot.values())
    total = choose_scale("time", [trial.median_of(Measure.TOTAL) for trial in right])
    # The unit of the fastest: a slow host beside a device must not turn the device's figures into six digits.
    fastest = max((trial.bandwidth or 0.0 for trial in right), default=0.0)
    bandwidth = replace(choose_scale("bandwidth", [fastest]), decimals=1)
    bases = {study.baseline_of(trial, _base(study)) for trial in trials}  # of many tunables the fastest
    names = {trial: trial.contender + (" (base)" if trial in bases else "") for trial in trials}
    times = {trial: mark_of(trial.state, trial.expected) for trial in trials}
    times |= {trial: _text(time, trial.median_ns) for trial in right}
    shares = {trial: f"{trial.share * 100:.1f}" if trial.share <= 1 else CACHED for trial in right if trial.share}
    always = [
        (Column("variant", "left"), names),
        (Column(f"time {time.unit}"), times),
        (Column("±%"), {trial: _half_width(trial) for trial in right}),
        (Column(bandwidth.unit), {trial: _text(bandwidth, trial.bandwidth) for trial in right}),
    ]
    tunables = (Column("tunables", "left"), {trial: trial.tunables_label for trial in trials})
    filled = [
        (Column("% peak"), shares),
        (Column("speedup"), {trial: _speedup(study, trial) for trial in right}),
        (Column(f"hot {hot_scale.unit}"), {trial: _text(hot_scale, value) for trial, value in hot.items()}),
        (Column(f"total {total.unit}"), {trial: _text(total, trial.median_of(Measure.TOTAL)) for trial in right}),
        (Column("stopped by", "left"), {trial: _stopped_by(trial) for trial in right}),
        (Column("measured", "left"), {trial: _age(study, trial) for trial in right}),
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
    return f"{(high - low) / 2 / trial.median_ns * 100:.1f}{_noise_mark(trial)}"


def _noise_mark(*trials: StudyTrial) -> str:
    """Return a mark where one of the times is known to ±20 % or worse."""
    known = [(trial.median_ns, *trial.interval) for trial in trials if trial.interval and trial.median_ns]
    return MARK if any((high - low) / 2 > NOISY * median for median, low, high in known) else ""


def _speedup(study: Study, trial: StudyTrial) -> str:
    ratio, base = study.speedup(trial, _base(study)), study.baseline_of(trial, _base(study))
    return f"{ratio:.2f}×{_noise_mark(trial, base)}" if ratio and base else ""


def _is_beside_medians(study: Study, trial: StudyTrial) -> bool:
    """Return whether the speed-up in a trial's row is not the quotient of the times in the table."""
    speedup, base = study.speedup(trial, _base(study)), study.baseline_of(trial, _base(study))
    if not (speedup and base and base.median_ns and trial.median_ns):
        return False
    return is_beside_medians(1 / speedup, base.median_ns, trial.median_ns)


def _age(study: Study, trial: StudyTrial) -> str:
    """Return how long before this sweep a reused time was measured; nothing for its own."""
    from cuprof.report.units import describe_age

    age_s = study.age_s(trial) if trial.is_reused else None
    return f"{describe_age(age_s)} before" if age_s is not None else "before" if trial.is_reused else ""


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
    """Yield one line a reason with the trials that share it; a message says where an exception was raised."""
    from cuprof.report.trials import grouped
    from cuprof.report.units import list_names

    impossible = [trial for trial in trials if trial.state is State.IMPOSSIBLE]
    for device, group in grouped(impossible, lambda trial: trial.device).items():
        for number, reason in summarize(trial.message for trial in group):
            yield Line(f"{number} impossible on {device}: {reason}", style_of(State.IMPOSSIBLE))
    skipped = [trial for trial in trials if trial.state is State.SKIPPED]
    for message, group in grouped(skipped, lambda trial: trial.message).items():
        names = list_names(dict.fromkeys(trial.contender for trial in group))
        yield Line(f"{len(group)} skipped ({names}): {message}", style_of(State.SKIPPED))
    failed = [trial for trial in trials if trial.state is not State.OK and trial.state not in UNPLACED]
    alike = grouped(failed, lambda trial: (trial.state, trial.expected, re.sub(r"\b\d[\d.e+-]*", "#", trial.message)))
    for (state, expected, _), group in alike.items():
        names, style = list_names(dict.fromkeys(trial.contender for trial in group)), style_of(state, expected)
        problems = len({trial.problem for trial in group})
        at = f" (and at {count(problems - 1, 'other problem')})" if problems > 1 else ""
        yield Line(f"{mark_of(state, expected)} {names}: {group[0].message or state.value}{at}", style)
    if logged := next((trial for trial in failed if trial.log and not trial.is_expected), None):
        yield Line(f"the whole log: cuprof status --log {logged.variant}", "dim")
