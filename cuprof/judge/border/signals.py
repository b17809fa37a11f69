"""What the two sides of the border say to each other.

trusted side → stranger   the task, pickled, with its length; then requests of five bytes
stranger → trusted side   one byte; after `Answer.REFUSED` and `Answer.OUTLINE` a length and JSON
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import msgspec

from cuprof.core.records import Devices
from cuprof.families import Signature
from cuprof.families.candidate import Extension
from cuprof.interop.origins import AnyOrigin
from cuprof.judge.border.layout import Layout
from cuprof.plan import Selection
from cuprof.worker.messages import Job

REQUEST, LENGTH = struct.Struct("<cI"), struct.Struct("<I")
MOST_BYTES = 1 << 20
"""Read at most this much of a stranger's text."""
SECOND = 0
"""In place of a number of sets: execute on the second one, and on no other."""


class Ask:
    """Requests, each with a number of sets."""

    OPEN, NULL, LOAD, PREPARE, CAPTURE, RELEASE, EXECUTE = b"o", b"n", b"l", b"p", b"c", b"r", b"x"


class Answer:
    """What a request is answered with."""

    DONE, GRAPH, DIRECT, REFUSED, OUTLINE = b"d", b"g", b"l", b"e", b"o"


@dataclass(frozen=True)
class Task:
    """What a stranger's process is to prepare.

    Args:
        job: with one trial.
        number: of the device, as `open_backend` takes it.
        count: how many sets there are in the shared memory.
    """

    job: Job
    number: int | None
    signature: Signature
    layout: Layout
    count: int


@dataclass(frozen=True)
class Outline:
    """Request the trials of a file's additions to a family, planned for these devices.

    Args:
        selection: its variants are ignored.
    """

    origin: AnyOrigin
    extension: Extension
    selection: Selection
    devices: Devices


class Refusal(msgspec.Struct, frozen=True):
    """Why a stranger's process cannot do what it was asked; it lowers the standing of its variant and no other."""

    state: Literal["compile_error", "launch_error", "impossible", "skipped"]
    message: str
    log: str = ""

    def encode(self) -> bytes:
        """Return this as JSON that is short enough to be read."""
        cut = [text[: MOST_BYTES // 16].encode("utf-8", "replace").decode() for text in (self.message, self.log)]
        return msgspec.json.encode(Refusal(self.state, *cut))
