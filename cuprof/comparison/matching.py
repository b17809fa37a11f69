"""Which trial of BASE is compared with which of NEW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cuprof.comparison.entries import Entry, Side
from cuprof.core.errors import SelectionError
from cuprof.core.records import FAILED, NOT_RUN, Measure
from cuprof.statistics.contrast import Contrast, Pair, contrast_all
from cuprof.statistics.series import Series, are_together

TUNABLES = ("best", "equal")
"""How two variants are compared: each at its own fastest tunables, or each choice with its equal."""
KERNEL_TIMES = (Measure.COLD, Measure.HOT)
WHICH = "; several devices have that name, and which is meant cannot be told"


class Match(NamedTuple):
    """One trial of each side.

    Args:
        choices: pairs of tunables that could have been compared in its place.
    """

    base: Entry
    new: Entry
    choices: int = 1

    @property
    def is_unchanged(self) -> bool:
        """Return whether both are the same trial: same source, device and software."""
        return bool(self.base.identity) and self.base.identity == self.new.identity

    @property
    def device(self) -> str:
        """Return the device's name, or both where the sides ran on two."""
        base, new = self.base.device, self.new.device
        return base if base == new else f"{base} and {new}"

    @property
    def is_one_run(self) -> bool:
        """Return whether both sides stand for the same measurement."""
        return bool(self.base.run) and self.base.run == self.new.run and self.base.state not in NOT_RUN

    @property
    def is_skipped(self) -> bool:
        """Return whether neither side could run it."""
        return self.base.state in NOT_RUN and self.new.state in NOT_RUN

    def find_references(self, measure: Measure) -> tuple[Series, Series] | None:
        """Return what the sides' jobs measured of the reference; None where they share a job or no reference."""
        base, new = self.base, self.new
        if base.job == new.job or not base.reference or base.reference != new.reference:
            return None
        if not (measure in base.references and measure in new.references):
            return None
        return base.references[measure], new.references[measure]

    def is_together(self, measure: Measure) -> bool:
        """Return whether the sides' samples of a measure, which both have, were taken side by side."""
        return are_together(self.base.series[measure], self.new.series[measure])


@dataclass(frozen=True)
class Matching:
    """The matched trials, and those that have no counterpart.

    Args:
        ambiguous: why trials are matched with none of several that could be meant, one line each.
    """

    matches: tuple[Match, ...]
    only_base: tuple[Entry, ...]
    only_new: tuple[Entry, ...]
    ambiguous: tuple[str, ...] = ()


def match(base: Side, new: Side, tunables: str = "best") -> Matching:
    """Return the matched trials of two sides; trials that are meant to be wrong are left out.

    Sweeps are matched by family, variant, back end, problem and tunables, whatever the source; variants by problem
    and tunables; another tool's states by the benchmark's name and the axes that it names. Where a trial ran on several
    devices, equal ones meet: of equal name and number, or of equal name where each side has one such device.

    Raises:
        SelectionError: `tunables` is neither "best" nor "equal".
    """
    if tunables not in TUNABLES:
        raise SelectionError(f"tunables are compared {' or '.join(TUNABLES)}, not {tunables!r}")
    bases = [entry for entry in base.entries if not entry.is_expected_wrong]
    news = [entry for entry in new.entries if not entry.is_expected_wrong]
    if base.kind == "variant" and new.kind == "variant":
        if tunables == "best":
            return _match_best(bases, news)
        return _match_keys(bases, news, lambda entry: (entry.problem, entry.tunables))
    if base.is_foreign != new.is_foreign:
        return _match_across(bases, news)
    return _match_keys(
        bases, news, lambda entry: (entry.family, entry.variant, entry.backend, entry.problem, entry.tunables)
    )


def find_bridges(pairs: Sequence[tuple[Match, Measure]]) -> list[Contrast | None]:
    """Return for each pair the contrast of the reference between the sides' jobs; None where there is none.

    By it a comparison across jobs, which may have run on two cards, is freed of what the jobs differ by.
    """
    references = [match.find_references(measure) for match, measure in pairs]
    distinct = {(id(each[0]), id(each[1])): Pair(*each) for each in references if each}
    found = dict(zip(distinct, contrast_all(list(distinct.values())), strict=True))
    return [found[id(each[0]), id(each[1])] if each else None for each in references]


def choose_measures(matches: Iterable[Match], asked: Sequence[Measure] = ()) -> tuple[Measure, ...]:
    """Return the measures to compare: those asked for, else kernel times, else whatever both sides have."""
    if asked:
        return tuple(asked)
    shared = {measure for match in matches for measure in match.base.series if measure in match.new.series}
    return tuple(measure for measure in KERNEL_TIMES if measure in shared) or tuple(sorted(shared))


