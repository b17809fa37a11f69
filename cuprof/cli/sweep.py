"""`cuprof sweep` and `cuprof report`: check, time and store the trials of an experiment; write its page."""

from __future__ import annotations

import shlex
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from cuprof.cli.choice import is_chosen, is_typed
from cuprof.cli.hydra_app import HydraCommand
from cuprof.cli.output import Line, emit, preview_parts, print_message
from cuprof.core.errors import UnknownNameError, UsageError, suggest
from cuprof.core.processes import import_ahead
from cuprof.core.project import Project, try_writing
from cuprof.core.text import list_first

if TYPE_CHECKING:
    from cuprof.config.model import SweepConfig

RUNNING = "cuprof.engine.running", "cuprof.cli.progress"
"""Modules that plan, measure and store."""
SHOWING, PAGE = ("cuprof.report.load", "scipy.special", "cuprof.cli.results"), ("cuprof.report.page",)
"""Modules that read, compare and write the results: half a second that would follow the last trial."""

HELP = """\
Check every variant against the family's reference, time the right ones, store all of it trial by trial, and write the
report. What is stored already is not measured again; an interrupted sweep goes on where it stopped.

FILE.py is a file that calls cuprof.compare, or Kernel Tuner's tune_kernel; it needs no project and no family.
DEFINITION is a definition.json of FlashInfer-Bench or SOL-ExecBench, or its folder. See docs/bring-your-kernel.md.
NAME is a family's name, or an experiment's. Alone, `cuprof sweep` says what could be run.

Exit code: 0 fine, 1 some trial failed, 2 bad input.

settings:
  experiment=NAME        the study to run; see cuprof list experiments; all_studies runs all five
  family=NAME            a family without a study: all of its variants at the axes' defaults; see cuprof list families
  variants=A,B           names or patterns (cuda_*, !cpu_*); all by default; see cuprof list variants
  baseline=NAME          the variant that others are compared with; the study's or the family's by default
  problem.AXIS=V,W       values of a problem axis; arithmetic such as 2**24 and range(10,20) work
  problem.preset=NAME    a named problem of the family
  tune.NAME=V,W          values of a tunable; tune=all takes every value of all that are not named
  measure=quick          how to time: default, quick, precise, hot
  check=fixed            what results are checked with: fresh random inputs (default), or the same each time
  device=cpu             which devices take part: auto, cpu, cuda
  device.cuda=all        GPUs that share the sweep: all, or some (0,1,3)
  launch=slurm           start jobs that share the sweep: slurm, ray, joblib; launch.jobs=4 launch.gpus=1 (a job):
                         docs/cluster.md
  limits.check_s=60      seconds that a check or a sample may take; limits.build_s: a build; limits.trial_s: the inputs
                         of a problem; limits.isolate: a process of its own for each library's and CPU variant
  exit=done              exit code 0 once nothing is left to measure, whatever failed: for schedulers that retry
  store.url=URL          another database, any SQLAlchemy URL (store=postgres: by PGHOST, PGUSER, …)
  search=surrogate       try a part of all configurations, chosen by what was seen; then compare the best:
                         docs/search.md; search.budget=5min, search.trials=300 or search.fraction=0.1
  report=none            no page; report.path=DIR: another folder for it
  ncu.enabled=true       profile under Nsight Compute afterwards; ncu=SET and more: cuprof ncu-collect --help
  retry=failed           try failed trials again (noisy: those with a wide interval; all: measure everything anew);
                         retry_above=0.1: how wide, as a share of the median
  dry_run=true           list the trials and what is stored; run nothing
  output=json            results as JSON on the standard output

A list on variants, problem.* or tune.* is an axis of one job, and one on device.cuda shares it among GPUs. A list on
any other setting makes sweeps of their own, one after another."""
EXAMPLES = """\
  cuprof sweep reduction
  cuprof sweep my_kernels.py problem.n=2**16,2**24
  cuprof sweep experiment=reduction problem.n=2**20,2**24 tune.block=64,128,256 variants=sequential,last_warp
  cuprof sweep experiment=reduction measure=quick dry_run=true
  cuprof sweep experiment=all_studies measure=quick
  cuprof sweep family=reduction search=surrogate search.budget=2min
  cuprof sweep experiment=reduction device.cuda=0,1
  cuprof sweep experiment=reduction store=postgres launch=slurm launch.jobs=4 launch.gpus=1"""

