"""What `cuprof doctor` found out about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """Say how much a diagnosis matters."""

    GOOD = "good"
    OPTIONAL = "optional"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Diagnosis:
    """One thing looked at: what was found, and the command that mends it."""

    what: str
    health: Health
    detail: str
    remedy: str = ""
