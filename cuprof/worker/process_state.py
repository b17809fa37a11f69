"""What a library or an honest variant changes in the process by accident, and what puts it back."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import warnings
from contextlib import suppress
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

    def put_back(self) -> None:
        """Undo changes since this was made, as far as an ordinary user can."""
        _LIBC.fesetenv(self._arithmetic)  # rounding, and whether denormals are taken for zero
        for part, known in self._known:
            with suppress(Exception):  # a folder that has gone
                if part.read() != known:
                    part.write(known)


def _set_environment(known: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(known)


def _write_warnings(known: list[Any]) -> None:
    warnings.filters[:] = known  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _set_collection(is_enabled: bool) -> None:
    gc.enable() if is_enabled else gc.disable()


def _read_random() -> tuple[bytes, int]:
    state: Any = np.random.get_state(legacy=True)
    return state[1].tobytes(), state[2]


def _write_random(known: tuple[bytes, int]) -> None:
    np.random.set_state(("MT19937", np.frombuffer(known[0], np.uint32), known[1], 0, 0.0))


PARTS = (
    Switch("environment variables", lambda: dict(os.environ), _set_environment),
    Switch("the working folder", os.getcwd, os.chdir),
    Switch("processors", lambda: os.sched_getaffinity(0), lambda known: os.sched_setaffinity(0, known)),
    Switch("NumPy's error handling", np.geterr, lambda known: np.seterr(**known)),
    Switch("random numbers", random.getstate, random.setstate),
    Switch("NumPy's random numbers", _read_random, _write_random),
    Switch("garbage collection", gc.isenabled, _set_collection),
    Switch("warnings", lambda: list(warnings.filters), _write_warnings),
)
"""How to read and write each part."""
