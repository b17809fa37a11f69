"""What another tool measured, as its importer returns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]
"""One trial: columns of `cuprof.comparison.trials.COLUMNS` by name, and under "series" the samples of each measure."""


@dataclass(frozen=True)
class Foreign:
    """The trials of one file.

    Args:
        kind: of the tool, one word.
        description: the file for people.
        notes: what a reader must know before believing a comparison with them.
    """

    kind: str
    description: str
    records: Sequence[Record]
    notes: tuple[str, ...] = ()
