"""The top of a search's ladder: measure a problem's last candidates side by side, and word the outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuprof.backends.registry import is_host
from cuprof.config.model import SweepConfig
from cuprof.core.records import Measure, Outcome, State, Timing, Trial
from cuprof.engine.ladder import sample_longer
from cuprof.engine.planning import Prepared
from cuprof.search.standing import LOOKS, Standing, describe_failed, find_differing, look
from cuprof.statistics.samples import Samples
from cuprof.statistics.verdict import Rule, Verdict
from cuprof.worker.messages import Job

LONGER = 4
"""Each further look may take this many times as many samples, and as much time."""
SHARE = 0.15
"""The fraction of a search's budget reserved for its final comparisons."""
OF_TRYING, LEAST_S = 0.25, 10.0
"""Without a time budget, a final comparison may take this fraction of the time spent on trying, or this many seconds if
that is more."""
LOOK_PARTS = (0.25, 0.5, 1.0)
"""Each look may take this fraction of the time left to it."""
LEAST_LOOK_S = 0.5
"""Start no further look with less time left than this; starting it takes most of that."""
LEAST_EACH_S = 0.05
PATIENT = 8
"""If time is short, a candidate too slow for an interval in its time gets up to this many times as much. In the first
look that is all looks' time or twice that, since shares are rounded down."""
LEAST_EXECUTIONS = 3
"""A look executes each candidate at least this many times: once timed, and the checks around it."""
FAR = 1.5
"""If time is short, drop candidates known to be this many times as slow as the best."""


def keep_time(config: SweepConfig, turns: int) -> float:
    """Return the seconds of a search's budget to keep for its final comparisons: a share, or the most they can take.

    Args:
        turns: how many of them go one after another.

    Returns:
        0 without a budget of time.
    """
    candidates = config.search.finalists if config.search.objective == "time" else 1
    most_s = candidates * config.measure.max_seconds * sum(int(LONGER**look) for look in range(LOOKS))
    return min(SHARE * (config.search.budget_s or 0.0), turns * most_s)


