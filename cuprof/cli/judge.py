"""`cuprof judge`: is somebody else's kernel right, honest and at least as fast as the baseline?"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cuprof.cli import compare
from cuprof.cli.arguments import CommandParser, add_rule, number
from cuprof.cli.labels import format_counter, format_time
from cuprof.cli.output import Line, Part, Table, emit
from cuprof.core.errors import UsageError
from cuprof.core.project import MARKER, Project, find_project
from cuprof.core.text import excerpt

if TYPE_CHECKING:
    from cuprof.config.model import SweepConfig
    from cuprof.interop.origins import AnyOrigin
    from cuprof.judge.court import Request
    from cuprof.judge.report import Candidate, Report

DESCRIPTION = """\
Judge candidates against a family's baseline: right, honest, and at least as fast? Each runs in processes of its own,
shut in as far as the system allows; neither the project nor its database is changed. See docs/judging.md.

FAMILY     a family of the project, a folder with a family.py, or a definition of FlashInfer-Bench or SOL-ExecBench
CANDIDATE  a source (.cu, .cl) that takes the place of a variant's own, or a Python file that defines variants with
           @family.cuda, .opencl, .kernel (C), .library or .cpu; a solution (.json) of the definition
SETTING    problems and how they are timed, as for cuprof sweep: problem.n=2**20,2**24, problem.preset=NAME,
           tune.NAME=…, measure=quick, measure.modes=[hot], device.cuda=1, limits.check_s=10, …; with --counters
           those of cuprof ncu-collect too: ncu.cache_control=none, ncu.path=FILE, …

