"""The end of a search: the last candidates of a problem measured side by side, and what that comes to in a line."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cuprof.backends.registry import is_host
from cuprof.config.model import SearchConfig, SweepConfig
from cuprof.engine.feed import LATER, Later
from cuprof.engine.jobs import make_jobs
from cuprof.engine.planning import Prepared
from cuprof.measure.method import methods
from cuprof.point import Point
from cuprof.records import Measure, Outcome, State, Timing, Trial
from cuprof.search.duel import LOOKS, Standing, describe_failed, find_differing, look, noise_of
from cuprof.statistics.series import Series
from cuprof.statistics.verdict import Rule
from cuprof.worker.messages import Job

LONGER = 4
"""Each further look may take so many times as many samples, and as much time."""
SHARE_OF_EFFECT = 0.2
"""The interval of a median in the duel is narrowed to this part of the effect, as where compare measures again."""
LEAST_TARGET = 5e-4
SHARE = 0.15
"""The part of a search's budget that is kept for its duels."""
OF_TRYING, LEAST_S = 0.25, 10.0
"""Without a budget of time, a duel may take this part of what trying took, or so many seconds."""
LOOK_PARTS = (0.25, 0.5, 1.0)
"""Each look may take this part of the time that is left to the duel."""
LEAST_LOOK_S = 0.5
"""No further look begins with less time left; its start takes most of that."""
LEAST_EACH_S = 0.05
PATIENT = 4
"""Where the time is short, what is too slow for an interval in its time has so many times as much."""


def keep_time(config: SweepConfig, turns: int) -> float:
    """Return the seconds of a search's budget that are kept for its duels: a share, or what they take at most.

    Args:
        turns: how many of them go one after another.

    Returns:
        0 without a budget of time.
    """
    candidates = config.search.finalists if config.search.objective == "time" else 1
    most_s = candidates * config.measure.max_seconds * sum(int(LONGER**look) for look in range(LOOKS))
    return min(SHARE * (config.search.budget_s or 0.0), turns * most_s)


@dataclass(frozen=True)
class Ending:
    """What a search came to for one problem.

    Args:
        standing: of the candidates' last look; None where there was one candidate alone, or no comparison.
        best: None where nothing is right.
        beaten: how many earlier looks found slower.
        level: those that the last look calls level with the best.
        value: of the objective, where that is not time alone.
        failed: candidates that were right when they were tried, and of which none is in the last comparison.
        cut_s: after so many seconds the comparison had no time left to decide what is open; 0 where it had.
    """

    problem: Point
    best: Trial | None
    median_ns: float
    standing: Standing[str] | None = None
    beaten: int = 0
    level: tuple[Trial, ...] = ()
    value: float | None = None
    failed: int = 0
    cut_s: float = 0.0


