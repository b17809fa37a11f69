"""What a configuration asks for beyond what a device has: said in one way wherever it is found, and counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator


class Excess(str):
    """Say what is asked for and what there is at most: "threads a block 2,048 > 1,024"."""

    __slots__ = ()


def compare(what: str, asked: float, most: float, unit: str = "") -> Excess | None:
    """Return what is asked for beyond the most there is, or None; bytes are written as KiB."""
    if asked <= most:
        return None
    if unit == "bytes":
        return Excess(f"{what} {asked / 1024:.4g} KiB > {most / 1024:.4g} KiB")
    return Excess(f"{what} {asked:,} > {most:,}")


def summarize(reasons: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield how many reasons differ in what is asked for only, and the first of them; the most frequent first."""
    kinds: dict[str, Counter[str]] = {}
    for reason in reasons:
        kinds.setdefault(re.sub(r"\d[\d.,e+-]*", "#", reason), Counter())[reason] += 1
    for alike in sorted(kinds.values(), key=Counter.total, reverse=True):
        others = f", and {len(alike) - 1} other size{'s' if len(alike) > 2 else ''}" if len(alike) > 1 else ""
        yield alike.total(), next(iter(alike)) + others
