"""The conclusions in words: which variant is the fastest right one, by how much, and what does not hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cuprof.core.records import FAILED, State
from cuprof.core.text import count, level_text
from cuprof.report.cells import doubt_of
from cuprof.report.failures import failure_groups, surprising_passes
from cuprof.report.orders import published_order, winners
from cuprof.report.sampling_notes import sampling_notes
from cuprof.report.search import describe_standing
from cuprof.report.study import Study
from cuprof.report.trials import StudyTrial, by_sure_time, by_time, grouped
from cuprof.report.units import choose_scale, describe_age, format_ratio, format_value, list_names, shorten
from cuprof.statistics import Verdict

TELLING_SHARE = 0.1
"""Below this share of the read bandwidth memory is not the limit, and the headline leaves the share out."""

LEVEL: dict[Verdict | None, str] = {Verdict.SAME: "is as fast as", Verdict.UNDECIDED: "is not told apart from"}
"""Words for two times that are not shown to differ."""
_APART = "two sweeps measured them, and the machine may have changed in between"


@dataclass(frozen=True)
class KeyNumber:
    """One number of the summary: what it is, the number, and a word on it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Conclusions:
    """The summary of a study.

    Args:
        headline: one sentence.
        sentences: what follows from the measurements, the most important first.
        cautions: what a reader must know before believing it.
        method: how ratios and intervals were made; empty where none is stated.
        numbers: the handful to remember.
    """

    headline: str
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]
    method: str
    numbers: tuple[KeyNumber, ...] = ()


def conclude(study: Study) -> Conclusions:
    """Return what the study's measurements say at its reference problem."""
    cautions = _cautions(study)
    if not study.best:
        return Conclusions(_nothing(study), (), cautions, "")
    ranked = sorted(study.best, key=by_sure_time)
    fastest = ranked[0]
    time = format_value("time", fastest.median_ns)
    name = _name(fastest, fastest.variant)  # the place names the device
    headline = f"{name} is the fastest right variant at {_where(fastest)}: {time}"
    headline += (
        f", {fastest.share * 100:.0f}\N{NO-BREAK SPACE}% of the device's measured read bandwidth."
        if fastest.share and TELLING_SHARE <= fastest.share <= 1
        else "."
    )
    if len(ranked) == 1:
        headline = f"{name} is the only variant with a right, timed result at {_where(fastest)}: {time}."
    sentences = [
        *filter(None, [describe_standing(study)]),
        *_against_baseline(study, fastest),
        *_against_library(study, ranked),
        *_against_cpu(study, ranked),
    ]
    sentences += _other_devices(study, ranked)
    sentences += [*published_order(study), *winners(study)]
    method = f"Brackets after a time hold the {level_text(study.confidence)} interval of its median. {_method(study)}"
    return Conclusions(headline, tuple(sentences), cautions, method if len(ranked) > 1 else "", _numbers(study))


def _method(study: Study) -> str:
    rule = study.options.rule
    effect, level = level_text(rule.effect), level_text(1 - rule.error_rate)
    return (
        "Ratios, their intervals and verdicts are those of cuprof compare: one of two variants is faster where the "
        f"interval excludes 1 and the ratio is {effect} or more; they are as fast as each other where the whole "
        f"interval lies within {effect}, else they are not told apart. The intervals of one pair over all problems "
        f"hold together at {level}. Times of two methods, as of a GPU and a CPU, have a ratio and no verdict."
    )


def _numbers(study: Study) -> tuple[KeyNumber, ...]:
    fastest = min(study.best, key=by_sure_time)
    bounds, name = _bounds(fastest), shorten(fastest.contender)
    spread = f"{bounds[0]} to {bounds[1]}" if bounds else fastest.few_samples
    found = [KeyNumber("Fastest", format_value("time", fastest.median_ns), ", ".join(filter(None, (name, spread))))]
    if fastest.share and TELLING_SHARE <= fastest.share <= 1:
        found.append(
            KeyNumber(
                "Of the measured peak",
                f"{fastest.share * 100:.0f}\N{NO-BREAK SPACE}%",
                " of ".join(format_value("bandwidth", each) for each in (fastest.bandwidth, fastest.read_bandwidth)),
            )
        )
    elif fastest.rate:
        found.append(KeyNumber("Arithmetic rate", format_value("rate", fastest.rate), name))
    baseline = study.baseline_of(fastest)
    if baseline is not None and baseline is not fastest and (ratio := study.ratio(baseline, fastest)):
        found.append(
            KeyNumber(
                f"Against {baseline.contender}" if study.stand_in else "Against the baseline",
                f"{format_ratio(1 / ratio)}×{_doubted(baseline, fastest)}",
                f"in place of {study.baseline}" if study.stand_in else baseline.contender,
            )
        )
    mine = min((trial for trial in study.best if trial.kind == "kernel"), key=by_sure_time, default=None)
    if study.libraries and mine is not None and (ratio := study.ratio(study.libraries[0], mine)):
        found.append(
            KeyNumber(
                "Best kernel against best library",
                f"{format_ratio(1 / ratio)}×{_doubted(study.libraries[0], mine)}",
                f"{mine.contender} against {study.libraries[0].contender}",
            )
        )
    return tuple(found)


