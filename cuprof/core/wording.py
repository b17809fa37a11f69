"""Turns of phrase that many messages have."""

from __future__ import annotations

from collections.abc import Sequence


def describe_tried(tried: int, again: int) -> str:
    """Return how many trials a search has tried, each counted once, and how many of them it looked at again."""
    return f"{tried} tried, {again} looked at again" if again else f"{tried} tried"


def count(number: int, noun: str, plural: str = "s") -> str:
    """Return "1 trial", "2 trials"; `plural` is the ending."""
    return f"{number} {noun}{'' if number == 1 else plural}"


def list_first(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names for a sentence, the first of them where they are many: "a, b" or "a, b and 3 more"."""
    return between.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def level_text(confidence: float) -> str:
    """Return a level as a percentage for a sentence: "95 %"."""
    return f"{confidence * 100:g}\N{NO-BREAK SPACE}%"
