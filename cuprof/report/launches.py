"""A counter launch by launch, as text: what stands below a trial's value where it has several launches."""

from __future__ import annotations

from itertools import groupby

from cuprof.report.counter_sentences import format_counter
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial

MOST_LAUNCHES = 6


def launches_text(study: Study, trial: StudyTrial, metric: str) -> str:
    """Return the metric launch by launch: "scalar_prods 9, sum_taps 1", or "first of 4 launches: 671" for one.

    Empty for a single launch and where every launch has the same value, which the trial's own value then is or sums.
    """
    rows = study.counters.launches.get((trial.id, metric), ())
    found = [(row.kernel, format_counter(row.value, row.text)) for row in rows]
    if len(found) < 2 or len({text for _, text in found}) == 1:
        return ""
    kernels = [(kernel, [text for _, text in group]) for kernel, group in groupby(found, key=lambda each: each[0])]
    if len(kernels) == 1:
        return f"first of {len(found)} launches: {found[0][1]}"
    if len(kernels) > MOST_LAUNCHES:
        return f"{len(found)} launches of {len({kernel for kernel, _ in kernels})} kernels"
    return ", ".join(f"{kernel} {_listed(texts)}" for kernel, texts in kernels)


def rollup_text(rule: str) -> str:
    """Return how launches became one value, for people: "mean of the launches, weighted by time"."""
    kind, _, weight = rule.partition(":")
    if kind == "mean" and weight:
        return f"mean of the launches, weighted by {'time' if 'time_duration' in weight else weight}"
    return {"max": "largest launch", "min": "smallest launch"}.get(kind, f"{kind} of the launches" if kind else "")


def _listed(texts: list[str]) -> str:
    if len(texts) > MOST_LAUNCHES:
        return f"{texts[0]}; {texts[1]}; … {texts[-1]}"
    return "; ".join(texts)
