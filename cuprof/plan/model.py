"""A selection, and the plan that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuprof.core.errors import SelectionError
from cuprof.core.point import Axes, Point
from cuprof.core.records import Trial


@dataclass(frozen=True)
class Selection:
    """Choose variants, problems and tunables of a family; lists vary, and their product is taken.

    Args:
        variants: names, patterns ("cpu_*"), kinds ("kernel", "library", "cpu"), back ends ("cuda"), or "all".
        problem: axis → values; text is evaluated as arithmetic. An axis that is not named has its default.
        tune: tunable → values, "all" for every allowed one. A tunable that is not named has its default.
        presets: names of the family's problems. A preset fixes its axes; the others vary as `problem` says.
        optional: tunables among `tune` that the chosen variants need not have, as long as the family does: an
            experiment's own, when only some of its variants are chosen.
    """

    variants: tuple[str, ...] = ("all",)
    problem: Axes = field(default_factory=dict)
    tune: Axes = field(default_factory=dict)
    presets: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Exclusion:
    """Say why a combination is not a trial.

    Args:
        label: the combination, as a trial's label.
        reason: the constraint's own words, or what the back end's devices lack.
        is_impossible: no device of the back end can run it.
        problem: the combination's; None if it is excluded at all problems.
    """

    label: str
    reason: str
    is_impossible: bool = False
    problem: Point | None = None


@dataclass(frozen=True)
class Plan:
    """Hold the trials of a selection.

    Args:
        selection: what was asked for.
        trials: problem by problem; in it variant by variant as the family declares them; in it the tunables.
        excluded: combinations that a constraint or a variant's allowed values leave out.
        notes: what was given and is not used, for the user.
    """

    selection: Selection
    trials: tuple[Trial, ...]
    excluded: tuple[Exclusion, ...] = ()
    notes: tuple[str, ...] = ()

    def list_omitted(self) -> dict[Point, str]:
        """Return problem → reason of those at which no combination is a trial."""
        problems = {trial.problem for trial in self.trials}
        omitted = [each for each in self.excluded if each.problem is not None and each.problem not in problems]
        return {each.problem: each.reason for each in reversed(omitted) if each.problem is not None}

    def require_runnable(self) -> None:
        """Raise `SelectionError` if no trial can run on this machine."""
        if all(trial.unavailable is not None for trial in self.trials):
            reasons = dict.fromkeys(str(trial.unavailable) for trial in self.trials)
            raise SelectionError(f"none of the {len(self.trials)} trials can run here: {'; '.join(list(reasons)[:3])}")