def _against_baseline(study: Study, fastest: StudyTrial) -> list[str]:
    baseline = study.baseline_of(fastest)
    sentences = []
    if study.stand_in and baseline is not None:
        sentences.append(
            f"The baseline {shorten(study.baseline)} has no right, timed result here, so {shorten(study.stand_in)} "
            "stands in for it."
        )
    if baseline is None:
        return [f"The baseline {study.baseline} has no right, timed result here, so nothing is compared with it."]
    if baseline is fastest:
        if len(study.best) > 1:
            sentences.append("That is the baseline itself: nothing else that ran is faster.")
        return sentences
    if study.are_apart(baseline, fastest):
        return [
            *sentences,
            f"{shorten(fastest.contender)} is not compared with the baseline {_name(baseline)}: {_APART}.",
        ]
    return [*sentences, f"{_compare(study, baseline, fastest, '' if study.stand_in else 'the baseline ')}."]


def _against_library(study: Study, ranked: Sequence[StudyTrial]) -> list[str]:
    if not study.libraries:
        return []
    library = study.libraries[0]
    own = [trial for trial in ranked if trial not in study.libraries and trial.kind == "kernel"]
    if not own:
        return [
            f"The best library is {_name(library)}, {_time(library)}; no hand-written kernel has a right result here."
        ]
    mine = own[0]
    if study.are_apart(library, mine):
        return [f"{shorten(mine.contender)} is not compared with the best library, {_name(library)}: {_APART}."]
    if by_time(mine) <= by_time(library):
        return [f"{_compare(study, library, mine, 'the best library, ')}."]
    verdict, times = study.verdict(library, mine), _times(study, library, mine)
    text = (
        f"{LEVEL[verdict]} the best library" if verdict in LEVEL else f"takes {times} times as long as the best library"
    )
    ratio = f": {times}× its time" if verdict in LEVEL else ""
    sentence = (
        f"The fastest hand-written kernel, {_name(mine)} ({_time(mine)}), {text}, {_name(library)}{ratio}"
        f"{_interval(study, library, mine, inverse=False)}"
    )
    others = [
        f"{_times(study, trial, mine, inverse=True)} times as fast as {_name(trial)}, {_time(trial)}"
        for trial in study.libraries[1:]
        if trial.backend == mine.backend and study.verdict(trial, mine) is Verdict.FASTER
    ]
    return [f"{sentence}{f'; it is {others[0]}' if others else ''}."]


def _against_cpu(study: Study, ranked: Sequence[StudyTrial]) -> list[str]:
    cpu = next((trial for trial in ranked if trial.kind == "cpu"), None)
    other = next((trial for trial in ranked if trial.kind != "cpu"), None)
    if cpu is None or other is None or study.are_apart(other, cpu):
        return []
    if by_time(cpu) >= by_time(other):
        return [
            f"The best CPU variant, {_name(cpu)}, takes {_time(cpu)}, {_times(study, other, cpu)} times as long as "
            f"{shorten(other.contender)} (kernel time, without transfers)."
        ]
    return [f"The best CPU variant, {_name(cpu)}, is faster here than every other: {_time(cpu)}."]


def _other_devices(study: Study, ranked: Sequence[StudyTrial]) -> list[str]:
    """Return the fastest variant of every further accelerator; processors are compared as variants."""
    others = [
        trial for trial in ranked if trial.device != ranked[0].device and not (trial.entry and trial.entry.on_host)
    ]
    sentences = []
    for device, trials in grouped(others, lambda trial: trial.device).items():
        best = trials[0]
        text = f"On {device} the fastest is {_name(best, best.variant)}, {_time(best)}"
        baseline = study.baseline_of(best)
        if baseline and baseline.device == device and baseline is not best and not study.are_apart(baseline, best):
            text += f", {_times(study, baseline, best, inverse=True)} times as fast as {baseline.variant} there"
            text += _interval(study, baseline, best)
        sentences.append(f"{text}.")
    return sentences


