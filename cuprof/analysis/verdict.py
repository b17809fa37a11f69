"""The verdict in words: which variant is the fastest right one, by how much, and what does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cuprof.analysis.failures import failure_groups, surprising_passes
from cuprof.analysis.intervals import few_samples, has_interval, level_text
from cuprof.analysis.orders import about_equal, published_order, winners
from cuprof.analysis.quantities import choose_scale, count, format_ratio, format_value, shorten
from cuprof.analysis.ratio import CONFIDENCE, METHOD, Ratio
from cuprof.analysis.sampling_notes import sampling_notes
from cuprof.analysis.study import Study, extreme
from cuprof.records import FAILED

TELLING_SHARE = 0.1
"""Below this share of the read bandwidth memory is not the limit, and the headline leaves the share out."""


@dataclass(frozen=True)
class KeyNumber:
    """One number of the summary: what it is, the number, and a word on it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Verdict:
    """The summary of a study.

    Args:
        headline: one sentence.
        sentences: what follows from the measurements, the most important first.
        cautions: what a reader must know before believing it.
        method: how intervals were made; empty where none is stated.
        numbers: the handful to remember.
    """

    headline: str
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]
    method: str
    numbers: tuple[KeyNumber, ...] = ()


def verdict(study: Study) -> Verdict:
    """Return what the study's measurements say at its reference problem."""
    cautions = _cautions(study)
    if study.best.empty:
        return Verdict(_nothing(study), (), cautions, "")
    ranked = study.best.sort_values("time_ns", kind="stable")
    fastest = dict(ranked.iloc[0])
    time = format_value("time", fastest["time_ns"])
    # the place names the device, so the variant's own name is enough
    name = _name({**fastest, "contender": fastest["variant"]})
    headline = f"{name} is the fastest right variant at {_where(fastest)}: {time}"
    headline += (
        f", {fastest['share'] * 100:.0f}\N{NO-BREAK SPACE}% of the device's measured read bandwidth."
        if fastest["share"] >= TELLING_SHARE
        else "."
    )
    if len(ranked) == 1:
        headline = f"{name} is the only variant with a right, timed result at {_where(fastest)}: {time}."
    sentences = [*_against_baseline(study, fastest), *_against_library(study, ranked), *_against_cpu(study, ranked)]
    sentences += _other_devices(study, ranked, fastest)
    sentences += [*published_order(study), *winners(study)]
    compared = any("interval" in sentence for sentence in sentences)
    method = f"Brackets after a time hold the {level_text(study.confidence)} interval of its median. {METHOD}"
    return Verdict(headline, tuple(sentences), cautions, method if compared else "", _numbers(study, fastest))


def _numbers(study: Study, fastest: Mapping[Any, Any]) -> tuple[KeyNumber, ...]:
    bounds = _bounds(fastest)
    name = shorten(fastest["contender"])
    note = ", ".join(filter(None, (name, f"{bounds[0]} to {bounds[1]}" if bounds else few_samples(fastest))))
    found = [KeyNumber("Fastest", format_value("time", fastest["time_ns"]), note)]
    if fastest["share"] >= TELLING_SHARE:
        roof = format_value("bandwidth", fastest["bandwidth"] / fastest["share"])
        found.append(
            KeyNumber(
                "Of the measured peak",
                f"{fastest['share'] * 100:.0f}\N{NO-BREAK SPACE}%",
                f"{format_value('bandwidth', fastest['bandwidth'])} of {roof}",
            )
        )
    elif pd.notna(fastest["rate"]):
        found.append(KeyNumber("Arithmetic rate", format_value("rate", fastest["rate"]), name))
    baseline = study.baseline_row(fastest)
    if baseline is not None and baseline["trial_id"] != fastest["trial_id"]:
        ratio = float(baseline["time_ns"] / fastest["time_ns"])
        found.append(
            KeyNumber(
                f"Against {baseline['contender']}" if study.stand_in else "Against the baseline",
                f"{format_ratio(ratio)}×",
                f"in place of {study.baseline}" if study.stand_in else str(baseline["contender"]),
            )
        )
    own = study.best[study.best["kind"] == "kernel"]
    if not study.libraries.empty and not own.empty:
        library, mine = study.libraries.iloc[0], extreme(own, "time_ns")
        ratio = float(library["time_ns"] / mine["time_ns"])
        found.append(
            KeyNumber(
                "Best kernel against best library",
                f"{format_ratio(ratio)}×",
                f"{mine['contender']} against {library['contender']}",
            )
        )
    return tuple(found)


