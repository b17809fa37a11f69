"""Builds that run any code, for tests of the processes that compile."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cuprof.builds import Built


@dataclass(frozen=True)
class Load:
    """Run a code before the first build."""

    code: str = ""

    def load(self, folder: Path) -> None:
        exec(self.code, {"folder": folder})


@dataclass(frozen=True)
class Fake:
    """Run a code that leaves the image in `image`."""

    code: str
    preload: Load = field(default_factory=Load)
    headers: Load | None = None
    name: str = "fake"

    def content(self) -> list[object]:
        return [self.code, self.preload.code]

    def run(self) -> Built:
        names: dict[str, object] = {"image": b""}
        exec(self.code, names)
        image = names["image"]
        return Built(image if isinstance(image, bytes) else str(image).encode(), "")
