"""Compare two sides: match trials, form intervals, judge them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from cuprof.builds.machine_code import names_launches
from cuprof.comparison.match import match
from cuprof.comparison.noise import find_noises, noise_between, noise_within
from cuprof.comparison.sides import Side
from cuprof.comparison.trials import KERNEL_TIMES, each, label_of, name_of, number_keys
from cuprof.core.errors import SelectionError
from cuprof.core.records import FAILED, NOT_RUN, Measure
from cuprof.core.text import list_first
from cuprof.statistics.contrasts import Contrasts, contrast
from cuprof.statistics.noise import PREPARED, SweepNoise
from cuprof.statistics.verdict import Rule, Verdict, judge

AT_ONCE = 300_000
"""About how many samples are held at one time, in pairs."""
LABEL_COLUMNS = ("family", "variant", "problem", "tunables", "device_number", "device_repeats", "state", "message")
"""Columns of a side that sentences about its trial take."""


@dataclass(frozen=True)
class Options:
    """Name the times that are compared, and the rule.

    Args:
        measures: empty takes the kernel times that both sides have.
        noise: relative standard deviation of any time from sweep to sweep; None estimates it from unchanged trials, or
            assumes it by the kind of time and its length.
        tunables: "best" or "equal"; see `cuprof.comparison.match`.
    """

    rule: Rule = field(default_factory=Rule)
    measures: tuple[Measure, ...] = ()
    noise: float | None = None
    tunables: str = "best"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The verdicts on the trials of two sides.

    Args:
        rows: a row for each measure of a matched trial: the columns of both sides' trials under base_ and new_,
            `measure`, `match` (a number, equal in the rows of one matched trial), `choices` (pairs of tunables that
            could have been compared in its place), `unchanged` (the same trial on both sides: source, device and
            software; or the same machine code and launches, `same_code`), `together` (the samples were
            taken side by side), `device`, and the verdict: `ratio` (NEW / BASE), `low`, `high`,
            `error_rate` (chance that this interval misses the truth), `paired` (by rounds), `verdict`.
        only_base, only_new: trials of the sides without a counterpart.
        broken: right in BASE, failed in NEW; as NEW has them.
        one_run: matched trials that are one and the same measurement on both sides.
        skipped: matched trials that could run on neither side.
        incomparable: why others are not compared: one side has no time of it, the methods or measures differ, or which
            of several devices is meant cannot be told.
        noises: device → noise from sweep to sweep; empty where every pair was taken together.
        nothing_changed: every matched trial is the same on both sides: source, device and software.
        warnings: what a reader must know before believing the verdicts.
    """

    base: Side
    new: Side
    options: Options
    rows: pd.DataFrame
    only_base: pd.DataFrame
    only_new: pd.DataFrame
    broken: pd.DataFrame
    one_run: pd.DataFrame
    skipped: pd.DataFrame
    incomparable: tuple[str, ...]
    noises: Mapping[str, SweepNoise]
    nothing_changed: bool
    warnings: tuple[str, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """Return how often each verdict was given."""
        found = {verdict: int((self.rows["verdict"] == verdict.value).sum()) for verdict in Verdict}
        return {verdict: number for verdict, number in found.items() if number or verdict is not Verdict.SAME_CODE}

    @property
    def noise_within(self) -> str:
        """Return the variation assumed beside `noises` of times that were taken together; empty where nothing is."""
        within = noise_within(self.rows[self.rows["together"]])
        return PREPARED.text() if within[:, 0].any() else ""

    @property
    def undecided(self) -> pd.DataFrame:
        """Return the rows without a verdict."""
        return self.rows[self.rows["verdict"] == Verdict.UNDECIDED.value]

    @property
    def exit_code(self) -> int:
        """Return 1 where something that changed is slower, or something does not work any more, else 0.

        A trial in which nothing has changed is not slower, however its times fell out.
        """
        slower = (self.rows["verdict"] == Verdict.SLOWER.value) & ~self.rows["unchanged"]
        return 1 if slower.any() or len(self.broken) else 0


def compare(base: Side, new: Side, options: Options | None = None) -> Comparison:
    """Compare every trial of BASE with its counterpart in NEW.

    Raises:
        SelectionError: no trial of one side has a counterpart in the other, or none can be compared.
    """
    options = options or Options()
    matching = match(base, new, options.tunables)
    if matching.pairs.empty:
        raise SelectionError(
            f"no trial of {base.description} has a counterpart in {new.description} (BASE has "
            f"{_names(matching.bases)}; NEW has {_names(matching.news)})"
            + (f"; {matching.ambiguous[0]}" if matching.ambiguous else "")
        )
    paired = pair_up(matching.pairs, base, new)
    rows, incomparable = _rows(paired, base, new, options)
    matched = paired.drop_duplicates("match")
    incomparable = (*incomparable, *matching.ambiguous)
    broken = matched[matched["base_timed"] & matched["new_state"].isin([*FAILED])]
    one_run = matched[matched["one_run"]]
    if rows.empty and broken.empty and (incomparable or one_run.empty):  # what was measured anew cannot be judged
        raise SelectionError(
            f"no matched trial can be compared: {incomparable[0] if incomparable else 'none is timed'}"
        )
    rows, (noises,) = judge_rows(rows, base, new, options)
    return Comparison(
        base=base,
        new=new,
        options=options,
        rows=rows,
        only_base=matching.bases.loc[list(matching.only_base)],
        only_new=matching.news.loc[list(matching.only_new)],
        broken=matching.news.loc[broken["new"]],
        one_run=one_run,
        skipped=matched[matched["skipped"]],
        incomparable=incomparable,
        noises=noises,
        nothing_changed=bool(matched["unchanged"].all()),
        warnings=_warnings(base, new, matched, rows),
    )


def compare_within(sweep: Side, pairs: Sequence[tuple[Side, Side]]) -> pd.DataFrame:
    """Return the rows of comparing pairs of parts of a sweep as `compare` does of each, with the pair's `group`."""
    options = Options()
    found = [match(base, new, options.tunables).pairs.assign(group=group) for group, (base, new) in enumerate(pairs)]
    rows, _ = _rows(pair_up(pd.concat(found, ignore_index=True), sweep, sweep), sweep, sweep, options)
    return judge_rows(rows, sweep, sweep, options)[0]


def judge_rows(
    rows: pd.DataFrame, base: Side, new: Side, options: Options
) -> tuple[pd.DataFrame, list[dict[str, SweepNoise]]]:
    """Return matched rows with their verdicts, each group judged by itself, and each group's noise by device."""
    noise, noises = noise_within(rows), list[dict[str, SweepNoise]]()
    groups = _stretches(rows["group"])
    is_apart = ~rows["together"].to_numpy(bool)
    for chosen in (places[is_apart[places]] for places in groups):
        noises.append({})
        if chosen.size:
            apart = rows.take(chosen)
            unchanged = apart[apart["unchanged"] & (options.noise is None)]
            noises[-1] = find_noises(apart, options.noise, contrast_rows(unchanged, base, new))
            noise[chosen] = noise_between(noises[-1], apart)
    contrasts = _bridge(contrast_rows(rows, base, new, noise), rows, base, new)
    choices = rows["choices"].to_numpy()
    parts = [
        pd.DataFrame(judge(contrasts.take(places), options.rule, int(choices[places].sum())), places)
        for places in groups
    ]
    rows = rows.assign(**pd.concat(parts))
    rows.loc[rows["same_code"], "verdict"] = Verdict.SAME_CODE.value
    return rows, noises


def contrast_rows(rows: pd.DataFrame, base: Side, new: Side, noise: np.ndarray | None = None) -> Contrasts:
    """Return the contrast of each row, given the noise of its times; of many rows' samples a part is held at a time."""
    if rows.empty:
        return Contrasts.none_of(0)
    sides = (base.source, _of(rows, "base")), (new.source, _of(rows, "new"))
    ours, theirs = (source.learn(timed) for source, timed in sides)
    known = ours._replace(new=theirs.new)
    parts = []
    held = (rows["base_samples"] + rows["new_samples"]).cumsum() - 1
    for part in _stretches(held // AT_ONCE):
        samples, others = (source.read(timed.iloc[part]) for source, timed in sides)
        parts.append(contrast(samples, others, None if noise is None else noise[part], known=known.take(part)))
    return Contrasts.joined(parts)


def judge_anew(comparison: Comparison, later: Comparison) -> Comparison:
    """Return a comparison with the rows that a later one decided anew in place of its own."""
    rows, names = comparison.rows, ["base_problem", "base_device", "new_device", "measure"]
    if comparison.options.tunables != "best":  # the best tunables may be others a second time
        names += ["base_tunables", "new_tunables"]
    own, anew = number_keys(rows, later.rows, by=names)
    places, is_open = np.arange(len(rows)), (rows["verdict"] == Verdict.UNDECIDED.value).to_numpy(bool)
    found = {key: len(rows) + place for place, key in enumerate(anew.tolist())}
    places[is_open] = [found.get(key, place) for key, place in zip(own[is_open], places[is_open], strict=True)]
    rows = pd.concat([rows, later.rows[rows.columns]]).iloc[places].reset_index(drop=True)
    broken = pd.concat([comparison.broken, later.broken])
    warnings = tuple(dict.fromkeys((*comparison.warnings, *later.warnings)))
    return replace(comparison, rows=rows, broken=broken, warnings=warnings)


def row_label(row: Any) -> str:
    """Return what a row is about for people; of two variants, both names and each one's tunables."""
    base, new = trial_of(row, "base"), trial_of(row, "new")
    if (base.family, base.variant, base.tunables) == (new.family, new.variant, new.tunables):
        return label_of(base)
    parts = [name_of(each) + (f" ({each.tunables.label})" if each.tunables else "") for each in (base, new)]
    return f"{parts[0]} → {parts[1]} · {base.problem.label or new.problem.label}"


def trial_of(row: Any, side: str) -> Any:
    """Return the trial of a side ("base", "new") that a row of `Comparison.rows` is about, with what names it."""
    return SimpleNamespace(**{name: getattr(row, f"{side}_{name}") for name in LABEL_COLUMNS})


def pair_up(pairs: pd.DataFrame, base: Side, new: Side) -> pd.DataFrame:
    """Return matched trials: a row for each measure that both sides have, or one without a measure.

    A row has both sides' columns, and what stands against a comparison.

    Args:
        pairs: see `Matching`.
    """
    pairs = pairs.assign(match=np.arange(len(pairs)))
    sides, shared = {"base": base, "new": new}, pairs.assign(base_timed=True, new_timed=True)
    for name, side in sides.items():
        timed = side.trials[(side.trials["measure"] != "") & side.trials["trial"].isin(pairs[name])]
        named = timed.add_prefix(f"{name}_").rename(columns={f"{name}_trial": name, f"{name}_measure": "measure"})
        shared = shared.merge(named)  # of the second side by the measure as well
    rest = pairs[~pairs["match"].isin(shared["match"])].assign(measure="")
    for name, side in sides.items():
        rest = rest.join(side.once.assign(timed=side.once["measure"] != "").add_prefix(f"{name}_"), on=name)
    rows = pd.concat([shared, rest[[*shared]]]).sort_values("match", kind="stable", ignore_index=True)
    names = ("identity", "duration_ns", "device", "device_key", "code", "rotation")
    same = {name: rows[f"base_{name}"] == rows[f"new_{name}"] for name in names}
    is_known = rows["base_code"].map(names_launches).astype(bool)
    same_code = same["code"] & is_known & same["device_key"] & ~same["identity"]
    begun = rows["base_started_at"].fillna(0.0) == rows["new_started_at"].fillna(0.0)
    absent = {side: rows[f"{side}_state"].isin([*NOT_RUN]) for side in sides}
    ran = (rows["base_run_id"] > 0) & (rows["new_run_id"] > 0)
    both = rows["base_device"] + " and " + rows["new_device"]
    rows = rows.assign(
        device=rows["base_device"].where(same["device"], both),
        same_code=same_code,
        unchanged=(same["identity"] & (rows["base_identity"] != "")) | same_code,
        one_run=ran & same["identity"] & begun & same["duration_ns"] & ~absent["base"],
        skipped=absent["base"] & absent["new"],
        together=same["rotation"] & (rows["base_rotation"] != ""),
    )
    return rows.copy()  # whose columns of one type lie side by side: to take rows of it takes a third of the time


def _rows(paired: pd.DataFrame, base: Side, new: Side, options: Options) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return what can be compared, a row for each measure, and why the rest cannot."""
    still = paired[~(paired["one_run"] | paired["skipped"])]
    shared = still[still["measure"] != ""]
    measures = options.measures or (*KERNEL_TIMES, *sorted({*shared["measure"]} - {*KERNEL_TIMES}))
    wanted = shared["measure"].isin([*(options.measures or KERNEL_TIMES)])
    if not options.measures:
        wanted |= ~wanted.groupby(shared["group"]).transform("any")
    shared = shared[wanted]
    order = shared["measure"].map({measure: place for place, measure in enumerate(measures)})
    shared = shared.iloc[np.lexsort((order, shared["match"]))].reset_index(drop=True)
    left = still[~still["match"].isin(shared["match"])].drop_duplicates("match")
    asked = ", ".join(options.measures or filter({*shared["measure"]}.__contains__, measures)) or "any"
    reasons = [(row.match, text) for row in each(left) if (text := _reason(row, asked))]
    # Another tool's method is another by nature; the side's note says so.
    own = (shared["base_tool"] == "") & (shared["new_tool"] == "")
    apart = (shared["base_backend"] != shared["new_backend"]) | (shared["base_method"] != shared["new_method"])
    differing = {
        row.Index: (row.match, f"{label_of(trial_of(row, 'base'))}: {text}")
        for row in each(shared[own & apart])
        if (text := _method_difference(row, base, new))
    }
    reasons += differing.values()
    rows = shared.drop(index=list(differing)).reset_index(drop=True)
    return rows, tuple(text for _, text in sorted(reasons, key=lambda each: each[0]))


def _reason(row: Any, asked: str) -> str:
    """Return why a matched trial has no measure that is asked for on both sides; empty where NEW is broken."""
    if row.base_timed and row.new_timed:
        return f"{label_of(trial_of(row, 'base'))}: the sides do not both have {asked} time"
    if row.base_timed and row.new_state in FAILED:
        return ""
    name, side = ("base", "BASE") if not row.base_timed else ("new", "NEW")
    bad = trial_of(row, name)
    return f"{label_of(bad)}: {bad.state} in {side}" + (f": {bad.message}" if bad.message else "")


def _method_difference(row: Any, base: Side, new: Side) -> str:
    """Return how the timing methods of a row differ; times of different methods are never compared."""
    if row.base_backend != row.new_backend:  # their versions and settings may be equal by chance
        both = f"{row.base_backend} and {row.new_backend}"
        return f"timed by different methods, those of {both}; the sweep's page has their ratio"
    measure = Measure(row.measure)
    ours = {**base.source.settings(row.base_run_sweep_id, measure, row.base_backend), "version": row.base_version}
    theirs = {**new.source.settings(row.new_run_sweep_id, measure, row.new_backend), "version": row.new_version}
    differing = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if "version" in differing:
        return f"timed by versions {ours['version']} and {theirs['version']} of the method; time BASE again"
    if not differing:
        return ""
    return "timed by different methods: " + ", ".join(
        f"measure.{name} {ours.get(name)} and {theirs.get(name)}" for name in differing
    )


def _of(rows: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return what finds the samples of a side's trials."""
    names = ("timing_id", "tick_ns", "rotation", "run_sweep_id", "device_id")
    return pd.DataFrame({name: rows[f"{side}_{name}"] for name in names} | {"measure": rows["measure"]})


def _bridge(contrasts: Contrasts, rows: pd.DataFrame, base: Side, new: Side) -> Contrasts:
    """Return the contrasts of rows across jobs freed of what the jobs differ by, where both measured one reference.

    A reference is a trial that was measured in several jobs of a sweep. The jobs may have run on two cards.
    """
    across = (rows["base_job"] != rows["new_job"]) & (rows["base_reference_id"] >= 0)
    met = np.flatnonzero(across & (rows["base_reference"] == rows["new_reference"]))
    if not met.size:
        return contrasts
    found = rows.assign(
        base_timing_id=rows["base_reference_id"], new_timing_id=rows["new_reference_id"],
        base_tick_ns=0.0, new_tick_ns=0.0, base_rotation="", new_rotation="",
    ).iloc[met]  # fmt: skip
    (numbers,) = number_keys(found, by=["base_timing_id", "new_timing_id"])
    _, first = np.unique(numbers, return_index=True)
    nothing = replace(Contrasts.none_of(1), deviation=np.zeros(1))
    bridge = np.full(len(rows), first.size)
    bridge[met] = numbers
    return replace(
        contrasts, bridges=Contrasts.joined([contrast_rows(found.iloc[first], base, new), nothing]).take(bridge)
    )


def _stretches(column: pd.Series[Any]) -> list[np.ndarray]:
    """Return the places of each stretch of equal values; of an empty column one stretch."""
    return np.split(np.arange(len(column)), np.flatnonzero(np.diff(column)) + 1)


def _warnings(base: Side, new: Side, matched: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, ...]:
    texts = [*base.notes, *new.notes]
    is_foreign = base.is_foreign or new.is_foreign
    names = ["base_device", "new_device", "base_device_key", "new_device_key"]
    for device, other, key, other_key in matched[names].drop_duplicates().to_numpy().tolist():
        if device != other:
            texts.append(f"this compares across devices: {device or 'unknown'} and {other or 'unknown'}")
        elif key != other_key and not is_foreign:
            texts.append(f"driver or library versions of {device} differ between the sides")
    methods = set(rows.loc[rows["base_method"] != rows["new_method"], "measure"])
    if methods and not is_foreign:
        texts.append(
            f"{' and '.join(sorted(methods))} times were sampled to different bounds, or warmed up differently"
        )
    if (rows["choices"] > 1).any():
        texts.append("each variant stands with its fastest tunables; every choice counts as a comparison of its own")
    odd = int((rows["unchanged"] & rows["verdict"].isin([Verdict.SLOWER.value, Verdict.FASTER.value])).sum())
    if odd and not matched["unchanged"].all():
        texts.append(
            f"{odd} called slower or faster although nothing has changed in {'it' if odd == 1 else 'them'}: the noise "
            "between the sides is larger than allowed for, so doubt the other differences too"
        )
    return tuple(dict.fromkeys(texts))


def _names(trials: pd.DataFrame) -> str:
    return list_first([label_of(trial) for trial in each(trials)], 3, "; ") or "none"
