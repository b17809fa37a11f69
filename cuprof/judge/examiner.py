"""Compare a stranger's results with the reference, and look for what else it did to memory."""

from __future__ import annotations

import ctypes
import resource
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psutil

from cuprof.backends.buffers import available_bytes
from cuprof.core.records import Check, State
from cuprof.families import Variant
from cuprof.judge.sets import Sets
from cuprof.worker.problem import Problem, Standard

CHECK_ONE_IN = 4
"""Check a result and the memory around it after every Nth request, at random; check all after the last."""
MOST_REFERENCES = 8
LEAST_NEW, NEW_S = 2, 1.0
"""The least number of results to check on contents met for the first time, and how long to go on checking others."""
MOST_ODD = 2
"""Of results that are not what they were on the same contents before, compare this many with the reference."""


class FoundError(Exception):
    """End a trial whose results are wrong, or whose times cannot be what they seem."""

    def __init__(self, message: str, state: State = State.WRONG_RESULT, check: Check | None = None) -> None:
        self.state = state
        self.check = check and replace(check, message=message)
        super().__init__(message)


class NoEndError(Exception):
    """End a call that takes too long."""

    def __init__(self) -> None:
        super().__init__("no end within the time limit on these results")


def call_within(limit_s: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the family on what a stranger gave it. Code that is not Python's goes on until it returns.

    Raises:
        NoEndError: it took longer.
        MemoryError: it needed more than half of the memory that is free.
    """
    raise_in, caller = ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(threading.get_ident())
    timer = threading.Timer(limit_s, raise_in, (caller, ctypes.py_object(NoEndError)))
    reserved = psutil.Process().memory_info().vms
    own, most = resource.getrlimit(resource.RLIMIT_AS)
    timer.start()  # raises where a stranger has all threads
    try:
        resource.setrlimit(resource.RLIMIT_AS, (reserved + available_bytes() // 2, most))
        return function(*arguments)
    finally:
        timer.cancel()
        timer.join()
        raise_in(caller, None)  # where it came too late
        resource.setrlimit(resource.RLIMIT_AS, (own, most))


@dataclass
class Examiner:
    """What checks the results of one trial.

    Args:
        variant: whose tolerance holds.
        looks: how many results have been compared.
    """

    problem: Problem
    variant: Variant
    sets: Sets
    looks: int = 0

    def judge(self, row: int, standard: Standard) -> Check:
        """Return whether a row's results are right."""
        self.looks += 1
        tolerances = self.problem.hold(self.variant, standard)
        return self.problem.compare(self.sets.fetch(row), standard, tolerances, self.looks)

    def require(self, row: int) -> None:
        """Raise if a row's results are wrong for the contents that it has."""
        check = self.judge(row, self.sets.find_right(row))
        if not check.passed:
            raise FoundError(f"wrong on inputs that it met while it was timed: {check.message}", check=check)

    def require_undamaged(self, rows: Sequence[int]) -> None:
        """Raise if memory was changed that no execution may change."""
        if damage := self.sets.find_damage(rows):
            raise FoundError(f"it {damage}")

    def check_some(self, count: int) -> bool:
        """Check the odd ones of the first rows, and one at random now and then; return whether any was."""
        odd = self.sets.find_odd(count)
        for row in odd[:MOST_ODD]:  # sums in another order are right, too
            self.require(row)
        is_due = secrets.randbelow(CHECK_ONE_IN) == 0
        if is_due:
            known = self.sets.find_known()
            rows = [row for row in known if row < count]
            chosen = secrets.randbelow(count) if len(known) < MOST_REFERENCES or not rows else secrets.choice(rows)
            self.require(chosen)
            self.require_undamaged([chosen])
        return is_due or bool(odd)

    def check_new(self, count: int) -> None:
        """Check several of the first rows, at random, after their contents were met for the first time.

        A wrong result there would take no time, and the right one, which the next request finds, could be remembered.
        """
        until, rows = time.monotonic() + NEW_S, np.random.default_rng(secrets.randbits(64)).permutation(count)
        for number, row in enumerate(map(int, rows[:MOST_REFERENCES])):
            if number < LEAST_NEW or time.monotonic() < until:
                self.require(row)

    def check_known(self) -> None:
        """Check all rows whose right results have been computed, and the memory of all."""
        for row in self.sets.find_known():
            self.require(row)
        self.require_undamaged(range(self.sets.count))