class Duel:
    """The last candidates of one problem, measured interleaved until the rule tells the best or that they are level.

    Args:
        candidates: of one problem and back end.
        measure: the one that counts.
        seed: of the inputs.
        clock: seconds.
        allowed_s: what all looks may take together, nearly: a look under way is not broken off.
        value: of the first candidate's objective, where that is not time alone.

    Attributes:
        ending: what it has come to; None until it has.
    """

    def __init__(
        self,
        prepared: Prepared,
        candidates: tuple[Trial, ...],
        measure: Measure,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
        allowed_s: float = math.inf,
        value: float | None = None,
    ) -> None:
        self.prepared, self.candidates, self.measure, self.seed, self.value = prepared, candidates, measure, seed, value
        self.clock, self.allowed_s = clock, allowed_s
        self.problem, self.settings = candidates[0].problem, prepared.config.search
        self._began: float | None = None
        self._is_short = False
        self.left = {trial.identity: trial for trial in candidates}
        self.looks = 0
        self.beaten = 0
        self.ending: Ending | None = None
        self._series: dict[str, Series] = {}
        self._waiting: set[str] = set()

    def anew(self) -> Duel:
        """Return the same duel from its beginning."""
        return Duel(self.prepared, self.candidates, self.measure, self.seed, self.clock, self.allowed_s, self.value)

    @property
    def spent_s(self) -> float:
        """Return the seconds since its first look began."""
        return 0.0 if self._began is None else self.clock() - self._began

    def next_job(self) -> Job | Later:
        """Return the next look at the candidates that are left."""
        if self._waiting:
            return LATER
        if self._began is None:
            self._began = self.clock()
        config, settings = self.prepared.config.measure, self.settings
        factor = LONGER**self.looks
        share = self._find_share(config.max_seconds * factor)
        target = max(min(config.target, SHARE_OF_EFFECT * settings.effect / 2**self.looks), LEAST_TARGET)
        measure = replace(
            config,
            modes=(str(self.measure),),
            target=target,
            max_samples=config.max_samples * factor,
            max_seconds=config.max_seconds * factor * share,
            patience_seconds=config.patience_seconds * factor * min(1.0, PATIENT * share),
            interleave=True,
            rotation=max(config.rotation, len(self.left)),
            energy="energy" in settings.factors,
        )
        trials = list(self.left.values())
        (job,) = make_jobs(_together(self.prepared), self.problem, trials, self.seed)
        self.looks += 1
        self._series = {}
        self._waiting = {trial.identity for trial in trials}
        is_block = not is_host(self.candidates[0].device)
        return replace(job, measure=measure, methods=methods(measure, job.backend), is_block=is_block)

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
        """Take what this look says of one candidate, and of all of them after the last."""
        self._waiting.discard(outcome.identity)
        timing = next((each for each in outcome.timings if each.measure is self.measure), None)
        if outcome.state is State.OK and timing is not None:
            self._series[outcome.identity] = _series_of(timing)
        if not self._waiting:
            self._conclude()

    def _conclude(self) -> None:
        if not self._series:
            self.ending = Ending(self.problem, None, math.nan, failed=len(self.left))
            return
        rule = Rule(self.settings.effect, self.settings.error_rate / LOOKS)
        standing = look(self._series, rule, noise_of(self.measure, on_host=is_host(self.candidates[0].device)))
        beaten = standing.list_beaten()
        best, median_ns = self.left[standing.best], self._series[standing.best].median_ns
        self.left = {identity: self.left[identity] for identity in self._series if identity not in beaten}
        is_last = self.looks >= LOOKS
        is_cut = bool(standing.list_open()) and (
            self._is_short if is_last else self.allowed_s - self.spent_s < LEAST_LOOK_S
        )
        if not standing.list_open() or is_last or is_cut:
            level = tuple(self.left[identity] for identity in standing.list_level())
            cut_s = self.spent_s if is_cut else 0.0
            self.ending = Ending(self.problem, best, median_ns, standing, self.beaten, level, self.value, cut_s=cut_s)
        self.beaten += len(beaten)


def describe_ending(ending: Ending, settings: SearchConfig) -> str:
    """Return one line about what a search came to for a problem."""
    where = f"search: {ending.problem.label}: "
    if ending.failed:
        return f"{where}{describe_failed(ending.failed)}"
    if ending.best is None:
        lacks = "" if settings.objective == "time" else f" of which {settings.objective} is known"
        return f"{where}no configuration gives a right result{lacks}"
    name = " · ".join(filter(None, [ending.best.variant, ending.best.tunables.label]))
    text = f"{where}best is {name} with {ending.median_ns / 1e3:,.2f} µs"
    if ending.value is not None:
        text += f" and {settings.objective} {ending.value:.4g}"
    standing = ending.standing
    if standing is None or not (standing.judgements or ending.beaten):
        return f"{text}, compared with no other"
    level = {trial.identity: _describe_difference(trial, ending.best) for trial in ending.level}
    said = standing.describe(level.__getitem__, settings.effect, settings.error_rate, ending.beaten)
    if ending.cut_s:
        said += f"; the comparison had {ending.cut_s:.1f} s"
        said += ", and more of a larger search.budget" if settings.budget_s else ""
    return f"{text}: {said}".replace("\N{NO-BREAK SPACE}", " ")


def _describe_difference(trial: Trial, best: Trial) -> str:
    """Return what a trial has otherwise than the best of its problem."""
    same = trial.variant == best.variant
    other = find_differing(trial.tunables, best.tunables) if same else trial.tunables
    return " · ".join(filter(None, ["" if same else trial.variant, other.label]))


def _series_of(timing: Timing) -> Series:
    counted = [sample for sample in timing.samples if not sample.excluded] or list(timing.samples)
    return Series(
        np.array([sample.duration_ns for sample in counted]),
        np.array([sample.round for sample in counted], np.int64),
        timing.rotation,
        tick_ns=float(timing.details.get("tick_ns") or 0.0),
    )


def _together(prepared: Prepared) -> Prepared:
    """Return what was prepared, with all variants in one process: they are compared side by side."""
    return replace(prepared, config=replace(prepared.config, limits=replace(prepared.config.limits, isolate=False)))