def _against_baseline(study: Study, fastest: Mapping[Any, Any]) -> list[str]:
    baseline = study.baseline_row(fastest)
    sentences = []
    if study.stand_in and baseline is not None:
        sentences.append(
            f"The baseline {shorten(study.baseline)} has no right, timed result here, so {shorten(study.stand_in)} "
            "stands in for it."
        )
    if baseline is None:
        return [f"The baseline {study.baseline} has no right, timed result here, so nothing is compared with it."]
    if baseline["trial_id"] == fastest["trial_id"]:
        if len(study.best) > 1:
            sentences.append("That is the baseline itself: nothing else that ran is faster.")
        return sentences
    return [*sentences, f"{_compare(study, baseline, fastest, '' if study.stand_in else 'the baseline ')}."]


def _against_library(study: Study, ranked: pd.DataFrame) -> list[str]:
    if study.libraries.empty:
        return []
    library = dict(study.libraries.iloc[0])
    own = ranked[~ranked["trial_id"].isin(study.libraries["trial_id"]) & (ranked["kind"] == "kernel")]
    if own.empty:
        return [
            f"The best library is {_name(library)}, {_time(library)}; no hand-written kernel has a right result here."
        ]
    mine = dict(own.iloc[0])
    if mine["time_ns"] <= library["time_ns"]:
        return [f"{_compare(study, library, mine, 'the best library, ')}."]
    ratio = study.ratio(mine, library)
    sentence = (
        f"The fastest hand-written kernel, {_name(mine)} ({_time(mine)}), takes {format_ratio(ratio.value)} times as "
        f"long as the best library, {_name(library)}{_interval(ratio)}"
    )
    others = [
        f"{format_ratio(row['time_ns'] / mine['time_ns'])} times as fast as {_name(row)}, {_time(row)}"
        for row in study.libraries.to_dict("records")[1:]
        if row["time_ns"] > mine["time_ns"] and row["backend"] == mine["backend"]
    ]
    return [f"{sentence}{f'; it is {others[0]}' if others else ''}."]


def _against_cpu(study: Study, ranked: pd.DataFrame) -> list[str]:
    cpus, others = ranked[ranked["kind"] == "cpu"], ranked[ranked["kind"] != "cpu"]
    if cpus.empty or others.empty:
        return []
    cpu, other = dict(cpus.iloc[0]), dict(others.iloc[0])
    ratio = float(cpu["time_ns"]) / float(other["time_ns"])
    if ratio >= 1:
        return [
            f"The best CPU variant, {_name(cpu)}, takes {_time(cpu)}, {format_ratio(ratio)} times as long as "
            f"{shorten(other['contender'])} (kernel time, without transfers)."
        ]
    return [f"The best CPU variant, {_name(cpu)}, is faster here than every other: {_time(cpu)}."]


def _other_devices(study: Study, ranked: pd.DataFrame, fastest: Mapping[Any, Any]) -> list[str]:
    """Return the fastest variant of every further accelerator; processors are compared as variants."""
    others = ranked[(ranked["device"] != fastest["device"]) & (ranked["backend"] != "cpu")]
    sentences = []
    for device, rows in others.groupby("device", sort=False):
        best = dict(rows.iloc[0])
        best["contender"] = best["variant"]
        text = f"On {device} the fastest is {_name(best)}, {_time(best)}"
        baseline = study.baseline_row(best)
        if baseline is not None and baseline["device"] == device and baseline["trial_id"] != best["trial_id"]:
            ratio = study.ratio(baseline, best)
            text += f", {format_ratio(ratio.value)} times as fast as {baseline['variant']} there{_interval(ratio)}"
        sentences.append(f"{text}.")
    return sentences


