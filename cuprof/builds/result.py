"""What a compilation is, what it makes, and the folder that keeps what was made."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from cuprof.builds.ptxas import KernelFacts
from cuprof.core.scratch import write_whole

VIRTUAL = "compute_"
"""How architectures begin that code is compiled for as PTX."""
Preload = tuple[Any, ...]
"""A function and its arguments. A process calls it once, then forks for each build; equal ones share a process."""


@dataclass(frozen=True)
class Built:
    """What a compiler made of a source.

    Args:
        image: a cubin, PTX, a shared library or an executable.
        log: what the compiler printed.
        kernels: each kernel's resources, where the log has them.
        symbols: the name expression of a kernel → its symbol in the image.
        launch: what a launch needs that the program does not state, by name (Triton's threads and shared memory).
    """

    image: bytes
    log: str
    kernels: Mapping[str, KernelFacts] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    launch: Mapping[str, int] = field(default_factory=dict)


def encode(built: Built) -> bytes:
    """Return all but the image as JSON."""
    return json.dumps({**asdict(built), "image": "", "sha256": hashlib.sha256(built.image).hexdigest()}).encode()


def decode(facts: bytes, image: bytes) -> Built:
    """Return what `encode` has made JSON of; raise ValueError, LookupError, TypeError or AttributeError for others'."""
    found = json.loads(facts)
    if hashlib.sha256(image).hexdigest() != found["sha256"]:
        raise ValueError("the image is damaged")
    kernels = {kernel: KernelFacts(**value) for kernel, value in found["kernels"].items()}
    return Built(image, found["log"], kernels, dict(found["symbols"]), dict(found["launch"]))


class Build(ABC):
    """One compilation; equal `content` gives equal results, so it is compiled once.

    Attributes:
        name: the source's or kernel's name, for messages.
        is_alone: its process builds nothing more, since code of the user's has run in it.
    """

    name: str
    is_alone: ClassVar[bool] = False

    @property
    def preload(self) -> Preload:
        """Return what the compiling process loads first."""
        return ()

    @property
    def headers(self) -> Preload:
        """Return what compiles the source's headers ahead, where other builds can share them."""
        return ()

    @abstractmethod
    def content(self) -> list[object]:
        """Return source, target, options and the compiler's version as data for JSON."""

    @abstractmethod
    def run(self) -> Built:
        """Compile in this process; temporary files go where `tempfile` says.

        Raises:
            BuildError: the compiler refused the source.
            ImpossibleError: the kernel needs more than the device has.
            MissingDependencyError: the compiler is not installed.
        """

    def key(self) -> str:
        """Return the name under which the result is kept."""
        return hashlib.sha256(json.dumps([type(self).__name__, *self.content()]).encode()).hexdigest()


@dataclass(frozen=True)
class KeptBuilds:
    """A folder of earlier results, safe for any number of threads and processes.

    An entry appears by an atomic rename and never changes. A folder that cannot be written costs the reuse alone, and
    so does one that others may write: its libraries would run here.
    """

    folder: Path

    def find(self, key: str) -> Built | None:
        """Return the kept build for a key; None if there is none, or if it is damaged."""
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            if self._is_own():
                facts, image = self.folder / f"{key}.json", self.folder / f"{key}.cubin"
                return decode(facts.read_bytes(), image.read_bytes())
        return None

    def keep(self, key: str, built: Built) -> None:
        """Keep a result, or nothing where the folder takes none."""
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_own():
                write_whole(self.folder / f"{key}.cubin", built.image)
                write_whole(self.folder / f"{key}.json", encode(built))

    def _is_own(self) -> bool:
        """Return whether this user owns the folder and is the only one who may write to it."""
        found = self.folder.stat()
        return found.st_uid == os.geteuid() and not found.st_mode & 0o022
