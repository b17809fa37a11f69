"""Contrasts of very many pairs, each part of them reckoned and kept by a process of its own."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from cuprof.cores import count_cores
from cuprof.statistics.contrast import Contrasts

WORTH_SHARING = 20_000
"""Pairs from which on processes of their own, each of which copies what it touches, take less time than one."""
MOST_SHARERS = 4

Make = Callable[[int, int], Contrasts]
"""Reckon the contrasts from one place up to another."""


@contextmanager
def contrasts_of(make: Make, count: int) -> Iterator[Contrasts]:
    """Give so many contrasts; of very many the cores of the machine hold a part each."""
    if (sharers := _sharers(count)) == 1:
        yield make(0, count)
        return
    with closing(SharedContrasts(make, count, sharers)) as contrasts:
        yield contrasts


def _sharers(count: int) -> int:
    """Return how many processes are to share so many pairs; one that has several threads cannot be forked safely."""
    if count < WORTH_SHARING or threading.active_count() > 1 or "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(MOST_SHARERS, count_cores())


class SharedContrasts(Contrasts):
    """Contrasts in parts: this process makes the first, and forks one for each of the others."""

    def __init__(self, make: Make, count: int, sharers: int) -> None:
        ends = [count * (sharer + 1) // sharers for sharer in range(sharers)]
        self._starts = [0, *ends[:-1]]
        make(0, 1)  # what is loaded at a first use is then loaded once, and held by all together
        self._helpers = [_Helper(make, *part) for part in zip(self._starts[1:], ends[1:], strict=True)]
        try:
            self._own = make(0, ends[0])
            found = [_facts(self._own), *(helper.answer() for helper in self._helpers)]
        except BaseException:
            self.close()
            raise
        self.log_ratios = np.concatenate([log_ratios for log_ratios, _ in found])
        self.paired = [each for _, paired in found for each in paired]

    def log_bounds(self, error_rate: float, places: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the intervals of the contrasts at some ascending places, else of all."""
        found = self._ask(
            Contrasts.log_bounds, error_rate, np.arange(self.log_ratios.size) if places is None else places
        )
        low, high = map(np.concatenate, zip(*found, strict=True))
        return low, high

    def find_differing(self, error_rate: float, places: np.ndarray) -> np.ndarray:
        """Return those of some ascending places at which the interval excludes equal times."""
        found = self._ask(Contrasts.find_differing, error_rate, places)
        return np.concatenate([part + start for part, start in zip(found, self._starts, strict=True)])

    def close(self) -> None:
        """Let the other processes end."""
        for helper in self._helpers:
            helper.close()

    def _ask(self, question: Callable[..., Any], error_rate: float, places: np.ndarray) -> list[Any]:
        """Return what each part answers of its own places."""
        shares = np.split(places, np.searchsorted(places, self._starts[1:]))
        own, *others = (share - start for share, start in zip(shares, self._starts, strict=True))
        for helper, share in zip(self._helpers, others, strict=True):
            helper.ask(question, error_rate, share)
        return [question(self._own, error_rate, own), *(helper.answer() for helper in self._helpers)]


class _Helper:
    """A process that holds one part and answers questions; where it cannot, its work is done here."""

    def __init__(self, make: Make, start: int, end: int) -> None:
        self._make = partial(make, start, end)
        self._here: Contrasts | None = None
        self._asked: tuple[Callable[..., Any], tuple[Any, ...]] = (_facts, ())
        context = multiprocessing.get_context("fork")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._connection, self._make), daemon=True)
        with suppress(OSError):  # no more processes are allowed, which shows when the answer is read
            self._process.start()
        theirs.close()

    def ask(self, question: Callable[..., Any], *arguments: Any) -> None:
        """Put a question, a function of the part and these arguments."""
        self._asked = question, arguments
        with suppress(OSError):  # which shows when the answer is read
            self._connection.send(self._asked)

    def answer(self) -> Any:
        """Return the answer to the last question; the first one, which nobody has to put, is for the facts."""
        try:
            found = self._connection.recv()
        except (EOFError, OSError):
            self._here = self._here or self._make()
            question, arguments = self._asked
            return question(self._here, *arguments)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """End the process, whatever it is at."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self._connection.close()


def _facts(contrasts: Contrasts) -> tuple[np.ndarray, list[bool]]:
    return contrasts.log_ratios, contrasts.paired


def _serve(connection: Connection, other_end: Connection, make: Callable[[], Contrasts]) -> None:
    """Make a part, tell its facts and answer questions until the process that asks is no more."""
    other_end.close()  # held here, too, it would never be
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks is told, too
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # it would touch, and so copy, all that is shared
    try:
        part = make()
    except Exception as error:
        connection.send(error)
        return
    with suppress(EOFError, OSError):  # a process that was killed reads no answer either
        connection.send(_facts(part))
        while True:
            question, arguments = connection.recv()
            connection.send(question(part, *arguments))
