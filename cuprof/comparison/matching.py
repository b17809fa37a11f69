"""Which trial of BASE is compared with which of NEW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from cuprof.comparison.entries import Entry, Side
from cuprof.errors import SelectionError
from cuprof.records import FAILED, Measure, State

TUNABLES = ("best", "equal")
"""How two variants are compared: each at its own fastest tunables, or each choice with its equal."""
KERNEL_TIMES = (Measure.COLD, Measure.HOT)


@dataclass(frozen=True)
class Match:
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
        return " and ".join(dict.fromkeys((self.base.device, self.new.device)))

    @property
    def is_one_run(self) -> bool:
        """Return whether both sides stand for the same measurement."""
        return bool(self.base.run) and self.base.run == self.new.run and self.base.state is not State.SKIPPED

    @property
    def is_skipped(self) -> bool:
        """Return whether neither side could run it."""
        return self.base.state is State.SKIPPED and self.new.state is State.SKIPPED


@dataclass(frozen=True)
class Matching:
    """The matched trials, and those that have no counterpart."""

    matches: tuple[Match, ...]
    only_base: tuple[Entry, ...]
    only_new: tuple[Entry, ...]


def match(base: Side, new: Side, tunables: str = "best") -> Matching:
    """Return the matched trials of two sides; trials that are meant to be wrong are left out.

    Sweeps are matched by family, variant, back end, problem and tunables, whatever the source; variants by problem
    and tunables; nvbench's states by the benchmark's name and the axes that it names. Where a trial ran on several
    devices, equal names meet.

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
    if (base.kind == "nvbench") != (new.kind == "nvbench"):
        return _match_across(bases, news)
    return _match_keys(
        bases, news, lambda entry: (entry.family, entry.variant, entry.backend, entry.problem, entry.tunables)
    )


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
    only_base: list[Entry] = []
    late: list[Entry] = []
    for entry in bases:  # equal devices first, so that none is taken by another device's trial
        equal = [other for other in others[key(entry)] if other.device == entry.device]
        if equal:
            others[key(entry)].remove(equal[0])
            matches.append(Match(entry, equal[0]))
        else:
            late.append(entry)
    for entry in late:
        left = others[key(entry)]
        if left:
            matches.append(Match(entry, left.pop(0)))
        else:
            only_base.append(entry)
    return Matching(tuple(matches), tuple(only_base), tuple(entry for left in others.values() for entry in left))


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
    """Match nvbench's states with trials: the variant named like the benchmark, at the values of the state's axes."""
    swapped = any(entry.variant for entry in news)
    trials, states = (news, bases) if swapped else (bases, news)
    matches: list[Match] = []
    taken: set[int] = set()
    lonely: list[Entry] = []
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
        if len(fitting) == 1:
            taken.add(id(fitting[0]))
            matches.append(Match(state, fitting[0]) if swapped else Match(fitting[0], state))
        else:
            lonely.append(state)
    rest = tuple(trial for trial in trials if id(trial) not in taken)
    return Matching(tuple(matches), *((tuple(lonely), rest) if swapped else (rest, tuple(lonely))))


def _time(entry: Entry) -> float:
    for measure in (*KERNEL_TIMES, Measure.TOTAL):
        if measure in entry.series:
            return entry.series[measure].median_ns
    return float("inf")
