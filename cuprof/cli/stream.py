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
        shown = (visible(text) if self._escapes else text).encode(self.encoding, "backslashreplace")
        self._try(lambda stream: stream.write(shown.decode(self.encoding)))  # of a terminal of few letters, escapes
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Return whether a terminal shows it."""
        return not self._stream.closed and self._stream.isatty()

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


@contextmanager
def guarded_output() -> Iterator[Output]:
    """Send all that is printed meanwhile through an `Output`, and give that of the standard output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # the caller has closed it: no database file is to become one of them
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
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
