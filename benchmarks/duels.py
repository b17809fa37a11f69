"""How often the last comparison of a search names the true best of four configurations within 0.3 %.

    python -m benchmarks.duels --out FOLDER

A duel is the final comparison that ends every search. Its candidates are one kernel that reads memory and then waits,
by the device's clock, for as long as each configuration says. So the best is known: four candidates lie within 0.3 % of
one another, two more are 2 and 5 % slower. A duel is right if it names the true best, or a winner level with it.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.aa_ab import RESOLUTION_NS, cold_timing
from benchmarks.gpu import require_gpu
from benchmarks.space import PROJECT
from benchmarks.table import make_parser, report, start
from cuprof.config.model import CheckConfig, LimitsConfig, MeasureConfig, SearchConfig, SweepConfig
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.engine.executor import Executor
from cuprof.engine.final import Final
from cuprof.engine.planning import Prepared, prepare
from cuprof.statistics.verdict import Verdict
from cuprof.worker.messages import WorkerSettings

FAMILY, VARIANT, TUNABLE = "padded_read", "other", "spin_ns"
SLOWER = (0.0, 0.001, 0.002, 0.003, 0.02, 0.05)
"""Each candidate's share of time above the best."""
LEAST_SPIN_NS = 100
"""The best waits too, so that all candidates run the same instructions."""
RIGHT = 0.95
SETTLE_S = 0.05
SEED = 1
"""One seed of the inputs for all duels, so that the worker keeps inputs and reference."""
COLUMNS = (
    "effect", "duels", "best wins", "level with it", "wrong", "undecided", "slow ones beaten %", "looks",
    "s each", "as built", "as measured",
)  # fmt: skip


@dataclass(frozen=True)
class DuelResult:
    """The result of one duel.

    Args:
        medians_ns: identity → median of each candidate, when it was last timed.
        looks: how often the duel timed candidates.
    """

    ending: Final
    medians_ns: Mapping[str, float]
    looks: int
    wall_s: float


class Ring:
    """Run duels of the same candidates, one after another, on one worker.

    Args:
        config: names the family, the variant and the problem, and sets how a search ends.
        project: has the family.
    """

    def __init__(self, executor: Executor, config: SweepConfig, project: Project) -> None:
        self.executor, self.config, self.project = executor, config, project

    def prepare(self, spins_ns: Sequence[int]) -> Prepared:
        """Return the plan of one trial for each wait."""
        config = replace(self.config, tune={TUNABLE: tuple(spins_ns)})
        return prepare(config, self.project, [self.executor])

    def time_alone(self) -> float:
        """Return the time of the best in ns, measured more precisely than in a duel."""
        prepared = self.prepare([LEAST_SPIN_NS])
        careful = replace(self.config.measure, target=0.001, min_samples=400, max_samples=4000)
        job = Final(prepared, prepared.plan.trials).next_job()
        (outcome,) = self.executor.measure(replace(job, measure=careful))
        return cold_timing(outcome).summary.median_ns

    def fight(self, prepared: Prepared, candidates: Sequence[Trial], allowed_s: float) -> DuelResult:
        """Run one duel."""
        began = time.perf_counter()
        duel = Final(prepared, tuple(candidates), allowed_s=allowed_s)
        medians_ns: dict[str, float] = {}
        while not duel.is_over:
            job = duel.next_job()
            for outcome in self.executor.measure(job):
                medians_ns[outcome.identity] = cold_timing(outcome).summary.median_ns
                duel.tell(outcome)
        return DuelResult(duel, medians_ns, duel.looks, time.perf_counter() - began)


def rate(best: str, ending: Final) -> str:
    """Return how a duel counts: "best wins", "level with it", "undecided" or "wrong".

    Args:
        best: identity of the true best.
    """
    if ending.best is None:
        return "wrong"
    if ending.best.identity == best:
        return "best wins"
    if best in ending.standing.list_judged(Verdict.SAME):
        return "level with it"
    return "undecided" if best in ending.standing.list_judged(Verdict.UNDECIDED) else "wrong"


