"""`cuprof compare`: is NEW slower or faster than BASE, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from cuprof.cli.arguments import CommandParser, add_rule
from cuprof.cli.labels import format_number
from cuprof.cli.output import Line, Part, Table, print_json, print_message, show
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure
from cuprof.core.text import list_first

if TYPE_CHECKING:
    import pandas as pd

    from cuprof.comparison.compare import Comparison
    from cuprof.comparison.sides import Side

MARKS = {"slower": "SLOWER", "undecided": "undecided?", "faster": "faster", "same": "same", "same code": "same code"}
"""Verdict → the word in the table, in the order of the table; told apart without colour."""
STYLES = {"slower": "bold red", "undecided": "yellow", "faster": "green", "same": "dim", "same code": "dim"}
SHOWN = ("verdict", "measure", "new_device", "base_median_ns", "new_median_ns", "ratio", "low", "high")
"""Columns of a comparison that its table shows beside what names a trial."""
MOST_SAME, MOST_UNDECIDED = 20, 200
"""If more rows than this are the same, they are counted and not listed; of more undecided ones, those that differ most
are listed. --all lists everything."""
MOST_NAMES = 5
NOISY, MARK = 0.2, "!"
"""Half width of an interval, as a share, from which on it is marked: a factor of 1.5 may be noise."""

BESIDE = 0.005
"""Difference of a ratio from the quotient of the two medians, as a share, from which on a reader sees it."""
OF_PAIRS = "ratios come from pairs of samples, times from medians: the quotient of two times may differ from the ratio"

DESCRIPTION = """\
Compare two sides, trial by trial: faster, slower, same or undecided, with the ratio of the times and its interval.

