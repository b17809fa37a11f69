"""Jobs as processes of this host, or wherever one of joblib's back ends runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from cuprof.core.errors import needing
from cuprof.engine.launchers.launcher import JobState, Launcher


class Joblib(Launcher):
    """Run the jobs by `joblib.Parallel`, whose options are `launch.options.NAME=VALUE`."""

    def start(self) -> None:
        """Begin, in a thread: joblib's own call returns at the end of all jobs."""
        with needing("joblib", "pip install 'cuprof[joblib]'"):
            import joblib
        work, config = self.work, self.work.config
        self._ended: dict[int, JobState] = {}
        self._failure = ""
        options: dict[str, Any] = {"n_jobs": config.jobs, "prefer": "threads", **config.options}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = visible.split(",") if visible else [str(ordinal) for ordinal in range(config.jobs * config.gpus)]
        jobs = [
            joblib.delayed(run_words)(
                *(number, work.words_of(number), str(work.folder), str(work.log_of(number))),
                ",".join(gpus[number * config.gpus : (number + 1) * config.gpus]),
            )
            for number in range(config.jobs)
        ]
        parallel = joblib.Parallel(**{**options, "return_as": "generator_unordered"})
        self._thread = Thread(target=self._take, args=(parallel, jobs), daemon=True)
        self._thread.start()

    def _take(self, parallel: Any, jobs: list[Any]) -> None:
        try:
            for number, code in parallel(jobs):
                self._ended[number] = JobState.of(code)
        except Exception as error:  # a back end lost its processes, or takes no such option
            self._failure = f"{type(error).__name__}: {error}"

    def poll(self) -> list[JobState]:
        """Return what the thread has seen."""
        is_over = not self._thread.is_alive()
        other = JobState("lost", reason=self._failure) if is_over else JobState("running")
        return [self._ended.get(number, other) for number in range(self.work.config.jobs)]

    def stop(self) -> None:
        """Stop the jobs of this process; those of another back end's processes end with these."""
        for process in list(_RUNNING):
            process.terminate()
        self._thread.join(timeout=5.0)


_RUNNING: set[subprocess.Popen[bytes]] = set()
"""The jobs that this process has started and that have not ended."""


def run_words(number: int, words: list[str], folder: str, log: str, gpus: str) -> tuple[int, int]:
    """Run a job to its end; return its number and exit code, negative where a signal ended it."""
    chosen = {"CUDA_VISIBLE_DEVICES": gpus} if gpus else {}
    with Path(log).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=output, stderr=output, env={**os.environ, **chosen}
        )
        _RUNNING.add(process)
        try:
            return number, process.wait()
        finally:
            _RUNNING.discard(process)
