"""What failed, was skipped or was not run, grouped by what happened and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from cuprof.analysis.study import Study

WORDS = {
    "wrong_result": "wrong result",
    "compile_error": "did not compile",
    "launch_error": "launch failed",
    "crashed": "crashed",
    "timed_out": "timed out",
    "skipped": "skipped",
    "planned": "not run",
}
"""State → words for people; the order is the order of the groups."""

WRONG_AS_EXPECTED = "wrong, as expected"
"""The words for a variant that is kept because it is wrong, and was found so: no failure."""

SURPRISING_PASS = "known to be wrong; its check passed here"
"""The words for such a variant that was found right."""

MOST_NAMES = 12
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


def failure_groups(study: Study) -> tuple[FailureGroup, ...]:
    """Return the groups, failures first, then skipped, then not run."""
    trials = study.trials[study.trials["state"] != "ok"]
    if trials.empty:
        return ()
    # a complaint with other numbers in it is the same complaint, variant by variant; a skip is one for all variants
    kind = trials["message"].fillna("").str.replace(r"\d[\d.,e+-]*", "#", regex=True)
    who = trials["variant"].where(~trials["state"].isin(["skipped", "planned"]), "")
    groups = trials.groupby([trials["state"], who, kind], sort=False)
    order = list(WORDS)
    made = [_group(str(state), group) for (state, _, _), group in groups]
    return tuple(sorted(made, key=lambda group: order.index(group.state) if group.state in order else len(order)))


def is_expected(trial: Mapping[Any, Any] | pd.Series) -> bool:
    """Return whether a trial came out wrong as it should."""
    return bool(trial["state"] == "wrong_result" and trial["expected"] == "wrong")


def surprising_passes(study: Study) -> tuple[str, ...]:
    """Return the variants known to be wrong whose check passed all the same."""
    passed = study.trials[(study.trials["expected"] == "wrong") & (study.trials["state"] == "ok")]
    return tuple(dict.fromkeys(passed["contender"]))


def _group(state: str, group: pd.DataFrame) -> FailureGroup:
    first = group.iloc[0]
    message = str(first["message"] or "")
    problems = list(dict.fromkeys(group["problem_name"]))
    log = str(first["log"] or "")
    expected = state == "wrong_result" and bool((group["expected"] == "wrong").all())
    return FailureGroup(
        state=state,
        words=WRONG_AS_EXPECTED if expected else WORDS.get(state, state.replace("_", " ")),
        variants=tuple(dict.fromkeys(group["variant"])),
        trials=len(group),
        message=message,
        others=int((group["message"] != message).sum()),
        problems="; ".join(problems[:4]) + (f" and {len(problems) - 4} more" if len(problems) > 4 else ""),
        expected=expected,
        log=log
        if len(log) <= MOST_LOG
        else f"{log[:MOST_LOG]}\n… ({len(log) - MOST_LOG} more characters are in the database)",
    )
