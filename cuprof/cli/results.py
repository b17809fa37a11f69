"""The end of a sweep: its page, and a table a problem, the failures, and the best; or the same as JSON."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuprof.cli.choice import list_choices
from cuprof.cli.compare import MARK, NOISY, OF_PAIRS, is_beside_medians
from cuprof.cli.labels import format_number, format_time, mark_of
from cuprof.cli.output import Line, Part, Table, print_json, show
from cuprof.config.model import SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import NOT_RUN, Measure, State
from cuprof.core.text import count, summarize
from cuprof.report.load import load_study
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, by_time, grouped, rank_of
from cuprof.report.units import choose_scale, describe_age, format_value, list_names
from cuprof.results.sweeps import SweepRow, get_sweep, is_newest
from cuprof.store.store import Store, wait_for

MOST_ROWS = 40
"""A problem with more trials than this shows the fastest tunables of each variant."""
TOP = 10
"""The most tunables of one variant that are shown then."""
CACHED = "cached"
LEGEND = {
    MARK: f"{MARK} an interval wider than ±{NOISY:.0%}: time it again before you rank by it (retry=noisy)",
    "before": "measured before this sweep: a speed-up stands there only where both agree; retry=all times it anew",
    CACHED: f"{CACHED} faster than the memory reads: caches served it",
    OF_PAIRS: OF_PAIRS,
}
"""End of a cell → its meaning, and a remark on a whole table."""
TOLD_BY = ("at", "problem", "contender", "device", "measure", "is_right", "median_ns", "sure_ns")
"""The columns of a study's frame that a problem's heading, its choice of rows and its best line need."""
VERDICTS = ("faster", "slower", "same", "undecided", "")
"""The order of the counts in a summary; the last is of trials that are not comparable."""
MOST_SPAN = 1000
"""An interval whose ends are further apart than this factor says nothing about how fast a variant is."""
SIZE = re.compile(r"(?<!exit code )(?<!ended with )(?<!by signal )\b\d[\d.e+-]*")
"""A number in which the messages of one reason may differ; an exit code or a signal is a reason of its own."""


def show_results(config: SweepConfig, project: Project, url: str, sweep_id: int) -> None:
    """Write the page of a sweep, then print its results and the page's path.

    Of sweeps side by side that differ the newest has the page's name, as in `cuprof report`, and
    the others' pages have their numbers besides; jobs of one sweep write one page.
    """

    def read() -> tuple[Study, int | None]:
        with Store.open(url, create=False, read_only=True) as store:
            with store.snapshot() as connection:
                sweep = get_sweep(connection, "", sweep_id)
                number = None if is_newest(connection, sweep) else sweep.id
            return load_study(store, sweep_id=sweep.id, folders=project.folders("experiments")), number

    study, number = wait_for(read)
    page = None
    try:
        if config.report.enabled:
            with Store.open(url, create=False, read_only=True) as store:
                page = write_page(store, study.sweep, config, project, number=number, study=study)
    finally:  # the results are shown, whatever becomes of the page
        print_results(study, config.output, page)


def write_page(
    store: Store,
    sweep: SweepRow,
    config: SweepConfig,
    project: Project,
    name: str = "",
    number: int | None = None,
    study: Study | None = None,
) -> Path:
    """Write the page of a sweep, unless it is up to date; return its path. `page_name` takes `name` and `number`."""
    from cuprof.report.page import digest, is_current, page_name, write

    folders, reports = project.folders("experiments"), project.folders("reports")
    file, folder = page_name(sweep, name, number), config.report.folder(project)
    if not sweep.experiment and sweep.family in list_choices(project, "experiment"):
        file = f"family-{file}"  # it does not take the place of the study of its name
    path, made_of = folder / f"{file}.html", digest(store, sweep, name, experiments=folders, reports=reports)
    if not is_current(path, made_of):
        study = study or load_study(store, name, sweep_id=sweep.id, folders=folders)
        write(study, folder, name=file, folders=reports, made_of=made_of)
    return path


def print_results(study: Study, output: str, page: Path | None = None) -> None:
    """Print a sweep's results and the path of its page to the standard output, as tables or as JSON."""
    if output != "json":
        show(*result_parts(study), *([Line(f"report: {page}", "bold")] if page else []))
        return
    study.foresee(study.pair_of(trial, study.baseline) for trial in study.trials)
    sweep = {"sweep": study.sweep.id, "experiment": study.sweep.experiment, "baseline": study.baseline}
    print_json({**sweep, "report": page, "trials": [trial_facts(study, trial) for trial in study.trials]})


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
    facts |= {name: getattr(trial, name) for name in ("energy_j", "mean_w", "idle_w", "bandwidth", "share")}
    return facts | {"speedup": study.speedup(trial)}


