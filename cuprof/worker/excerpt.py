"""Shorten texts of variants and compilers to a length fit for a reader and a database."""

from __future__ import annotations

MESSAGE_CHARACTERS = 2048
LOG_CHARACTERS = 8192


def excerpt(text: str, most: int = LOG_CHARACTERS) -> str:
    """Return the beginning and the end of a text longer than `most` characters, saying how much is left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … [{len(text) - 2 * half} characters left out] … {text[-half:]}"


def one_line(text: str) -> str:
    """Return a text, or an excerpt of it, on one line."""
    return " ".join(excerpt(text, MESSAGE_CHARACTERS).split())
