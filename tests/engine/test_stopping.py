"""Commands that are interrupted or killed at random moments: no row is lost or doubled, and nothing is left behind.

`pytest -m slow tests/engine/test_stopping.py` takes many more moments; CUPROF_SEED chooses others.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import pytest

from cuprof.core.scratch import remove_dead_folders
from tests.living import is_alive, running_with

FAMILIES = Path(__file__).parents[1] / "data" / "families"
SEED = int(os.environ.get("CUPROF_SEED", "1"))
SIZES = tuple(range(1, 6))
TRIALS = 2 * len(SIZES)
SWEEP = [
    "sweep", "family=restless", f"problem.n={','.join(map(str, SIZES))}", "report=none", "measure.modes=[cold]",
    "measure.target=0.5", "measure.min_samples=3", "measure.max_samples=6", "measure.settle_seconds=0.02",
    "measure.flush=none",
]  # fmt: skip
BUILDS = ["sweep", "family=slow_builds", "tune.slow=1", "tune.part=0,1,2,3", "report=none", "measure=quick"]
COMPILERS = ("cc1plus", "as", "ld", "collect2")
ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SERVER = """
import contextlib, json, os, signal, sys
from cuprof.cli.main import main
from cuprof.core import interrupts
import cuprof.cli.sweep, cuprof.cli.hydra_app, cuprof.engine.running, cuprof.cli.progress
import cuprof.report.load, cuprof.cli.results, hydra
from cuprof.engine.calibration import Calibrator
Calibrator.calibrate = lambda *_: None  # it takes half a second and decides nothing here
interrupts.PATIENCE_S = 600  # a second request is none to end at once, however late it comes
for line in sys.stdin:
    signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.STOPPING)  # until the command listens, and once it has ended
    pid = os.fork()
    if pid == 0:
        os.setsid()
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1), os.dup2(log, 2)
        sys.stdin.close()
        sys.argv = ["cuprof", *json.loads(line)]
        code = interrupts.INTERRUPTED
        with contextlib.suppress(KeyboardInterrupt), interrupts.heard():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.STOPPING)
            code = main()
            signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.STOPPING)
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.STOPPING)
        sys.exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.STOPPING)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Forge:
    """Start commands in processes that need not import anything, and look at what they leave."""

    def __init__(self, root: Path) -> None:
        self.root, self.temporary, self.locks = root, root / "tmp", root / "locks"
        self.swept = 0
        self.temporary.mkdir(parents=True)
        self.locks.mkdir()
        (root / "cuprof.toml").touch()
        for family in ("restless", "slow_builds"):
            shutil.copytree(FAMILIES / family, root / "kernels" / family)
        slow = root / "kernels" / "slow_builds" / "family.py"
        longer = slow.read_text().replace("200 if tune.slow", "2000 if tune.slow")
        slow.write_text(longer)  # so that no compiler ends before it is stopped
        own = {"TMPDIR": self.temporary, "CUPROF_LOCKS": self.locks, "CUPROF_CACHE": root / "cache"}
        environment = {**os.environ, **{name: str(path) for name, path in own.items()}}
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=environment,
        )

    def start(self, argv: list[str]) -> int:
        """Start a command and return its process id."""
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(argv) + "\n")
        self.server.stdin.flush()
        return self._number()

    def end(self) -> int:
        """Wait for the command's end and return its exit code, negative for a signal."""
        return self._number()

    def _number(self) -> int:
        assert self.server.stdout is not None
        return int(self.server.stdout.readline())

    def close(self) -> None:
        with self.server:
            assert self.server.stdin is not None
            self.server.stdin.close()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        path = self.root / "db" / "cuprof.sqlite"
        if not path.exists():
            return []
        connection = sqlite3.connect(path)
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError as error:  # killed before it had tables
            if "no such table" not in str(error):
                raise
            return []
        finally:
            connection.close()

    def runs(self) -> int:
        found = self.query("SELECT COUNT(*) FROM run")
        return int(found[0][0]) if found else 0

    def processes(self) -> list[psutil.Process]:
        """Return the workers, and what they started, that are still there."""
        return running_with(self.temporary)

    def assert_nothing_is_left(self, within_s: float = 0.0, *, or_swept: bool = False) -> None:
        """Hold what is there against nothing.

        Args:
            within_s: how long it may still be there.
            or_swept: an engine that is killed before it has a guardian, or after it, leaves a folder that nobody
                holds: there may be one of them, and the next start after `NEWBORN_S` removes it.
        """
        give_up = time.monotonic() + within_s
        while (self.processes() or list(self.temporary.iterdir())) and time.monotonic() < give_up:
            time.sleep(0.05)
        assert self.processes() == []
        left = list(self.temporary.iterdir())
        if or_swept and left:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("cuprof.core.scratch.NEWBORN_S", -math.inf)  # as if `NEWBORN_S` had gone by
                remove_dead_folders(self.temporary)  # what every start does
            self.swept += len(left)
        assert [path.name for path in self.temporary.iterdir()] == []
        for path in self.locks.iterdir():
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def assert_rows_are_whole(self) -> None:
        assert self.query("PRAGMA integrity_check") in ([("ok",)], [])
        assert self.query("SELECT trial_id FROM run GROUP BY trial_id HAVING COUNT(*) > 1") == []
        torn = "SELECT r.id FROM run r LEFT JOIN timing t ON t.run_id = r.id WHERE r.state = 'ok' AND t.id IS NULL"
        assert self.query(torn) == []

    @cached_property
    def length_s(self) -> float:
        """Return the seconds that the whole sweep takes here, which is forgotten."""
        started = time.monotonic()
        self.finish()
        taken = time.monotonic() - started
        shutil.rmtree(self.root / "db")
        return taken

    def finish(self) -> None:
        """Run the sweep to its end: every trial has one run, those stored before among them."""
        self.start(SWEEP)
        assert self.end() == 0
        self.assert_rows_are_whole()
        assert self.runs() == TRIALS
        assert self.query("SELECT DISTINCT state FROM sweep") == [("finished",)]
        self.assert_nothing_is_left()