Exit code, the worst of all candidates: 0 right, and faster or the same; 1 slower or undecided; 2 bad input, or it
cannot be judged here; 3 wrong, failing or not honest."""

EXAMPLES = """\
  cuprof judge reduction mine.cu --like last_warp
  cuprof judge reduction mine.py problem.n=2**20,2**24 --json
  cuprof judge kernels/reduction a.cu b.cu --like sequential --keep judged.sqlite
  cuprof judge reduction mine.cu --counters=memory"""

_SETTING = re.compile(r"[+~]*[A-Za-z_][\w./@-]*=.*|~[A-Za-z_][\w./]*", re.DOTALL)
SECONDS = number(0.1, 86_400.0, "time limit; give seconds from 0.1 to 86400", float)
ROUNDS = number(1, 100, "number of rounds; give one from 1 to 100", int)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
RULINGS = {
    "GOOD": ("bold green", "GOOD", "right, and at least as fast as the baseline"),
    "NOT_FASTER": ("bold yellow", "NOT FASTER", "right, but slower than the baseline or undecided"),
    "UNUSABLE": ("bold", "NOT JUDGED", "could not be judged"),
    "WRONG": ("bold red", "FAILED", "it fails"),
}
"""Ruling → its style, its word, told apart without colour, and its meaning."""
FOUND = {
    "impossible time": ("NOT HONEST", "its times cannot be true"),
    "claims to be what it is not": ("NOT HONEST", "it is not what it says it is"),
    "wrong result": ("WRONG", "its results are wrong"),
    "does not compile": ("FAILED", "it does not compile"),
    "ends its process": ("FAILED", "it ends its process"),
    "does not come to an end": ("FAILED", "it does not come to an end"),
}
"""Finding → the word and meaning of a wrong candidate, the gravest first: a rounding error is wrong, but not fraud."""
MOST_LOG_LINES, MOST_LINE = 12, 1000
MOST_MEMORY = 1 << 62
MOST_COUNTERS = 20
"""Counters at one problem above which only those that cuprof explains are shown."""
NOT_SET_HERE = ("experiment", "family", "variants", "baseline", "store", "report", "retry", "dry_run", "output")


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)i?B?", text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 4G or 500M")
    size = float(match[1]) * _UNITS[match[2]]
    if size > MOST_MEMORY:
        raise argparse.ArgumentTypeError(f"no machine has {text}; write 4G or 500M")
    return int(size)


PARSER = CommandParser("judge", DESCRIPTION, EXAMPLES, json=True)
PARSER.add_argument("family", metavar="FAMILY", help="a family of the project, its folder, or a definition")
PARSER.add_argument("words", metavar="CANDIDATE|SETTING", nargs="+", help="files to judge, and settings")
PARSER.add_argument("--baseline", metavar="VARIANT", default="", help="what candidates are compared with")
PARSER.add_argument("--like", metavar="VARIANT", default="", help="the variant whose source a .cu or .cl replaces")
PARSER.add_argument("--rounds", type=ROUNDS, default=3, help="how often each is timed in turns (default: 3)")
add_rule(PARSER, noise="how much a time varies from process to process, if it is known")
_help = "auto: what the system allows (default); required: all of it; off: processes of their own"
PARSER.add_argument("--sandbox", choices=("auto", "required", "off"), default="auto", help=_help)
PARSER.add_argument("--as-root", action="store_true", help="judge as root, whose files a candidate can then read")
_help = "such as 4G (default: 3/4 of all)"
PARSER.add_argument("--memory-limit", dest="memory_bytes", type=_size, default=0, metavar="BYTES", help=_help)
_help = "of one execution, or of a build"
PARSER.add_argument("--time-limit", dest="time_limit_s", type=SECONDS, default=0.0, metavar="SECONDS", help=_help)
_help = "hardware counters (Nsight Compute): a metric set of conf/ncu, or METRIC,METRIC,… (default: study)"
PARSER.add_argument("--counters", nargs="?", const="", metavar="SET", help=_help)
PARSER.add_argument("--keep", type=Path, metavar="FILE", help="keep what was measured in this SQLite database")


def main(argv: Sequence[str]) -> int:
    """Judge and print; return the exit code."""
    arguments = _parse(argv)
    from cuprof.engine.launch import prestart
    from cuprof.judge.border.fork_server import ForkServer
    from cuprof.sandbox.probe import begin_probe

    if arguments.sandbox != "off":
        begin_probe()
    if any(Path(each).suffix == ".cu" for each in arguments.candidates):
        prestart(modules=("cupy",))  # the process that times the baseline
    from cuprof.core.scratch import ScratchFolder
    from cuprof.judge.warden import Warden, start_ahead

    project = find_project()
    with ForkServer() as server, ScratchFolder() as workshop:  # the server imports what it needs beside this process
        origin = _find_origin(arguments.family, project.folders("kernels"), Path(workshop))
        # of a link to itself, `resolve` makes a traceback
        files = [Path(os.path.realpath(each)) for each in arguments.candidates]
        databases = [each for each in (project.database_file, arguments.keep) if each]
        warden = Warden(project.root, files, arguments.sandbox, arguments.memory_bytes, databases)
        if all(file.suffix == ".cu" for file in files) and not arguments.keep:
            start_ahead(warden.list_first(origin.folder, arguments.rounds))
        request = _make_request(arguments, project, origin)
        warden = warden.ask_system()
        from cuprof.cli.progress import make_observer
        from cuprof.judge.court import judge
        from cuprof.judge.report import as_data

        with make_observer() as observer:
            report = judge(request, project, observer, server, warden)
    emit(as_data(report), arguments.json, report_parts(report))
    return report.exit_code


def _make_request(arguments: argparse.Namespace, project: Project, origin: AnyOrigin) -> Request:
    from cuprof.cli.hydra_app import beside
    from cuprof.config.overrides import quoted

    family = f"family={quoted(Path(arguments.family).absolute().name)}"
    settings = [family, "measure.modes=[cold]", *arguments.settings]

    def composed() -> SweepConfig:
        from cuprof.config.composer import compose

        return compose(settings, project)

    config = beside(composed, ("cuprof.judge.court", "cuprof.cli.progress"), ("sqlalchemy", "pandas"))
    from cuprof.judge.contenders import check_file
    from cuprof.judge.court import Request
    from cuprof.statistics.verdict import Rule

    return Request(
        config=config,
        origin=origin,
        candidates=tuple(check_file(Path(path)) for path in arguments.candidates),
        rule=Rule(arguments.effect, arguments.error_rate),
        **{
            each: getattr(arguments, each)
            for each in ("baseline", "like", "rounds", "noise", "as_root", "time_limit_s")
        },
        database=arguments.keep.absolute() if arguments.keep else None,
        counters=arguments.counters is not None,
    )


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    arguments = PARSER.parse_intermixed_args(argv)
    if re.search(r"=|\.(cu|cl|py)$", arguments.counters or ""):
        arguments.words.append(arguments.counters)  # the option's own word was left out
        arguments.counters = ""
    # of a list of values that is longer than a file's name may be, `Path.exists` makes an error
    files = {word for word in arguments.words if os.path.exists(word)}  # noqa: PTH110
    arguments.settings = [word for word in arguments.words if _SETTING.fullmatch(word) and word not in files]
    arguments.candidates = [word for word in arguments.words if word not in arguments.settings]
    if arguments.keep == Path():
        raise UsageError("--keep needs a file's name; leave it out to keep nothing")
    if arguments.keep and arguments.keep.name == MARKER:  # an empty file could become a database
        raise UsageError(f"--keep={arguments.keep} is the file of a project's settings; name another file")
    if not arguments.candidates:
        raise UsageError(
            "name at least one candidate after the family: a .cu, .cl, .py or .json file; see cuprof judge --help"
        )
    for setting in arguments.settings:
        key = re.split(r"[=.]", setting.lstrip("+~"))[0]
        if key in NOT_SET_HERE or (key == "ncu" and arguments.counters is None):
            raise UsageError(f"{setting!r} has no meaning for judge; see cuprof judge --help")
    if arguments.counters:
        is_set = "__" not in arguments.counters  # which every metric's name has
        asked = [f"ncu={arguments.counters}"] if is_set else [f"ncu.metrics=[{arguments.counters}]", "ncu.name=named"]
        arguments.settings = [*asked, *arguments.settings]
    return arguments


def _find_origin(text: str, folders: Sequence[Path], workshop: Path) -> AnyOrigin:
    """Return the family; of a definition a copy without the solutions, which no candidate is to see."""
    from cuprof.families.origin import FAMILY_FILE, Folder, find_folder
    from cuprof.interop.origins import copy_alone

    folder = Path(text).parent if Path(text).name == FAMILY_FILE else Path(text)
    if (folder / FAMILY_FILE).is_file():
        return Folder(folder.resolve())
    if text.endswith(".json") or Path(text).is_dir():
        return copy_alone(text, workshop / "definition")
    return find_folder(text, folders)


def report_parts(report: Report) -> Iterator[Part]:
    """Yield each candidate's ruling, its times and the evidence against it."""
    for each in report.candidates:
        yield from (*_candidate_parts(each), Line(""))
    yield from (Line(f"warning: {text}", "yellow") for text in report.notes)
    if report.conditions and any(each.counters for each in report.candidates):
        yield Line(f"counters with {report.conditions.cache_mode} caches", "dim")
    for device, text in report.noise.items():
        yield Line(f"noise from process to process on {device} (standard deviation): {text}", "dim")
    yield Line(f"held by: {report.sandbox}", "dim")
    if report.refusal:
        yield Line(f"warning: this system refuses more than that: {report.refusal}", "yellow")
    if report.database:
        yield Line(f"kept in {report.database}", "dim")


