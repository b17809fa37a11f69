"""What keeps a trial's code from affecting the trials beside it and after it.

Kernels that cuprof builds and launches itself reach nothing but their arrays: these have guards, and checksums. Code on
the host (libraries, functions, executables) reaches the process as well: switches of libraries, settings of the device,
the floating-point environment are put back. Neither is a defence against code that cheats on purpose, for which there
is a border between processes (`cuprof.judge`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cuprof.backends.contract import Runnable, Session
from cuprof.worker.opened import OPENED
from cuprof.worker.problem import Problem
from cuprof.worker.process_state import ProcessState
from cuprof.worker.trial import Trial

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
        state: the process before any variant's code ran in it.
    """

    def __init__(self, session: Session[Runnable], problem: Problem, state: ProcessState, *, on_host: bool) -> None:
        self.session, self.problem, self.state, self.on_host = session, problem, state, on_host

    @contextmanager
    def around_prepare(self, trial: Trial) -> Iterator[None]:
        """Record the files that a trial's own code opens while it prepares."""
        with OPENED.recorded(trial.opened if trial.program is None else set()):
            yield

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

    def mend_damage(self) -> bool:
        """Repair the damage of a variant, and return whether there was any."""
        if not self.find_damage():
            return False
        self.restore_inputs()
        return True

    def blame_for_damage(self, trial: Trial) -> None:
        """Fail a trial's check if it wrote to memory that is not its own, and repair the damage."""
        if damage := self.find_damage():
            self.restore_inputs()
            wrong = "" if trial.check is None or trial.check.passed else f"{trial.check.message}; "
            self.fail_check(trial, f"{wrong}{damage}; the variants after it were given restored inputs")

    @staticmethod
    def fail_check(trial: Trial, message: str) -> None:
        """Let a trial's check have failed, for this reason."""
        if trial.check is not None:
            trial.check = replace(trial.check, passed=False, error=float("inf"), message=message)

    def restore_inputs(self) -> None:
        """Write the first inputs and the guards again."""
        self.session.restore_inputs(self.problem.inputs())