REPORT_HELP = """\
Write one self-contained HTML page about the newest stored sweep of an experiment, or about an earlier one, and print
its path. A page that shows all that is stored stays as it is. Nothing is measured.

settings:
  experiment=NAME   the study (default: reduction); see cuprof list experiments
  report.sweep=ID   an earlier sweep instead of the newest, as NAME-sweep-ID.html; see cuprof query sweeps
  report.path=DIR   the folder for the page (default: reports/out in the project)
  output=json       print the path as JSON
  further ones      see cuprof sweep --help; what is about measuring has no effect here"""
REPORT_EXAMPLES = """\
  cuprof report experiment=reduction
  cuprof report experiment=reduction report.path=/tmp/pages
  cuprof report experiment=reduction report.sweep=5
  cuprof report experiment=reduction,convlab"""


def task(config: SweepConfig, project: Project) -> int:
    """Run one composed sweep, print its results and write its page; return the exit code."""
    if config.report.sweep is not None:
        raise UsageError(
            f"report.sweep={config.report.sweep} is for cuprof report: the page that a sweep ends with is its own; "
            "leave the setting out"
        )
    if config.dry_run:
        from cuprof.engine.preview import preview

        found = preview(config, project)
        emit(found.rows, config.output == "json", preview_parts(found))
        return 0
    if config.report.enabled:
        folder = config.report.folder(project)
        try:
            try_writing(folder)  # before anything is measured
        except OSError as error:
            said = f"the page's folder {folder} cannot be written: {error.strerror}"
            raise UsageError(f"{said}; set another report.path, or report=none") from None
    from cuprof.cli.progress import make_observer
    from cuprof.engine.running import run_sweep

    if config.ncu.enabled:
        from cuprof.ncu.collector import check_collection

        check_collection(config, project)  # what cannot work is found before anything is timed
    with make_observer() as observer:
        ahead = Thread(target=import_ahead, args=(*SHOWING, *(PAGE if config.report.enabled else ())), daemon=True)
        result = run_sweep(config, project, observer, ahead.start)
        if ahead.ident is not None:  # two threads that import parts of one package may each wait for the other
            ahead.join()
    code = int(not result.is_complete) if config.exit == "done" else result.exit_code
    try:
        if config.ncu.enabled:
            from cuprof.cli.ncu import task as profile

            code = max(code, profile(config, project))
    finally:  # what was timed is stored and shown, whatever becomes of the counters
        from cuprof.cli.results import show_results

        show_results(config, project, result.url, result.sweep_id)
    for fault in result.faults:
        print_message(f"failed: {fault}")
    return code


def report(config: SweepConfig, project: Project) -> int:
    """Write the page of one experiment, unless it is up to date, and print its path."""
    from cuprof.cli.results import write_page
    from cuprof.families.origin import is_path, list_families
    from cuprof.interop.origins import name_family
    from cuprof.results.sweeps import get_sweep
    from cuprof.store.store import Store

    is_file = not config.experiment and is_path(config.family)
    chosen, name = config.report.sweep, config.experiment or name_family(config.family)
    words = shlex.split(config.command_line)[2:]
    if chosen is not None and not is_typed(words):
        name = ""  # the number alone says which
    with Store.open(config.store.url or project.database_url, create=False, read_only=True) as store:
        with store.snapshot() as connection:
            try:
                sweep = get_sweep(connection, name, chosen, is_file=is_file)
            except UnknownNameError as error:
                if not is_chosen(words, project):
                    stored = suggest("", error.known)
                    raise UsageError(f"no experiment was named {error.where}: {stored}") from error
                if config.family.endswith(".py") and not Path(config.family).exists():
                    raise UsageError(f"there is no file {config.family}, and no sweep of it is stored") from error
                if config.experiment or is_file or name in list_families(project.folders("kernels")):
                    what = f"{'experiment' if config.experiment else 'family'}={name}"
                    run = f"run cuprof sweep {config.family if is_file else what} first"
                    others = f", or report one of {list_first(error.known, 3)}" if error.known else ""
                    raise UsageError(f"no sweep of {name} is stored; {run}{others}") from error
                raise
        title = "" if is_file else name  # a study of the file's name describes other kernels
        path = write_page(store, sweep, config, project, title, chosen)
    found = {"experiment": config.experiment if name else sweep.experiment, "sweep": sweep.id, "report": str(path)}
    emit(found, config.output == "json", [Line(str(path))])
    return 0


main = HydraCommand("sweep", task, HELP, EXAMPLES, RUNNING, ("numpy", "pandas", *SHOWING, *PAGE), is_measuring=True)
main_report = HydraCommand("report", report, REPORT_HELP, REPORT_EXAMPLES)