def _candidate_parts(each: Candidate) -> Iterator[Part]:
    name = f"{each.file} ({each.variant})" if each.variant else each.file
    style, mark, words = RULINGS[each.ruling.name]
    if each.ruling.name == "WRONG":
        claims = " ".join([each.message, *(one.what for one in each.evidence if one.counts)])
        mark, words = next((said for claim, said in FOUND.items() if claim in claims), (mark, words))
    yield Line(f"{mark}  {name}: {words}", style)
    if each.message:
        yield Line(f"  {each.message}")
    if each.rows:
        yield _times(each)
    yield from _counters(each)
    for one in each.evidence:
        if one.counts and one.detail == each.message:
            continue
        first, *more = one.detail.splitlines() or [""]
        yield Line(f"  {one.what}: {excerpt(first, MOST_LINE)}", "" if one.counts else "dim")
        yield from (Line(f"    {excerpt(text, MOST_LINE)}", "dim") for text in more[-MOST_LOG_LINES:])


def _times(each: Candidate) -> Table:
    numbers = (each.baseline, each.variant, "ratio", "interval")
    rows, styles = [], []
    for row in each.rows:
        found = row.judgement
        times = (format_time(row.base_ns), format_time(row.new_ns))
        ratio = (compare.ratio_text(found.ratio), compare.interval_text(found))
        rows.append((compare.MARKS[found.verdict.value], row.problem.label, row.measure.value, *times, *ratio))
        styles.append(compare.STYLES[found.verdict.value])
    return Table(("verdict", "problem", "time", *numbers), rows, numbers, styles)


def _counters(each: Candidate) -> list[Part]:
    from cuprof.ncu.metrics import METRICS

    shown = each.counters
    if len(shown) > MOST_COUNTERS * len({one.problem for one in shown}):
        shown = tuple(one for one in shown if METRICS.get(one.metric))
    numbers = (each.baseline, each.variant)
    rows = [
        (one.metric, one.problem.label, format_counter(one.base), format_counter(one.new), one.unit) for one in shown
    ]
    return [Line(""), Table(("counter", "problem", *numbers, "unit"), rows, numbers)] if rows else []
