"""Jobs as tasks of Ray's, on the cluster that runs or on one of this host."""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from typing import Any

from cuprof.core.errors import UsageError, needing
from cuprof.engine.launchers.launcher import JobState, Launcher

TRAVELS = ("PG", "CUPROF_", "OMP_", "MKL_", "OPENBLAS_", "NUMBA_", "GOTO_", "VECLIB_", "NUMEXPR_", "PYTHONPATH")
"""Beginnings of environment variables that a job needs: the database, cuprof's own, threads, Python's path."""
HEAD_AWAY_S = 30.0
"""A cluster whose head does not answer for this long has lost its jobs. After 60 s Ray would end this process."""


class Ray(Launcher):
    """Run each job as a task; options of `ray.remote` are `launch.options.NAME=VALUE`.

    `launch.options.runtime_env` goes to `ray.init`: with `runtime_env.working_dir=.` nodes that do not share the
    project's folder get a copy of it.
    """

    def start(self) -> None:
        """Connect to `launch.address`, RAY_ADDRESS or the cluster of this host; without any, start one here."""
        with needing("Ray", "pip install 'cuprof[ray]'"):
            import ray
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # how Ray will treat a job without a GPU
        config, options = self.work.config, dict(self.work.config.options)
        environment: dict[str, Any] = dict(options.pop("runtime_env", {}))
        ours = {name: value for name, value in os.environ.items() if name.startswith(TRAVELS)}
        environment["env_vars"] = {**ours, **environment.get("env_vars", {})}
        try:
            _connect(ray, config.address, environment)
            needs = {"num_gpus": config.gpus, "scheduling_strategy": "SPREAD", **options}
            self._check_resources(ray, needs)
            run = ray.remote(**needs)(run_words)
        except (ConnectionError, ValueError, RuntimeError, TypeError) as error:
            raise UsageError(f"Ray refuses the jobs: {' '.join(str(error).split())}") from None
        folder = "" if "working_dir" in environment else str(self.work.folder)
        self._ray, self._output = ray, dict[int, str]()
        self._tasks = [run.remote(self.work.words_of(number), folder) for number in range(config.jobs)]
        self._ended: dict[int, JobState] = {}
        self._head, self._heard_at = ray.get_runtime_context().gcs_address, time.monotonic()

    def poll(self) -> list[JobState]:
        """Ask which tasks have ended."""
        ray = self._ray
        if self._is_head_away():
            lost = JobState("lost", reason="the head of the Ray cluster does not answer")
            return [self._ended.get(number, lost) for number in range(len(self._tasks))]
        for number, task in enumerate(self._tasks):
            if number in self._ended:
                continue
            try:
                if ray.wait([task], timeout=0)[0]:
                    code, self._output[number] = ray.get(task)
                    self._ended[number] = JobState.of(code)
            except Exception as error:  # of Ray's many, each says that the task, its node or the head is gone
                reason = str(error).strip().partition("\n")[0]
                self._ended[number] = JobState("lost", reason=f"{type(error).__name__}: {reason}")
        return [self._ended.get(number, JobState("running")) for number in range(len(self._tasks))]

    def stop(self) -> None:
        """Cancel what has not ended, and leave the cluster."""
        if self._is_head_away():  # nobody would answer
            return
        for number, task in enumerate(self._tasks):
            if number not in self._ended:
                self._ray.cancel(task, force=True)
        self._ray.shutdown()

    def read_output(self, number: int) -> str:
        """Return the end of what a task has printed."""
        return self._output.get(number, "")

    def _is_head_away(self) -> bool:
        host, _, port = self._head.rpartition(":")
        with suppress(OSError):
            socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
            self._heard_at = time.monotonic()
        return time.monotonic() - self._heard_at > HEAD_AWAY_S

    def _check_resources(self, ray: Any, needs: dict[str, Any]) -> None:
        """Raise UsageError if no node has what a job needs: Ray would wait for such a node for ever."""
        wanted = {"CPU": needs.get("num_cpus", 1), "GPU": needs.get("num_gpus", 0), **needs.get("resources", {})}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= number for name, number in wanted.items()) for node in nodes):
            asked = ", ".join(f"{number:g} {name}" for name, number in wanted.items() if number)
            ray.shutdown()
            raise UsageError(f"no node of the Ray cluster has what a job takes ({asked}); see ray status")


def _connect(ray: Any, address: str, environment: dict[str, Any]) -> None:
    """Connect to a cluster that runs; if none is named and there is none on this host, start one."""
    quiet = {"runtime_env": environment, "log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address=address or "auto", **quiet)
    except ConnectionError as error:
        if address or os.environ.get("RAY_ADDRESS"):
            raise ConnectionError(f"{error} (a cluster that wants a token: set RAY_AUTH_MODE=token)") from None
        ray.init(address="local", include_dashboard=False, **quiet)


def run_words(words: list[str], folder: str) -> tuple[int, str]:
    """Run a job in a process of its own on a node; return its exit code and the end of what it has printed."""
    import subprocess
    import sys
    from pathlib import Path

    if folder and not Path(folder).is_dir():
        return 2, f"error: this node has no folder {folder}; share it, or add launch.options.runtime_env.working_dir=."
    call = [sys.executable, *words]
    done = subprocess.run(
        call, cwd=folder or None, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout[-20_000:]
