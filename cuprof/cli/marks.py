"""The word and style of each state of a trial; the words differ without colour, in plain ASCII."""

from __future__ import annotations

from cuprof.core.records import State

FAILED_STYLE = "bold red"
MARKS = {
    State.OK: ("ok", "green"),
    State.WRONG_RESULT: ("WRONG", FAILED_STYLE),
    State.IMPLAUSIBLE: ("IMPLAUSIBLE", FAILED_STYLE),
    State.COMPILE_ERROR: ("NO BUILD", FAILED_STYLE),
    State.LAUNCH_ERROR: ("FAILED", FAILED_STYLE),  # a launch, or a function that raised
    State.CRASHED: ("CRASHED", FAILED_STYLE),
    State.TIMED_OUT: ("TIMEOUT", FAILED_STYLE),
    State.IMPOSSIBLE: ("impossible", "dim"),
    State.SKIPPED: ("skipped", "dim"),
    State.PLANNED: ("to do", "dim"),
}
"""State → the word in tables and progress lines, capitals for failures, and its rich style."""
OF_WRONG = {
    State.WRONG_RESULT: ("wrong, as expected", "dim"),  # no failure, so no capitals
    State.OK: ("PASSED, known wrong", FAILED_STYLE),  # a failure: its check has found nothing
}
"""The same of a variant that is kept because it is wrong."""


def is_expected(state: State, expected: str) -> bool:
    """Return whether a trial came out wrong as its variant is expected to ("right" or "wrong")."""
    return state is State.WRONG_RESULT and expected == "wrong"


def mark_of(state: State, expected: str = "right") -> str:
    """Return the word that stands for a state of a variant that is expected to be right or wrong."""
    return _find(state, expected)[0]


def style_of(state: State, expected: str = "right") -> str:
    """Return the rich style that goes with a state, beside its word."""
    return _find(state, expected)[1]


def _find(state: State, expected: str) -> tuple[str, str]:
    return OF_WRONG.get(state, MARKS[state]) if expected == "wrong" else MARKS[state]
