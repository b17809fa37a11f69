"""Text whose invisible characters cannot steer a terminal, nor rearrange or hide what stands around them."""

from __future__ import annotations

import re

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, marks that turn the direction of writing (Unicode Annex 9), line separators, lone surrogates."""


def visible(text: str, keep: str = "\t\n") -> str:
    r"""Return the text with such characters written as escapes ("\x1b", "\u202e").

    Args:
        keep: characters that stay as they are; tabs and line ends by default, none where the text must stay one line.
    """
    if text.isprintable():  # none of them is; nearly every text, in a tenth of the time
        return text
    return _INVISIBLE.sub(lambda match: match[0] if match[0] in keep else _escape(ord(match[0])), text)


def visible_json(text: str) -> str:
    r"""Return JSON with such characters in JSON's own escapes ("\u001b"): the data stay what they are."""
    return _INVISIBLE.sub(lambda match: match[0] if match[0] in "\t\n" else f"\\u{ord(match[0]):04x}", text)


def _escape(code: int) -> str:
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
