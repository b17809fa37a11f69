"""Text for messages and records: common phrases, limits exceeded, escaped control characters, hidden passwords."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_plus

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Control characters, marks of writing direction (Unicode Annex 9), line separators and lone surrogates."""
MESSAGE_CHARACTERS = 2048
LOG_CHARACTERS = 8192
"""A message of more, of a kernel or of a compiler, is cut: a stranger's may have many megabytes."""


def describe_tried(tried: int, again: int) -> str:
    """Return how many trials a search has tried, each counted once, and how many of them it measured again."""
    return f"{tried} tried, {again} timed again" if again else f"{tried} tried"


def count(number: int, noun: str, plural: str = "s") -> str:
    """Return "1 trial", "2 trials"; `plural` is the ending."""
    return f"{number} {noun}{'' if number == 1 else plural}"


def list_first(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first names for a sentence: "a, b" or "a, b and 3 more"."""
    return between.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def fold(places: Collection[int], around: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield places and `around` on either side of each, from `first` to `last`, with how many are left out before."""
    near = {each for place in places for each in range(max(first, place - around), min(last, place + around) + 1)}
    before = first - 1
    for place in sorted({*places, *near}):
        yield place, place - before - 1
        before = place


def level_text(confidence: float) -> str:
    """Return a level as a percentage for a sentence: "95 %"."""
    return f"{confidence * 100:g}\N{NO-BREAK SPACE}%"


def compare(what: str, asked: float, most: float, unit: str = "") -> str:
    """Return "threads a block 2,048 > 1,024" where more is asked for than there is, else ""; write bytes as KiB."""
    if asked <= most:
        return ""
    if unit == "bytes":
        return f"{what} {asked / 1024:.4g} KiB > {most / 1024:.4g} KiB"
    return f"{what} {asked:,} > {most:,}"


def format_bytes(count: int) -> str:
    """Return bytes as text with a decimal prefix: 4294967296 as "4.29 GB"."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if units[0] == "B" or value >= 1000 else f"{value:.3g} {units[0]}"


def summarize(reasons: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Group the reasons that differ only in their numbers; yield each group's count and first reason, largest first."""
    kinds: dict[str, Counter[str]] = {}
    for reason in reasons:
        kinds.setdefault(re.sub(r"\d[\d.,e+-]*", "#", reason), Counter())[reason] += 1
    for alike in sorted(kinds.values(), key=Counter.total, reverse=True):
        others = f", and {count(len(alike) - 1, 'other size')}" if len(alike) > 1 else ""
        yield alike.total(), next(iter(alike)) + others


def quote_path(path: str) -> str:
    """Return a path as a word for the shell, which no command takes for an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def visible(text: str, keep: str = "\t\n") -> str:
    r"""Return the text with characters that steer a terminal, or hide or rearrange text, as escapes ("\x1b", "\u202e").

    Args:
        keep: characters to leave as they are: tabs and line ends by default, none where the text must stay one line.
    """
    if text.isprintable():  # nearly every text, in a tenth of the time
        return text
    return _INVISIBLE.sub(
        lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode(), text
    )


def visible_json(text: str) -> str:
    r"""Return JSON with such characters in JSON's own escapes ("\u001b"): the data stay what they are."""
    return _INVISIBLE.sub(lambda match: match[0] if match[0] in "\t\n" else f"\\u{ord(match[0]):04x}", text)


HIDDEN = "***"
_NEXT_URL = r"(?<=[\s,;'\"\[(=])[\w+.-]+://"
_SECRET = r"(?:password|passwd|passphrase|secret)[\w-]{0,40}|\bpwd"
_NOT_HIDDEN = r"(?!\*\*\*(?:[&\s'\"]|$))"
_IN_USER_INFO = re.compile(
    # an "@" in a password should be quoted and may not be, so the last one before another URL ends it
    # a path for which a URL was taken has one slash of two, and a mistyped one three
    rf"(?<![\w+.:/-])(?:[\w+.:-]*//+|[\w+.-]+:/)[^:/\n]*:(?!\*\*\*@)(?P<password>(?:(?!{_NEXT_URL})[^\n])*|[^\n]*)@"
)
_UP_TO_AT = re.compile(r"^.*@", re.MULTILINE)
"""Where to search for user info: after a line's last "@", every ":" would be followed to the line's end for nothing."""
_OPTION = re.compile(r"[?&](?P<name>[^=&?\n]+)=")
_VALUE = re.compile(rf"{_NOT_HIDDEN}[^&\n]*")
_IN_SETTING = re.compile(
    rf"(?:{_SECRET})[\"']?\s{{0,9}}[=:]\s{{0,9}}{_NOT_HIDDEN}"
    r"(?P<password>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|(?:\\.|[^\s&])+)",
    re.IGNORECASE,
)


def hide_passwords(text: str) -> str:
    """Return the text with `HIDDEN` in place of every password; a second time changes nothing more.

    A password is what stands between the user and the host of a URL, up to the last "@"; the value of a URL's option
    with a telling name (`?password=`, `&sslpassword=`), up to the next option or the line's end; and the value of such
    a setting (`password='…'`). Where a text can be read in two ways, this hides more rather than less.
    """
    shown, end = [], 0
    for start, stop in sorted(_find_passwords(text)):
        if start >= end:
            shown += [text[end:start], HIDDEN]
        end = max(end, stop)
    return "".join((*shown, text[end:]))


def hide_folded_passwords(text: str) -> str:
    """Return YAML without passwords; join its folded lines if a password goes over the end of one."""
    joined = re.sub(r"\n +(?! |[^\s:]+:\s|- )", " ", text)
    hidden = hide_passwords(joined)
    return hide_passwords(text) if hidden == joined else hidden


def hide_in_command(line: str) -> str:
    """Return a command line without passwords; hide them in each of the shell's words first."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    return hide_passwords(shlex.join(map(hide_passwords, words)) if line == shlex.join(words) else line)


def hide_in_data(value: Any) -> Any:
    """Return plain data without the passwords in its texts, and without texts under a key that names a password."""
    if isinstance(value, str):
        return hide_passwords(value)
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if each and isinstance(each, str) and _is_secret(str(name)) else hide_in_data(each)
            for name, each in value.items()
        }
    return [hide_in_data(each) for each in value] if isinstance(value, (list, tuple)) else value


def _find_passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each begins and ends; they may overlap."""
    for part in _UP_TO_AT.finditer(text) if "/" in text else ():
        yield from (match.span("password") for match in _IN_USER_INFO.finditer(text, *part.span()))
    yield from (match.span("password") for match in _IN_SETTING.finditer(text))
    end = 0
    for match in _OPTION.finditer(text):
        if match.start() < end:  # in the value before, which ends where this one would
            continue
        name = re.sub(r"\s", "", unquote_plus(match["name"]))  # a space where none belongs does not make it public
        if _is_secret(name) and (value := _VALUE.match(text, match.end())):
            end = value.end()
            yield value.span()


def _is_secret(name: str) -> bool:
    return re.search(_SECRET, name, re.IGNORECASE) is not None


def excerpt(text: str, most: int = LOG_CHARACTERS) -> str:
    """Return the beginning and the end of a text longer than `most` characters, saying how much is left out."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … [{len(text) - 2 * half} characters left out] … {text[-half:]}"


def one_line(text: str) -> str:
    """Return a text, or an excerpt of it, on one line."""
    return " ".join(excerpt(text, MESSAGE_CHARACTERS).split())
