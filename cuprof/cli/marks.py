"""The word and style of each state of a trial; the words differ without colour, in plain ASCII."""

from __future__ import annotations

from cuprof.core.records import State

MARKS: dict[State, str] = {
    State.OK: "ok",
    State.WRONG_RESULT: "WRONG",
    State.IMPLAUSIBLE: "IMPLAUSIBLE",
    State.COMPILE_ERROR: "NO BUILD",
    State.LAUNCH_ERROR: "FAILED",  # a launch, or a function that raised
    State.CRASHED: "CRASHED",
    State.TIMED_OUT: "TIMEOUT",
    State.IMPOSSIBLE: "impossible",
    State.SKIPPED: "skipped",
    State.PLANNED: "to do",
}
"""State → the word in tables and progress lines; capitals for failures."""

WRONG_AS_EXPECTED = "wrong, as expected"
"""In place of WRONG for a variant that is kept because it is wrong: no failure, so no capitals."""

SURPRISING_PASS = "PASSED, known wrong"
"""In place of ok for such a variant: a failure, since its check has found nothing."""

FAILED_STYLE = "bold red"
STYLES: dict[State, str] = {
    State.OK: "green",
    State.IMPOSSIBLE: "dim",
    State.SKIPPED: "dim",
    State.PLANNED: "dim",
}


def is_expected(state: State, expected: str) -> bool:
    """Return whether a trial came out wrong as its variant is expected to ("right" or "wrong")."""
    return state is State.WRONG_RESULT and expected == "wrong"


def is_surprising(state: State, expected: str) -> bool:
    """Return whether a variant that is expected to be wrong was found right."""
    return state is State.OK and expected == "wrong"


def mark_of(state: State, expected: str = "right") -> str:
    """Return the word that stands for a state of a variant that is expected to be right or wrong."""
    if is_surprising(state, expected):
        return SURPRISING_PASS
    return WRONG_AS_EXPECTED if is_expected(state, expected) else MARKS[state]


def style_of(state: State, expected: str = "right") -> str:
    """Return the rich style that goes with a state, beside its word."""
    if is_surprising(state, expected):
        return FAILED_STYLE
    return "dim" if is_expected(state, expected) else STYLES.get(state, FAILED_STYLE)
