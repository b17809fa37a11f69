"""The filter of system calls: some are refused, and some seem done but change nothing."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.sandbox import seccomp
from cuprof.sandbox.kernel import drop_capabilities
from cuprof.sandbox.settings import Sandbox
from tests.living import LONG_S
from tests.sandbox.confined import HEAD, ROOT, run

CALLS = """
import ctypes, errno
library = ctypes.CDLL(None, use_errno=True)
for number in (101, 310, 165):  # ptrace, process_vm_readv, mount
    print(library.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0), errno.errorcode.get(ctypes.get_errno()))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_system_calls_that_no_kernel_needs_are_refused(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    assert run(CALLS, sandbox).stdout == "-1 EPERM\n" * 3


INSIDE = """
import ctypes, errno, socket
library = ctypes.CDLL(None, use_errno=True)
def ask(number, *arguments):
    answer = library.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    why = errno.errorcode.get(ctypes.get_errno())
    return "refused" if answer == -1 and why in ("EPERM", "ENOTSUP", "ENOSYS") else f"answered {answer} {why}"
CLONE, CLONE3, MEMFD, SHMGET, VMSPLICE, NEWUSER = 56, 435, 319, 29, 278, 0x10000000
ALLOCATES = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839)
THREAD = 0x10900  # CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, without CLONE_FILES
print("clone", ask(CLONE, NEWUSER | 17, 0, 0, 0, 0))
print("open files of a thread's own", ask(CLONE, THREAD, 0, 0, 0, 0))
print("open files by close_range", ask(436, 1 << 20, 1 << 20, 2))
print("fallocate", ask(285, 2, 0, 0, 1 << 12))
print("clone3", ask(CLONE3, 0, 0))
print("memfd", ask(MEMFD, 0, 0))
print("shmget", ask(SHMGET, 0, 4096, 0o1600))
print("vmsplice", ask(VMSPLICE, os.pipe()[1], 0, 0, 0))
print("fallocate by ioctl", *{"refused"} | {ask(16, 2, wide | each, 0) for each in ALLOCATES for wide in (0, 1 << 40)})
print("splice", ask(275, 0, 0, 0, 0, 0, 0))
print("tee", ask(276, 0, 0, 0, 0))
print("sendfile", ask(40, 0, 0, 0, 0))
print("tables of locks", ask(157, 78, 9, 0, 0))
print("a core of its own", ask(157, 62, 9, 0, 0))
print("inotify", ask(294, 0))
print("io_setup", ask(206, 1, ctypes.addressof(ctypes.c_long())))
print("Landlock", ask(444, 0, 0, 1))
print("filters of its own", ask(317, 2, 0, 0))
print("filters by prctl", ask(157, 22, 9, 0, 0))
print("signs of changes", ask(72, os.open("/", os.O_RDONLY), 1026, 4))
print("an environment elsewhere", ask(157, 35, 9, 0, 0))
print("quotas", ask(443, 0, 0x800001, 0, 0))
for family in (socket.AF_INET, socket.AF_NETLINK, 40):  # 40 is AF_VSOCK
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print(family, "made")
    except OSError:
        print(family, "refused")
try:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    print("datagrams made")
except OSError:
    print("datagrams refused")
pair = socket.socketpair()
for option in (26, 50, 51, 52):  # SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF
    try:
        pair[0].setsockopt(socket.SOL_SOCKET, option, b"")
        print("a socket's program attached")
    except OSError as error:
        print("a socket's program", "refused" if error.errno == errno.EPERM else error)
print("pair", len(pair))
print("processes", subprocess.run(["true"]).returncode)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_no_namespace_no_family_and_no_hidden_memory_is_to_be_had(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    *refused, pair, processes = run(INSIDE, sandbox).stdout.splitlines()
    assert len(refused) == 30
    assert all(line.endswith("refused") for line in refused), refused
    assert (pair, processes) == ("pair 2", "processes 0")


def test_what_the_kernel_keeps_for_locks_is_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    (tmp_path / "file").write_text("x")
    code = f"""
import fcntl
first, second = (open({str(tmp_path / "file")!r}) for _ in range(2))
for each in (first, second):
    fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(first, fcntl.LOCK_SH | fcntl.LOCK_NB)
    print(open("/proc/locks").read().count(f" {{os.getpid()}} "))
"""
    done = run(code, replace(sandbox, visible=(str(tmp_path),)))
    assert done.stdout == "0\n0\n", done.stderr


def test_attributes_of_files_seem_given(sandbox: Sandbox) -> None:
    """Of a file in memory they are memory that nothing counts."""
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = """
import ctypes, tempfile
with tempfile.NamedTemporaryFile() as file:
    value = ctypes.create_string_buffer(b"value")
    given = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 5)
    where = ctypes.c_long(-100), file.name.encode(), ctypes.c_long(0)
    ctypes.CDLL(None).syscall(463, *where, b"user.newer", given, ctypes.c_size_t(16))
    os.setxattr(file.name, "user.name", b"value")
    print(os.listxattr(file.name))
