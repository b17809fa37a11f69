"""One ncu process and all that it starts: asked to stop, killed, or left by an engine that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cuprof.core.processes import MARK
from cuprof.ncu.process import INTERRUPTED_GRACE_S, NcuProcess

RESTLESS = """#!/bin/sh
trap : INT
setsid sleep 1000 &
sleep 1000 &
touch "$1/started"
while :; do sleep 0.1; done
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program that passes over SIGINT and starts two processes, one in a session of its own."""
    path = tmp_path / "my ncu"
    path.write_text(RESTLESS)
    path.chmod(0o755)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of one run's files."""
    path = tmp_path / "run"
    path.mkdir()
    return path


def of(folder: Path) -> list[str]:
    """Return what runs with this folder as its mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def wait_until_started(folder: Path) -> None:
    give_up = time.monotonic() + 60
    while not (folder / "started").exists():
        assert time.monotonic() < give_up, (folder / "ncu.log").read_text()
        time.sleep(0.01)


def test_an_interrupt_ends_all_of_it_in_time(program: Path, folder: Path) -> None:
    process = NcuProcess([str(program), str(folder)], folder)
    asked = []
    watched = threading.Event()  # an interrupt before that ends whoever started the process

    def interrupt() -> None:
        watched.wait(60)
        wait_until_started(folder)
        give_up = time.monotonic() + 60
        while len(of(folder)) < 4:  # guardian, program, two that sleep; one that starts has no environment yet
            assert time.monotonic() < give_up
            time.sleep(0.01)
        asked.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = process.watch(folder / "progress", 60.0, watched.set)
    taken = time.monotonic() - asked[0]
    thread.join()
    assert result.interrupted
    assert not result.killed_by
    assert of(folder) == []
    assert INTERRUPTED_GRACE_S <= taken < INTERRUPTED_GRACE_S + 60.0  # other tests run beside it


def test_an_engine_that_is_killed_leaves_nothing(program: Path, folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from cuprof.ncu.process import NcuProcess; "
        "folder = Path(sys.argv[2]); NcuProcess(sys.argv[1:], folder).watch(folder / 'progress', 60.0)"
    )
    engine = subprocess.Popen([sys.executable, "-c", code, str(program), str(folder)])
    wait_until_started(folder)
    engine.kill()
    engine.wait()
    give_up = time.monotonic() + 100
    while (of(folder) or folder.exists()) and time.monotonic() < give_up:
        time.sleep(0.02)
    assert of(folder) == []
    assert not folder.exists()


def test_it_ends_as_the_program_ended(folder: Path) -> None:
    killed = NcuProcess(["/bin/sh", "-c", "echo going; kill -KILL $$"], folder).watch(folder / "progress", 60.0)
    assert (killed.killed_by, killed.output) == ("SIGKILL", "going\n")
    assert NcuProcess(["/bin/sh", "-c", "exit 3"], folder).watch(folder / "progress", 60.0).returncode == 3