def result_parts(study: Study) -> Iterator[Part]:
    """Yield a table a problem, the failures, and the best of one problem or the verdicts at several."""
    placed = study.frame.loc[~study.frame["state"].isin([*NOT_RUN]), [*TOLD_BY]]
    problems = [rows for _, rows in placed.groupby("at", sort=False)]
    chosen = [_choose_shown(rows) for rows in problems]
    every = study.frame.loc[[place for rows in chosen for place in rows.index]]
    study.foresee(map(study.pair_of, study.rows(every)))  # all tables in one go
    best, marks = "", set[str]()
    for rows, fastest in zip(problems, chosen, strict=True):
        best, shown = best_line(study, rows), study.rows(fastest)
        shown.sort(key=lambda trial: (not trial.is_right, by_time(trial), rank_of(trial.kind), trial.order))
        table = _table(study, shown)
        yield from (Line(_heading(study, rows), "bold"), table)
        if hidden := len(rows) - len(shown):
            some, where = ("the fastest", "timings") if best else ("some", "failures")
            yield Line(f"{some} tunables of each variant; {hidden} more: cuprof query {where}", "dim")
        if len(problems) > 1 and best:
            yield Line(best, "bold")
        yield Line("")
        pairs = (pair for pair in map(study.pair_of, shown) if pair and pair.ratio)
        if any(is_beside_medians(pair.ratio, pair.base.median_ns, pair.new.median_ns) for pair in pairs):
            marks.add(OF_PAIRS)
        names = 1 + ("tunables" in table.headings)
        marks |= {mark for row in table.rows for cell in row[names:] for mark in LEGEND if cell.endswith(mark)}
    yield from (Line(meaning, "dim") for mark, meaning in LEGEND.items() if mark in marks)
    yield from reasons(study.rows(study.frame[study.frame["state"] != State.OK.value]))
    if study.stand_in and study.frame["contender"][study.frame["is_right"]].nunique() > 1:
        text = f"the baseline {study.baseline} has no right, timed result here: {study.stand_in} stands in for it"
        yield Line(text, "dim")
    if len(problems) > 1:
        if lines := [Line(f"  {line}") for line in verdict_lines(study)]:
            yield Line(f"against {study.stand_in or study.baseline}, at {len(problems)} problems:", "bold")
            yield from lines
    elif best:
        yield Line(best, "bold")


