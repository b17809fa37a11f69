"""A project with a family that takes no time, and the command that launches its sweep."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

FAMILIES = Path(__file__).parents[2] / "data" / "families"


class Launch:
    """A project, its database, and the commands that sweep into it."""

    trials = 8

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "cuprof.toml").touch()
        shutil.copytree(FAMILIES / "restless", root / "kernels" / "restless")
        self.engine = sa.create_engine(f"sqlite:///{root / 'db' / 'cuprof.sqlite'}")
        self.begun: list[subprocess.Popen[bytes]] = []

    def words(self, settle_s: float = 0.05) -> list[str]:
        """Return the command line of the sweep."""
        return [
            *("sweep", "family=restless", "variants=plain"),
            *(f"problem.n={','.join(map(str, range(1, self.trials + 1)))}", "measure.modes=[cold]"),
            *("measure.flush=none", "measure.target=0.5", "measure.min_samples=3", "measure.max_samples=6"),
            f"measure.settle_seconds={settle_s}",
        ]

    def start(self, *words: str, settle_s: float = 0.05) -> subprocess.Popen[bytes]:
        """Start the sweep, as in a terminal."""
        command = [sys.executable, "-m", "cuprof", *self.words(settle_s), *words]
        with (self.root / "log").open("a") as log:
            environment = {**os.environ, "CUPROF_LOCKS": str(self.root / "locks")}
            begun = subprocess.Popen(command, cwd=self.root, env=environment, stdout=log, stderr=log)
        self.begun.append(begun)
        return begun

    def read(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a query; none where there are no tables yet."""
        with contextlib.suppress(sa.exc.DatabaseError), self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(sql))]
        return []

    def runs(self) -> int:
        """Return how many runs are stored."""
        return int(str((self.read("SELECT COUNT(*) FROM run") or [(0,)])[0][0]))

    def sweeps(self) -> list[tuple[object, ...]]:
        """Return the state of each sweep, and how many runs and measured trials there are."""
        return self.read(
            "SELECT state, (SELECT COUNT(*) FROM run), (SELECT COUNT(DISTINCT trial_id) FROM run) FROM sweep"
        )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that a command does."""
        give_up = time.monotonic() + 150
        while not is_so():
            assert time.monotonic() < give_up, self.log()
            if self.begun[-1].poll() is not None:
                assert is_so(), self.log()  # it may have done so as its last
                return
            time.sleep(0.05)

    def log(self) -> str:
        """Return what the commands and their jobs have printed."""
        jobs = sorted(self.root.glob("db/jobs/*/job-*.log"))
        return "".join(path.read_text()[-3000:] for path in [*jobs, self.root / "log"])

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self.begun:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()
                process.wait()
        self.engine.dispose()


@contextlib.contextmanager
def launching(root: Path) -> Iterator[Launch]:
    """Give a project in a folder; its commands end with the block."""
    project = Launch(root)
    try:
        yield project
    finally:
        project.end()


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Return a project; its commands end with the test."""
    with launching(tmp_path) as project:
        yield project
