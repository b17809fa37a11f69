"""Simulate search strategies on recorded spaces: cuprof's and, where it is installed, Kernel Tuner's at its defaults.

No GPU is needed. Each repetition has the budget in which random search is expected to come 95 % of the way from the
median to the optimum; `benchmarks/recorded_spaces.py` says how the score comes about. A long run may be cut into pieces
by seeds, spaces and strategies, each with a file of its own (`--keep`); the files one after another are the whole.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.recorded_spaces import NoSpaceError, RecordedSpace, find_spaces, name_space, read_space
from benchmarks.table import Row, make_parser, report, start
from benchmarks.tools.search_kernel_tuner import SLOWEST, Tuner, list_strategies
from cuprof.backends.registry import list_backends
from cuprof.core.errors import UsageError
from cuprof.search.registry import DEFAULT, STRATEGIES, make_strategy
from cuprof.search.space import Space

OURS, THEIRS = "cuprof", "Kernel Tuner"
LEAST_MEAN, LEAST_SINGLE, MOST_MS = 0.75, 0.4, 10.0
CONFIDENCE = 0.95
LEAST_COST_S = 1e-6
"""What a search is told that a configuration has cost of which no time was recorded; costs are positive."""


@dataclass(frozen=True)
class Contender:
    """One strategy of one tool."""

    tool: str
    name: str


Task = tuple[Contender, Path, int, str | None]


@dataclass(frozen=True)
class Repetition:
    """What one strategy made of one space with one seed.

    Args:
        score: mean over the budget.
        own_ms: the strategy's own time for each configuration that it tried.
    """

    tool: str
    strategy: str
    space: str
    seed: int
    score: float
    tried: int
    own_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; see the module's docstring. Return 1 where a criterion fails."""
    options = _parse(argv)
    paths = [path for place in options.spaces for path in find_spaces(place)]
    if not paths:
        places = ", ".join(map(str, options.spaces))
        print(f"no space in {places}: it holds no .csv, .csv.gz, .json or .json.gz", file=sys.stderr)
        return 2
    by_name = {name_space(path): path for path in paths}
    if same := next((path for path in paths if by_name[name_space(path)] != path), None):
        print(f"{same} and {by_name[name_space(same)]} have the same name, by which a space is told", file=sys.stderr)
        return 2
    contenders = [Contender(OURS, name) for name in options.strategies]
    theirs = list_strategies() if options.kernel_tuner is None else options.kernel_tuner
    contenders += [Contender(THEIRS, name) for name in theirs]
    repetitions = _read_kept(options.keep) if options.keep else []
    done = {(each.tool, each.strategy, each.space, each.seed) for each in repetitions}
    tasks = [
        (each, path, seed, options.backend)
        for each in contenders
        for path in paths
        for seed in options.seeds
        if (each.tool, each.name, name_space(path), seed) not in done
    ]
    tasks.sort(key=lambda task: (task[0].name in SLOWEST, task[2]))
    try:
        repetitions += _run(tasks, options)
    except NoSpaceError as error:
        print(error, file=sys.stderr)
        return 2
    rows = summarise(repetitions)
    return report(
        "search",
        ["tool", "strategy", "space", "score", "low", "high", "tried", "own_ms", "seeds"],
        rows,
        options.out,
        criteria(rows),
    )


def _run(tasks: Sequence[Task], options: argparse.Namespace) -> list[Repetition]:
    """Return what is done by the end of the time, kept as it comes where that is asked for."""
    ends = time.monotonic() + options.seconds
    done: list[Repetition] = []
    with get_context("spawn").Pool(options.processes) if options.processes != 1 else nullcontext() as pool:
        for repetition in pool.imap_unordered(repeat, tasks) if pool else map(repeat, tasks):
            done.append(repetition)
            if options.keep:
                with options.keep.open("a") as file:
                    file.write(json.dumps(asdict(repetition)) + "\n")
            if time.monotonic() > ends:
                break
    return done


def _read_kept(path: Path) -> list[Repetition]:
    """Return what earlier pieces have left in a file, each repetition once.

    Raises:
        UsageError: the file cannot be added to, or holds something else.
    """
    try:
        with path.open("a+") as file:
            file.seek(0)
            lines = file.read().splitlines()
    except OSError as error:
        raise UsageError(f"--keep: {path} cannot be added to: {error.strerror}") from error
    repetitions: dict[str, Repetition] = {}
    for number, line in enumerate(lines, 1):
        try:
            repetitions[line] = Repetition(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"--keep: line {number} of {path} is no repetition, as where a piece was ended in writing; delete it"
            ) from error
    return [*repetitions.values()]