def _match_keys(bases: Sequence[Entry], news: Sequence[Entry], key: Callable[[Entry], Hashable]) -> Matching:
    others: dict[Hashable, list[Entry]] = defaultdict(list)
    for entry in news:
        others[key(entry)].append(entry)
    matches: list[Match] = []
    unmatched = list(bases)
    for is_same in (_is_same_device, _is_one_named_alike):  # in this order, so that none is taken by another's trial
        late: list[Entry] = []
        for entry in unmatched:
            left = others[key(entry)]
            place = next((place for place, other in enumerate(left) if is_same(entry, other)), None)
            if place is None:
                late.append(entry)
            else:
                matches.append(Match(entry, left.pop(place)))
        unmatched = late
    only_base: list[Entry] = []
    ambiguous: list[str] = []
    for entry in unmatched:
        left = others[key(entry)]
        named_alike = [other for other in left if other.device == entry.device]
        if named_alike:
            ambiguous.append(f"{entry.label}: {_numbers([entry])} in BASE, {_numbers(named_alike)} in NEW{WHICH}")
        elif left:
            matches.append(Match(entry, left.pop(0)))
        else:
            only_base.append(entry)
    rest = tuple(entry for left in others.values() for entry in left)
    return Matching(tuple(matches), tuple(only_base), rest, tuple(ambiguous))


def _is_same_device(base: Entry, new: Entry) -> bool:
    return (base.device, base.device_id) == (new.device, new.device_id)


def _is_one_named_alike(base: Entry, new: Entry) -> bool:
    """Return whether the names are equal and each side has one device of that name."""
    return base.device == new.device and not (base.device_repeats or new.device_repeats)


def _numbers(entries: Sequence[Entry]) -> str:
    """Return which devices of one name these are."""
    numbers = " and ".join(str(entry.device_id) for entry in entries)
    return f"{entries[0].device} is device {numbers}"


def _match_best(bases: Sequence[Entry], news: Sequence[Entry]) -> Matching:
    """Return each variant's fastest tunables at each problem and device; where none is right, the first that failed."""
    best: list[dict[Hashable, tuple[Entry, int]]] = []
    for entries in (bases, news):
        groups: dict[Hashable, list[Entry]] = defaultdict(list)
        for entry in entries:
            groups[entry.problem, entry.device].append(entry)
        chosen: dict[Hashable, tuple[Entry, int]] = {}
        for key, group in groups.items():
            timed = [entry for entry in group if entry.series]
            failed = [entry for entry in group if entry.state in FAILED]
            chosen[key] = (min(timed, key=_time), len(timed)) if timed else ((failed or group)[0], 1)
        best.append(chosen)
    found = _match_keys(
        [entry for entry, _ in best[0].values()], [entry for entry, _ in best[1].values()], lambda entry: entry.problem
    )
    counts = {id(entry): count for side in best for entry, count in side.values()}
    matches = tuple(
        Match(match.base, match.new, counts[id(match.base)] * counts[id(match.new)]) for match in found.matches
    )
    return Matching(matches, found.only_base, found.only_new)


def _match_across(bases: Sequence[Entry], news: Sequence[Entry]) -> Matching:
    """Match another tool's states with trials: of the variant named like the benchmark, at the values of their axes."""
    swapped = any(entry.variant for entry in news)
    trials, states = (news, bases) if swapped else (bases, news)
    matches: list[Match] = []
    taken: set[int] = set()
    lonely: list[Entry] = []
    ambiguous: list[str] = []
    for state in states:
        fitting = [
            trial
            for trial in trials
            if state.family in (trial.variant, trial.name, f"{trial.family}_{trial.variant}")
            and state.coordinates.items() <= trial.coordinates.items()
            and id(trial) not in taken
        ]
        same_device = [trial for trial in fitting if trial.device == state.device]
        fitting = same_device or fitting
        if fitting and state.device_repeats:
            ambiguous.append(f"{state.label}: {_numbers([state])} in the other tool's file{WHICH}")
        elif len(fitting) == 1:
            taken.add(id(fitting[0]))
            matches.append(Match(state, fitting[0]) if swapped else Match(fitting[0], state))
        else:
            lonely.append(state)
    rest = tuple(trial for trial in trials if id(trial) not in taken)
    alone = (tuple(lonely), rest) if swapped else (rest, tuple(lonely))
    return Matching(tuple(matches), *alone, tuple(ambiguous))


def _time(entry: Entry) -> float:
    for measure in (*KERNEL_TIMES, Measure.TOTAL):
        if measure in entry.series:
            return entry.series[measure].median_ns
    return float("inf")
