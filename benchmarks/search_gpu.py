"""Searches on a GPU beside running everything: how near to the best they come in a tenth of the time.

    python -m benchmarks.search_gpu axpy convolution triton_matmul --out FOLDER
    python -m benchmarks.search_gpu axpy --whole FOLDER --live 5 --keep DATABASES

Each space is run as a whole once, which takes minutes, and is kept as a table that `benchmarks.search` reads too; the
second line takes it from there, on the same device. Ten seeds are replayed on it in a tenth of its time, of cuprof's
default strategy and, where it is installed, of Kernel Tuner's best one. Two searches run on the GPU itself, the start
of their processes within that tenth: their budget, last comparison included, is smaller by that.

The table's times are single readings, and the least of thousands is the luckiest. So all that was found, and the best
readings, are measured side by side at the end, to a quarter of a percent. By this truth, and by the rule of `cuprof
compare`, each configuration found is rated.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.gpu import require_gpu
from benchmarks.recorded_spaces import RecordedSpace, read_space
from benchmarks.search import search
from benchmarks.space import copy_project
from benchmarks.table import Row, make_parser, report, start
from benchmarks.tools.search_kernel_tuner import Tuner, list_strategies
from benchmarks.wide_project import CASES, Project
from cuprof.comparison.compare import compare
from cuprof.comparison.sides import Finder, Side
from cuprof.comparison.trials import each, ending_of
from cuprof.core.errors import CuprofError, UsageError
from cuprof.core.point import Coordinate, Point
from cuprof.results.queries import query
from cuprof.search.registry import DEFAULT
from cuprof.search.space import Space
from cuprof.statistics.verdict import Verdict

COLUMNS = ("space", "search", "configurations", "wall_s", "share", "budget", "over_best", "found")
SHARE, WITHIN, SEEDS, LIVE, BEST = 0.1, 0.02, 10, 2, 10
START_S, LEAST_BUDGET = 3.0, 0.5
"""What the start and the end of a search's process take at most, or nearly so; of a tenth that is hardly longer, so
much is its budget, and the search takes more than a tenth."""
EVERYTHING, OURS, THEIRS, ON_GPU = "everything", f"cuprof's {DEFAULT}", "simulated_annealing", "on the GPU"
TRUTH = ("measure.target=0.0025", "measure.max_seconds=2")
TRIALS = """
SELECT t.tunables, r.state, r.job, g.median_ns,
    10000000 + COALESCE(r.build_ns, 0) + COALESCE(g.sample_count * g.mean_ns, 0) AS cost_ns
