"""How often two equal variants are called different, and a variant 1.5 % slower is called slower.

    python -m benchmarks.aa_ab --out FOLDER

Each comparison is a sweep of its own of two variants of one kernel: inputs uploaded, built, checked, sampled
interleaved until the interval is narrow, checked again. The kernel reads memory for some 40 µs; the slower variant
then waits, by the device's clock, for the given part of the time that the kernel was measured to take.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import make_parser, report, start
from cuprof.config.model import LimitsConfig, MeasureConfig
from cuprof.core.errors import CuprofError
from cuprof.core.records import Measure, Outcome, State, Timing
from cuprof.engine.executor import Executor
from cuprof.families import Family, Point
from cuprof.families.fingerprint import source_text
from cuprof.families.origin import Folder, load_family
from cuprof.statistics.contrasts import contrast
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Judgement, Rule, judge, list_judgements
from cuprof.worker.messages import Job, JobTrial, WorkerSettings
from cuprof.worker.method import methods

FOLDER = Path(__file__).with_name("project") / "kernels" / "padded_read"
SLOWER = 0.015
POWER = 0.95
RESOLUTION_NS = 10
SETTLE_S = 0.01
"""Work before each comparison; the comparisons follow one another closely, so the clocks are up after the first."""
SEED = 1
"""One seed for all comparisons, so that the worker keeps inputs and reference."""
COLUMNS = (
    "set", "comparisons", "slower", "faster", "same", "undecided", "wrong %", "true ratio", "median ratio",
    "ratio 2.5 %", "ratio 97.5 %", "interval holds %", "samples", "s each",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One comparison: the timings of both variants and what was made of them."""

    base: Timing
    new: Timing
    judgement: Judgement
    wall_s: float


class Laboratory:
    """Sweeps of pairs on one worker."""

    def __init__(self, executor: Executor, family: Family, problem: Point, measure: MeasureConfig) -> None:
        self.executor, self.family, self.problem, self.measure = executor, family, problem, measure
        base = family.variant("base")
        self.text, self.backend, self.folder = source_text(family, base), base.backend, family.folder or FOLDER

    def time(self, **spins_ns: int) -> dict[str, Timing]:
        """Sweep the named variants, each with its wait in nanoseconds, and return their cold timings.

        Raises:
            CuprofError: one of them failed.
        """
        trials = tuple(
            JobTrial(identity=name, variant=name, tunables=Point(spin_ns=spin), source_text=self.text)
            for name, spin in spins_ns.items()
        )
        job = Job(
            origin=Folder(self.folder),
            backend=self.backend,
            problem=self.problem,
            trials=trials,
            seed=SEED,
            measure=self.measure,
            methods=methods(self.measure, self.backend),
        )
        return {outcome.identity: cold_timing(outcome) for outcome in self.executor.measure(job)}

    def compare(self, spin_ns: int) -> Pair:
        """Sweep both variants, the second with the wait, and judge."""
        started = time.perf_counter()
        timings = self.time(base=0, other=spin_ns)
        wall_s = time.perf_counter() - started
        base, new = timings["base"], timings["other"]
        return Pair(base, new, judge_pair(base, new), wall_s)


def judge_pair(base: Timing, new: Timing) -> Judgement:
    """Return the verdict of `cuprof compare` on two variants of one sweep, by its default rule."""
    (judgement,) = list_judgements(judge(contrast(to_series(base), to_series(new)), Rule()))
    return judgement


def to_series(timing: Timing) -> Samples:
    """Return the samples that count, with the rounds that they were taken in, as the other variant's were."""
    counted = [sample for sample in timing.samples if not sample.excluded]
    durations = np.array([sample.duration_ns for sample in counted])
    rounds = np.array([sample.round for sample in counted], dtype=np.int64)
    return Samples.of([durations], [rounds], rotation="one sweep")


