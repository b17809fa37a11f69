"""A stranger's process as the trusted side sees it, without a judge around it."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from cuprof.core.errors import LaunchError
from cuprof.core.processes import MARK, child_environment
from cuprof.judge.border import suspect as module
from cuprof.judge.border.__main__ import _fork as fork_or_tell
from cuprof.judge.border.accounts import Accounts
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.signals import Ask
from cuprof.judge.border.suspect import MOST_STIRS, PROCESSORS, LostError, RefusedError, Suspect
from cuprof.judge.referee import BorderExecutor
from cuprof.sandbox.confinement import Held
from cuprof.sandbox.settings import Sandbox
from tests.living import LONG_S

STARTS_A_CHILD = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel awaits it, so that nobody sees it
def start(*_):
    if os.fork() == 0:
        os._exit(0)
    os.write(1, b"x")
signal.signal(signal.SIGCONT, start)
os.write(1, b"x")
while True:
    signal.pause()
"""

DIES_AT_ONCE = """
import os, signal, sys, time
from cuprof.judge.border.__main__ import main
fork, server = os.fork, os.getpid()
def fork_and_die():
    os.fork = fork
    if fork():
        os.kill(server, signal.SIGKILL)
    while os.getppid() == server:
        time.sleep(0.01)
    return 0
os.fork = fork_and_die
main(sys.argv[1:])
"""


class Bare(Suspect):
    """A suspect whose process is any other, without a guard."""

    def __init__(self, process: Any) -> None:
        self._process, self._guards, self._main = process, frozenset(), 1
        self._stopped, self._stopped_cpu, self._stirs, self.spins = [], {}, 0, False
        self._sandbox, self._count_of_guards = None, 1


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that starts another one whenever it is told to go on, and says so."""
    with subprocess.Popen([sys.executable, "-c", STARTS_A_CHILD], stdout=subprocess.PIPE) as process:
        try:
            await_byte(process)
            yield process
        finally:
            process.kill()


def await_byte(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 60)[0]
    assert os.read(process.stdout.fileno(), 1) == b"x"


def test_who_has_the_number_of_a_process_that_ended_is_not_stopped(child: subprocess.Popen[bytes]) -> None:
    suspect = Bare(child)
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            suspect._stopped = [child.pid, other.pid]
            suspect.pause()
            assert suspect._stopped == [child.pid]
            assert psutil.Process(other.pid).status() != psutil.STATUS_STOPPED
        finally:
            other.kill()


def test_a_child_that_began_and_ended_while_all_waited_shows(child: subprocess.Popen[bytes]) -> None:
    waiting = Bare(child)
    waiting.rest()
    time.sleep(0.1)
    assert not waiting.has_stirred()
    os.kill(child.pid, signal.SIGCONT)  # as a timer of its own would
    await_byte(child)
    os.kill(child.pid, signal.SIGSTOP)
    assert waiting.has_stirred()


def test_what_was_started_until_all_rest_is_stopped_too(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, stirs, paused = Bare(child), iter([1, 0]), list[Suspect]()
    pause = Suspect.pause
    monkeypatch.setattr(Suspect, "pause", lambda self: (paused.append(self), pause(self)))
    monkeypatch.setattr(Suspect, "_find_stirring", lambda _: next(stirs))
    waiting.rest()
    assert len(paused) == 2


class Requested(Bare):
    """One whose requests take no time."""

    def send(self, ask: bytes, count: int = 0) -> None:
        pass

    def await_answer(self, limit_s: float, kinds: Any = ()) -> bytes:
        return b""

    def stop(self) -> None:
        pass

    def _is_changed(self) -> bool:
        return False


@pytest.mark.parametrize(("last", "least_ns", "is_sound"), [(7, 5_000_000, True), (8, 0, False)])
def test_waiting_for_a_processor_that_it_may_have_had_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, last: int, least_ns: int, is_sound: bool
) -> None:
    """It cannot have used more than all processors; and what was started meanwhile may have used them."""
    books = iter(
        [
            Accounts({"1/task/1": (0, 0)}, 0, 0, 0, 7),
            Accounts({"1/task/1": (1_000, 0)}, 0, PROCESSORS * 5_000_000, 0, last),
        ]
    )
    delays = iter([0, 0, 10**9])
    monkeypatch.setattr(Accounts, "read", lambda *_: next(books))
    monkeypatch.setattr(module, "read_own_delay", lambda: next(delays))
    lap = Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None)
    assert least_ns <= lap.duration_ns < 10**9
    assert lap.is_sound is is_sound


def test_a_number_that_has_come_round_does_not_hide_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that nobody awaits may work while the main thread waits, and end once enough others have been started."""
    took_ns, waited = 20_000_000, {"1/task/1": (0, 20_000_000)}
    books = iter([Accounts({"1/task/1": (0, 0)}, 0, 0, 0, 7, 1_000), Accounts(waited, 0, 0, 0, 7, 33_000)])
    monkeypatch.setattr(Accounts, "read", lambda *_: next(books))
    monkeypatch.setattr(module, "read_own_delay", lambda: 0)
    monkeypatch.setattr(Requested, "await_answer", lambda *_: time.sleep(took_ns / 1e9))
    assert Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).duration_ns >= took_ns


