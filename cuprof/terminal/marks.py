"""The marks of a trial's state: told apart without colour, and in plain ASCII where the terminal has no more."""

from __future__ import annotations

from cuprof.records import State

MARKS: dict[State, str] = {
    State.OK: "ok",
    State.WRONG_RESULT: "WRONG",
    State.COMPILE_ERROR: "NO BUILD",
    State.LAUNCH_ERROR: "NO LAUNCH",
    State.CRASHED: "CRASHED",
    State.TIMED_OUT: "TIMEOUT",
    State.SKIPPED: "skipped",
    State.PLANNED: "to do",
}
"""State → the word in tables and progress lines; capitals for failures."""

FAILED_STYLE = "bold red"
STYLES: dict[State, str] = {
    State.OK: "green",
    State.SKIPPED: "dim",
    State.PLANNED: "dim",
}


def mark_of(state: State) -> str:
    """Return the word that stands for a state."""
    return MARKS[state]


def style_of(state: State) -> str:
    """Return the rich style that goes with a state, beside its word."""
    return STYLES.get(state, FAILED_STYLE)
