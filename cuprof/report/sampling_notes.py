"""What a reader must know of how the samples were taken."""

from __future__ import annotations

from collections.abc import Iterable

from cuprof.core.records import State
from cuprof.core.text import count
from cuprof.report.trials import RANKING, StudyTrial, Timed
from cuprof.report.units import list_names

MANY = 0.2
"""From this share of samples left out on, a page says so."""
MOST_NAMES = 4


def sampling_notes(trials: Iterable[StudyTrial]) -> list[str]:
    """Return sentences on timings of right trials that lost many samples, or stopped before they were narrow."""
    trials = list(trials)
    right = [trial for trial in trials if trial.state is State.OK]
    timed = [(trial, trial.timings[measure]) for trial in right for measure in RANKING if measure in trial.timings]
    notes = []
    if lossy := dict.fromkeys(trial.variant for trial, timing in timed if _is_lossy(timing)):
        notes.append(
            f"A fifth or more of the samples had to be left out for {list_names(lossy, MOST_NAMES)} (throttling, a low "
            "clock, or a host that was held up); those times are less sure than their intervals say."
        )
    for reason in dict.fromkeys(filter(None, (trial.energy_unavailable for trial in trials))):
        variants = dict.fromkeys(trial.variant for trial in trials if trial.energy_unavailable == reason)
        notes.append(f"The energy of {list_names(variants, MOST_NAMES)} could not be measured: {reason}.")
    if wide := [timing for _, timing in timed if timing.stopped_by != "interval"]:
        few = sum(not timing.interval for timing in wide)
        most = max(map(_reach, wide))
        widest = f"the widest reaches ±{most * 100:.1f}\N{NO-BREAK SPACE}%" if len(wide) > few else ""
        without = f"{few} of them {'has' if few == 1 else 'have'} too few samples for an interval" if few else ""
        notes.append(
            f"{len(wide)} of {count(len(timed), 'kernel timing')} stopped at a bound of time or samples before the "
            f"interval was as narrow as asked for; {'; '.join(filter(None, (widest, without)))}."
        )
    return notes


def _is_lossy(timing: Timed) -> bool:
    kept, lost = timing.samples, timing.excluded
    return timing.stopped_by == "excluded" or lost >= MANY * (kept + lost) > 0


def _reach(timing: Timed) -> float:
    """Return how far the interval reaches from the median, as a share of it; 0 without an interval."""
    bounds, median_ns = timing.interval, timing.median_ns
    return max(bounds[1] - median_ns, median_ns - bounds[0]) / median_ns if bounds and median_ns else 0.0
