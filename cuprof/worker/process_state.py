"""Record the process's state, and restore it after each variant."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuprof.backends.switches import Switch

_LIBC = ctypes.CDLL(None)
FENV_BYTES = 64
"""Room for the floating-point environment of any platform: x86-64 takes 32 bytes, 64-bit ARM 8."""


class ProcessState:
    """Remember the process as it is, and put it back."""

    def __init__(self) -> None:
        self._known = [(part, part.read()) for part in PARTS]
        self._arithmetic = ctypes.create_string_buffer(FENV_BYTES)
        _LIBC.fegetenv(self._arithmetic)

    def put_back(self) -> tuple[str, ...]:
        """Undo all changes since this was made; return the names of those that cannot be undone."""
        _LIBC.fesetenv(self._arithmetic)  # rounding, and whether denormals are taken for zero
        left = []
        for part, known in self._known:
            try:
                if not _same(part.read(), known):
                    part.write(known)
                    if not _same(part.read(), known):
                        left.append(part.name)
            except Exception:  # a folder that has gone, a limit that an ordinary user cannot raise again
                left.append(part.name)
        return tuple(left)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(one.get("state"), dict):  # NumPy's legacy generator
        return one["state"]["pos"] == other["state"]["pos"] and np.array_equal(
            one["state"]["key"], other["state"]["key"]
        )
    return bool(one == other)


def _set_environment(known: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(known)


def _part_of_each(
    name: str, keys: Sequence[Any], read: Callable[[Any], Any], write: Callable[[Any, Any], object]
) -> Switch:
    """Return the part that is one setting a key."""
    return Switch(
        name,
        lambda: tuple(map(read, keys)),
        lambda known: [write(key, each) for key, each in zip(keys, known, strict=True)],
    )


def _write_handler(number: int, handler: Any) -> None:
    if handler is not None:  # what was not set from Python cannot be
        signal.signal(number, handler)


def _read_scheduling() -> tuple[int, int, int]:
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    return priority, os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def _write_scheduling(known: tuple[int, int, int]) -> None:
    os.sched_setscheduler(0, known[1], os.sched_param(known[2]))
    os.setpriority(os.PRIO_PROCESS, 0, known[0])


def _write_warnings(known: list[Any]) -> None:
    warnings.filters[:] = known  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _write_thread_hooks(known: tuple[Any, Any]) -> None:
    threading.setprofile(known[0])
    threading.settrace(known[1])


HANDLED = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITED = (
    resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_STACK, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU,
    resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC,
)  # fmt: skip
PARTS = (
    _part_of_each(  # before the handlers: without one an alarm ends the process
        "alarms", TIMERS, lambda which: any(signal.getitimer(which)), lambda which, on: on or signal.setitimer(which, 0)
    ),
    Switch("environment variables", lambda: dict(os.environ), _set_environment),
    Switch("the working folder", os.getcwd, os.chdir),
    Switch("processors", lambda: os.sched_getaffinity(0), lambda known: os.sched_setaffinity(0, known)),
    Switch("scheduling", _read_scheduling, _write_scheduling),
    _part_of_each("limits", LIMITED, resource.getrlimit, resource.setrlimit),
    Switch("NumPy's error handling", np.geterr, lambda known: np.seterr(**known)),
    Switch("NumPy's buffers", np.getbufsize, np.setbufsize),
    Switch("random numbers", random.getstate, random.setstate),
    Switch("NumPy's random numbers", lambda: np.random.get_state(legacy=False), np.random.set_state),
    Switch("interpreter's switching", sys.getswitchinterval, sys.setswitchinterval),
    Switch("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Switch("garbage collection", gc.isenabled, lambda known: gc.enable() if known else gc.disable()),
    Switch("garbage collection's thresholds", gc.get_threshold, lambda known: gc.set_threshold(*known)),
    Switch(
        "garbage collection's callbacks",
        lambda: list(gc.callbacks),
        lambda known: gc.callbacks.__setitem__(slice(None), known),
    ),
    Switch("warnings", lambda: list(warnings.filters), _write_warnings),
    Switch("hooks of new threads", lambda: (threading.getprofile(), threading.gettrace()), _write_thread_hooks),
    _part_of_each("signal handlers", HANDLED, signal.getsignal, _write_handler),
)
"""How to read and write each part."""
