"""Searches on a GPU beside running everything: how near to the best they come in a tenth of the time.

    python -m benchmarks.search_gpu axpy convolution triton_matmul --out FOLDER

Each space is run as a whole once, which takes minutes, and is kept as a table that `benchmarks.search` reads too. Ten
seeds are replayed on it, of cuprof's default strategy and, where it is installed, of Kernel Tuner's best one; two
searches run on the GPU itself: their budget is for trying alone, `wall_s` has their start and their last comparison
too. Each configuration found is worth the time that the whole run measured.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.gpu import require_gpu
from benchmarks.process import Answer, run
from benchmarks.recorded_spaces import RecordedSpace, read_space
from benchmarks.search import search
from benchmarks.space import copy_project
from benchmarks.table import Row, make_parser, report, start
from benchmarks.tools.search_kernel_tuner import Tuner, list_strategies
from cuprof.reading.queries import query
from cuprof.search.registry import DEFAULT
from cuprof.search.space import Space

COLUMNS = ("space", "search", "configurations", "wall_s", "share", "over_best", "found")
SHARE, WITHIN, LEVEL, SEEDS, LIVE = 0.1, 0.02, 0.01, 10, 2
OURS, THEIRS = f"cuprof's {DEFAULT}", "simulated_annealing"
QUICK = ("measure=quick", "measure.modes=[cold]", "measure.energy=false", "report=none")
TRIALS = """
SELECT t.tunables, r.state, r.job, g.median_ns,
    10000000 + COALESCE(r.build_ns, 0) + COALESCE(g.sample_count * g.mean_ns, 0) AS cost_ns
FROM run AS r JOIN trial AS t ON t.id = r.trial_id LEFT JOIN timing AS g ON g.run_id = r.id ORDER BY r.id
"""


@dataclass(frozen=True)
class Case:
    """A family of the benchmarks' project, made wide.

    Args:
        tunables: all of whose values are tried.
        edits: file → text in it → what takes its place.
    """

    tunables: tuple[str, ...]
    settings: tuple[str, ...]
    edits: Mapping[str, Mapping[str, str]]


CASES = {
    "axpy": Case(
        ("block", "per_thread"),
        ("problem.n=2**22",),
        {
            "family.py": {
                "BLOCKS = (32, 64, 128, 256, 512, 1024)": "BLOCKS = tuple(range(32, 1025, 32))",
                "PER_THREAD = (1, 2, 4, 8, 16, 32, 64, 128)": "PER_THREAD = tuple(range(1, 65))",
            }
        },
    ),
    "convolution": Case(
        ("block_x", "block_y", "tile_x", "tile_y", "shared", "padding", "read_only", "unroll"), ("problem.n=1024",), {}
    ),
    "triton_matmul": Case(
        ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"),
        ("problem.n=1024", "variants=every"),
        {
            "matmul.py": {
                "for m in (64, 128)": "for m in (16, 32, 64, 128, 256)",
                "for n in (64, 128, 256)": "for n in (16, 32, 64, 128, 256)",
                "for k in (32, 64)": "for k in (16, 32, 64, 128)",
                "for warps in (4, 8)": "for warps in (1, 2, 4, 8)",
                "for stages in (3, 4)": "for stages in (1, 2, 3, 4, 5)",
                "CONFIGS.append(": "(",
            }
        },
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the spaces asked for; see the module's docstring."""
    parser = make_parser((__doc__ or "").partition("\n")[0])
    parser.add_argument("spaces", nargs="*", default=list(CASES), choices=[*CASES, []], help="default: all")
    parser.add_argument("--live", type=int, default=LIVE, help="searches on the GPU itself (default: %(default)s)")
    options = parser.parse_args(arguments)
    require_gpu()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.spaces:
            rows += measure_space(name, CASES[name], Path(folder, name), options.out, options.live)
    return report("search_gpu", COLUMNS, rows, options.out, criteria(rows))


def measure_space(name: str, case: Case, work: Path, out: Path, live: int) -> list[Row]:
    """Run a space as a whole, replay searches on it, and run some more on the GPU.

    Args:
        out: where the table of the whole space goes.
    """
    project = copy_project(work / "project")
    for file, edits in case.edits.items():
        path = project / "kernels" / name / file
        text = path.read_text()
        for old, new in edits.items():
            text = text.replace(old, new)
        path.write_text(text)
    sweep = partial(_sweep, project, (f"family={name}", *case.settings, *(f"tune.{one}=all" for one in case.tunables)))
    whole = sweep("whole", ())
    recorded = record(_database(work, "whole"), whole.wall_s, out / f"{name}.csv", case.tunables)
    rows = [_row(name, "everything", len(recorded.times), whole.wall_s, whole.wall_s, recorded, recorded.optimum)]
    print(f"{name}: {len(recorded.times)} configurations in {whole.wall_s:.1f} s {whole.fault}", file=sys.stderr)
    rows += replay(name, replace(recorded, limit_s=SHARE * whole.wall_s), whole.wall_s)
    for seed in range(live):
        own = sweep(
            f"seed{seed}", ("search=surrogate", f"search.budget={SHARE * whole.wall_s:.1f}s", f"search.seed={seed}")
        )
        tried = query(_database(work, f"seed{seed}"), TRIALS)
        place = recorded.configurations.index(_configuration(find_answer(tried), case.tunables))
        count, found_ms = tried.tunables.nunique(), recorded.times[place]
        rows.append(_row(name, f"on the GPU {seed}", count, own.wall_s, whole.wall_s, recorded, found_ms))
    return rows


