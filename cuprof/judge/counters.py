"""Hardware counters of the compared trials, baseline and candidate side by side; they decide nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuprof.core.errors import CuprofError
from cuprof.core.records import CounterValue, Outcome, State
from cuprof.engine.device_lock import DeviceLocks
from cuprof.engine.profiling import Profiling, reason_to_skip
from cuprof.judge.contenders import Contender
from cuprof.judge.legs import Course
from cuprof.judge.report import Candidate, Counter, Row
from cuprof.ncu import TITLE
from cuprof.ncu.collector import open_collector
from cuprof.ncu.metrics import list_matches, listing_order

Found = Mapping[str, Mapping[str, CounterValue]]
"""Identity → metric → value, metrics in display order."""


@dataclass(frozen=True)
class Counting:
    """Profile candidates that are right, and their baselines.

    Args:
        course: has run all of the trials.
        artifacts: folder that takes the profiler's reports.
        may_run_host_code: of candidates; the profiled process runs outside any sandbox.
        notes: receives a line for each counter or trial that could not be measured.
    """

    course: Course
    artifacts: Path
    may_run_host_code: bool
    notes: list[str]

    def count(
        self, judged: Sequence[tuple[Contender, Candidate]], bases: Mapping[tuple[str, bool], Contender]
    ) -> list[Candidate]:
        """Return the candidates with the counters of the trials that their rows compare.

        Args:
            bases: kind → baseline; only its trials that are compared with are profiled.
        """
        known: dict[str, Found] = {}
        counted = []
        for contender, candidate in judged:
            new: Found = {}
            if reason := self._refusal(contender):
                self.notes.append(f"no counters of {candidate.file} ({candidate.variant}): {reason}")
            elif candidate.rows:
                if contender.backend not in known:
                    rows = [row for one, other in judged if one.backend == contender.backend for row in other.rows]
                    known[contender.backend] = self._collect(bases[contender.kind], {row.trials[0] for row in rows})
                new = self._collect(contender, {row.trials[1] for row in candidate.rows})
            beside = _beside(candidate.rows, known[contender.backend], new) if new else ()
            counted.append(replace(candidate, counters=beside))
        return counted

    def _refusal(self, contender: Contender) -> str:
        first = contender.trials[0]
        if reason := reason_to_skip(first, Outcome(first.identity, State.OK)):
            return reason
        if contender.runs_on_host and not self.may_run_host_code:
            return f"its own code would run under {TITLE}, outside the sandbox; --sandbox=off allows it"
        return ""

    def _collect(self, contender: Contender, wanted: set[str]) -> Found:
        """Profile the wanted trials even if their counters are stored; return the values, and note the missing ones."""
        chosen = [trial for trial in contender.trials if trial.identity in wanted]
        outcomes = {trial.identity: Outcome(trial.identity, State.OK) for trial in chosen}
        course = self.course
        theirs = {"find_origin": lambda _: contender.origin, "extension": contender.extension}
        try:
            with open_collector(course.ahead.config, course.project, **theirs, artifacts=self.artifacts) as collector:
                profiling = Profiling(collector, course.store, None, course, DeviceLocks(course.note).hold)
                found = profiling.collect(chosen, outcomes, retry="all")
        except CuprofError as error:  # the verdict stands without
            self.notes.append(f"no counters of {chosen[0].variant}: {error}")
            return {}
        for trial, failed in found.failures:
            self.notes.append(f"no counters of {trial.label}: {failed.state.value}: {failed.message}")
        for reason in (*found.skipped.values(), *found.missing.values()):
            self.notes.append(f"counters of {chosen[0].variant}: {reason}")
        values = {
            profile.identity: {one.metric: one for one in profile.rolled}
            for profile in found.profiles
            if profile.identity and profile.state is State.OK
        }
        names = dict.fromkeys(name for of_trial in values.values() for name in of_trial)
        request = collector.setting.request
        shown = sorted(names, key=listing_order) if request.whole else list_matches(request.metrics, names)
        return {key: {name: found[name] for name in shown if name in found} for key, found in values.items()}


def _beside(rows: Sequence[Row], bases: Found, news: Found) -> tuple[Counter, ...]:
    """Return the counters of each problem, once for all of its measures."""
    counters = []
    for problem, (base, new) in dict.fromkeys((row.problem, row.trials) for row in rows):
        ours, theirs = bases.get(base, {}), news.get(new, {})
        for metric in dict.fromkeys((*theirs, *ours)) if theirs else ():
            unit = (theirs.get(metric) or ours[metric]).unit
            counters.append(Counter(problem, metric, unit, _plain(ours.get(metric)), _plain(theirs.get(metric))))
    return tuple(counters)


def _plain(counter: CounterValue | None) -> float | str | None:
    if counter is None or counter.value is None or math.isnan(counter.value):
        return (counter.text if counter else "") or None
    return counter.value
