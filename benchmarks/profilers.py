"""Four counters of 48 trials by cuprof, bare ncu, nsight-python and one ncu process a trial.

    python -m benchmarks.profilers --out FOLDER

All of them collect the metrics of `ncu=study` with cold caches and clocks left alone. "built before" rows find every
kernel in the build cache; for cuprof the trials have been timed (and so checked) as well, as they are in use.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.ncu import count_launches, ncu_command
from benchmarks.process import Answer, ask, run
from benchmarks.space import CONFIGURATIONS, copy_project
from benchmarks.table import make_parser, report, start

METRICS = (
    "launch__grid_dim_z",
    "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
    "launch__shared_mem_per_block_dynamic",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
)
"""Those of conf/ncu/study.yaml; a test holds the two together."""
SINGLES = (0, 21, 47)
"""The configurations that are profiled by a process each, to extrapolate from."""
COLUMNS = ("tool", "wall s", "launches", "÷ bare ncu", "note")
COUNT = """
SELECT COUNT(DISTINCT identity) AS trials, COUNT(DISTINCT metric) AS metrics FROM counters
WHERE identity IS NOT NULL AND value IS NOT NULL AND cache_mode = 'cold'
"""


def run_bare(work: Path, cache: str, only: int | None = None) -> Answer:
    """Run ncu over a script that launches all configurations, or one."""
    file = work / "bare.ncu-rep"
    file.unlink(missing_ok=True)
    arguments = () if only is None else ("--only", str(only))
    answered = ask(
        "benchmarks.tools.space_launch",
        work,
        *arguments,
        wrapper=ncu_command(file, METRICS, ["axpy"]),
        environment={"CUPROF_CACHE": str(work / cache)},
    )
    if answered.fault:
        return answered
    if not file.is_file():
        return Answer(answered.wall_s, fault="ncu left no report")
    return Answer(answered.wall_s, {"launches": count_launches(file)})


def run_singles(work: Path, cache: str) -> Answer:
    """Run a process for each of `SINGLES` and return what all configurations would take at that rate."""
    answers = [run_bare(work, cache, only) for only in SINGLES]
    fault = next((answered.fault for answered in answers if answered.fault), "")
    if fault:
        return Answer(0.0, fault=fault)
    seconds = sum(answered.wall_s for answered in answers)
    note = f"EXTRAPOLATED from {len(SINGLES)} processes, {seconds:.2f} s together"
    return Answer(
        seconds / len(SINGLES) * len(CONFIGURATIONS),
        {"launches": sum(answered.found["launches"] for answered in answers), "note": note},
    )


def run_cuprof(work: Path, cache: str, *, timed_before: bool) -> Answer:
    """Run `cuprof ncu-collect` in a project of its own, after a sweep if asked; the sweep is not in the wall time."""
    project = copy_project(work / f"project-{'timed' if timed_before else 'new'}")
    environment = {"CUPROF_CACHE": str(work / cache)}
    if timed_before:
        sweep = [sys.executable, "-m", "cuprof", "sweep", "experiment=axpy", "report=none", "measure.modes=[cold]"]
        ended = run(sweep, work, folder=project, environment=environment)
        if ended.fault:
            return ended
    collect = [sys.executable, "-m", "cuprof", "ncu-collect", "experiment=axpy", "ncu=study"]
    ended = run(collect, work, folder=project, environment=environment)
    if ended.fault:
        return ended
    from cuprof.results.queries import query
    from cuprof.store.store import Store

    with Store.open(f"sqlite:///{project / 'db' / 'cuprof.sqlite'}", create=False, read_only=True) as store:
        counted = query(store.url, COUNT).iloc[0]
    return Answer(ended.wall_s, {"launches": int(counted["trials"]), "note": f"{counted['metrics']} metrics stored"})


def run_nsight(work: Path, cache: str) -> Answer:
    """Run nsight-python over the configurations."""
    environment = {"CUPROF_CACHE": str(work / cache)}
    answered = ask(
        "benchmarks.tools.space_nsight", work, "--metrics", ",".join(METRICS), environment=environment, limit_s=240
    )
    return Answer(answered.wall_s, {**answered.found, "note": answered.found.get("version", "")}, answered.fault)


def make_rows(answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
    """Return a row a tool; the ratio is to bare ncu with the kernels built in the same state."""
    rows: list[dict[str, Any]] = []
    for name, answered in answers.items():
        if answered.fault:
            rows.append({"tool": name, "note": f"no result: {answered.fault}"})
            continue
        bare = answers.get("ncu, bare" if "nothing built" not in name else "ncu, bare, nothing built")
        ratio = answered.wall_s / bare.wall_s if bare is not None and not bare.fault else None
        found = answered.found
        rows.append(
            {
                "tool": name,
                "wall s": answered.wall_s,
                "launches": found.get("launches"),
                "÷ bare ncu": ratio,
                "note": found.get("note", ""),
            }
        )
    return rows


def make_criteria(answers: Mapping[str, Answer]) -> dict[str, bool | None]:
    """Return what is asked, and whether it holds."""

    def wall(name: str) -> float | None:
        answered = answers.get(name)
        return None if answered is None or answered.fault else answered.wall_s

    ours, bare, nsight = wall("cuprof ncu-collect"), wall("ncu, bare"), wall("nsight-python")
    singles = wall("ncu, a process a trial")
    new, bare_new = wall("cuprof ncu-collect, nothing built"), wall("ncu, bare, nothing built")
    launches = answers["cuprof ncu-collect"].found.get("launches") if "cuprof ncu-collect" in answers else None
    return {
        f"cuprof stored counters of all {len(CONFIGURATIONS)} trials": (
            None if launches is None else launches == len(CONFIGURATIONS)
        ),
        "cuprof at most 1.2 × bare ncu": None if ours is None or bare is None else ours <= 1.2 * bare,
        "cuprof at most 1.2 × bare ncu, nothing built": (
            None if new is None or bare_new is None else new <= 1.2 * bare_new
        ),
        "cuprof faster than nsight-python": None if ours is None or nsight is None else ours < nsight,
        "cuprof at least 12 × faster than a process a trial": (
            None if ours is None or singles is None else 12 * ours <= singles
        ),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where every criterion holds."""
    parser = make_parser("four counters of 48 trials by four ways")
    parser.add_argument("--no-unbuilt", action="store_true", help="leave out the rows with nothing built before")
    arguments = parser.parse_args(argv)
    require_gpu()
    answers: dict[str, Answer] = {}
    with tempfile.TemporaryDirectory(prefix="cuprof-profilers-") as folder:
        work = Path(folder)
        ways: dict[str, Callable[[], Answer]] = {
            "ncu, bare, nothing built": lambda: run_bare(work, "cubins"),  # fills the cache of the rows after it
            "cuprof ncu-collect, nothing built": lambda: run_cuprof(work, "cubins-own", timed_before=False),
            "ncu, bare": lambda: run_bare(work, "cubins"),
            "cuprof ncu-collect": lambda: run_cuprof(work, "cubins", timed_before=True),
            "nsight-python": lambda: run_nsight(work, "cubins"),
            "ncu, a process a trial": lambda: run_singles(work, "cubins"),
        }
        if arguments.no_unbuilt:
            del ways["cuprof ncu-collect, nothing built"]
        for name, way in ways.items():
            answers[name] = way()
            print(f"{name}: {answers[name].fault or f'{answers[name].wall_s:.2f} s'}", file=sys.stderr, flush=True)
    return report("profilers", COLUMNS, make_rows(answers), arguments.out, make_criteria(answers))


if __name__ == "__main__":
    sys.exit(start(main))
