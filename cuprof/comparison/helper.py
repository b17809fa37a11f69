"""A process that is forked from this one, makes something, holds it and answers questions about it."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar
from warnings import catch_warnings

from cuprof.core.processes import count_cores

Held = TypeVar("Held")


def count_helpful() -> int:
    """Return how many processes can work side by side: one where this one has threads, as it cannot be forked then."""
    if threading.active_count() > 1 or "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return count_cores()


class Helper(Generic[Held]):
    """One such process. What it cannot do is done here, so that errors are those of this process, too.

    Args:
        make: return what is held.
        tell: the first question, which nobody has to put.
    """

    def __init__(self, make: Callable[[], Held], tell: Callable[[Held], Any]) -> None:
        self._make = make
        self._here: list[Held] = []
        self._asked: tuple[Callable[..., Any], tuple[Any, ...]] = (tell, ())
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._connection, make, tell), daemon=True)
        # No more processes may be allowed, which shows when the answer is read; and the threads that newer Pythons warn
        # of are those of NumPy's linear algebra, which can be forked.
        with suppress(OSError), catch_warnings(action="ignore", category=DeprecationWarning):
            self._process.start()
        theirs.close()

    def ask(self, question: Callable[..., Any], *arguments: Any) -> None:
        """Put a question, a function of what is held and these arguments."""
        self._asked = question, arguments
        with suppress(OSError):  # which shows when the answer is read
            self._connection.send(self._asked)

    def answer(self) -> Any:
        """Return the answer to the last question."""
        with suppress(EOFError, OSError):
            return self._connection.recv()
        if not self._here:
            self._here.append(self._make())
        question, arguments = self._asked
        return question(self._here[0], *arguments)

    def close(self) -> None:
        """End the process, whatever it is at."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._connection.close()


def _serve(
    connection: Connection, other_end: Connection, make: Callable[[], Held], tell: Callable[[Held], Any]
) -> None:
    """Make it and answer questions until the process that asks is no more; after an error that one makes it."""
    other_end.close()  # held here, too, it would never be
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks is told, too
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # it would touch, and so copy, all that is shared
    with suppress(Exception):
        held = make()
        connection.send(tell(held))
        while True:
            question, arguments = connection.recv()
            connection.send(question(held, *arguments))