def _cautions(study: Study) -> tuple[str, ...]:
    cautions = []
    if study.reference_note:
        cautions.append(study.reference_note)
    if not study.sweep.is_finished:
        missing = int((study.trials["state"] == "planned").sum())
        earlier = study.sweep.earlier_finished
        cautions.append(
            f"This sweep is not finished ({study.sweep.state}); {missing} of {len(study.trials)} trials have not run. "
            "The same command goes on where it stopped."
            + (f" The page of an earlier finished sweep: report.sweep={earlier}." if earlier else "")
        )
    for group in failure_groups(study):
        names = _names(group.variants)
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
    for name in surprising_passes(study):
        cautions.append(f"{name} is kept because it is known to be wrong, yet its check passed here. It is not ranked.")
    cautions += sampling_notes(study.trials)
    if study.best["tunables_label"].astype(bool).any() and _tuned(study):
        cautions.append(
            "Each variant stands with the fastest of its measured tunables; the more were tried, the luckier the best "
            "may be."
        )
    return tuple(dict.fromkeys(cautions))


def _tuned(study: Study) -> bool:
    here = study.right[study.right["problem"] == study.reference]
    return bool((here.groupby("contender").size() > 1).any())


def _nothing(study: Study) -> str:
    numbers: Counter[str] = Counter()
    for group in failure_groups(study):
        numbers[group.words] += group.trials
    counts = ", ".join(f"{number} {words}" for words, number in numbers.items())
    return f"No variant has a right, timed result, so there is nothing to rank ({counts or 'no trial was timed'})."


def _compare(study: Study, slower: Mapping[Any, Any], faster: Mapping[Any, Any], role: str) -> str:
    ratio = study.ratio(slower, faster)
    name = shorten(faster["contender"])
    if about_equal(ratio):
        text = f"{name} and {role}{_name(slower)} are about equally fast: {format_ratio(ratio.value)}×"
    else:
        times = format_ratio(ratio.value)
        text = f"{name} is {times} times as fast as {role}{_name(slower)}, {_time(slower)}"
    return f"{text}{_interval(ratio)}"


def _interval(ratio: Ratio) -> str:
    if not ratio.known:
        return ""
    text = (
        f" ({CONFIDENCE * 100:.0f}\N{NO-BREAK SPACE}% interval {format_ratio(ratio.low)} to {format_ratio(ratio.high)}"
    )
    return f"{text}{'' if ratio.established else '; it includes 1, so neither is shown to be faster'})"


def _time(row: Mapping[Any, Any]) -> str:
    bounds = _bounds(row)
    text = choose_scale("time", [row["time_low_ns"] if bounds else row["time_ns"]]).format(row["time_ns"], unit=True)
    if bounds:
        return f"{text} [{bounds[0]}, {bounds[1]}]"
    return f"{text} from {few}" if (few := few_samples(row)) else text


def _bounds(row: Mapping[Any, Any]) -> tuple[str, str] | None:
    """Return the interval of the median in the unit of the median."""
    if not has_interval(row):
        return None
    scale = choose_scale("time", [row["time_low_ns"]])
    return scale.format(row["time_low_ns"]), scale.format(row["time_high_ns"])


def _name(row: Mapping[Any, Any]) -> str:
    name = shorten(row["contender"])
    return f"{name} ({shorten(row['tunables_label'])})" if row["tunables_label"] else name


def _where(row: Mapping[Any, Any]) -> str:
    return f"{row['problem_name']} on {row['device']}" if row["device"] else str(row["problem_name"])


def _names(names: Iterable[str], most: int = 6) -> str:
    names = [shorten(name) for name in names]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return ", ".join(names)
