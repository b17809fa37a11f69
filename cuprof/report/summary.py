"""What a page says first: the fastest right variant, by how much, and what does not hold.

The facts are gathered here; the words are in `reports/templates/summary.txt`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from cuprof.comparison.compare import Options
from cuprof.core.point import Point
from cuprof.core.records import FAILED, NOT_RUN, State
from cuprof.core.text import list_first
from cuprof.report.experiment import agrees
from cuprof.report.study import Pair, Study
from cuprof.report.tables import ENDINGS, WRONG_AS_EXPECTED
from cuprof.report.templates import say, say_once
from cuprof.report.trials import RANKING, StudyTrial, grouped
from cuprof.report.tuning import describe_standing
from cuprof.report.units import shorten
from cuprof.statistics.verdict import Verdict

WORDS = "summary.txt"
TELLING_SHARE = 0.1
"""Below this share of the read bandwidth memory is not the limit, and the headline leaves the share out."""
MANY = 0.2
"""From this share of samples left out on, a page says so."""
MOST_LOG = 4000


def conclude(study: Study) -> dict[str, Any]:
    """Return what the study's measurements say at its reference problem, as the page's template takes it.

    It has the `headline`, one sentence; the `sentences` that follow from the measurements, the most important first;
    the `cautions` that a reader must know before believing it; the `method` of ratios and intervals, empty where none
    is stated; and the `numbers` to remember: name, value and note of each.
    """
    cautions = list(dict.fromkeys(say(WORDS, "cautions", study, _cautions(study))))
    ranked = sorted(study.best, key=lambda trial: trial.sure_ns)
    endings: Counter[str] = Counter()
    for group in failure_groups(study):
        endings[group["words"]] += group["trials"]
    pairs = _pairs(study, ranked) if ranked else {}
    study.foresee(chain.from_iterable(pairs.values()))
    unbeaten = [each.new for each in pairs.get("others", ()) if each.verdict not in (None, Verdict.SLOWER)]
    # above 1 a cache served it
    is_near_peak = bool(ranked) and TELLING_SHARE <= (ranked[0].share or 0.0) <= 1
    headline = say_once(WORDS, "headline", ranked, dict(endings), is_near_peak, not unbeaten)
    found = {"headline": headline, "sentences": [], "cautions": cautions, "method": "", "numbers": []}
    if not ranked:
        return found
    facts = {**_facts(study, ranked, pairs), "is_near_peak": is_near_peak, "unbeaten": unbeaten}
    said = [line.split("\t", 2) for line in say(WORDS, "numbers", study, facts)]
    return found | {
        "sentences": say(WORDS, "sentences", study, facts),
        "method": say_once(WORDS, "method", study, Options().rule) if len(ranked) > 1 else "",
        "numbers": [dict(zip(("name", "value", "note"), each, strict=True)) for each in said],
    }


def _pairs(study: Study, ranked: Sequence[StudyTrial]) -> dict[str, list[Pair]]:
    """Return the pairs that the sentences speak of: they are compared together, which is faster than one by one."""
    fastest, baseline = ranked[0], study.baseline_of(ranked[0])
    own = next((trial for trial in ranked if trial not in study.libraries and trial.kind == "kernel"), None)
    cpu = next((trial for trial in ranked if trial.kind == "cpu"), None)
    other = next((trial for trial in ranked if trial.kind != "cpu"), None)
    elsewhere = [trial for trial in ranked if trial.device != fastest.device and not trial.on_host]
    bests = [trials[0] for trials in grouped(elsewhere, lambda trial: trial.device).values()]
    here = {trial.variant: trial for trial in study.best}
    return {
        "others": [Pair(study, fastest, each) for each in ranked[1:]],
        "against": [Pair(study, baseline, fastest)] if baseline else [],
        "libraries": [Pair(study, library, own) for library in study.libraries if own],
        "cpu": [Pair(study, other, cpu)] if cpu and other else [],
        "elsewhere": [Pair(study, study.baseline_of(best) or best, best) for best in bests],
        "steps": [
            Pair(study, *each) for each in pairwise(here[step] for step in study.experiment.steps if step in here)
        ],
        "winners": _against_fastest(study),
        "duel": _duel(study),
    }


def _facts(study: Study, ranked: Sequence[StudyTrial], pairs: Mapping[str, Sequence[Pair]]) -> dict[str, Any]:
    fastest, here = ranked[0], {trial.variant for trial in study.best}
    times_ns = study.here["median_ns"][study.here["is_right"]]
    several = len({trial.problem for trial in study.fastest}) > 1
    return {
        **pairs,
        "standing": describe_standing(study),
        "tried": len(times_ns),
        "median_over_best": times_ns.median() / times_ns.min(),
        "fastest": fastest,
        "roof": next((device.read_bandwidth for device in study.devices if device.label == fastest.device), None),
        **{name: next(iter(pairs[name]), None) for name in ("against", "cpu")},
        "own": next(iter(pairs["libraries"]), None),
        "missing": [step for step in study.experiment.steps if step not in here],
        "where": fastest.problem_name if several else "",
        "winners": _winners(pairs["winners"]),
    }


def _against_fastest(study: Study) -> list[Pair]:
    """Return the fastest trial of each problem with all of its trials, in the problems' order; nothing of one alone."""
    problems = grouped(study.fastest, lambda trial: trial.problem)
    in_order = [problems[problem] for problem in dict.fromkeys(study.standings["problem"]) if problem in problems]
    several = in_order if len(in_order) > 1 else []
    firsts = [min(trials, key=lambda trial: trial.sure_ns) for trials in several]
    return [Pair(study, first, each) for first, trials in zip(firsts, several, strict=True) for each in trials]


