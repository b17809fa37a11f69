"""Whether a library's counters are of the algorithm that was timed.

A library that times its algorithms and takes the fastest does so in the profiling process again, where Nsight Compute
lengthens every launch: an algorithm of one kernel gains on one of several. Which one ran cannot be asked, but its
duration can be compared: a profiled launch takes about as long as a timed one, unless it is another kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cuprof.core.text import count
from cuprof.report.trials import StudyTrial, grouped
from cuprof.report.units import format_value, shorten
from cuprof.results.counters import ProfileDuration

FACTOR = 1.5
"""Profiled and timed durations further apart than this are of two algorithms.

Of 64 library calls profiled cold on an H200, 56 were within 1.5, those of them above 10 µs within 1.31. The other 8,
all of them convolutions whose algorithm PyTorch had searched for, were 1.65 to 4.04 apart.
"""
SHORT_NS = 10_000.0
"""Profiles no longer than this are not judged: around a short kernel Nsight Compute itself adds 30 to 70 %."""
MOST_NAMED = 3

WHY = "profiled with another algorithm"


@dataclass(frozen=True)
class OtherAlgorithm:
    """What shows it: the launches' summed duration under Nsight Compute, and the median without it."""

    profiled_ns: float
    timed_ns: float

    def __str__(self) -> str:
        profiled, timed = (format_value("time", value) for value in (self.profiled_ns, self.timed_ns))
        return f"{profiled} under Nsight Compute, {timed} timed"


def find_other_algorithms(
    trials: Iterable[StudyTrial], profiles: Iterable[ProfileDuration]
) -> dict[int, OtherAlgorithm]:
    """Return the profiles (by number, with clocks as when timing) of library calls that took another algorithm."""
    libraries = {trial.id: trial for trial in trials if trial.kind == "library"}
    found = {}
    for profile in profiles:
        timings = libraries[profile.trial_id].timings if profile.trial_id in libraries else {}
        timed_ns = next((each.median_ns for key, each in timings.items() if key == profile.cache_mode), 0.0)
        other = OtherAlgorithm(profile.duration_ns or 0.0, timed_ns)
        if other.profiled_ns > SHORT_NS and other.timed_ns > 0:
            ratio = other.profiled_ns / other.timed_ns
            if max(ratio, 1 / ratio) > FACTOR:
                found[profile.profile_id] = other
    return found


def other_algorithm_notes(
    trials: Iterable[StudyTrial], others: Mapping[tuple[int, str], OtherAlgorithm], metric: str = ""
) -> tuple[str, ...]:
    """Return a sentence for each contender among the trials with counters of another algorithm than was timed.

    Args:
        others: (trial_id, metric) → what shows it, as a study holds it.
        metric: the counter meant; empty asks for any.
    """
    of_trial = {trial: other for (trial, name), other in others.items() if metric in ("", name)}
    notes = []
    judged = [trial for trial in trials if trial.id in of_trial]
    for contender, group in grouped(judged, lambda trial: trial.contender).items():
        where = [f"{trial.problem_name} ({of_trial[trial.id]})" for trial in group]
        more = f" and {count(len(where) - MOST_NAMED, 'more trial')}" if len(where) > MOST_NAMED else ""
        notes.append(
            f"{shorten(contender)} was profiled with another algorithm than was timed at "
            f"{'; '.join(where[:MOST_NAMED])}{more}; its counters are not compared there."
        )
    return tuple(notes)
