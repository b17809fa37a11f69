"""The limits of a sandbox besides memory: open files, pipes, generations, threads, timers and its log."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.core.processes import child_environment
from cuprof.sandbox import confinement, seccomp
from cuprof.sandbox.confinement import PENDING, PIPES, WATCHES
from cuprof.sandbox.settings import Sandbox
from tests.living import LONG_S
from tests.sandbox.confined import ROOT, limited, run


@pytest.mark.skipif(not Path(WATCHES).exists(), reason="this kernel does not say how many events may be awaited")
def test_its_files_await_no_more_events_than_a_user_can_spare(sandbox: Sandbox) -> None:
    most = int(Path(WATCHES).read_text())
    code = """
import ctypes, select
if os.fork() == 0:  # it may have sent them what its parent's are to await
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
    held = [os.dup(0) for _ in range(300)]
else:
    held = [select.epoll() for _ in range(4)]
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("WATCHES_SHARE", most // 1000))
    assert done.returncode == -signal.SIGKILL, done
    assert "events on files, over the limit of 100" in done.stderr


@pytest.mark.skipif(not Path(PIPES).exists(), reason="this kernel does not say how many pages pipes may have")
def test_its_pipes_leave_others_of_the_user_large_ones(sandbox: Sandbox) -> None:
    most = int(Path(PIPES).read_text())
    code = """
import ctypes, fcntl
try:
    fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)
except OSError as error:
    print(error.errno, flush=True)
held = [os.pipe() for _ in range(60)]
if os.fork() == 0:  # the same ones count once
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
    time.sleep(300)
time.sleep(1)
print("there", flush=True)
held += [os.pipe() for _ in range(60)]
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("PIPES_SHARE", most // 1600))
    assert done.returncode == -signal.SIGKILL, done
    assert done.stdout.split()[-1] == "there"
    assert "pipes, over the limit of 10" in done.stderr
    if seccomp.find_bindings():
        assert done.stdout.split()[0] == str(errno.EPERM)


def test_pipes_with_names_count(tmp_path: Path) -> None:
    for number in range(3):
        os.mkfifo(tmp_path / f"{number}")
    held = [os.open(tmp_path / f"{number}", os.O_RDWR) for number in range(3)]
    before, _ = confinement._count_special([os.getpid()])
    for each in held:
        os.close(each)
    assert confinement._count_special([os.getpid()])[0] == before - 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without other processes")
def test_open_files_under_way_that_hinder_others_are_noticed() -> None:
    code = """
import os, resource, socket
from cuprof.sandbox.confinement import can_send_files
os.setuid(54_321)
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
print(can_send_files())
pairs = [socket.socketpair() for _ in range(4)]
for ours, theirs in pairs:
    socket.send_fds(ours, [b"?"], [0] * 200)
print(can_send_files(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
for ours, theirs in pairs:
    theirs.close()
print(can_send_files())
"""
    command, environment = [sys.executable, "-c", code], child_environment()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.stdout == "True\nFalse 700\nTrue\n", done.stderr


def test_of_a_process_that_has_ended_nothing_counts() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
from cuprof.sandbox import confinement
os.setgid(65534)
os.setuid(65534)
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(confinement._count_files(child, [str(child)]), *confinement._count_special([child]))
"""
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.stdout == "0 0 0\n", done.stderr


def test_of_a_process_that_is_ending_nothing_counts() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    code = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from cuprof.sandbox import confinement
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1)  # it hides nothing
child = os.fork()
if child == 0:
    held = bytearray(b"x") * (300 << 20)  # giving it up takes some time
    os._exit(0)
most = 0
while confinement._read_state(child, str(child)) != b"Z":
    most = max(most, confinement._count_files(child, [str(child)]))
print(0 < most < 64 or most)
"""
    done = subprocess.run([sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_files_that_a_process_hides_count_as_many_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    assert confinement._count_files(1, ["1"]) == confinement.MOST_FILES


def test_long_chains_of_processes_are_ended(sandbox: Sandbox) -> None:
    code = """
import ctypes
for _ in range(20):
    if os.fork():
        break
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0))
    assert done.returncode == -signal.SIGKILL, done
    assert "generations, over the limit of 16" in done.stderr


def test_it_gets_no_more_threads_than_the_machine_can_spare(sandbox: Sandbox) -> None:
    code = """
import threading
threading.stack_size(1 << 15)
for number in range(600):
    threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=0), limited("MOST_THREADS", 400))
    assert done.returncode == -signal.SIGKILL, done
    assert "threads, over the limit of 400" in done.stderr


def test_what_it_prints_does_not_fill_the_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    head = limited("MOST_LOG_BYTES", 1 << 20)
    code = 'os.write(2, b"x" * (16 << 20)); time.sleep(300)'
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-B", "-c", head + code, replace(sandbox, memory_bytes=0).encode()]
        done = subprocess.run(command, stderr=log, timeout=LONG_S, check=False, env=child_environment(), cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert b"over the limit of 0.00 GB" in (tmp_path / "log").read_bytes()[-100:]


def test_it_makes_few_timers(sandbox: Sandbox) -> None:
    code = """
import ctypes
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
event = (ctypes.c_int * 16)(0, 0, signal.SIGUSR1, 0)
while libc.timer_create(1, event, ctypes.byref(timer)):  # while others of this user have as many
    time.sleep(0.05)
print(1 + sum(libc.timer_create(1, event, ctypes.byref(timer)) == 0 for _ in range(5000)))
"""
    done = run(code, sandbox)
    assert 0 < int(done.stdout) <= PENDING, done
