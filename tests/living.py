"""Whether a process still runs, for tests that wait for its end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

LONG_S = 100.0
"""Wait this long for what takes a moment, unless others have the processors."""


def is_alive(process: psutil.Process) -> bool:
    """Return whether it runs; one that has ended and waits for its exit code to be read does not.

    It may go at any moment, also between two questions to it.
    """
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def command_of(process: psutil.Process) -> str:
    """Return its command line; empty where it has ended or is another user's."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def running_with(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command names a folder: workers with their files there, and what they forked."""
    return [each for each in psutil.process_iter() if str(folder) in command_of(each) and is_alive(each)]


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended, or fail; it may have already."""
    give_up = time.monotonic() + LONG_S
    with suppress(psutil.NoSuchProcess):
        ending = psutil.Process(pid)
        while is_alive(ending):
            assert time.monotonic() < give_up, f"process {pid} is still there"
            time.sleep(0.01)


def await_end(folder: Path) -> list[psutil.Process]:
    """Wait until no process's command names a folder; return those that are left after all."""
    give_up = time.monotonic() + LONG_S
    while (left := running_with(folder)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return left
