"""Ctrl-C, SIGTERM and a closed terminal: each asks to stop, once, and interrupts no write.

A request raises KeyboardInterrupt at whatever instruction the main thread has reached, except in `shielded` blocks,
which may end first. Signals belong to the process, and so does this module's state.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType

INTERRUPTED = 130
"""Exit code after a request to stop, as in shells after Ctrl-C: 128 + SIGINT."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 5.0
"""How long the first request may take to clean up undisturbed; a later one ends the process at once."""
ORPHAN_POLL_S = 0.5

_depth = 0
_deferred = False
_requested_at: float | None = None


@contextmanager
def heard() -> Iterator[None]:
    """Let each signal of `STOPPING` ask the block to stop; ignored ones (nohup) stay ignored."""
    global _requested_at
    if threading.current_thread() is not threading.main_thread():  # signals never arrive here
        yield
        return
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for number in handlers:
            signal.signal(number, _ask_to_stop)
        yield
    finally:
        if _ask_to_stop not in handlers.values():  # the outermost block
            _requested_at = None
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def shielded() -> Iterator[None]:
    """Put a request to stop off until the outermost of these blocks has ended.

    Outside of `heard`, this replaces Python's own handler of Ctrl-C for the duration.
    """
    global _depth
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = not _depth and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if own:
        signal.signal(signal.SIGINT, _put_off)
    _depth += 1  # nothing raises between here and the end of the block
    try:
        yield
    finally:
        _depth -= 1
        if own:  # Python's own handler may raise as soon as it is back, so everything else is in order before
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if not _depth and _deferred:
            stop_if_requested()


def stop_if_requested() -> None:
    """Raise `KeyboardInterrupt` if a request came: where a shielded block has begun no write, and in long waits.

    Outside of shielded blocks it also stops if the code that the request interrupted swallowed the exception. Another
    thread than the main one stops too, and leaves the request for the main thread.
    """
    global _deferred
    if _deferred or (is_requested() and not _depth):
        if threading.current_thread() is threading.main_thread():
            _deferred = False
        raise KeyboardInterrupt


def is_requested() -> bool:
    """Return whether a stop was requested in the current `heard` block."""
    return _requested_at is not None


@cache
def stop_with_parent() -> None:
    """Ask this process to stop, as Ctrl-C does, when its parent ends; for processes that a launcher started."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _ask_to_stop(number: int, frame: FrameType | None) -> None:
    global _requested_at, _deferred
    now = time.monotonic()
    if _requested_at is not None:
        if now - _requested_at > PATIENCE_S:
            os._exit(INTERRUPTED)
        return
    _requested_at = now
    if _depth:
        _deferred = True
    else:
        raise KeyboardInterrupt


def _put_off(number: int, frame: FrameType | None) -> None:
    global _deferred
    _deferred = True
