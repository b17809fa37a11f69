"""How far a profiled process is: a line before and after each step, so that a crash or a hang is laid to one trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO


class Step(StrEnum):
    """Name a step of a trial in the profiled process."""

    PREPARING = "preparing"  # build from the cache, inputs, warm-up
    LAUNCHING = "launching"  # the profiler's mark is set, or about to be
    DONE = "done"  # the mark is closed and the device has finished
    FAILED = "failed"  # an error the process lived through; `message` says what


@dataclass(frozen=True)
class Progress:
    """Summarise a progress file.

    Attributes:
        steps: the last step of each trial that was begun, in the order begun.
        messages: identity → message of a trial that failed.
    """

    steps: dict[str, Step] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def open(self) -> str | None:
        """Return the identity of the trial that was begun and neither done nor failed, or None."""
        begun = [name for name, step in self.steps.items() if step in (Step.PREPARING, Step.LAUNCHING)]
        return begun[-1] if begun else None


def write_progress(file: IO[str], identity: str, step: Step, message: str = "") -> None:
    """Append one line, which outlives the process from then on."""
    file.write(json.dumps({"identity": identity, "step": step.value, "message": message}) + "\n")
    file.flush()


def read_progress(path: Path) -> Progress:
    """Read a progress file; an absent file is no progress, a last line cut short by a crash is ignored."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Progress()
    steps: dict[str, Step] = {}
    messages: dict[str, str] = {}
    for line in lines:
        try:
            data = json.loads(line)
            identity, step = data["identity"], Step(data["step"])
        except (ValueError, KeyError, TypeError):
            continue
        steps[identity] = step
        if step is Step.FAILED:
            messages[identity] = data.get("message", "")
    return Progress(steps, messages)