def _seeds(text: str) -> range:
    first, colon, end = text.rpartition(":")
    seeds = range(int(first or 0) if colon else 0, int(end))
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text} is no seed at all; give 10, or 5:10")
    return seeds


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser((__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--spaces", type=Path, nargs="+", required=True,
        help="tables, Kernel Tuner's caches, T4 files, or folders of them",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=_seeds, default=range(50), metavar="N or A:B",
        help="repetitions a strategy and space, or those from A to before B (default: 50)",
    )  # fmt: skip
    parser.add_argument(
        "--strategies", nargs="*", default=[name for name in STRATEGIES if name != "optuna"], choices=STRATEGIES,
        help="of cuprof's; optuna must be asked for (default: all others)",
    )  # fmt: skip
    parser.add_argument(
        "--kernel-tuner", nargs="*", metavar="NAME",
        help="of Kernel Tuner's; none where no name follows (default: all, where it is installed)",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=Path, metavar="FILE",
        help="add each repetition to this file, a line of JSON; what stands in it already is not run again, and counts",
    )  # fmt: skip
    parser.add_argument(
        "--backend", choices=list_backends(),
        help="of the devices that were recorded, whose knowledge a search begins with (default: cuda or opencl, where "
        "the device that a cache of Kernel Tuner names, or else the file's name, is one of NVIDIA's or AMD's)",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, default=None, help="at a time (default: one a processor)")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"),
        help="stop by then, with as many repetitions as are done (default: go on to the end)",
    )  # fmt: skip
    return parser.parse_args(argv)


def repeat(task: Task) -> Repetition:
    """Search one recorded space once."""
    contender, path, seed, backend = task
    recorded = _read(path)
    space = _space(path, backend)
    began = time.process_time()
    asked = (
        search(recorded, space, contender.name, seed)
        if contender.tool == OURS
        else _tuner(path).search(contender.name, seed)
    )
    own_ms = (time.process_time() - began) * 1e3 / max(1, len(asked))
    score = float(recorded.score_curve(asked).mean())
    return Repetition(contender.tool, contender.name, recorded.name, seed, score, len(asked), own_ms)


def search(recorded: RecordedSpace, space: Space, strategy_name: str, seed: int) -> list[int]:
    """Return the configurations that one of cuprof's strategies tries within the budget, in order."""
    strategy = make_strategy(strategy_name, space, seed)
    asked: list[int] = []
    spent_s = 0.0
    while spent_s < recorded.budget_s and (found := strategy.ask()):
        (index,) = found
        asked.append(index)
        spent_s += float(recorded.costs[index])
        strategy.tell(index, float(recorded.times[index]), max(float(recorded.costs[index]), LEAST_COST_S))
    return asked


@cache
def _read(path: Path) -> RecordedSpace:
    return read_space(path)


@cache
def _space(path: Path, backend: str | None) -> Space:
    recorded = _read(path)
    return Space(recorded.configurations, supposed=recorded.suppose(backend or recorded.backend))


@cache
def _tuner(path: Path) -> Tuner:
    return Tuner(_read(path))


def summarise(repetitions: Sequence[Repetition]) -> list[Row]:
    """Return a row for each strategy and space, and one for each strategy's mean of all spaces, the best first."""
    spaces = sorted({each.space for each in repetitions})
    rows: list[Row] = []
    for contender in dict.fromkeys(Contender(each.tool, each.strategy) for each in repetitions):
        own = [each for each in repetitions if (each.tool, each.strategy) == (contender.tool, contender.name)]
        by_space = [[each for each in own if each.space == space] for space in spaces]
        if not all(by_space):
            continue  # stopped before it was done
        cells = [np.array([each.score for each in of_space]) for of_space in by_space]
        rows += [
            _row(contender, space, of_space, score.mean(), _error(score))
            for space, of_space, score in zip(spaces, by_space, cells, strict=True)
        ]
        error = float(np.sqrt(sum(_error(score) ** 2 for score in cells))) / len(cells)
        rows.append(_row(contender, "all", own, float(np.mean([score.mean() for score in cells])), error))
    best = {(row["tool"], row["strategy"]): row["score"] for row in rows if row["space"] == "all"}
    return sorted(rows, key=lambda row: (-best[row["tool"], row["strategy"]], row["space"] == "all", row["space"]))


def _error(scores: np.ndarray) -> float:
    return float(scores.std(ddof=1) / np.sqrt(scores.size)) if scores.size > 1 else float("nan")


def _row(contender: Contender, space: str, own: Sequence[Repetition], score: float, error: float) -> Row:
    seeds = min(Counter(each.space for each in own).values())
    reach = float(student.ppf((1 + CONFIDENCE) / 2, max(1, seeds - 1))) * error
    return {
        "tool": contender.tool,
        "strategy": contender.name,
        "space": space,
        "score": score,
        "low": score - reach,
        "high": score + reach,
        "tried": float(np.mean([each.tried for each in own])),
        "own_ms": float(np.mean([each.own_ms for each in own])),
        "seeds": seeds,
    }


def criteria(rows: Sequence[Row]) -> dict[str, bool | None]:
    """Return what is asked of the default strategy, and whether it holds; None where it cannot be told."""
    ours = [row for row in rows if (row["tool"], row["strategy"]) == (OURS, DEFAULT)]
    overall = next((row for row in ours if row["space"] == "all"), None)
    theirs = [row for row in rows if row["tool"] == THEIRS and row["space"] == "all"]
    if overall is None:
        return {}
    return {
        f"mean score at least {LEAST_MEAN}": overall["score"] >= LEAST_MEAN,
        f"no space below {LEAST_SINGLE}": min(row["score"] for row in ours) >= LEAST_SINGLE,
        f"under {MOST_MS:g} ms a proposal": max(row["own_ms"] for row in ours) < MOST_MS,
        "above every default of Kernel Tuner, intervals apart": (
            all(overall["low"] > row["high"] for row in theirs) if theirs else None
        ),
    }


if __name__ == "__main__":
    sys.exit(start(main))
