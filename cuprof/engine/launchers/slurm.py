"""Jobs as an array of Slurm's, by sbatch and squeue, so that Slurm's accounting is not needed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time

from cuprof.core.errors import MissingDependencyError, UsageError
from cuprof.engine.launchers.launcher import NUMBER, JobState, Launcher

CALL_LIMIT_S = 60.0
"""How long a Slurm command may take: its own time-out for messages is 10 s, and it tries again."""
FORGOTTEN_S = 10.0
"""A job that squeue does not list for this long is gone: a controller that restarts has its jobs back before."""
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING")
LOST = ("CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED")
"""States in which something other than the job has ended it: https://slurm.schedmd.com/squeue.html."""


class Slurm(Launcher):
    """Submit an array of one task a job; options of sbatch are `launch.options.NAME=VALUE`."""

    def start(self) -> None:
        """Submit the array; sbatch refuses what does not exist."""
        config, folder = self.work.config, self.work.files
        options = {
            "job-name": "cuprof",
            "array": f"0-{config.jobs - 1}",
            "chdir": self.work.folder,
            "output": folder / "job-%a.log",
            "open-mode": "append",
            "export": "ALL",
            "partition": config.partition,
            "time": config.time,
            "gpus-per-node": config.gpus or "",
            **{name.replace("_", "-"): value for name, value in config.options.items()},
        }
        words = shlex.join([sys.executable, *self.work.words]).replace(NUMBER, "'$SLURM_ARRAY_TASK_ID'")
        script = folder / "job.sh"
        script.write_text(f"#!/bin/sh\nexec {words}\n", encoding="utf-8")
        given = [f"--{name}={value}" if value is not True else f"--{name}" for name, value in options.items() if value]
        done = self._call("sbatch", "--parsable", *given, str(script))
        if done.returncode:
            raise UsageError(f"Slurm refuses the jobs: {' '.join(done.stderr.split())}")
        self._array = done.stdout.strip().partition(";")[0]
        self._seen = [JobState("waiting")] * config.jobs
        self._listed_at = [time.monotonic()] * config.jobs

    def poll(self) -> list[JobState]:
        """Ask squeue. It lists a task for minutes after its end; one that it forgets before counts as lost."""
        fields = "--Format=ArrayTaskID:|,State:|,exit_code:|,Reason:|"
        done = self._call("squeue", "--noheader", "--array", "--states=all", f"--jobs={self._array}", fields)
        now = time.monotonic()
        if done.returncode and "Invalid job id" not in done.stderr:
            return self._seen  # the controller does not answer, which says nothing about the jobs
        for line in done.stdout.splitlines():
            task, state, code, reason = (part.strip() for part in line.split("|")[:4])
            if task.isdecimal():
                self._seen[int(task)], self._listed_at[int(task)] = _read_state(state, code, reason), now
        for number, seen in enumerate(self._seen):
            if seen.state in ("waiting", "running") and now - self._listed_at[number] > FORGOTTEN_S:
                self._seen[number] = JobState("lost", reason="Slurm does not list it any more")
        return self._seen

    def stop(self) -> None:
        """Cancel what has not ended."""
        if any(each.state in ("waiting", "running") for each in self._seen):
            self._call("scancel", self._array)

    def _call(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        # A job of its own, not a step of the job that this process may run in.
        outside = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM_JOB", "SLURM_ARRAY"))
        }
        call = [program, *words]
        try:
            return subprocess.run(call, capture_output=True, text=True, timeout=CALL_LIMIT_S, check=False, env=outside)
        except FileNotFoundError:
            raise MissingDependencyError(f"Slurm ({program})", "run this on a host that submits to it") from None
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(call, 1, "", f"{program} has not answered for {CALL_LIMIT_S:.0f} s")


def _read_state(state: str, code: str, reason: str) -> JobState:
    if state in WAITING:
        return JobState("waiting", reason=reason)
    if state.startswith(LOST):
        return JobState("lost", reason=state)
    if state in ("COMPLETED", "FAILED"):
        exit_code, _, signal = code.partition(":")
        if signal.strip("0") or not exit_code.isdecimal():
            return JobState("lost", reason=f"{state} {code}")
        return JobState("ended", int(exit_code))
    return JobState("running")