def make_row(trials: Sequence[Trial], effect: float, duels: Sequence[DuelResult]) -> dict[str, Any]:
    """Return the table's row of one smallest effect; the trials are sorted by their true time."""
    rated = [rate(trials[0].identity, each.ending) for each in duels]
    slow = {trial.identity for trial, by in zip(trials, SLOWER, strict=True) if by > 0.01}
    kept = sum(identity in slow for each in duels for identity in _not_beaten(each.ending))
    ratios = [
        float(np.median([each.medians_ns[trial.identity] / each.medians_ns[trials[0].identity] for each in duels]))
        for trial in trials
    ]
    return {
        "effect": f"{effect:.1%}",
        "duels": len(duels),
        **{name: rated.count(name) for name in ("best wins", "level with it", "wrong", "undecided")},
        "slow ones beaten %": 100 * (1 - kept / (len(slow) * len(duels))),
        "looks": float(np.mean([each.looks for each in duels])),
        "s each": float(np.median([each.wall_s for each in duels])),
        "as built": _describe([1 + by for by in SLOWER]),
        "as measured": _describe(ratios),
    }


def _not_beaten(ending: Final) -> set[str]:
    """Return the winner, and what was not called slower than it."""
    if ending.best is None:
        return set()
    return {
        ending.best.identity,
        *ending.standing.list_judged(Verdict.SAME),
        *ending.standing.list_judged(Verdict.UNDECIDED),
    }


def _describe(ratios: Sequence[float]) -> str:
    return " ".join(f"{ratio:.4f}" for ratio in ratios)


def measure(
    count: int, effects: Sequence[float], steps: int, allowed_s: float
) -> tuple[list[dict[str, Any]], dict[str, bool | None]]:
    """Return a row for each smallest effect, and the criteria.

    Args:
        count: duels of each.
        steps: size of the problem, times 2 MiB.
        allowed_s: what each may take.
    """
    rows, chance = [], random.Random(SEED)
    config = SweepConfig(
        experiment="",
        family=FAMILY,
        variants=(VARIANT,),
        problem={"steps": (steps,)},
        measure=MeasureConfig(modes=("cold",), settle_seconds=SETTLE_S),
        check=CheckConfig(SEED),
        search=SearchConfig(name="random"),
    )
    with Executor(WorkerSettings(), LimitsConfig()) as executor:
        alone_ns = Ring(executor, config, Project(PROJECT)).time_alone()
        spins_ns = [LEAST_SPIN_NS + round(by * alone_ns / RESOLUTION_NS) * RESOLUTION_NS for by in SLOWER]
        for effect in effects:
            searching = replace(config, search=replace(config.search, effect=effect))
            ring = Ring(executor, searching, Project(PROJECT))
            prepared = ring.prepare(spins_ns)
            trials = sorted(prepared.plan.trials, key=lambda trial: int(trial.tunables[TUNABLE]))
            duels = [ring.fight(prepared, chance.sample(trials, len(trials)), allowed_s) for _ in range(count)]
            rows.append(make_row(trials, effect, duels))
    print(f"the best alone: {alone_ns * 1e-3:.3f} µs; they wait {', '.join(map(str, spins_ns))} ns")
    criteria: dict[str, bool | None] = {
        f"effect {row['effect']}: the true best wins, or is level with the winner, in {RIGHT:.0%}": row["best wins"]
        + row["level with it"]
        >= RIGHT * count
        for row in rows
    }
    return rows, criteria


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where the duels are right as often as they ought to be."""
    parser = make_parser("how often the last comparison of a search names the true best, or one level with it")
    parser.add_argument("--duels", type=int, default=100, help="of each effect (default: %(default)s)")
    parser.add_argument("--effects", default="0.01,0.001", help="smallest effects (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=288, help="times 2 MiB that are read (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="what each duel may take (default: %(default)s)")
    arguments = parser.parse_args(argv)
    require_gpu()
    effects = [float(each) for each in arguments.effects.split(",")]
    rows, criteria = measure(arguments.duels, effects, arguments.steps, arguments.seconds)
    return report("duels", COLUMNS, rows, arguments.out, criteria)


if __name__ == "__main__":
    sys.exit(start(main))
