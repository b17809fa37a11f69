"""The way of all text to the terminal: nothing in it steers the terminal, and failing output ends no work.

While a command runs, `sys.stdout` and `sys.stderr` are an `Output` each, so that this holds of whatever is printed:
names and messages, a library's warnings, a database's values.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import TextIO, cast

from cuprof.core.text import visible


class Output(TextIOBase):
    """Write text with control characters as visible escapes; drop text that cannot be written, and remember why.

    Args:
        stream: takes the text; None drops it.
        escapes: False lets control characters through, for text that is escaped and then styled.
    """

    def __init__(self, stream: TextIO | None, *, escapes: bool = True) -> None:
        self.failure: Exception | None = None
        self._stream, self._escapes = stream or cast(TextIO, TextIOBase()), escapes  # the latter takes nothing

    def write(self, text: str) -> int:
        """Write the text, as much of it as can be."""
        self._try(lambda stream: _write(stream, visible(text) if self._escapes else text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Return whether a terminal shows it."""
        return not self._stream.closed and self._stream.isatty()

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor below."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the stream below."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def _try(self, action: Callable[[TextIO], object]) -> None:
        if self.failure:
            return
        try:
            action(self._stream)
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.failure = error
            # What the buffer below still holds goes nowhere, or it would raise again when Python ends.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError as error:  # a terminal of few letters
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))


@contextmanager
def guarded_output() -> Iterator[Output]:
    """Send all that is printed meanwhile through an `Output`, and give that of the standard output."""
    _take_closed_descriptors()
    saved = sys.stdout, sys.stderr
    out, err = (stream if isinstance(stream, Output) else Output(stream) for stream in saved)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = saved


def styled(stream: TextIO) -> TextIO:
    """Return the same stream for rich, whose text is escaped already and carries our own styles."""
    return cast(TextIO, Output(stream._stream, escapes=False)) if isinstance(stream, Output) else stream


def _take_closed_descriptors() -> None:
    """Open standard descriptors that the caller has closed, so that no database file becomes one of them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