BASE and NEW are each one of
  12, latest, latest~1         a stored sweep
  reduction/last_warp          a variant, where both ran last, problem by problem (last_warp with experiment=reduction)
  git:abc123, git:HEAD~1       every sweep of a commit, or of what git knows by that name
  runs.sqlite, runs.sqlite:3   the newest or the given sweep of another database file (or URL, URL#3)
  out.json                     what nvbench wrote with --json or --jsonbin; a cache of Kernel Tuner's, or T4

Exit code: 0 nothing slower, 1 something slower (or right in BASE and failing in NEW), 2 bad input or any error."""

MEANING = """\
what the verdict means:
  slower     the interval of the ratio NEW/BASE lies above 1, and the ratio is 1 + effect or more
  faster     the interval lies below 1, and the ratio is 1 / (1 + effect) or less
  same       the whole interval lies between 1 / (1 + effect) and 1 + effect
  undecided  none of these: more samples would tell; see --sample-more
If nothing at all has changed, the chance that even one of all comparisons is called slower or faster is at most the
error rate (5 %), whatever their number (Holm's correction)."""
EXAMPLES = """\
  cuprof compare reduction/sequential reduction/last_warp
  cuprof compare sequential last_warp experiment=reduction --sample-more
  cuprof compare latest~1 latest --markdown
  cuprof compare main.sqlite change.sqlite --effect 2% --json
  cuprof compare git:4f1c2aa git:9be01d7 --measure hot
  cuprof compare before.json after.json"""

PARSER = CommandParser("compare", DESCRIPTION, EXAMPLES, notes=MEANING, store=True)
PARSER.add_argument("base", metavar="BASE", help="the side before")
PARSER.add_argument("new", metavar="NEW", help="the side after")
PARSER.add_argument("settings", metavar="experiment=NAME", nargs="*", default=[], help="narrows latest and variants")
PARSER.add_argument("--measure", choices=list(Measure), action="append", help="which time; default cold and hot")
add_rule(
    PARSER,
    noise="how much any time varies from sweep to sweep, as a standard deviation (default: estimated from "
    "unchanged trials, else assumed: from 0.2%% and 75 ns for a CUDA kernel to 5%% on a CPU; the output names it)",
)
PARSER.add_argument(
    "--tunables", choices=("best", "equal"), default="best", help="of two variants: each at its fastest, or equal"
)
PARSER.add_argument("--sample-more", action="store_true", help="time undecided variants again, side by side")
PARSER.add_argument("--sweep", type=int, metavar="ID", help="the sweep in which to find two variants")
PARSER.add_argument("--all", action="store_true", help="list every row, however many are the same or undecided")
formats = PARSER.add_mutually_exclusive_group()
formats.add_argument(
    "--format", choices=("table", "json", "markdown"), default="table", help="how it is written (default: table)"
)
formats.add_argument("--json", dest="format", action="store_const", const="json", help="as JSON")
formats.add_argument("--markdown", dest="format", action="store_const", const="markdown", help="as Markdown")


def main(argv: Sequence[str]) -> int:
    """Print the comparison; return 1 where something is slower or broken."""
    arguments = PARSER.parse_intermixed_args(argv)
    if odd := next((each for each in arguments.settings if not each.startswith("experiment=")), ""):
        raise UsageError(f"{odd!r} is not a setting of this command; beside BASE and NEW there is experiment=NAME")
    experiment = "".join(arguments.settings[-1:]).removeprefix("experiment=")
    from cuprof.cli.progress import make_observer
    from cuprof.comparison.compare import Options, compare
    from cuprof.comparison.sample_more import reason_against, sample_more
    from cuprof.comparison.sides import load_sides
    from cuprof.core.project import find_project
    from cuprof.statistics.verdict import Rule

    base, new = load_sides(arguments.base, arguments.new, arguments.store, experiment, arguments.sweep)
    against = reason_against(base, new) if arguments.sample_more else ""
    looks = 2 if arguments.sample_more and not against else 1
    options = Options(
        rule=Rule(arguments.effect, arguments.error_rate / looks),
        measures=tuple(map(Measure, dict.fromkeys(arguments.measure or ()))),
        noise=arguments.noise,
        tunables=arguments.tunables,
    )
    comparison = compare(base, new, options)
    if against:
        print_message(f"--sample-more: {against}")
    elif arguments.sample_more and len(comparison.undecided):
        comparison = sample_more(comparison, find_project(), make_observer)
    print_comparison(comparison, arguments.format, everything=arguments.all)
    return comparison.exit_code


def print_comparison(comparison: Comparison, output: str, *, everything: bool = False) -> None:
    """Print a comparison as a "table", "json" or "markdown"; `everything` lists every row of a table."""
    if output == "json":
        print_json(as_data(comparison))
    elif output == "markdown":
        show(*map(Line, markdown_lines(comparison, everything)))
    else:
        show(*comparison_parts(comparison, everything))


def comparison_parts(comparison: Comparison, everything: bool = False) -> list[Part]:
    """Return the sides, the table, the trials left out, and the summary."""
    table, notes = _table(comparison, everything)
    tables: list[Part] = [Line(""), table] if table.rows else []
    heading, last = map(Line, _heading(comparison)), Line(summary(comparison), "bold")
    return [*heading, *tables, *notes, Line(""), *_remarks(comparison), last]


def markdown_lines(comparison: Comparison, everything: bool = False) -> Iterator[str]:
    """Yield the same as Markdown, for a comment on a change."""
    table, notes = _table(comparison, everything)
    yield from (f"**{summary(comparison)}**", "")
    yield from (f"{text}  " for text in _heading(comparison))
    yield ""
    if table.rows:
        bars = ["---:" if heading in table.numbers else "---" for heading in table.headings]
        for row in (table.headings, bars, *table.rows):
            yield " | ".join(["", *(cell.replace("|", "\\|") for cell in row), ""]).strip()
        yield ""
    yield from (f"- {line.text}" for line in chain(notes, _remarks(comparison)))


def summary(comparison: Comparison) -> str:
    """Return one line: how many of each verdict, and whether a difference can be more than noise."""
    parts = [f"{count} {verdict.value}" for verdict, count in comparison.counts.items() if count]
    if comparison.nothing_changed and parts:
        parts = [f"nothing changed between these two sweeps; the differences are noise ({', '.join(parts)})"]
    if broken := len(comparison.broken):
        parts.append(f"{broken} broken")
    return ", ".join(parts) or "nothing was measured anew, so nothing is different"


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data; times in ns, shares and ratios plain."""
    rule, rows = comparison.options.rule, comparison.rows
    times = {"base_median_ns": "base_ns", "new_median_ns": "new_ns"}
    names = ["verdict", "measure", "ratio", "low", "high", "error_rate", "paired", *times, "unchanged"]
    judged = rows[names].rename(columns=times).to_dict("records")
    return {
        "base": _side(comparison.base),
        "new": _side(comparison.new),
        "rule": {"effect": rule.effect, "error_rate": rule.error_rate, "correction": "holm"},
        "noise": [
            {
                "device": device,
                "source": noise.source,
                "times": [
                    {"of": of.what, "relative": scale.value * of.relative, "absolute_ns": scale.value * of.absolute_ns}
                    for of, scale in noise.scales.items()
                ],
                "unchanged_trials": noise.trials,
                "farthest_unchanged_ratio": noise.farthest_ratio if noise.trials else None,
                "text": noise.text,
            }
            for device, noise in comparison.noises.items()
        ],
        "noise_within": comparison.noise_within,
        "nothing_changed": comparison.nothing_changed,
        "counts": comparison.counts,
        "rows": [
            {**facts, "base": base, "new": new}
            for facts, base, new in zip(judged, _trials(rows, "base_"), _trials(rows, "new_"), strict=True)
        ],
        "broken": _trials(comparison.broken, more=("message",)),
        "one_run": len(comparison.one_run),
        "skipped": len(comparison.skipped),
        "incomparable": comparison.incomparable,
        "only_base": _trials(comparison.only_base),
        "only_new": _trials(comparison.only_new),
        "warnings": comparison.warnings,
        "exit_code": comparison.exit_code,
    }


def _side(side: Side) -> dict[str, Any]:
    facts = {"text": side.text, "kind": side.kind, "description": side.description, "sweeps": side.sweeps}
    return {**facts, "trials": side.trials["trial"].nunique()}


def _trials(rows: pd.DataFrame, side: str = "", more: Sequence[str] = ()) -> list[dict[Hashable, Any]]:
    """Return trials of a side, or those of one side of a comparison's rows."""
    names = ["family", "variant", "problem", "tunables", "device", "identity", "state", *more]
    return rows[[f"{side}{name}" for name in names]].set_axis(names, axis=1).to_dict("records")


def _table(comparison: Comparison, everything: bool) -> tuple[Table, list[Line]]:
    """Return the rows, the worst verdict first and in it the largest difference, and notes on what they mean."""
    import numpy as np

    from cuprof.comparison.compare import LABEL_COLUMNS, row_label
    from cuprof.comparison.trials import each
    from cuprof.report.units import choose_scale

    names = [*SHOWN, *(f"{side}_{name}" for side in ("base", "new") for name in LABEL_COLUMNS)]
    rows = comparison.rows[names]
    order = {verdict: place for place, verdict in enumerate(MARKS)}
    rows = rows.iloc[np.lexsort((-np.abs(np.log(rows["ratio"])), rows["verdict"].map(order)))]
    is_few = (rows["verdict"] == "same").sum() <= MOST_SAME
    most = {} if everything else {"undecided": MOST_UNDECIDED, "same": MOST_SAME if is_few else 0}
    is_shown = rows.groupby("verdict").cumcount() < rows["verdict"].map(most).fillna(np.inf)
    found, hidden = rows[is_shown], rows["verdict"][~is_shown].value_counts()
    scale = choose_scale("time", found[["base_median_ns", "new_median_ns"]].to_numpy().ravel().tolist())
    varied = {"new_device": "device", "measure": "time"}  # shown where there are several
    varied = {name: heading for name, heading in varied.items() if rows[name].nunique() > 1}
    cells = [
        (
            MARKS[row.verdict],
            row_label(row),
            *(getattr(row, name) for name in varied),
            format_number(scale, row.base_median_ns),
            format_number(scale, row.new_median_ns),
            ratio_text(row.ratio),
            interval_text(row),
        )
        for row in each(found)
    ]
    numbers = (f"base {scale.unit}", f"new {scale.unit}", "new/base", "interval")
    styles = found["verdict"].map(STYLES).tolist()
    table = Table(("verdict", "trial", *varied.values(), *numbers), cells, numbers, styles)
    notes = []
    if any(row[-1].endswith(MARK) for row in cells):
        notes.append(Line(f"{MARK} an interval wider than ±{NOISY:.0%}: more samples would tell", "dim"))
    if is_beside_medians(rows["ratio"], rows["base_median_ns"], rows["new_median_ns"]).any():
        notes.append(Line(OF_PAIRS, "dim"))
    for verdict, are in (("undecided", "undecided"), ("same", "the same")):
        if verdict in hidden:
            notes.append(Line(f"and {hidden[verdict]} more that are {are} (--all lists them)", "dim"))
    return table, notes


def is_beside_medians(ratio: Any, base_ns: Any, new_ns: Any) -> Any:
    """Return whether a reader sees that a ratio is not the quotient of the two medians; of columns a column."""
    return abs(ratio * base_ns / new_ns - 1) > BESIDE


def _heading(comparison: Comparison) -> list[str]:
    measures = "/".join(dict.fromkeys(comparison.rows["measure"]))
    about = [f"{measures} time" if measures else "", *dict.fromkeys(comparison.rows["new_device"])]
    sides = [f"base: {comparison.base.description}", f"new:  {comparison.new.description}"]
    return [*sides, *filter(None, [" · ".join(filter(None, about))])]


def _remarks(comparison: Comparison) -> Iterator[Line]:
    """Yield broken trials, trials left out, warnings, the noise, and the rule that the verdicts follow."""
    from cuprof.comparison.trials import each, ending_of

    yield from (Line(f"BROKEN {ending_of(trial)}", "bold red") for trial in each(comparison.broken))
    yield from (Line(text, "dim") for text in _left_out(comparison))
    yield from (Line(f"warning: {text}", "yellow") for text in comparison.warnings)
    for device, noise in comparison.noises.items():
        where = f" on {device}" if len(comparison.noises) > 1 else ""
        yield Line(f"noise between sweeps{where} (standard deviation): {noise.text}", "dim")
    if comparison.noise_within:
        said = f"{comparison.noise_within}: assumed, not measured"
        yield Line(f"noise within a sweep (standard deviation): {said}", "dim")
    rule, paired = comparison.options.rule, int(comparison.rows["paired"].sum())
    effect = f"{rule.effect:.3%}".replace(".000%", "%")
    within = ", where the machine's noise between sweeps is no larger than that" if comparison.noises else ""
    rate = f"any false difference among all: at most {rule.error_rate:.1%} (Holm){within}"
    yield Line(
        f"differences from {effect} on matter; {rate}; {paired} of {len(comparison.rows)} paired by round", "dim"
    )


def _left_out(comparison: Comparison) -> Iterator[str]:
    from cuprof.comparison.trials import each, label_of

    if number := len(comparison.one_run):
        what, they = ("trial is", "it was") if number == 1 else ("trials are", "they were")
        yield f"{number} {what} one and the same run on both sides: nothing has changed and {they} not tried again"
    if number := len(comparison.skipped):
        messages = comparison.skipped[["base_message", "new_message"]].to_numpy().ravel()
        reasons = list_first(list(dict.fromkeys(filter(None, messages))), MOST_NAMES, "; ")
        yield f"{number} skipped on both sides" + (f": {reasons}" if reasons else "")
    if comparison.incomparable:
        yield f"{len(comparison.incomparable)} not compared: {list_first(comparison.incomparable, MOST_NAMES, '; ')}"
    for side, trials in (("BASE", comparison.only_base), ("NEW", comparison.only_new)):
        if len(trials):
            labels = [label_of(trial) for trial in each(trials)]
            yield f"{len(trials)} only in {side}: {list_first(labels, MOST_NAMES, '; ')}"


def ratio_text(value: float) -> str:
    """Return a ratio with the digits that its distance from 1 deserves."""
    if not math.isfinite(value):
        return "∞"
    return f"{value:.4f}" if value < 2 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def interval_text(judged: Any) -> str:
    """Return the interval of what has a ratio and its bounds, marked where it is so wide that the ratio says little."""
    mark = "" if (judged.high - judged.low) / 2 <= NOISY * judged.ratio else f" {MARK}"
    return f"{ratio_text(judged.low)} to {ratio_text(judged.high)}{mark}"
