"""Signals to this process: at a chosen instruction of what is run, or after a moment."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SOON_S = 0.5


@contextmanager
def signalled_soon(number: int) -> Iterator[None]:
    """Send a signal to this process after a moment, but none to what follows the block."""
    timer = threading.Timer(SOON_S, os.kill, (os.getpid(), number))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class Interrupter:
    """Send a signal to this process at the given instruction of what is run; count them where it is None.

    No garbage is looked for meanwhile: what Hypothesis hears of that is run too, and Python swallows what it raises.
    """

    def __init__(self, at: int | None = None, number: int = signal.SIGINT) -> None:
        self.at, self.number, self.count = at, number, 0

    def __enter__(self) -> Interrupter:
        gc.disable()
        sys.settrace(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        gc.enable()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is Interrupter.__exit__.__code__:  # a signal there would leave the collection switched off
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                signal.raise_signal(self.number)
        return self