"""
    assert run(code, sandbox).stdout == "[]\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_policies_of_memory_seem_done(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = "import ctypes; print(ctypes.CDLL(None).syscall(237, 0, 4096, 99, 0, 0, 0))"  # mbind, with no mode there is
    assert run(code, replace(sandbox, devices=False)).stdout == "0\n"


def test_pages_of_others_files_stay_in_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    file, size = tmp_path / "file", 1 << 22
    code = f"""
import ctypes, mmap
with open({str(file)!r}, "rb") as opened:
    held = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE)
    sum(held[::4096])
    place = ctypes.addressof(ctypes.c_char.from_buffer(held))
    for advice in (20, 21):
        print(ctypes.CDLL(None).madvise(ctypes.c_void_p(place), ctypes.c_size_t({size}), advice))
"""
    with file.open("wb") as opened:
        opened.write(os.urandom(size))
        os.fsync(opened.fileno())
    file.chmod(0o444)
    before = count_resident(file)
    done = run(code, replace(sandbox, visible=(str(tmp_path),)))
    assert done.stdout == "0\n0\n", done.stderr
    assert count_resident(file) >= before > 0


def count_resident(file: Path) -> int:
    """Return how many pages of a file are in memory."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE) as held:
        pages = (ctypes.c_ubyte * (len(held) // mmap.PAGESIZE))()
        place = ctypes.c_char.from_buffer(held)
        assert (
            ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(len(held)), pages) == 0
        )
        del place
        return sum(page & 1 for page in pages)


def test_a_socket_keeps_no_more_than_is_counted(sandbox: Sandbox) -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    code = """
import socket
pair = socket.socketpair()
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    before = pair[0].getsockopt(socket.SOL_SOCKET, option)
    pair[0].setsockopt(socket.SOL_SOCKET, option, 4 * before)
    print(pair[0].getsockopt(socket.SOL_SOCKET, option) - before)
"""
    done = run(code, sandbox)
    assert done.stdout == "0\n0\n", done.stderr


SLOWS = """
import ctypes, threading
other, library = int(sys.argv[2]), ctypes.CDLL(None, use_errno=True)
os.sched_setaffinity(other, {min(os.sched_getaffinity(other))})
os.sched_setscheduler(other, os.SCHED_IDLE, os.sched_param(0))
for which, whom in ((1, other), (2, os.getpgid(other)), (3, 0)):
    library.syscall(ctypes.c_long(251), ctypes.c_long(which), ctypes.c_long(whom), ctypes.c_long(3 << 13))  # ioprio_set
print(len(os.sched_getaffinity(other)), os.sched_getscheduler(other))
print(library.syscall(ctypes.c_long(252), ctypes.c_long(1), ctypes.c_long(other)))  # ioprio_get
one = min(os.sched_getaffinity(0))
mask = ctypes.create_string_buffer((1 << one).to_bytes(128, "little"))
print(library.pthread_setaffinity_np(ctypes.c_ulong(threading.get_ident()), ctypes.c_size_t(128), mask))
os.sched_setaffinity(0, {one})
print(len(os.sched_getaffinity(0)))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
def test_without_namespaces_no_other_process_is_slowed_down() -> None:
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp")
    with subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=drop_capabilities) as other:
        before = f"{len(os.sched_getaffinity(other.pid))} {os.sched_getscheduler(other.pid)}\n"
        command = [sys.executable, "-B", "-c", HEAD + SLOWS, Sandbox(namespaces=False).encode(), str(other.pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False, cwd=ROOT)
        other.kill()
    others, ours = before + "0\n", "0\n1\n"
    assert done.stdout == others + ours, done.stderr


def test_without_bindings_there_is_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "PACKAGES", ("no_such_bindings",))
    assert seccomp.find_bindings() is None
    seccomp.refuse_calls()  # does nothing, rather than fail
