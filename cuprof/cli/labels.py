"""Words, styles and numbers for people: the state of a trial, a time with its unit, a span of seconds, a counter."""

from __future__ import annotations

from cuprof.core.records import State
from cuprof.report.units import UNITS, Scale

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


def mark_of(state: State, expected: str = "right") -> tuple[str, str]:
    """Return the word for a state of a variant that is expected to be right or wrong, and its rich style."""
    return OF_WRONG.get(state, MARKS[state]) if expected == "wrong" else MARKS[state]


def format_number(scale: Scale, value: float | None) -> str:
    """Return a number without the spaces that part its thousands on a page: columns stand apart by spaces here."""
    return scale.format(value).replace("\N{NARROW NO-BREAK SPACE}", "").replace("–", "")


def format_time(duration_ns: float) -> str:
    """Return a duration in the unit that keeps it at 1 or above, to four digits: "12.31 µs"."""
    units = UNITS["time"]
    unit, size = next((each for each in reversed(units) if duration_ns >= each[1]), units[0])
    return f"{duration_ns / size:#.4g}".rstrip(".") + f" {unit}"


def format_duration(seconds: float) -> str:
    """Return a span of time: "0.4 s", "45 s", "3:05", "2:10:00"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_counter(value: float | str | None) -> str:
    """Return a value as text: whole numbers in full, others to six digits, "–" for none."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.1f}"
