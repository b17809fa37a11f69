"""What a job says of itself, for tests that run one in their own process."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuprof.worker.status_page import Phase


@dataclass
class Page:
    """A status page that keeps all that is written on it."""

    entered: list[tuple[int, Phase]] = field(default_factory=list)
    begun: int = 0

    def enter(self, index: int, phase: Phase) -> None:
        self.entered.append((index, phase))

    def begin(self) -> None:
        self.begun += 1