def replay(name: str, recorded: RecordedSpace, whole_s: float) -> list[Row]:
    """Return a row for each seed and strategy."""
    space = Space(recorded.configurations, supposed=recorded.suppose("cuda"))
    strategies = {OURS: partial(search, recorded, space, DEFAULT)}
    if THEIRS in list_strategies():
        strategies[f"Kernel Tuner's {THEIRS}"] = partial(Tuner(recorded).search, THEIRS)
    rows = []
    for strategy, find in strategies.items():
        for seed in range(SEEDS):
            asked = np.array(find(seed))
            spent_s, best = float(recorded.costs[asked].sum()), float(np.nanmin(recorded.times[asked]))
            rows.append(_row(name, strategy, asked.size, spent_s, whole_s, recorded, best))
    return rows


def _sweep(project: Path, selection: tuple[str, ...], name: str, settings: tuple[str, ...]) -> Answer:
    """Run a sweep with a database and caches of its own."""
    work = project.parent
    caches = {"CUPROF_CACHE": str(work / f"{name}.cubin"), "TRITON_CACHE_DIR": str(work / f"{name}.triton")}
    command = [
        sys.executable,
        "-m",
        "cuprof",
        "sweep",
        *selection,
        *settings,
        *QUICK,
        f"store.url={_database(work, name)}",
    ]
    answer = run(command, work, folder=project, environment=caches, limit_s=900, accept=(0, 1))
    if answer.fault:
        print(f"{name}: {answer.fault}", file=sys.stderr)
    return answer


def _database(work: Path, name: str) -> str:
    return f"sqlite:///{work / name}.sqlite"


def _configuration(text: str, tunables: Sequence[str]) -> dict[str, int]:
    given = json.loads(text)
    return {name: given[name] for name in tunables}


def find_answer(tried: pd.DataFrame) -> str:
    """Return the tunables that a search ends with: the best of its last job; of single looks the luckiest would be."""
    last = tried[(tried.job == tried.job.iloc[-1]) & (tried.state == "ok")]
    return str(last.sort_values("median_ns").tunables.iloc[0])


def record(url: str, wall_s: float, path: Path, tunables: Sequence[str]) -> RecordedSpace:
    """Write what a sweep found as a table, and return it; each configuration has its share of the whole time.

    Shares are as what the engine tells its strategies: a run's own duration begins with its job, so it is no cost.
    """
    found = query(url, TRIALS)
    costs_s = found.cost_ns / found.cost_ns.sum() * wall_s
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*tunables, "time_ms", "cost_s"])
        writer.writeheader()
        for trial, cost_s in zip(found.itertuples(), costs_s, strict=True):
            time_ms = trial.median_ns * 1e-6 if trial.state == "ok" else ""
            writer.writerow({**_configuration(trial.tunables, tunables), "time_ms": time_ms, "cost_s": cost_s})
    return read_space(path)


def _row(
    name: str, kind: str, tried: int, wall_s: float, whole_s: float, recorded: RecordedSpace, found_ms: float
) -> Row:
    return {
        "space": name,
        "search": kind,
        "configurations": tried,
        "wall_s": wall_s,
        "share": wall_s / whole_s,
        "over_best": found_ms / recorded.optimum - 1,
        "found": f"{found_ms * 1e3:.2f} µs",
    }


def criteria(rows: Sequence[Row]) -> dict[str, bool | None]:
    """Return what is asked of the searches, and whether it holds."""
    asked: dict[str, bool | None] = {}
    for space in dict.fromkeys(row["space"] for row in rows):
        own = [row for row in rows if row["space"] == space]
        ours, theirs = ([row["over_best"] for row in own if tool in row["search"]] for tool in (OURS, THEIRS))
        asked[f"{space}: at least 2,000 configurations"] = own[0]["configurations"] >= 2000
        asked[f"{space}: within {WITHIN:.0%} in {SHARE:.0%} of the time, median of {SEEDS}"] = np.median(ours) <= WITHIN
        level = np.median(ours) <= np.median(theirs) + LEVEL if theirs else None
        asked[f"{space}: no worse than Kernel Tuner"] = level
    return asked


if __name__ == "__main__":
    sys.exit(start(main))
