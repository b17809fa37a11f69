"""What `cuprof judge` prints: a few lines a candidate, or JSON."""

from __future__ import annotations

from collections.abc import Iterator

from cuprof.cli.terminal.comparison import MARKS, STYLES, ratio_text
from cuprof.cli.terminal.counters import format_value
from cuprof.cli.terminal.output import print_json, print_lines, terminal_width
from cuprof.cli.terminal.table import Column, Line, Row, layout
from cuprof.cli.terminal.text import format_time
from cuprof.judge.report import RULINGS, Candidate, Report, Ruling, as_data
from cuprof.ncu.knowledge import find_metric

MARK = {Ruling.GOOD: "GOOD", Ruling.NOT_FASTER: "NOT FASTER", Ruling.UNUSABLE: "NOT JUDGED", Ruling.WRONG: "WRONG"}
STYLE = {Ruling.GOOD: "bold green", Ruling.NOT_FASTER: "bold yellow", Ruling.UNUSABLE: "bold", Ruling.WRONG: "bold red"}
MOST_LOG_LINES = 12
MOST_COUNTERS = 20
"""At one problem, beyond which only those that cuprof explains are shown."""


def print_report(report: Report, output: str) -> None:
    """Print a report to the standard output, as a "table" or as "json"."""
    if output == "json":
        print_json(as_data(report))
    else:
        print_lines(report_lines(report, terminal_width()))


def report_lines(report: Report, width: int) -> list[Line]:
    """Return what came of each candidate, with its times and what speaks against it."""
    lines: list[Line] = []
    for each in report.candidates:
        lines += [*_candidate_lines(each, width), Line("")]
    lines += [Line(f"warning: {text}", "yellow") for text in report.notes]
    if report.conditions and any(each.counters for each in report.candidates):
        lines.append(Line(f"counters with {report.conditions.cache_mode} caches", "dim"))
    for device, text in report.noise.items():
        lines.append(Line(f"noise from process to process on {device} (standard deviation): {text}", "dim"))
    lines.append(Line(f"held by: {report.sandbox}", "dim"))
    if report.refusal:
        lines.append(Line(f"warning: this system refuses more than that: {report.refusal}", "yellow"))
    if report.database:
        lines.append(Line(f"kept in {report.database}", "dim"))
    return lines


def _candidate_lines(each: Candidate, width: int) -> Iterator[Line]:
    name = f"{each.file} ({each.variant})" if each.variant else each.file
    yield Line(f"{MARK[each.ruling]}  {name}: {RULINGS[each.ruling]}", STYLE[each.ruling])
    if each.message:
        yield Line(f"  {each.message}")
    if each.rows:
        columns = [
            Column("verdict", "left"),
            Column("problem", "left"),
            Column("time", "left"),
            Column(each.baseline),
            Column(each.variant),
            Column("ratio"),
            Column("interval"),
        ]
        rows = []
        for row in each.rows:
            judged = row.judgement
            cells = (
                MARKS[judged.verdict.value],
                row.problem.label,
                row.measure.value,
                format_time(row.base_ns),
                format_time(row.new_ns),
                ratio_text(judged.ratio),
                f"{ratio_text(judged.low)} to {ratio_text(judged.high)}",
            )
            rows.append(Row(cells, STYLES[judged.verdict.value]))
        yield from layout(columns, rows, width)
    yield from _counter_lines(each, width)
    for one in each.evidence:
        if one.counts and one.detail == each.message:
            continue
        first, *more = one.detail.splitlines() or [""]
        yield Line(f"  {one.what}: {first}", "" if one.counts else "dim")
        yield from (Line(f"    {text}", "dim") for text in more[-MOST_LOG_LINES:])


def _counter_lines(each: Candidate, width: int) -> list[Line]:
    shown = each.counters
    if len(shown) > MOST_COUNTERS * len({one.problem for one in shown}):
        shown = tuple(one for one in shown if find_metric(one.metric))
    if not shown:
        return []
    columns = [Column("counter", "left"), Column("problem", "left"), Column(each.baseline), Column(each.variant)]
    rows = [
        Row((one.metric, one.problem.label, format_value(one.base), format_value(one.new), one.unit)) for one in shown
    ]
    return [Line(""), *layout([*columns, Column("unit", "left")], rows, width)]
