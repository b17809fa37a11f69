"""Builds that run any code, for tests of the processes that compile."""

from __future__ import annotations

from dataclasses import dataclass

from cuprof.builds import Build, Built
from cuprof.builds.result import Preload


def load(code: str) -> None:
    """Run a code before the first build."""
    exec(code, {})


@dataclass(frozen=True)
class Fake(Build):
    """Run a code that leaves the image in `image`."""

    code: str
    preload: Preload = ()  # type: ignore[mutable-override]
    headers: Preload = ()  # type: ignore[mutable-override]
    name: str = "fake"
    is_alone: bool = True  # type: ignore[misc]

    def content(self) -> list[object]:
        return [self.code, self.preload[1:]]

    def run(self) -> Built:
        names: dict[str, object] = {"image": b""}
        exec(self.code, names)
        image = names["image"]
        return Built(image if isinstance(image, bytes) else str(image).encode(), "")