def cold_timing(outcome: Outcome) -> Timing:
    """Return the cold timing of a right trial.

    Raises:
        CuprofError: it is not right.
    """
    if outcome.state is not State.OK:
        raise CuprofError(f"{outcome.identity}: {outcome.state}: {outcome.message}")
    return next(timing for timing in outcome.timings if timing.measure is Measure.COLD)


def make_row(name: str, pairs: Sequence[Pair], expected: str, true_ratio: float) -> dict[str, Any]:
    """Return the table's row for one set of comparisons.

    Args:
        expected: the verdict that is right; "same" also lets "undecided" pass, since neither calls the two different.
        true_ratio: how many times as long the second variant lasts, as it was built.
    """
    verdicts = Counter(pair.judgement.verdict.value for pair in pairs)
    right = verdicts[expected] + (verdicts["undecided"] if expected == "same" else 0)
    ratios = np.array([pair.judgement.ratio for pair in pairs])
    holds = [pair.judgement.low <= true_ratio <= pair.judgement.high for pair in pairs]
    low, median, high = np.quantile(ratios, [0.025, 0.5, 0.975])
    return {
        "set": name,
        "comparisons": len(pairs),
        **{verdict: verdicts[verdict] for verdict in ("slower", "faster", "same", "undecided")},
        "wrong %": 100 * (1 - right / len(pairs)),
        "true ratio": f"{true_ratio:.5f}",
        "median ratio": f"{median:.5f}",
        "ratio 2.5 %": f"{low:.5f}",
        "ratio 97.5 %": f"{high:.5f}",
        "interval holds %": 100 * float(np.mean(holds)),
        "samples": int(np.median([pair.base.summary.count for pair in pairs])),
        "s each": float(np.median([pair.wall_s for pair in pairs])),
    }


def measure(same: int, different: int, steps: int) -> tuple[list[dict[str, Any]], dict[str, bool | None]]:
    """Return both rows and the criteria.

    Args:
        same: comparisons of the variant with itself.
        different: comparisons with the slower one.
        steps: size of the problem, times 2 MiB.
    """
    family, rate = load_family(FOLDER), Rule().error_rate
    settings = MeasureConfig(modes=("cold",), settle_seconds=SETTLE_S)
    with Executor(WorkerSettings(), LimitsConfig()) as executor:
        careful = MeasureConfig(modes=("cold",), target=0.001, min_samples=400, max_samples=4000)
        alone = Laboratory(executor, family, Point(steps=steps), careful).time(base=0)["base"].summary.median_ns
        spin_ns = round(SLOWER * alone / RESOLUTION_NS) * RESOLUTION_NS
        laboratory = Laboratory(executor, family, Point(steps=steps), settings)
        equal = [laboratory.compare(0) for _ in range(same)]
        slower = [laboratory.compare(spin_ns) for _ in range(different)]
    print(f"the kernel alone: {alone * 1e-3:.3f} µs; the slower one waits {spin_ns} ns more")
    rows = [
        make_row("A/A", equal, "same", 1.0),
        make_row("A/B", slower, "slower", 1 + spin_ns / alone),
    ]
    criteria: dict[str, bool | None] = {
        f"A/A: at most {rate:.0%} called different": rows[0]["wrong %"] <= 100 * rate,
        f"A/B: at least {POWER:.0%} called slower": rows[1]["slower"] >= POWER * different,
    }
    return rows, criteria


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and keep; return 0 where both error rates hold."""
    parser = make_parser("how often equal variants are called different, and slower ones slower")
    parser.add_argument("--same", type=int, default=200, help="A/A comparisons (default: %(default)s)")
    parser.add_argument("--different", type=int, default=100, help="A/B comparisons (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=72, help="times 2 MiB that are read (default: %(default)s)")
    arguments = parser.parse_args(argv)
    rows, criteria = measure(arguments.same, arguments.different, arguments.steps)
    return report("aa_ab", COLUMNS, rows, arguments.out, criteria)


if __name__ == "__main__":
    sys.exit(start(main))