@pytest.fixture(scope="module")
def foundry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    made = Forge(tmp_path_factory.mktemp("forge") / "my prüf")
    yield made
    made.close()


@pytest.fixture
def forge(foundry: Forge) -> Forge:
    """Return the forge with nothing in its database, and nothing counted."""
    shutil.rmtree(foundry.root / "db", ignore_errors=True)
    foundry.swept = 0
    return foundry


def interrupt_often(forge: Forge, count: int, within_s: float) -> None:
    chance, length = random.Random(SEED), forge.length_s
    for _ in range(count):
        before = forge.runs()
        engine = forge.start(SWEEP)
        time.sleep(chance.uniform(0.05, length))
        sent, asked = chance.choice(ASKING), time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine, sent)
            if chance.random() < 0.3:  # an impatient user
                time.sleep(chance.uniform(0, 0.2))
                os.kill(engine, sent)
        code, taken = forge.end(), time.monotonic() - asked
        assert code in (130, 0), (sent, (forge.root / "log").read_text())
        assert taken < within_s, sent
        states = {state for (state,) in forge.query("SELECT state FROM sweep")}
        assert states <= {"interrupted", *(["finished"] if forge.runs() == TRIALS else [])}, sent
        assert forge.runs() >= before
        forge.assert_rows_are_whole()
        forge.assert_nothing_is_left()
        if not code or forge.runs() == TRIALS:
            shutil.rmtree(forge.root / "db", ignore_errors=True)
    forge.finish()


def kill_often(forge: Forge, count: int) -> None:
    chance, length = random.Random(SEED), forge.length_s
    for _ in range(count):
        before = forge.runs()
        log = forge.root / "log"
        log.write_text("")
        engine = forge.start(SWEEP)
        time.sleep(chance.uniform(0.05, length))
        victim = chance.choice(["engine", "group", "guardian", "worker"])
        try:
            found = [engine, *(process.pid for process in psutil.Process(engine).children(recursive=True))]
            if victim == "group":
                os.killpg(engine, signal.SIGKILL)
            else:  # the guardian is the engine's child, the worker the guardian's
                os.kill(found[min(["engine", "guardian", "worker"].index(victim), len(found) - 1)], signal.SIGKILL)
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
        assert forge.end() in (-signal.SIGKILL, 0, 1, 2), victim
        reported = sum(line.startswith("[") for line in log.read_text().splitlines())
        assert forge.runs() >= before + reported, "a trial was reported before it was durable"
        forge.assert_rows_are_whole()
        forge.assert_nothing_is_left(within_s=30.0, or_swept=True)
        if forge.runs() == TRIALS or victim in ("guardian", "worker"):  # where trials may have crashed
            shutil.rmtree(forge.root / "db", ignore_errors=True)
    assert forge.swept <= 1 + count // 10, "folders are left by more than rare moments"
    forge.finish()


def stop_builds(forge: Forge, count: int) -> None:
    """End sweeps while a compiler runs, by requests and kills in turn."""
    chance = random.Random(SEED)
    for number in range(count):
        shutil.rmtree(forge.root / "cache", ignore_errors=True)
        engine = forge.start(BUILDS)
        give_up, compiling = time.monotonic() + 60, list[psutil.Process]()
        while not compiling and time.monotonic() < give_up:
            time.sleep(chance.uniform(0.005, 0.1))
            below = psutil.Process(engine).children(recursive=True)
            with contextlib.suppress(psutil.Error):
                compiling = [each for each in below if each.name() in COMPILERS]
        assert compiling
        sent = chance.choice(ASKING) if number % 2 else signal.SIGKILL
        os.kill(engine, sent)
        assert forge.end() == (130 if sent in ASKING else -signal.SIGKILL)
        forge.assert_nothing_is_left(within_s=60.0, or_swept=True)
        assert not [each for each in compiling if is_alive(each)]
    assert forge.swept == 0


def test_a_few_builds_that_are_stopped(forge: Forge) -> None:
    stop_builds(forge, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_builds_that_are_stopped(forge: Forge) -> None:
    stop_builds(forge, 28)


def test_a_few_requests_to_stop(forge: Forge) -> None:
    interrupt_often(forge, 2, within_s=60.0)  # other tests run beside it


def test_a_few_kills(forge: Forge) -> None:
    kill_often(forge, 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_requests_to_stop(forge: Forge) -> None:
    interrupt_often(forge, 100, within_s=2.0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_kills(forge: Forge) -> None:
    kill_often(forge, 100)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [*ASKING, signal.SIGKILL])
def test_jobs_in_processes_of_a_launcher(forge: Forge, sent: signal.Signals) -> None:
    jobs = ["launch=joblib", "launch.jobs=2", "measure.settle_seconds=0.5"]
    engine = forge.start([*(word for word in SWEEP if "settle" not in word), *jobs])
    give_up = time.monotonic() + 60
    while not forge.runs() and time.monotonic() < give_up:
        time.sleep(0.05)
    os.kill(engine, sent)
    assert forge.end() == (-sent if sent is signal.SIGKILL else 130)
    forge.assert_nothing_is_left(within_s=20.0)
    assert {state for (state,) in forge.query("SELECT state FROM sweep")} == {"interrupted"}
    forge.assert_rows_are_whole()
