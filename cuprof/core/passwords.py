"""Take passwords out of what is shown or stored: out of URLs as people type them, quoted right or wrong, and settings.

Where a text can be read in two ways, more is taken out rather than less.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote_plus

HIDDEN = "***"

_NEXT_URL = r"(?<=[\s,;'\"\[(=])[\w+.-]+://"
_SECRET = r"(?:password|passwd|passphrase|secret)[\w-]{0,40}|\bpwd"
_NOT_HIDDEN = r"(?!\*\*\*(?:[&\s'\"]|$))"
_IN_USER_INFO = re.compile(
    # an "@" in a password should be quoted and may not be, so the last one before another URL ends it
    rf"(?<![\w+.-])[\w+.-]*://[^:/\n]*:(?!\*\*\*@)(?P<password>(?:(?!{_NEXT_URL})[^\n])*|[^\n]*)@"
)
_OPTION = re.compile(r"[?&](?P<name>[^=&?\s]+)=")
_VALUE = re.compile(rf"{_NOT_HIDDEN}[^&\n]*")
_IN_SETTING = re.compile(
    rf"(?:{_SECRET})[\"']?\s{{0,9}}[=:]\s{{0,9}}{_NOT_HIDDEN}"
    r"(?P<password>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|(?:\\.|[^\s&])+)",
    re.IGNORECASE,
)


def hide_passwords(text: str) -> str:
    """Return the text with `HIDDEN` in place of every password; done twice it changes nothing more.

    A password is what stands between user and host of a URL, up to the last "@"; the value of a URL's option whose name
    says so (`?password=`, `&sslpassword=`), up to the next option or the line's end; such a setting (`password='…'`).
    """
    shown, end = [], 0
    for start, stop in sorted(_find_passwords(text)):
        if start >= end:
            shown += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join((*shown, text[end:]))


def hide_in_command(line: str) -> str:
    """Return a command line without passwords; a shell's words are looked at one by one first."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    return hide_passwords(shlex.join(map(hide_passwords, words)) if line == shlex.join(words) else line)


def hide_in_data(value: Any) -> Any:
    """Return plain data without the passwords in its texts, and without texts whose key names a password."""
    if isinstance(value, str):
        return hide_passwords(value)
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if each and isinstance(each, str) and _is_secret(str(name)) else hide_in_data(each)
            for name, each in value.items()
        }
    return [hide_in_data(each) for each in value] if isinstance(value, (list, tuple)) else value


def _find_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each begins and ends; one reading's may overlap another's."""
    if "://" in text and "@" in text:
        yield from (match.span("password") for match in _IN_USER_INFO.finditer(text))
    yield from (match.span("password") for match in _IN_SETTING.finditer(text))
    for match in _OPTION.finditer(text):
        if _is_secret(unquote_plus(match["name"])) and (value := _VALUE.match(text, match.end())):
            yield value.span()


def _is_secret(name: str) -> bool:
    return re.search(_SECRET, name, re.IGNORECASE) is not None
