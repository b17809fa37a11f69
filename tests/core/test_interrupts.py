"""Requests to stop: put off, passed on, not taken twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from cuprof.core.interrupts import INTERRUPTED, heard, is_requested, shielded, stop_if_requested
from cuprof.core.processes import child_environment
from tests.living import wait_for_end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_shielded_ends_first(number: int) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), heard():  # noqa: PT012
        with shielded():
            with shielded():
                os.kill(os.getpid(), number)
                done.append("inner")
            done.append("outer")
        done.append("never")
    assert done == ["inner", "outer"]


def test_a_place_where_nothing_is_begun_stops_early() -> None:
    with pytest.raises(KeyboardInterrupt), heard(), shielded():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        stop_if_requested()
        pytest.fail("it went on")


def test_another_thread_stops_and_leaves_the_request_for_the_main_thread() -> None:
    stopped = []

    def wait() -> None:
        with pytest.raises(KeyboardInterrupt):
            stop_if_requested()
        stopped.append(True)

    with pytest.raises(KeyboardInterrupt), heard():  # noqa: PT012
        with shielded():
            os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=wait)
            thread.start()
            thread.join()
        pytest.fail("it went on")
    assert stopped == [True]


def test_a_second_request_leaves_the_tidying_up_alone() -> None:
    tidied = []
    with pytest.raises(KeyboardInterrupt), heard():  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            tidied.append(is_requested())
    assert tidied == [True]
    assert not is_requested()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_the_process_was_started_to_ignore_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heard():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_of_a_command_ctrl_c_waits_for_a_write_too() -> None:
    """A script that imports cuprof hears no signals by it, and Python's own handler is back afterwards."""
    done = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        with shielded():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("written")
        done.append("never")
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


IMPATIENT = """
import os, signal, sys, time
from cuprof.core import interrupts
interrupts.PATIENCE_S = float(sys.argv[1])
try:
    with interrupts.heard():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            print("cleaned up", flush=True)
except KeyboardInterrupt:
    sys.exit(3)
"""


@pytest.mark.parametrize(("patience", "code", "said"), [("6000", 3, "cleaned up\n"), ("0.01", INTERRUPTED, "")])
def test_a_request_after_the_time_to_clean_up_ends_the_process(patience: str, code: int, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", IMPATIENT, patience], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, said)


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
"""
CHILD = """
import time
from cuprof.core.interrupts import heard, stop_with_parent
with heard():
    stop_with_parent()
    print(flush=True)
    time.sleep(600)
"""


def test_a_job_stops_when_its_launcher_has_gone() -> None:
    pipes: dict[str, int] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # the job's own would stay open
    started = subprocess.run([sys.executable, "-c", PARENT, CHILD], text=True, check=True, **pipes)  # type: ignore[call-overload]
    wait_for_end(int(started.stdout))


def test_a_request_before_the_command_listens_ends_it_as_later_ones_do() -> None:
    code = """
import builtins, os, signal, sys
real = builtins.__import__
def interrupted(name, *rest):
    if name == "cuprof.cli":
        os.kill(os.getpid(), signal.SIGTERM)
    return real(name, *rest)
builtins.__import__ = interrupted
from cuprof.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, env=child_environment())
    assert done.returncode == 130
