"""What keeps a trial's code from affecting the trials beside it and after it.

Kernels that cuprof builds and launches itself reach nothing but their arrays: these have guards, and checksums. Code on
the host (libraries, functions, executables) reaches the process as well: switches of libraries, settings of the device,
the floating-point environment are put back. Neither is a defence against code that cheats on purpose, for which there
is a border between processes (`cuprof.judge`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import random
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cuprof.backends.contract import Runnable, Session
from cuprof.backends.switches import Switch
from cuprof.worker.problem import Problem
from cuprof.worker.trial import Trial

_LIBC = ctypes.CDLL(None)
FENV_BYTES = 64
"""Room for the floating-point environment of any platform: x86-64 takes 32 bytes, 64-bit ARM 8."""
LATE = (
    "; the right result is there a moment later: the call leaves work on a stream or in a thread. Launch on the "
    "current stream (the default one), make it wait for yours (event.record, wait_event), or join the thread"
)
LATE_LOOKS = 3
"""Check a wrong result this many more times before ruling out that it merely arrives late."""


class Protection:
    """Look after the arrays, the device and the process of one job.

    Args:
        on_host: the device is the host's own processor.
    """

    def __init__(self, session: Session[Runnable], problem: Problem, *, on_host: bool) -> None:
        self.session, self.problem, self.on_host = session, problem, on_host
        self.state = ProcessState()

    def after_run(self, trial: Trial) -> None:
        """Undo what an execution of code on the host changed that could affect its neighbours."""
        if trial.calls_host:
            self.session.put_back(settings=not trial.changes_settings)
        if self.on_host:
            self.state.put_back()

    def after_trial(self, trial: Trial) -> None:
        """Undo what code on the host changed of process and device, but for device settings that it needs to run."""
        if not trial.calls_host:
            return
        trial.changes_settings |= self.session.put_back(settings=not trial.changes_settings)
        self.state.put_back()

    def restores(self, trial: Trial) -> bool:
        """Return whether an execution changes data that must be restored for the next one."""
        return bool(self.problem.family.in_place or (trial.program and trial.program.setup))

    def find_damage(self) -> str:
        """Return the damage outside a variant's own memory, as the end of a sentence, or an empty string."""
        overwritten, overrun = self.session.damaged_inputs(), self.session.overrun_arrays()
        done = [f"overwrites its input {', '.join(overwritten)}"] if overwritten else []
        done += [f"writes outside its {', '.join(overrun)}"] if overrun else []
        return f"it {' and '.join(done)}" if done else ""

    def mend_damage(self) -> str:
        """Repair the damage of a variant, and return it as `find_damage` does."""
        if damage := self.find_damage():
            self.session.restore_inputs()
        return damage

    def blame_for_damage(self, trial: Trial) -> None:
        """Fail a trial's check if it wrote to memory that is not its own, and repair the damage."""
        if damage := self.mend_damage():
            wrong = "" if trial.check is None or trial.check.passed else f"{trial.check.message}; "
            self.fail_check(trial, f"{wrong}{damage}; the variants after it were given restored inputs")

    @staticmethod
    def fail_check(trial: Trial, message: str) -> None:
        """Let a trial's check have failed, for this reason."""
        if trial.check is not None:
            trial.check = replace(trial.check, passed=False, error=float("inf"), message=message)


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


PARTS = (
    Switch("environment variables", lambda: dict(os.environ), _set_environment),
    Switch("the working folder", os.getcwd, os.chdir),
    Switch("processors", lambda: os.sched_getaffinity(0), lambda known: os.sched_setaffinity(0, known)),
    Switch("NumPy's error handling", np.geterr, lambda known: np.seterr(**known)),
    Switch("random numbers", random.getstate, random.setstate),
    Switch(
        "NumPy's random numbers",
        lambda: pickle.dumps(np.random.get_state()),  # an array in it has no plain equality
        lambda known: np.random.set_state(pickle.loads(known)),
    ),
    Switch("garbage collection", gc.isenabled, lambda known: gc.enable() if known else gc.disable()),
    Switch("warnings", lambda: list(warnings.filters), _write_warnings),
)
"""How to read and write each part."""