def test_all_that_is_started_is_counted() -> None:
    before = Accounts.read("1/task/1", [], ()).started
    subprocess.run(["true"], check=True)
    assert Accounts.read("1/task/1", [], ()).started > before > 0


def test_work_on_another_processor_while_we_wait_for_one_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may answer early and keep processors busy, so that we see results only when they are there."""
    took_ns = 20_000_000
    books = iter([Accounts({"1/task/1": (0, 0)}, 0, 0, 0, 7), Accounts({"1/task/1": (1_000, 0)}, 0, took_ns, 0, 7)])
    delays = iter([0, 0, took_ns // 2])
    monkeypatch.setattr(module, "PROCESSORS", 8)
    monkeypatch.setattr(Accounts, "read", lambda *_: next(books))
    monkeypatch.setattr(module, "read_own_delay", lambda: next(delays))
    monkeypatch.setattr(Requested, "await_answer", lambda *_: time.sleep(took_ns / 1e9))
    assert Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).duration_ns >= took_ns


def test_the_books_of_one_that_ended_after_its_answer_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own may give the last answer once the first one has gone."""
    books = iter([Accounts({"1/task/1": (0, 0)}, 0, 5_000, 0, 7), Accounts({}, 0, 0, 0, 7)])
    monkeypatch.setattr(Accounts, "read", lambda *_: next(books))
    monkeypatch.setattr(module, "read_own_delay", lambda: 0)
    assert Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).duration_ns > 0


def test_laps_do_not_count_whose_process_could_have_started_another_one_while_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Requested(None)
    monkeypatch.setattr(Accounts, "read", lambda *_: Accounts({}, 0, 0, 0, 7))
    monkeypatch.setattr(one, "_find_stirring", lambda: 15_000)
    for _ in range(MOST_STIRS):
        lap = one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None)
        assert (lap.is_stirred, lap.is_sound) == (True, False)
    with pytest.raises(LostError, match="go on by themselves"):
        one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None)


def test_what_goes_on_after_the_look_at_all_processes_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hundreds of them it takes long, and a timer may let one go on meanwhile."""
    one, looks = Requested(None), list[str]()
    monkeypatch.setattr(Accounts, "read", lambda *_: Accounts({}, 0, 0, 0, 7))
    monkeypatch.setattr(one, "_is_changed", lambda: bool(looks.append("at all")))
    monkeypatch.setattr(one, "_find_stirring", lambda: 15_000 if looks else 0)
    assert one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).is_stirred


def test_one_that_runs_shows_before_its_cpu_time_does(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Requested(child)
    one._main, one._stopped = child.pid, [child.pid]
    monkeypatch.setattr(one, "_find_stirring", lambda: 0)
    monkeypatch.setattr(one, "stop", one.pause)
    one.pause()
    assert not one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).is_stirred
    os.kill(child.pid, signal.SIGCONT)
    await_byte(child)
    assert one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).is_stirred


def test_what_was_started_may_have_worked_since_the_look_began(monkeypatch: pytest.MonkeyPatch) -> None:
    took_ns = 20_000_000
    books = iter([Accounts({}, 0, 0, ended, 7) for ended in (0, 1)])
    monkeypatch.setattr(Accounts, "read", lambda *_: next(books))
    monkeypatch.setattr(Requested, "_is_changed", lambda _: time.sleep(took_ns / 1e9))
    lap = Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None)
    assert (lap.duration_ns >= took_ns, lap.cpu_ns) == (True, None)


def test_waiting_after_the_clock_has_stopped_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of its own may have worked, and its main thread may wait for our processor while we read the books."""
    took_ns, books = 20_000_000, iter([0, 20_000_000])

    def read(*_: object) -> Accounts:
        waited_ns = next(books)
        time.sleep(waited_ns / 1e9)
        return Accounts({"1/task/1": (0, waited_ns)}, time.perf_counter_ns(), 0, 0, 7)

    monkeypatch.setattr(Accounts, "read", read)
    monkeypatch.setattr(module, "read_own_delay", lambda: 0)
    monkeypatch.setattr(Requested, "await_answer", lambda *_: time.sleep(took_ns / 1e9))
    assert Requested(None)._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).duration_ns >= took_ns


EXECS = """
import os, sys, threading, time
names = ["python", "-c", "print(end='x', flush=True); import time; time.sleep(600)"]
threading.Thread(target=lambda: (sys.stdin.read(1), os.execv(sys.executable, names))).start()
print(end="x", flush=True)
time.sleep(600)
"""


