"""Text whose invisible characters cannot rearrange or hide what stands around them."""

from __future__ import annotations

import re

_INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, marks that turn the direction of writing (Unicode Annex 9), line separators, lone surrogates."""


def visible(text: str) -> str:
    r"""Return the text with such characters written as escapes ("\u202e"); tabs and line ends stay."""
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
