"""Roofs over an axis: one line a device, told apart by its dashes and named beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuprof.report.figure import NEUTRAL, label, numbers
from cuprof.report.series import Roof
from cuprof.report.units import Scale

DASHES = ("longdash", "dot", "longdashdot", "dashdot")
"""All roofs are grey, so that no one takes them for a variant; the first that is drawn is long-dashed."""
MOST_LABEL = 20


def roof_trace(index: int, roof: Roof, scale: Scale, range_: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return the trace of one device's roof, its name written below a point of it that is seen.

    Args:
        index: place among the roofs of the figure, which decides over the dashes.
        range_: ends of the y axis in the scale's unit; None where the axis shows every point.
    """
    y = numbers(roof.values, scale)
    low, high = range_ or (float("-inf"), float("inf"))
    seen = [place for place, value in enumerate(y) if value is not None and low <= value <= high]
    texts = [""] * len(y)
    if seen:  # two thirds along, so that the name has room to its right
        texts[seen[max(0, len(seen) * 2 // 3 - 1)]] = f"\N{NO-BREAK SPACE}roof, {label(roof.device, MOST_LABEL)}"
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": label(f"roof: {roof.device}"),
        "x": list(roof.xs),
        "y": y,
        "line": {"color": NEUTRAL, "width": 2, "dash": DASHES[index % len(DASHES)]},
        "text": texts,
        # the side that a rising line leaves free; a single point may be the axis's last, with no room to its right
        "textposition": "bottom right" if len(seen) > 1 else "top left",
        "textfont": {"color": NEUTRAL, "size": 11},
    }


def roofs_sentence(devices: Sequence[str]) -> str:
    """Return what the roofs of these devices are, as a caption says it; empty for none."""
    if not devices:
        return ""
    if len(devices) == 1:
        return "The long-dashed line is the roof: useful bytes over the measured read bandwidth."
    names = f"{', '.join(devices[:-1])} and {devices[-1]}"
    return (
        f"The grey lines without marks are the roofs of {names}: useful bytes over the read bandwidth measured on each."
    )