def _winners(pairs: Sequence[Pair]) -> tuple[int, list[tuple[tuple[list[str], ...], list[str]]]] | None:
    """Return at how many problems there are times, and the fastest there: level and not told apart → the problems."""
    problems = grouped(pairs, lambda each: each.new.problem)
    groups: dict[str, tuple[tuple[list[str], ...], list[str]]] = {}
    for found in problems.values():
        verdicts = {each.new: Verdict.SAME if each.new is each.base else each.verdict for each in found}
        names = tuple(
            [shorten(trial.contender) for trial, verdict in verdicts.items() if verdict in wanted]
            for wanted in ((Verdict.SAME, Verdict.SAME_CODE), (Verdict.UNDECIDED,))
        )
        groups.setdefault(repr(names), (names, []))[1].append(found[0].new.problem_name)
    return (len(problems), sorted(groups.values(), key=lambda each: -len(each[1]))) if problems else None


def _duel(study: Study) -> list[Pair]:
    """Return, for a study of two steps, both at each problem where both have a time."""
    steps = study.experiment.steps
    best = {(trial.problem, trial.variant): trial for trial in study.fastest}
    sides = [tuple((problem, step) for step in steps) for problem in dict.fromkeys(problem for problem, _ in best)]
    return [Pair(study, best[each[0]], best[each[1]]) for each in sides if len(steps) == 2 and {*each} <= best.keys()]


def _cautions(study: Study) -> dict[str, Any]:
    frame = study.frame
    reused = frame[frame["is_reused"]]
    ages_s = (study.sweep.started_at or np.nan) - reused["started_at"]
    sweeps = {study.sweep.id if each in study.agreeing else each for each in frame["run_sweep_id"][frame["run_id"] > 0]}
    passed = (frame["expected"] == "wrong") & (frame["state"] == State.OK.value)
    configurations = len(study.here) and int(study.here["is_right"].sum()) > len(study.best)
    wanted = Point(study.experiment.reference_problem)
    return {
        "wanted": None if agrees(study.reference, wanted) else wanted,
        "was_measured": any(agrees(problem, wanted) for problem in {*frame["problem"]}),
        "missing": int((frame["state"] == State.PLANNED.value).sum()),
        "reused": len(reused),
        "oldest_s": max(0.0, float(ages_s.max())) if ages_s.notna().any() else None,
        "is_apart": len(sweeps) > 1,
        "failed": FAILED,
        "groups": failure_groups(study),
        "passes": list(frame["contender"][passed].unique()),
        "tuned": configurations and any(trial.tunables for trial in study.best),
        **_sampling(study),
    }


def _sampling(study: Study) -> dict[str, Any]:
    """Return the cautions about right trials' timings that lost many samples or stopped before they were narrow."""
    frame, timings = study.frame, study.timings
    is_right = frame["state"] == State.OK.value
    ranked = timings[timings["measure"].isin([*RANKING]) & timings.index.isin(frame.index[is_right])]
    lost = ranked["excluded"] / (ranked["excluded"] + ranked["samples"])
    lossy = ranked[(ranked["stopped_by"] == "excluded") | (lost >= MANY)]
    wide = ranked[~ranked["stopped_by"].isin(["interval", "slower"])]
    known = wide[(wide["low_ns"] + wide["high_ns"]).notna()]
    half_widths = (known["high_ns"] - known["low_ns"]) / 2 / known["median_ns"]
    silent = frame[frame["energy_unavailable"] != ""].groupby("energy_unavailable", sort=False)["variant"]
    return {
        "lossy": list(dict.fromkeys(frame["variant"].loc[lossy.index])),
        "silent": [(why, list(each.unique())) for why, each in silent],
        "timings": len(ranked),
        "slower": int((ranked["stopped_by"] == "slower").sum()),
        "wide": len(wide),
        "few": len(wide) - len(known),
        "half_width": float(half_widths.max()),
        "widest": next(iter(study.rows(frame.loc[half_widths.nlargest(1).index])), None),
    }


def failure_groups(study: Study) -> list[dict[str, Any]]:
    """Return the trials that ended the same way for the same reason: failures first, then skipped, then not run.

    A group's `message` and shortened `log` are its first trial's, `others` counts further trials whose message differs
    in its numbers only, and it is `expected` where every variant in it is kept because it is known to be wrong.
    """

    def complaint(trial: StudyTrial) -> tuple[State, str, str]:
        """Return the state and the message without its numbers, variant by variant; a skip is one for all variants."""
        who = "" if trial.state in (*NOT_RUN, State.PLANNED) else trial.variant
        return trial.state, who, re.sub(r"\d[\d.,e+-]*", "#", trial.message)

    groups = grouped(study.rows(study.frame[study.frame["state"] != State.OK.value]), complaint)
    return sorted(map(_group, groups.values()), key=lambda group: list(ENDINGS).index(group["state"]))


def _group(trials: Sequence[StudyTrial]) -> dict[str, Any]:
    first, expected = trials[0], all(trial.is_expected for trial in trials)
    more = len(first.log) - MOST_LOG
    return {
        "state": first.state,
        "words": WRONG_AS_EXPECTED if expected else ENDINGS[first.state],
        "variants": list(dict.fromkeys(trial.variant for trial in trials)),
        "trials": len(trials),
        "message": first.message,
        "others": sum(trial.message != first.message for trial in trials),
        "problems": list_first(list(dict.fromkeys(trial.problem_name for trial in trials)), 4, "; "),
        "expected": expected,
        "log": first.log if more <= 0 else f"{first.log[:MOST_LOG]}\n… ({more} more characters are in the database)",
    }
