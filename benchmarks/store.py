"""How commands grow with what is stored: a database with 100,000 trials, and each command's time beside its limit.

python -m benchmarks.store OUT [--trials 100000] [--url postgresql+psycopg://USER@HOST/DATABASE]

The database is filled with a study's trials as GPUs leave them (`stored_trials`), then each command is run as a process
of its own; its time is the wall time from start to end. A database that OUT or the URL holds already is measured as it
is. Exit code 1 where a command takes longer, or more memory, than its limit. The limits are for two quiet cores; on a
busy host compare the time of the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.space import copy_project
from benchmarks.stored_trials import EXPERIMENT, Filled, fill
from benchmarks.table import format_table
from cuprof.core.processes import child_environment
from cuprof.core.project import Project
from cuprof.results.queries import query
from cuprof.store.schema import list_views

MOST_MEGABYTES = 500
ROWS_A_SECOND = 100_000 / 3
"""Of a whole view, as CSV or Parquet."""
STARTED_IN_S = 0.5
"""What it may take beside its rows."""
FIRST_ROWS = "SELECT * FROM {} LIMIT 10"
WHOLE = ("timings", "sweep_timings", "trials")
KILOBYTES_A_MEGABYTE = 1024


@dataclass(frozen=True)
class Task:
    """One command, with the seconds that it may take."""

    name: str
    words: tuple[str, ...]
    limit_s: float


def main() -> int:
    """Fill the database where there is none, run every command, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the project, its database and what was filled in")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--url", default="", help="a server's empty database in place of a file in OUT")
    parser.add_argument("--only", default="", help="the tasks whose names hold this text")
    given = parser.parse_args()
    folder = (given.out if given.out.exists() else copy_project(given.out)).absolute()
    if given.url:
        (folder / "cuprof.toml").write_text(f"database = {json.dumps(given.url)}\n")
    project = Project(folder, given.url)
    filled = _filled(project, given.trials)
    print(f"{filled.trials} trials in {len(filled.sweeps)} sweeps, {filled.samples} samples")
    rows = []
    for task in _tasks(folder, project, filled):
        if given.only in task.name:
            wall_s, cpu_s, megabytes, code = _run(task, folder)
            is_met = wall_s <= task.limit_s and megabytes <= MOST_MEGABYTES and code in (0, 1)
            row = {"task": task.name, "seconds": round(wall_s, 2), "limit": round(task.limit_s, 2)}
            rows.append(
                {
                    **row,
                    "of the CPU": round(cpu_s, 2),
                    "MB": round(megabytes),
                    "exit code": code,
                    "met": "yes" if is_met else "NO",
                }
            )
    if not rows:
        parser.error(f"no task's name holds {given.only!r}")
    print(format_table(list(rows[0]), rows))
    return int(any(row["met"] == "NO" for row in rows))


def _filled(project: Project, trials: int) -> Filled:
    note = project.root / "filled.json"
    if not note.exists():
        first = Task("first", ("sweep", f"experiment={EXPERIMENT}", "measure=quick", "report=none"), 60.0)
        _run(first, project.root)
        began = time.monotonic()
        filled = fill(project, project.database_url, trials)
        note.write_text(json.dumps(vars(filled)))
        print(f"filled in {time.monotonic() - began:.0f} s")
    found = json.loads(note.read_text())
    return Filled(tuple(found["sweeps"]), found["trials"], found["samples"], tuple(found["command"]))


def _tasks(folder: Path, project: Project, filled: Filled) -> Iterator[Task]:
    yield Task("query best", ("query", "best"), 1.0)
    for name in list_views():
        yield Task(f"first rows of {name}", ("query", FIRST_ROWS.format(name)), 1.0)
    for view in WHOLE:
        count = int(query(project.database_url, f"SELECT COUNT(*) FROM {view}").iloc[0, 0])
        for form, ending in (("CSV", "csv"), ("Parquet", "parquet")):
            words = ("query", view, "--format", ending, "--output", str(folder / f"all.{ending}"))
            yield Task(f"all {view} as {form}", words, STARTED_IN_S + count / ROWS_A_SECOND)
    before, after = map(str, filled.sweeps[-2:])
    yield Task("compare two sweeps", ("compare", before, after), 8.0)
    words = ("report", f"experiment={EXPERIMENT}", f"report.sweep={after}", f"report.path={folder / 'pages'}")
    yield Task("report", words, 5.0)
    yield Task("nothing to do", ("sweep", *filled.command, "measure=quick", "report=none"), 5.0)


def _run(task: Task, folder: Path) -> tuple[float, float, float, int]:
    """Return wall and CPU time in seconds, the most megabytes of one of its processes (no less than ours), the code."""
    began = time.perf_counter()
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "cuprof", *task.words]
        process = subprocess.Popen(command, cwd=folder, env=child_environment(), stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    wall_s, megabytes = time.perf_counter() - began, used.ru_maxrss / KILOBYTES_A_MEGABYTE
    return wall_s, used.ru_utime + used.ru_stime, megabytes, os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
