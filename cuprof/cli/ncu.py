"""`cuprof ncu-collect` and `cuprof ncu-import`: hardware counters for trials, and from reports made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.cli.arguments import CommandParser
from cuprof.cli.hydra_app import HydraCommand
from cuprof.cli.labels import format_counter
from cuprof.cli.output import Line, Part, Table, emit, preview_parts, print_json, print_message, show
from cuprof.core.project import Project, find_project
from cuprof.core.records import StoredProfile
from cuprof.ncu.metrics import METRICS, list_matches

if TYPE_CHECKING:
    from cuprof.config.model import SweepConfig
    from cuprof.engine.checking import ProfilingResult
    from cuprof.ncu.collector import Collector

MOST_METRICS = 8
"""Metrics of a whole set that are shown, of those that cuprof explains: they share a table's width."""
CounterRow = tuple[str, Mapping[str, float | str | None], str]
"""A trial's label; metric → value, or text, or None where there is none; why there are none."""

HELP = """\
Run the trials of an experiment under Nsight Compute and store their hardware counters beside their timings. Takes the
same selection as sweep. Every trial is built and checked first; what is profiled already is not profiled again; an
interrupted collection goes on where it stopped.

Exit code: 0 fine, 1 some trial or metric failed, 2 bad input or Nsight Compute cannot work here.

settings:
  experiment=NAME         the study; see cuprof list experiments
  variants=A,B            names or patterns; problem.AXIS=…, tune.NAME=… as for sweep
  ncu=study               the metric set: study, memory, compute, instructions, roofline, occupancy, full
  +ncu.metrics=[A,B]      metrics beside the set's; see cuprof list metrics
  ncu.cache_control=none  hot counters; all (default) empties the caches before every pass: cold counters
  ncu.path=FILE           the ncu program; otherwise PATH, CUDA_HOME and the usual folders
  ncu.batch=64            trials given to one ncu process
  ncu.time_limit_s=60     seconds that one trial may take under ncu
  retry=failed            try trials again that failed under ncu (all: profile everything anew)
  store.url=URL           another database, any SQLAlchemy URL
  dry_run=true            list the trials; run nothing
  output=json             counters as JSON on the standard output
  further ones            see cuprof sweep --help"""
EXAMPLES = """\
  cuprof ncu-collect experiment=reduction
  cuprof ncu-collect experiment=reduction ncu=memory problem.n=2**24 variants=sequential,last_warp
  cuprof ncu-collect experiment=reduction +ncu.metrics=[dram__bytes_read.sum] ncu.cache_control=none"""

IMPORT = CommandParser(
    "ncu-import",
    "Take in Nsight Compute reports: launches in ranges of cuprof's join their trials, others become\n"
    "rows of their own, one a kernel. The files are copied to the project's artifacts.",
    """\
  cuprof ncu-import --name vendor *.ncu-rep
  cuprof query "SELECT * FROM counters WHERE name LIKE 'vendor/%'"
  cuprof ncu-import profile.ncu-rep""",
    store=True,
)
IMPORT.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a .ncu-rep file")
IMPORT.add_argument("--name", default="", help="what launches that join no trial go by (default: the file's name)")
IMPORT.add_argument(
    "--cache-mode",
    choices=("cold", "hot"),
    default="",
    help="file the counters under this mode (default: by the ncu command line that the report holds)",
)


def task(config: SweepConfig, project: Project) -> int:
    """Check, then profile the trials of one composed selection, and print their counters; return the exit code."""
    if config.dry_run:
        from cuprof.engine.preview import preview

        found = preview(config, project, profiling=True)
        emit(found.rows, config.output == "json", preview_parts(found))
        return 0
    from cuprof.ncu.collector import open_collector

    # ncu starts before the store and the engine are imported, which takes as long as ncu's own start does.
    with open_collector(config, project) as collector:
        from cuprof.cli.progress import make_observer
        from cuprof.engine.checking import profile_selection

        with make_observer() as observer:
            result = profile_selection(config, project, collector, observer)
    _print_counters(result, collector, config.output)
    for trial, failed in result.collected.failures:
        stored = " (stored; retry=failed tries it again)" if isinstance(failed, StoredProfile) else ""
        print_message(f"failed: {trial.label}: {failed.state.value}: {failed.message}{stored}")
    for reason in result.collected.missing.values():
        print_message(f"missing: {reason}")
    return result.exit_code


def _print_counters(result: ProfilingResult, collector: Collector, output: str) -> None:
    """Print the counters that are stored of these trials, those of earlier collections included."""
    trials, request = result.trials, collector.setting.request
    values: dict[str, dict[str, float | str | None]] = {trial.identity: {} for trial in trials}
    units: dict[str, str] = {}
    for identity, counters in result.counters.items():
        for name, counter in counters.items():
            is_number = counter.value is not None and counter.value == counter.value
            values[identity][name] = counter.value if is_number else counter.text or None
            units[name] = counter.unit
    metrics = list_matches(request.metrics, units)
    if output == "json":
        conditions, rows = asdict(request.conditions), []
        for trial in trials:
            of_trial = {name: each for name, each in values[trial.identity].items() if request.whole or name in metrics}
            rows.append({"identity": trial.identity, "trial": trial.label, **conditions, "counters": of_trial})
        print_json(rows)
        return
    failed = {trial.identity: found.state.value for trial, found in result.collected.failures}
    notes = {**result.collected.skipped, **failed}
    counted = [(trial.label, values[trial.identity], notes.get(trial.identity, "")) for trial in trials]
    metrics = metrics or [name for name in sorted(units) if METRICS.get(name)][:MOST_METRICS]
    show(*counter_parts(counted, metrics, units))
    if request.whole:
        show(Line(""), Line(f'{len(units)} metrics are stored; see cuprof query "SELECT * FROM counters"'))


def counter_parts(rows: Sequence[CounterRow], metrics: Sequence[str], units: Mapping[str, str]) -> list[Part]:
    """Return a table with a row a trial and a column a metric, and a legend of the metrics' names and units."""
    headings = [f"[{place}]" for place in range(1, len(metrics) + 1)]
    has_notes = any(note for _, _, note in rows)
    cells = [
        (label, *("" if note else format_counter(values.get(name)) for name in metrics), *[note] * has_notes)
        for label, values, note in rows
    ]
    parts: list[Part] = [Table(["trial", *headings, *["note"] * has_notes], cells, headings), Line("")]
    for heading, name in zip(headings, metrics, strict=True):
        known = METRICS.get(name)
        unit = f" in {units[name]}" if units.get(name) else ""
        parts.append(Line(f"{heading} {name}{unit}{': ' + known.meaning if known else ''}"))
    return parts


main_collect = HydraCommand("ncu-collect", task, HELP, EXAMPLES, is_measuring=True)


def main_import(argv: Sequence[str]) -> None:
    """Take in each report, or none where one cannot be read."""
    arguments = IMPORT.parse_args(argv)
    from cuprof.engine.importing import import_reports

    artifacts, said = find_project().artifacts, {"name": arguments.name, "cache_mode": arguments.cache_mode}
    for result in import_reports(arguments.files, arguments.store, artifacts, **said):
        show(Line(f"{result.path}: {result.describe()}"))
        for profile in (group.profile for group in result.taken):
            if profile.message:  # why a trial matched nothing, or that a launch crashed
                print_message(f"{result.path}: {profile.name}: {profile.message}")