def _choose_shown(rows: Any) -> Any:
    if len(rows) <= MOST_ROWS:
        return rows
    most = max(1, min(TOP, MOST_ROWS // rows["contender"].nunique()))
    return rows.sort_values("median_ns", kind="stable").groupby("contender", sort=False).head(most)


def best_line(study: Study, rows: Any) -> str:
    """Return the fastest of one problem's trials and how many times as fast as the baseline it is, with the interval.

    It is the surest: a median of a few samples may lie below it. The text is empty where nothing has a time.
    """
    right = rows[rows["is_right"]]
    if right.empty:
        return ""
    (best,) = study.rows(right.loc[[right["sure_ns"].idxmin()]])
    time = f"best: {best.setting}, {format_time(best.median_ns or 0.0)}"
    pair = study.pair_of(best)
    if pair is None or pair.base is best:
        if right["contender"].nunique() > 1:
            return time + (f", {'in place of ' if study.stand_in else ''}the baseline" if pair else "")
        times_ns = right["median_ns"]
        middle = f"its median configuration takes {times_ns.median() / times_ns.min():.2f} × as long"
        alone = "no baseline: one variant; " if rows["contender"].nunique() == 1 else ""  # others may have failed
        return time + (f" ({alone}{middle})" if len(right) > 1 else "")
    base = pair.base
    if (compared := pair.compared) is None:
        if pair.speedup is None:
            return f"{time} (not comparable with {base.setting})"
        return f"best: {best.setting}, {pair.speedup:.2f} × as fast as {base.setting} (no verdict)"
    verdict = "" if compared.verdict == "faster" else f" ({compared.verdict})"
    if times := _describe_times(compared.ratio, compared.low, compared.high):
        return f"best: {best.setting}, {times} × as fast as {base.setting}{verdict}"
    return f"{time}; how many times as fast as {base.setting} cannot be told{verdict}"


def _describe_times(ratio: float, low: float, high: float) -> str:
    """Return how many times as fast NEW is, by a ratio NEW / BASE and its interval; nothing if it spans too much."""
    middle, least, most = (1 / each if each > 0 else math.inf for each in (ratio, high, low))
    if not most <= MOST_SPAN * least:
        return ""
    decimals = 3 if most - least < 0.02 else 2
    if abs(most + least - 2 * middle) > middle / 2:  # the ends of a ± would be off by a quarter and more
        return f"from {least:.{decimals}f} to {most:.{decimals}f}"
    return f"{middle:.{decimals}f} ± {(most - least) / 2:.{decimals}f}"


def list_verdicts(study: Study) -> list[tuple[StudyTrial, str]]:
    """Return the best trial of each variant at each problem, and its verdict against the baseline there.

    Problems without a right result of the baseline are left out. A verdict is empty where the two are not comparable.
    """
    pairs = filter(None, map(study.pair_of, study.fastest))
    return [(each.new, each.verdict.value if each.verdict else "") for each in pairs if each.base is not each.new]


def verdict_lines(study: Study) -> Iterator[str]:
    """Yield at how many problems each variant is faster or slower than the baseline, the same or undecided."""
    found: dict[str, Counter[str]] = {}
    for trial, verdict in list_verdicts(study):
        found.setdefault(trial.contender, Counter())[verdict] += 1

    def describe(name: str) -> str:
        counts = ((found[name][verdict], verdict) for verdict in VERDICTS)
        return ", ".join(f"{number} {verdict or 'without a verdict'}" for number, verdict in counts if number)

    yield from (f"{list_names(names)}: {verdicts}" for verdicts, names in grouped(found, describe).items())


def _table(study: Study, trials: Sequence[StudyTrial]) -> Table:
    """Return the table of one problem, without the columns that say nothing."""
    right = [trial for trial in trials if trial.is_right]
    is_alone = len({trial.contender for trial in trials}) == 1
    bases = set() if is_alone else {study.baseline_of(trial) for trial in trials}  # of many tunables the fastest
    hot_ns = {trial: trial.hot_ns for trial in right if trial.measure is Measure.COLD}
    total_ns = {trial: trial.timings[Measure.TOTAL].median_ns for trial in right if Measure.TOTAL in trial.timings}
    time = choose_scale("time", [trial.median_ns for trial in right])
    hot, total = choose_scale("time", hot_ns.values()), choose_scale("time", total_ns.values())
    # The unit of the fastest: a slow host beside a device must not turn the device's figures into six digits.
    bandwidth = choose_scale("bandwidth", [max((trial.bandwidth or 0.0 for trial in right), default=0.0)])
    bandwidth = replace(bandwidth, decimals=1)
    numbers: dict[str, Callable[[StudyTrial], str]] = {
        f"time {time.unit}": lambda trial: format_number(time, trial.median_ns),
        "±%": lambda trial: (
            f"{trial.half_width * 100:.1f}{MARK if trial.doubt else ''}" if trial.interval else trial.few_samples
        ),
        bandwidth.unit: lambda trial: format_number(bandwidth, trial.bandwidth),
        "% peak": lambda trial: "" if not trial.share else f"{trial.share * 100:.1f}" if trial.share <= 1 else CACHED,
        "speedup": lambda trial: _speedup(study, trial),
        f"hot {hot.unit}": lambda trial: format_number(hot, hot_ns.get(trial)),
        f"total {total.unit}": lambda trial: format_number(total, total_ns.get(trial)),
    }
    words: dict[str, Callable[[StudyTrial], str]] = {
        "stopped by": _stopped_by,
        "measured": lambda trial: _age(study, trial),
    }
    rows = []
    for trial in trials:
        cells = [cell(trial) if trial in right else "" for cell in (*numbers.values(), *words.values())]
        if trial not in right:
            cells[0] = mark_of(trial.state, trial.expected)[0]
        rows.append([trial.contender + (" (base)" if trial in bases else ""), trial.tunables.label, *cells])
    headings = ["variant", "tunables", *numbers, *words]
    shown = [place for place in range(len(headings)) if place in (0, 2, 3, 4) or any(row[place] for row in rows)]
    styles = ["" if trial in right else mark_of(trial.state, trial.expected)[1] for trial in trials]
    return Table(
        [headings[each] for each in shown], [[row[each] for each in shown] for row in rows], [*numbers], styles
    )


def _speedup(study: Study, trial: StudyTrial) -> str:
    if (pair := study.pair_of(trial)) is None or pair.speedup is None:
        return ""
    return f"{pair.speedup:.2f}×{MARK if pair.remark else ''}"


def _age(study: Study, trial: StudyTrial) -> str:
    """Return how long before this sweep a reused time was measured; nothing for its own."""
    age_s = study.age_s(trial)
    return "" if not trial.is_reused else "before" if age_s is None else f"{describe_age(age_s)} before"


def _stopped_by(trial: StudyTrial) -> str:
    """Return the bound that ended the sampling and the count by then; nothing where the interval was narrow enough."""
    if trial.timing is None or trial.timing.stopped_by == "interval":
        return ""
    samples = "" if trial.few_samples else f", {trial.timing.samples} samples"  # said in place of the interval
    return f"{trial.timing.stopped_by}{samples}"


def _heading(study: Study, rows: Any) -> str:
    measures = filter(None, dict.fromkeys(rows["measure"]))
    parts = [f"{study.sweep.family} · {rows['problem'].iloc[0].label}", *(f"{each} kernel time" for each in measures)]
    for device in study.devices:
        if (rows["device"] == device.label).any():
            roof = device.read_bandwidth
            parts.append(device.label + (f" (reads {format_value('bandwidth', roof)})" if roof else ""))
    return " · ".join(parts).replace("\N{NO-BREAK SPACE}", " ")


def reasons(trials: Sequence[StudyTrial]) -> Iterator[Line]:
    """Yield one line a reason with the trials that share it; a message says where an exception was raised."""

    def names(group: Sequence[StudyTrial]) -> str:
        return list_names(dict.fromkeys(trial.contender for trial in group))

    impossible = [trial for trial in trials if trial.state is State.IMPOSSIBLE]
    skipped = [trial for trial in trials if trial.state is State.SKIPPED]
    for device, group in grouped(impossible, lambda trial: trial.device).items():
        for number, reason in summarize(trial.message for trial in group):
            yield Line(f"{number} impossible on {device}: {reason}", "dim")
    for message, group in grouped(skipped, lambda trial: trial.message).items():
        yield Line(f"{len(group)} skipped ({names(group)}): {message}", "dim")
    failed = [trial for trial in trials if trial.state not in {State.OK, *NOT_RUN}]
    alike = grouped(failed, lambda trial: (trial.state, trial.expected, trial.is_reused, SIZE.sub("#", trial.message)))
    for (state, expected, is_reused, _), group in alike.items():
        problems = len({trial.problem for trial in group})
        at = f" (and at {count(problems - 1, 'other problem')})" if problems > 1 else ""
        mark, style = mark_of(state, expected)
        stored = " (stored; retry=failed tries it again)" if is_reused and not group[0].is_expected else ""
        yield Line(f"{mark} {names(group)}: {group[0].message or state.value}{at}{stored}", style)
    if logged := next((trial for trial in failed if trial.log and not trial.is_expected), None):
        yield Line(f"the whole log: cuprof status --log {logged.variant}", "dim")