FROM run AS r JOIN trial AS t ON t.id = r.trial_id LEFT JOIN timing AS g ON g.run_id = r.id ORDER BY r.id
"""


Truth = Mapping[Point, Side]
"""Those configurations that were measured side by side and are right."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the spaces asked for; see the module's docstring."""
    parser = make_parser((__doc__ or "").partition("\n")[0])
    parser.add_argument("spaces", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--live", type=int, default=LIVE, help="searches on the GPU itself (default: %(default)s)")
    parser.add_argument("--whole", type=Path, metavar="FOLDER", help="take the tables that an earlier --out has")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the databases there (default: nowhere)")
    options = parser.parse_args(arguments)
    spaces = list(dict.fromkeys(options.spaces or CASES))
    tables = {name: read_table(options.whole, name) for name in spaces} if options.whole else {}
    for name in spaces:
        if options.keep and (options.keep / name).exists():
            raise UsageError(f"--keep: there is {options.keep / name} of another run already; name another folder")
    require_gpu()
    rows: list[Row] = []
    asked: dict[str, bool | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in spaces:
            project = Project(name, copy_project(Path(folder, name, "project")), (options.keep or Path(folder)) / name)
            project.widen()
            found, truth = measure_space(project, tables.get(name) or run_whole(project, options.out), options.live)
            rated = rate(found, truth)
            asked |= criteria(rated, truth)
            rows += rated
    return report("search_gpu", COLUMNS, rows, options.out, asked)


def read_table(folder: Path, name: str) -> RecordedSpace:
    """Return what an earlier run left of a space.

    Raises:
        UsageError: it is not there, or of something else.
    """
    try:
        recorded = read_space(folder / f"{name}.csv")
    except (OSError, ValueError) as error:
        raise UsageError(f"--whole has no table of {name}: {error}; without it, one is made in --out") from None
    if {*recorded.configurations[0]} != {*CASES[name].tunables}:
        raise UsageError(f"{folder / name}.csv has other tunables than {', '.join(CASES[name].tunables)}")
    return recorded


def run_whole(project: Project, out: Path) -> RecordedSpace:
    """Run a space as a whole, and return its table, which `out` has too."""
    whole = project.sweep("whole")
    print(f"{project.family}: everything in {whole.wall_s:.1f} s {whole.fault}", file=sys.stderr)
    return record(project.locate("whole"), whole.wall_s, out / f"{project.family}.csv", project.case.tunables)


def measure_space(project: Project, recorded: RecordedSpace, live: int) -> tuple[list[Row], Truth]:
    """Replay searches, run some more on the GPU, and measure what they found side by side with the best readings."""
    name, whole_s = project.family, float(recorded.costs.sum())
    rows = [_row(name, EVERYTHING, len(recorded.times), whole_s, whole_s, whole_s)]
    rows += replay(name, replace(recorded, limit_s=SHARE * whole_s), whole_s)
    rows += [search_live(project, seed, whole_s) for seed in range(live)]
    best = np.argsort(recorded.times)[: min(BEST, recorded.ascending.size)]
    chosen = [*(Point(recorded.configurations[place]) for place in best), *(row["configuration"] for row in rows)]
    return rows, measure_truth(project, [*filter(None, dict.fromkeys(chosen))])


def search_live(project: Project, seed: int, whole_s: float) -> Row:
    """Return the row of a search on the GPU, without a configuration where it failed."""
    name, all_s = f"{ON_GPU} {seed}", SHARE * whole_s
    budget_s = max(all_s - START_S, LEAST_BUDGET * all_s)
    settings = (f"search={DEFAULT}", f"search.budget={budget_s:.1f}s", f"search.seed={seed}")
    own = project.sweep(f"seed{seed}", *settings)
    if own.fault:
        print(f"{project.family}, {name}: {own.fault}", file=sys.stderr)
        return _row(project.family, name, 0, own.wall_s, budget_s, whole_s)
    tried = query(project.locate(f"seed{seed}"), TRIALS)
    found = Point(_configuration(json.loads(find_answer(tried)), project.case.tunables))
    return _row(project.family, name, tried.tunables.nunique(), own.wall_s, budget_s, whole_s, found)


def measure_truth(project: Project, chosen: Sequence[Point]) -> Truth:
    """Measure configurations in one rotation; where some have no time, a line says why."""
    project.restrict(chosen)
    why = project.sweep("truth", *TRUTH, f"measure.rotation={len(chosen)}").fault
    truth: dict[Point, Side] = {}
    try:
        side = Finder(project.locate("truth")).find("latest")
        for trial in each(side.trials[side.trials["measure"] == "cold"]):
            configuration = Point(_configuration(trial.tunables, project.case.tunables))
            truth[configuration] = replace(side, kind="variant", trials=side.trials.loc[[trial.Index]])
        untimed = each(side.trials[side.trials["measure"] == ""])
        why = why or next(map(ending_of, untimed), "")
    except CuprofError as error:
        why = why or str(error)
    if lacking := sum(one not in truth for one in chosen):
        why = why or "not run"
        print(f"{project.family}: side by side, {lacking} of {len(chosen)} have no time: {why}", file=sys.stderr)
    return truth


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
            spent_s, best = float(recorded.costs[asked].sum()), asked[np.nanargmin(recorded.times[asked])]
            found = Point(recorded.configurations[best])
            rows.append(_row(name, strategy, asked.size, spent_s, spent_s, whole_s, found))
    return rows


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
            writer.writerow(
                {**_configuration(json.loads(trial.tunables), tunables), "time_ms": time_ms, "cost_s": cost_s}
            )
    return read_space(path)


def _configuration(tunables: Mapping[str, Coordinate], names: Sequence[str]) -> dict[str, Coordinate]:
    return {name: tunables[name] for name in names}


def _row(
    space: str, kind: str, tried: int, wall_s: float, budget_s: float, whole_s: float, found: Point | None = None
) -> Row:
    return {
        "space": space,
        "search": kind,
        "configurations": tried,
        "wall_s": wall_s,
        "share": wall_s / whole_s,
        "budget": budget_s / whole_s,
        "configuration": found,
    }


def rate(rows: Sequence[Row], truth: Truth) -> list[Row]:
    """Return rows with the time of what was found, where it has one, and how far that is over the best."""
    times = {configuration: float(side.trials["median_ns"].iloc[0]) for configuration, side in truth.items()}
    best = min(times, key=times.__getitem__, default=None)
    rated: list[Row] = []
    for row in rows:
        found = best if row["search"] == EVERYTHING else row["configuration"]
        ns = times.get(found)
        excess, text = (ns / min(times.values()) - 1, f"{ns / 1e3:.2f} µs") if ns else (None, None)
        rated.append({**row, "configuration": found, "over_best": excess, "found": text})
    return rated


def judge(truth: Truth, base: Row, new: Row) -> Verdict | None:
    """Return what `cuprof compare` says of what two searches found; one and the same configuration is level."""
    sides = [truth[row["configuration"]] for row in (base, new) if row["configuration"] in truth]
    if len(sides) < 2:
        return None
    rows = compare(*sides).rows
    return Verdict(rows["verdict"].iloc[0]) if len(rows) else Verdict.SAME


def pick_median(rows: Sequence[Row]) -> Row:
    """Return the row in the middle, the worse one of two; one of nothing where any has no time."""
    if not rows or any(row["over_best"] is None for row in rows):
        return {"configuration": None, "over_best": None}
    return sorted(rows, key=lambda row: row["over_best"])[len(rows) // 2]


def criteria(rows: Sequence[Row], truth: Truth) -> dict[str, bool | None]:
    """Return what is asked of the searches of a space, and whether it holds; print how they compare seed by seed."""
    space = rows[0]["space"]
    ours, theirs, live = ([row for row in rows if kind in row["search"]] for kind in (OURS, THEIRS, ON_GPU))
    if theirs:
        pairs = Counter(judge(truth, *pair) or "not told" for pair in zip(theirs, ours, strict=True))
        words = (each for each in Verdict if each is not Verdict.SAME_CODE)  # of samples alone nobody knows that
        counts = ", ".join(f"{pairs[each]} {each}" for each in (*words, "not told"))
        print(f"{space}: seed by seed, what ours found beside Kernel Tuner's: {counts}")
    asked: dict[str, bool | None] = {f"{space}: at least 2,000 configurations": rows[0]["configurations"] >= 2000}
    near = {f"{space}: within {WITHIN:.0%} in {SHARE:.0%} of the time, median of {SEEDS}": ours}
    if live:
        near[f"{space}: {ON_GPU} within {WITHIN:.0%}, median of {len(live)}"] = live
    for text, of in near.items():
        excess = pick_median(of)["over_best"]
        asked[text] = None if excess is None else excess <= WITHIN
    if live:
        shares = sorted(row["share"] for row in live)
        asked[f"{space}: {ON_GPU} in {SHARE:.0%} of the time, median of {len(live)}"] = (
            shares[len(shares) // 2] <= SHARE
        )
    verdict = judge(truth, pick_median(theirs), pick_median(ours))
    asked[f"{space}: no worse than Kernel Tuner"] = None if verdict is None else verdict is not Verdict.SLOWER
    return asked


if __name__ == "__main__":
    sys.exit(start(main))