def _cautions(study: Study) -> tuple[str, ...]:
    cautions = []
    if study.reference_note:
        cautions.append(study.reference_note)
    if not study.sweep.is_finished:
        missing = sum(trial.state is State.PLANNED for trial in study.trials)
        earlier = study.earlier_finished
        cautions.append(
            f"This sweep is not finished ({study.sweep.state}); {missing} of {len(study.trials)} trials have not run. "
            "The same command goes on where it stopped."
            + (f" The page of an earlier finished sweep: report.sweep={earlier}." if earlier else "")
        )
    cautions += _reused(study)
    for group in failure_groups(study):
        names = list_names(group.variants)
        if group.state in FAILED and not group.expected:
            cautions.append(f"{names}: {group.words} ({count(group.trials, 'trial')}); not ranked.")
        elif group.expected:
            cautions.append(
                f"{names}: wrong on purpose, and the check caught it in every one of {count(group.trials, 'trial')}; "
                "not ranked, and no failure."
                if not surprising_passes(study)
                else f"{names}: {group.words}; not ranked."
            )
        elif group.state == "skipped":
            cautions.append(f"Skipped: {names} ({group.message.rstrip('.')}).")
        elif group.state == "impossible":
            cautions.append(f"{names}: {count(group.trials, 'trial')} impossible on the device ({group.message}).")
    for name in surprising_passes(study):
        cautions.append(f"{name} is kept because it is known to be wrong, yet its check passed here. It is not ranked.")
    cautions += sampling_notes(study.trials)
    if any(trial.tunables for trial in study.best) and len(study.right_here) > len(study.best):
        cautions.append(
            "Each variant stands with the fastest of its measured tunables; of those that the search timed by few "
            "samples the longest counts."
            if study.is_search
            else "Each variant stands with the fastest of its measured tunables; the more were tried, the luckier the "
            "best may be."
        )
    return tuple(dict.fromkeys(cautions))


def _reused(study: Study) -> list[str]:
    """Return how many trials earlier sweeps measured, and what does not follow from them."""
    reused = [trial for trial in study.trials if trial.is_reused]
    if not reused:
        return []
    ages = sorted(age for trial in reused if (age := study.age_s(trial)) is not None)
    oldest = f", the oldest {describe_age(ages[-1])} before this one" if ages else ""
    text = f"{len(reused)} of {count(len(study.trials), 'trial')} were measured by earlier sweeps{oldest}."
    if any(study.are_apart(reused[0], trial) for trial in study.trials if trial.run_id):
        text += " No speed-up is given between times of different sweeps; retry=all measures everything together."
    return [text]


def _nothing(study: Study) -> str:
    numbers: Counter[str] = Counter()
    for group in failure_groups(study):
        numbers[group.words] += group.trials
    counts = ", ".join(f"{number} {words}" for words, number in numbers.items())
    return f"No variant has a right, timed result, so there is nothing to rank ({counts or 'no trial was timed'})."


def _compare(study: Study, base: StudyTrial, new: StudyTrial, role: str) -> str:
    """Return how the faster of two compares with the other."""
    verdict, times = study.verdict(base, new), _times(study, base, new, inverse=True)
    if verdict in LEVEL:
        text = f"{shorten(new.contender)} {LEVEL[verdict]} {role}{_name(base)}: {times}×"
    else:
        text = f"{shorten(new.contender)} is {times} times as fast as {role}{_name(base)}, {_time(base)}"
    doubt = doubt_of(base, new)
    return f"{text}{_interval(study, base, new)}{f'; one of the two times is known to {doubt} only' if doubt else ''}"


def _times(study: Study, base: StudyTrial, new: StudyTrial, *, inverse: bool = False) -> str:
    """Return the ratio of the times, new / base or its inverse."""
    ratio = study.ratio(base, new)
    return "?" if not ratio else format_ratio(1 / ratio if inverse else ratio)


def _doubted(base: StudyTrial, new: StudyTrial) -> str:
    return f" ({doubt})" if (doubt := doubt_of(base, new)) else ""


def _interval(study: Study, base: StudyTrial, new: StudyTrial, *, inverse: bool = True) -> str:
    """Return the interval of the ratio base / new, or of new / base."""
    compared = study.compare(base, new)
    if compared is None:
        return ""
    low, high = compared.low, compared.high
    if not low or math.isinf(high):
        return " (too few samples for an interval)"
    ends = (1 / high, 1 / low) if inverse else (low, high)
    return f" (interval {format_ratio(ends[0])} to {format_ratio(ends[1])})"


def _time(trial: StudyTrial) -> str:
    bounds = _bounds(trial)
    scale = choose_scale("time", [trial.interval[0] if trial.interval else trial.median_ns])
    text = scale.format(trial.median_ns, unit=True)
    if bounds:
        return f"{text} [{bounds[0]}, {bounds[1]}]"
    return f"{text} from {trial.few_samples}" if trial.few_samples else text


def _bounds(trial: StudyTrial) -> tuple[str, str] | None:
    """Return the interval of the median in the unit of the median."""
    if trial.interval is None:
        return None
    low, high = trial.interval
    scale = choose_scale("time", [low])
    return scale.format(low), scale.format(high)


def _name(trial: StudyTrial, name: str = "") -> str:
    """Return a contender, or another name of it, with its tunables."""
    name = shorten(name or trial.contender)
    return f"{name} ({shorten(trial.tunables_label)})" if trial.tunables else name


def _where(trial: StudyTrial) -> str:
    return f"{trial.problem_name} on {trial.device}" if trial.device else trial.problem_name