@dataclass
class Final:
    """The final comparison of one problem's candidates, interleaved until the rule finds the best or calls them level.

    Args:
        candidates: of one problem and back end.
        allowed_s: approximate limit for all looks together; a started look is finished.
        values: the known objective of each candidate, the best first; see `_leave_out`.

    Attributes:
        best, median_ns, standing: of the last look that had a right result; None, NaN and empty without one.
        beaten: how many earlier looks found slower.
        failed: how many candidates were right when tried, but not when compared.
        left_out: how many candidates it had no time for.
        cut_s: the seconds after which it ran out of time with cases undecided; 0 if it did not.
    """

    prepared: Prepared
    candidates: tuple[Trial, ...]
    clock: Callable[[], float] = time.monotonic
    allowed_s: float = math.inf
    values: Sequence[float] = ()

    def __post_init__(self) -> None:
        self.problem, self.settings = self.candidates[0].problem, self.prepared.config.search
        self.measure = self.prepared.config.measure.modes[0]
        self._began: float | None = None
        self.left = {trial.identity: trial for trial in self.candidates}
        self.looks = self.beaten = self.failed = self.left_out = 0
        self.is_over, self.cut_s, self.median_ns = False, 0.0, math.nan
        self.best: Trial | None = None
        self.standing = Standing[str]("", {})
        self._outcomes: dict[str, Outcome] = {}
        """Of the candidates in the current look."""
        self._is_short = False

    @property
    def spent_s(self) -> float:
        """Return the seconds since its first look began."""
        return 0.0 if self._began is None else self.clock() - self._began

    def next_job(self) -> Job:
        """Return the next look at the candidates that are left."""
        if self._began is None:
            self._began = self.clock()
            if self.settings.budget_s:
                self._leave_out()
        config, factor = self.prepared.config.measure, LONGER**self.looks
        longer = sample_longer(config, self.settings.effect / 2**self.looks, factor)
        share = self._find_share(longer.max_seconds)
        short_s = factor * PATIENT * config.max_seconds * share if self._is_short else math.inf
        measure = replace(
            longer,
            modes=(self.measure,),
            max_seconds=longer.max_seconds * share,
            patience_seconds=min(longer.patience_seconds, short_s),
            rotation=max(config.rotation, len(self.left)),
            energy="energy" in self.settings.factors,
        )
        (job,) = self.prepared.list_jobs(self.left.values(), measure, together=True)
        self.looks += 1
        self._outcomes = {}
        return replace(job, is_block=not is_host(self.candidates[0].device))

    def _leave_out(self) -> None:
        """Leave out those for which no look has time, but for the best, and the second where it is not far behind."""
        most_s, needed_s = max(self.allowed_s, LEAST_LOOK_S), 0.0
        for place, (identity, known_s) in enumerate(zip([*self.left], self.values, strict=False)):
            needed_s += max(LEAST_EXECUTIONS * known_s, LEAST_EACH_S)
            if needed_s > most_s and (place > 1 or known_s > FAR * self.values[0]):
                del self.left[identity]
                self.left_out += 1

    def _find_share(self, most_s: float) -> float:
        """Return the part of the longest time that each candidate has in this look: 1, 1/2, 1/4, …

        Steps of two make one method of most looks, where every search would have its own.
        """
        each_s = LOOK_PARTS[self.looks] * (self.allowed_s - self.spent_s) / len(self.left)
        share = 1.0
        while share * most_s > max(each_s, LEAST_EACH_S):
            share /= 2
        self._is_short = share < 1
        return share

    def tell(self, outcome: Outcome) -> None:
        """Add one candidate's outcome in this look; after the last one, judge the look."""
        self._outcomes[outcome.identity] = outcome
        if len(self._outcomes) == len(self.left):
            self._conclude()

    def _conclude(self) -> None:
        right = (each for each in self._outcomes.values() if each.state is State.OK)
        timings = {each.identity: timing for each in right if (timing := each.find_timing(self.measure))}
        series = {identity: _series_of(timing) for identity, timing in timings.items()}
        self.failed += len(self.left) - len(series)
        if not series:
            self.best, self.is_over = None, True
            return
        rule = Rule(self.settings.effect, self.settings.error_rate / LOOKS)
        before, on_host = self.standing, is_host(self.candidates[0].device)
        self.standing = look(series, rule, on_host=on_host and self.measure is Measure.COLD)
        # What was slower than one that is out now need not be slower than those that are left.
        self.beaten = self.beaten + len(before.list_judged(Verdict.SLOWER)) if before.best in series else 0
        self.best = self.left[self.standing.best]
        self.median_ns = float(series[self.standing.best].medians()[0])
        undecided, is_last = self.standing.list_judged(Verdict.UNDECIDED), self.looks >= LOOKS
        # Sampling ended because shared time ran out, not because of a narrow interval.
        ran_out = [timings[each].stopped_by == "time" for each in (self.standing.best, *undecided)]
        is_hurried = self._is_short and any(ran_out)
        is_cut = bool(undecided) and (is_hurried if is_last else self.allowed_s - self.spent_s < LEAST_LOOK_S)
        self.is_over = not undecided or is_last or is_cut
        self.cut_s = self.spent_s if is_cut or self.left_out else 0.0
        out = {*self.standing.list_judged(Verdict.SLOWER)}
        self.left = {identity: self.left[identity] for identity in series if identity not in out}

    def describe(self) -> str:
        """Return one line about the outcome."""
        where, settings = f"search: {self.problem.label}: ", self.settings
        if self.best is None:
            return f"{where}{describe_failed(self.failed)}"
        name = " · ".join(filter(None, [self.best.variant, self.best.tunables.label]))
        text = f"{where}best is {name} with {self.median_ns / 1e3:,.2f} µs"
        if settings.objective != "time":
            text += f" and {settings.objective} {self.values[0]:.4g}"
        failed = f"; {self.failed} more gave no right result this time" if self.failed else ""
        if not (self.standing.judgements or self.beaten):
            late = "; search.budget had no time for that" if self.left_out else ""
            return f"{text}, compared with no other{late}{failed}"
        names = {trial.identity: _describe_difference(trial, self.best) for trial in self.candidates}
        said = self.standing.describe(names.__getitem__, settings.effect, settings.error_rate, self.beaten)
        if self.cut_s:
            said += f"; the comparison had {self.cut_s:.1f} s"
            said += f", none of it for {self.left_out} more" if self.left_out else ""
            said += ", and more of a larger search.budget" if settings.budget_s else ""
        return f"{text}: {said}{failed}".replace("\N{NO-BREAK SPACE}", " ")


def _describe_difference(trial: Trial, best: Trial) -> str:
    same = trial.variant == best.variant
    other = find_differing(trial.tunables, best.tunables) if same else trial.tunables
    return " · ".join(filter(None, ["" if same else trial.variant, other.label]))


def _series_of(timing: Timing) -> Samples:
    counted = [sample for sample in timing.samples if not sample.excluded] or list(timing.samples)
    durations = np.array([sample.duration_ns for sample in counted])
    rounds = np.array([sample.round for sample in counted], np.int64)
    tick_ns = float(timing.details.get("tick_ns") or 0.0)
    return Samples.of([durations], [rounds], rotation=timing.rotation, tick_ns=tick_ns)
