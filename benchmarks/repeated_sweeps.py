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
from pathlib import Path

import numpy as np

from cuprof.comparison import Entry, Options, Side, compare
from cuprof.comparison.stored import read_entries
from cuprof.core.records import Measure
from cuprof.results.sweeps import list_tried_sweeps
from cuprof.statistics import Verdict
from cuprof.store import Store

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


def read_repetitions(files: Iterable[str], without: str = "") -> dict[str, list[list[Entry]]]:
    """Return experiment → the timed trials of each of its sweeps.

    Args:
        files: SQLite databases.
        without: regular expression of variants to leave out.
    """
    found: dict[str, list[list[Entry]]] = defaultdict(list)
    for file in files:
        with Store.open(f"sqlite:///{file}", create=False, read_only=True) as store, store.snapshot() as connection:
            for sweep in list_tried_sweeps(connection):
                entries = [
                    entry
                    for entry in read_entries(connection, [sweep.id])
                    if entry.series and not (without and re.search(without, entry.variant))
                ]
                found[sweep.experiment or sweep.family].append(entries)
    return dict(found)


def false_differences(
    repetitions: Sequence[Sequence[Entry]], count: Count, options: Options | None = None
) -> list[list[str]]:
    """Return, of every pair of sweeps, the trials that are called slower or faster.

    Args:
        count: of the trials that stay as they are; which they are is drawn anew for each pair.
    """
    rng = np.random.default_rng(SEED)
    found = []
    for number, (base, new) in enumerate(itertools.combinations(repetitions, 2)):
        controls = set(rng.permutation(len(new))[: count(len(new))].tolist())
        # A copied database would be one measurement on both sides, so neither side says which run it is.
        bases = [entry._replace(run="") for entry in base]
        news = [
            entry._replace(run="", identity=entry.identity if place in controls else f"{entry.identity} changed")
            for place, entry in enumerate(new)
        ]
        rows = compare(_side(f"base {number}", bases), _side(f"new {number}", news), options).rows
        found.append([row.label for row in rows if row.verdict in DIFFERENT])
    return found


def _side(text: str, entries: Sequence[Entry]) -> Side:
    return Side(text, "sweep", text, entries)


def recorded_medians(repetitions: Mapping[str, Sequence[Sequence[Entry]]]) -> dict[str, dict[str, dict[str, object]]]:
    """Return experiment → trial → the kind of its times and the cold median in ns of each of its sweeps."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for experiment, sweeps in repetitions.items():
        first = {entry.label: entry for entry in reversed(list(itertools.chain(*sweeps)))}
        found[experiment] = {
            label: {
                "backend": entry.backend,
                "several_launches": entry.several_launches,
                "cold_ns": [
                    round(each.series[Measure.COLD].median_ns)
                    for sweep in sweeps
                    for each in sweep
                    if each.label == label
                ],
            }
            for label, entry in reversed(first.items())
        }
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
