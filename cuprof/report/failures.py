"""What failed, was skipped or was not run, grouped by what happened and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuprof.core.records import NOT_RUN, State
from cuprof.core.text import list_first
from cuprof.report.study import Study
from cuprof.report.tables import Cell
from cuprof.report.trials import StudyTrial, grouped

WORDS: dict[str, str] = {
    "wrong_result": "wrong result",
    "implausible": "time that cannot be believed",
    "compile_error": "did not compile",
    "launch_error": "launch failed",
    "crashed": "crashed",
    "timed_out": "timed out",
    "impossible": "impossible on this device",
    "skipped": "skipped",
    "planned": "not run",
}
"""State → words for people; the order is the order of the groups."""
WRONG_AS_EXPECTED = "wrong, as expected"
"""The words for a variant that is kept because it is wrong, and was found so: no failure."""
SURPRISING_PASS = "known to be wrong; its check passed here"
"""The words for such a variant that was found right."""
MOST_LOG = 4000


@dataclass(frozen=True)
class FailureGroup:
    """Trials that ended the same way for the same reason.

    Args:
        message: the first trial's; `others` counts further trials whose message differs in its numbers only.
        expected: every variant in it is kept because it is known to be wrong.
        log: the first trial's longer text, shortened.
    """

    state: str
    words: str
    variants: tuple[str, ...]
    trials: int
    message: str
    others: int
    problems: str
    expected: bool
    log: str = ""


def ending_cell(trial: StudyTrial, *, with_error: bool = False, **more: Any) -> Cell:
    """Return the cell of a trial that is not ranked: what became of it, and the error of a wrong result."""
    words = WRONG_AS_EXPECTED if trial.is_expected else WORDS.get(trial.state, "not timed")
    if trial.is_expected_wrong and trial.state is State.OK:
        words = SURPRISING_PASS
    if with_error and trial.state is State.WRONG_RESULT and trial.check_error is not None:
        words += f": error {trial.check_error:.3g} × allowed"
    return Cell(words, "missing" if trial.is_expected or trial.state in NOT_RUN else "failed", **more)


def failure_groups(study: Study) -> tuple[FailureGroup, ...]:
    """Return the groups, failures first, then skipped, then not run."""
    groups = grouped(study.rows(study.frame[study.frame["state"] != State.OK.value]), _kind)
    return tuple(sorted(map(_group, groups.values()), key=lambda group: list(WORDS).index(group.state)))


def surprising_passes(study: Study) -> tuple[str, ...]:
    """Return the variants known to be wrong whose check passed all the same."""
    passed = (study.frame["expected"] == "wrong") & (study.frame["state"] == State.OK.value)
    return tuple(dict.fromkeys(study.frame["contender"][passed]))


def _kind(trial: StudyTrial) -> tuple[State, str, str]:
    """Return what a trial shares with its group.

    A complaint with other numbers in it is the same complaint, variant by variant; a skip is one for all variants.
    """
    who = "" if trial.state in (*NOT_RUN, State.PLANNED) else trial.variant
    return trial.state, who, re.sub(r"\d[\d.,e+-]*", "#", trial.message)


def _group(trials: Sequence[StudyTrial]) -> FailureGroup:
    first = trials[0]
    expected = all(trial.is_expected for trial in trials)
    more = len(first.log) - MOST_LOG
    return FailureGroup(
        state=first.state,
        words=WRONG_AS_EXPECTED if expected else WORDS[first.state],
        variants=tuple(dict.fromkeys(trial.variant for trial in trials)),
        trials=len(trials),
        message=first.message,
        others=sum(trial.message != first.message for trial in trials),
        problems=list_first(list(dict.fromkeys(trial.problem_name for trial in trials)), 4, "; "),
        expected=expected,
        log=first.log if more <= 0 else f"{first.log[:MOST_LOG]}\n… ({more} more characters are in the database)",
    )
