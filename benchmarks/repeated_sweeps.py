"""Compare repetitions of one sweep, in which nothing has changed, and count how often a trial is called different.

Every pair of sweeps of one experiment is compared, each trial as if its source had changed. So every difference is a
false one; at most 5 % of the comparisons may hold one. Then some of the trials are left unchanged, as controls from
which the noise is estimated.

    cuprof sweep experiment=reduction retry=all      # several times, then
    python -m benchmarks.repeated_sweeps db/runs.sqlite --without cudnn
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from cuprof.comparison.compare import Options, compare, row_label
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import Stored, each, label_of, read_trials
from cuprof.results.read import read_results
from cuprof.results.sweeps import list_tried_sweeps
from cuprof.statistics.verdict import Verdict
from cuprof.store.store import Store

SEED = 1
DIFFERENT = (Verdict.SLOWER, Verdict.FASTER)

Count = Callable[[int], int]
"""Number of trials → how many of them are controls."""

CONTROLS: dict[str, Count] = {
    "none": lambda trials: 0,
    "3": lambda trials: min(3, trials),
    "half": lambda trials: trials // 2,
    "all": lambda trials: trials,
}


def read_repetitions(files: Iterable[str], without: str = "") -> dict[str, list[Side]]:
    """Return experiment → the timed trials of each of its sweeps.

    Args:
        files: SQLite databases.
        without: regular expression of variants to leave out.
    """
    found: dict[str, list[Side]] = defaultdict(list)
    for file in files:
        with Store.open(f"sqlite:///{file}", create=False, read_only=True) as store, store.snapshot() as connection:
            for sweep in list_tried_sweeps(connection):
                trials = read_trials(connection, read_results(connection, [sweep.id]))
                is_out = trials["variant"].map(lambda name: bool(without and re.search(without, name)))
                timed = trials[(trials["measure"] != "") & ~is_out]
                side = Side(str(sweep.id), "sweep", str(sweep.id), timed, Stored(connection.engine))
                found[sweep.experiment or sweep.family].append(side)
    return dict(found)


def false_differences(repetitions: Sequence[Side], count: Count, options: Options | None = None) -> list[list[str]]:
    """Return, of every pair of sweeps, the trials that are called slower or faster.

    Args:
        count: of the trials that stay as they are; which they are is drawn anew for each pair.
    """
    rng = np.random.default_rng(SEED)
    found = []
    for number, (base, new) in enumerate(itertools.combinations(repetitions, 2)):
        trials = new.trials["trial"].unique()
        controls = trials[rng.permutation(trials.size)[: count(trials.size)]]
        # A copied database would be one measurement on both sides, so neither side says which run it is.
        bases, news = (side.trials.assign(run_id=0) for side in (base, new))
        news["identity"] = news["identity"].where(news["trial"].isin(controls), news["identity"] + " changed")
        sides = [
            replace(side, description=f"{name} {number}", trials=trials)
            for name, side, trials in (("base", base, bases), ("new", new, news))
        ]
        rows = compare(sides[0], sides[1], options).rows
        found.append([row_label(row) for row in each(rows[rows["verdict"].isin(DIFFERENT)])])
    return found


def recorded_medians(repetitions: Mapping[str, Sequence[Side]]) -> dict[str, dict[str, dict[str, object]]]:
    """Return experiment → trial → the kind of its times and the cold median in ns of each of its sweeps."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for experiment, sweeps in repetitions.items():
        of_trial = found.setdefault(experiment, {})
        for trial in (trial for side in sweeps for trial in each(side.trials[side.trials["measure"] == "cold"])):
            facts: dict[str, object] = {"backend": trial.backend, "several_launches": trial.batch > 1, "cold_ns": []}
            cold_ns = of_trial.setdefault(label_of(trial), facts)["cold_ns"]
            cast(list[int], cold_ns).append(round(trial.median_ns))
    return found


def main() -> None:
    """Print how often any trial of a comparison is called different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("databases", metavar="DATABASE", nargs="+", help="SQLite file with repeated sweeps")
    parser.add_argument("--without", default="", metavar="PATTERN", help="leave these variants out")
    parser.add_argument("--medians", type=Path, metavar="FILE", help="write the cold medians as JSON too")
    arguments = parser.parse_args()
    repetitions = read_repetitions(arguments.databases, arguments.without)
    if arguments.medians:
        arguments.medians.write_text(json.dumps(recorded_medians(repetitions), ensure_ascii=False), encoding="utf-8")
    print("| experiment | pairs of sweeps | " + " | ".join(f"controls: {name}" for name in CONTROLS) + " |")
    print("|---|---:|" + "---:|" * len(CONTROLS))
    blamed: Counter[str] = Counter()
    for experiment, sweeps in repetitions.items():
        results = {name: false_differences(sweeps, count) for name, count in CONTROLS.items()}
        blamed.update(label for label in itertools.chain(*results["none"]))
        shares = [f"{sum(map(bool, found))}" for found in results.values()]
        print(f"| {experiment} | {len(results['none'])} | " + " | ".join(shares) + " |", flush=True)
    for label, times in blamed.most_common():
        print(f"called different without controls: {times} times {label}")


if __name__ == "__main__":
    main()