def test_what_another_thread_has_waited_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that runs another program is the main thread from then on, and its books with it."""
    took_ns, pipe = 20_000_000, subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", EXECS], stdin=pipe, stdout=pipe, bufsize=0) as process:
        try:
            await_byte(process)
            main = f"{process.pid}/task/{process.pid}"
            books = [Accounts.read(main, [process.pid], ())]
            assert process.stdin is not None
            process.stdin.write(b"x")
            await_byte(process)
            books.append(Accounts.read(main, [process.pid], ()))
        finally:
            process.kill()
    waited = {**books[1].threads, main: (0, books[0].threads[main][1] + took_ns)}
    read = iter([replace(books[0], last=7), replace(books[1], threads=waited, last=7, cpu=books[0].cpu)])
    one = Requested(None)
    one._main = process.pid
    monkeypatch.setattr(Accounts, "read", lambda *_: next(read))
    monkeypatch.setattr(module, "read_own_delay", lambda: 0)
    monkeypatch.setattr(Requested, "await_answer", lambda *_: time.sleep(took_ns / 1e9))
    assert one._clock_stopped(Ask.EXECUTE, 1, 1.0, lambda: None).duration_ns >= took_ns


def test_a_process_that_the_system_refuses_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "no numbers are left")

    monkeypatch.setattr(os, "fork", refuse)
    assert fork_or_tell() == -errno.EAGAIN
    answers = {"return_value": -errno.EAGAIN}, {"side_effect": OSError(errno.ETOOMANYREFS, "Too many references")}
    for answer in answers:  # the second one while as many descriptors are under way as the user may have
        server = Mock(spec=ForkServer, ask=Mock(**answer))
        with pytest.raises(LaunchError, match="no process can be started: "):
            ForkServer.fork(server, {}, "", ())


def test_a_process_whose_server_was_killed_as_it_began_ends(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = {**child_environment(), MARK: str(folder)}
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pipe, its = socket.socketpair()
    with control, theirs, pipe, its, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", DIES_AT_ONCE, str(theirs.fileno()), str(os.getpid())]
        with subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment) as server:
            request = json.dumps({"environment": environment, "sandbox": ""}).encode()
            socket.send_fds(control, [request], [log.fileno(), its.fileno()])
            its.close()
        assert server.returncode == -signal.SIGKILL
        pipe.settimeout(LONG_S)
        assert pipe.recv(1) == b""
    assert not folder.exists()


def test_a_sandbox_may_name_more_files_than_a_message_holds(server: ForkServer) -> None:
    hidden = tuple(f"/nowhere/{number:0100}" for number in range(10_000))
    sandbox = Sandbox(namespaces=False, hidden=hidden)
    with (
        Suspect(server, "no task", -1, sandbox, time.monotonic() + LONG_S) as started,
        pytest.raises(RefusedError),
    ):
        started.await_answer(LONG_S)


def test_one_that_is_not_started_leaves_no_file_open() -> None:
    refusing = Mock(**{"fork.side_effect": LaunchError("no process is left")})
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(LaunchError, match="no process is left"):
        Suspect(refusing, "no task", -1, None, time.monotonic() + LONG_S)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_one_that_ended_before_it_had_any_code_of_a_stranger_is_accused_of_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Bare(None)
    monkeypatch.setattr(one, "ask", Mock(side_effect=LostError("exit code 1")))
    with pytest.raises(LaunchError, match="could not be started: exit code 1"):
        one.open()


@pytest.mark.parametrize(
    ("memory", "threads", "pipes", "count", "leaves", "sends", "has_room"),
    [
        (1 << 26, 4, 9, 2, True, True, True),
        (1 << 28, 4, 9, 2, True, True, False),
        (1 << 20, 4000, 9, 2, True, True, False),
        (1 << 20, 4, 100, 2, True, True, False),
        (1 << 20, 4, 9, 9, True, True, False),
        (1 << 20, 4, 9, 2, False, True, False),
        (1 << 20, 4, 9, 2, True, False, False),
    ],
)
def test_those_that_wait_hold_together_less_than_one_may(
    memory: int,
    threads: int,
    pipes: int,
    count: int,
    leaves: bool,
    sends: bool,
    has_room: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cuprof.judge.referee.find_most_pipes", lambda: 128)
    monkeypatch.setattr("cuprof.judge.referee.can_send_files", lambda: sends)
    found = {"suspect.weigh.return_value": Held(memory, threads, 0, pipes), "leaves_room.return_value": leaves}
    waiting = [Mock(**found) for _ in range(count)]
    runner = Mock(confined=Sandbox(memory_bytes=1 << 30))
    runner.border.waiting = dict(enumerate(waiting[1:]))
    assert BorderExecutor._has_room(runner, waiting[0]) is has_room


def test_memory_and_threads_of_a_process_are_weighed() -> None:
    code = "import threading, time; held = bytearray(1 << 27); threading.Thread(target=time.sleep, args=(600,)).start()"
    with subprocess.Popen([sys.executable, "-c", f"{code}; print(flush=True)"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            memory, threads, *_ = Bare(process).weigh()
        finally:
            process.kill()
    assert memory > 1 << 27
    assert threads == 2
    assert Bare(process).weigh() == Held()
