"""What counts as memory of a sandbox, and how the limit on it ends one."""

from __future__ import annotations

import os
import platform
import signal
from dataclasses import replace

import pytest

from cuprof.sandbox import confinement
from cuprof.sandbox.settings import Sandbox
from tests.sandbox.confined import HEAD, run


def test_one_process_gets_no_more_memory_than_it_may(sandbox: Sandbox) -> None:
    done = run("bytearray(1 << 30)", sandbox)
    assert "MemoryError" in done.stderr


def test_all_together_get_no_more_memory_than_they_may(sandbox: Sandbox) -> None:
    code = "import mmap; m = mmap.mmap(-1, 3 << 27)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(300)"
    done = run(code, sandbox)
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_processes_whose_parents_have_ended_count() -> None:
    code = """
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            held = bytearray(1 << 27)
            time.sleep(300)
        os._exit(0)
    os.wait()
time.sleep(300)
"""
    done = run(code, Sandbox(namespaces=False, memory_bytes=1 << 28))
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
@pytest.mark.parametrize(
    ("held", "most", "said"),
    [
        ("mmap.mmap(-1, 3 << 27)\n    for place in range(0, len(held), 4096): held[place] = 1", 1 << 28, "are in use"),
        ("[socket.socketpair() for _ in range(250)]", 1 << 27, "are in use"),
        ("[os.pipe() for _ in range(200)]", 1 << 40, "pipes"),
    ],
)
def test_a_process_whose_first_thread_has_ended_counts(sandbox: Sandbox, held: str, most: int, said: str) -> None:
    code = f"""
import ctypes, mmap, socket, threading
libc = ctypes.CDLL(None)
def hold():
    held = {held}
    time.sleep(300)
if os.fork() == 0:
    libc.prctl(1, signal.SIGKILL)  # when its parent ends
    threading.Thread(target=hold).start()
    libc.syscall(60, 0)  # exit, of this thread alone
time.sleep(300)
"""
    done = run(code, replace(sandbox, memory_bytes=most))
    assert done.returncode == -signal.SIGKILL, done
    assert f"{said}, over the limit" in done.stderr


def test_what_the_kernel_keeps_for_open_sockets_counts(sandbox: Sandbox) -> None:
    done = run(
        """
import ctypes, resource, socket
assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] <= 512  # as many may be under way, where nobody counts them
for _ in range(6):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when its parent ends
        held = [socket.socketpair() for _ in range(240)]
        time.sleep(300)
time.sleep(300)
""",
        sandbox,
    )
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_each_mapping_counts_for_all_generations_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getpid()
    monkeypatch.setattr(confinement, "MOST_MAPS", 1000)
    taken = [confinement.weigh({pid: depth}, ()).memory_bytes for depth in (0, 12)]
    assert taken[1] - taken[0] > 0.9 * 1000 * 12 * confinement.LINK_BYTES


def test_files_without_contents_count_as_memory(full: Sandbox) -> None:
    code = "for number in range(50_000): os.symlink('x', f'/tmp/{number}')\ntime.sleep(300)"
    done = run(code, replace(full, memory_bytes=100_000_000))
    assert done.returncode == -signal.SIGKILL, done
    assert "over the limit of 0.10 GB" in done.stderr


def test_tables_of_pages_count_as_memory(sandbox: Sandbox) -> None:
    code = """
import mmap
held = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
held.madvise(15)
for place in range(0, len(held), 1 << 21):
    held[place]
time.sleep(300)
"""
    done = run(code, sandbox)
    assert "over the limit of 0.27 GB" in done.stderr, done


def test_mappings_without_pages_count_as_memory(sandbox: Sandbox) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
place = libc.mmap(None, ctypes.c_size_t(64000 << 12), 0, 0x4022, -1, ctypes.c_long(0))
for number in range(0, 64000, 2):
    libc.mprotect(ctypes.c_void_p(place + (number << 12)), ctypes.c_size_t(4096), 1)
for _ in range(13):
    if os.fork() == 0:
        libc.prctl(1, signal.SIGKILL)  # when its parent ends
        time.sleep(300)
time.sleep(300)
"""
    done = run(code, sandbox)
    assert "over the limit of 0.27 GB" in done.stderr, done


def test_huge_pages_count() -> None:
    """They are in no other figure; few machines have any to give."""
    status = b"VmSize:\t  9 kB\nVmRSS:\t  1 kB\nVmPTE:\t  2 kB\nVmSwap:\t  3 kB\nHugetlbPages:\t  2048 kB\n"
    assert confinement.SIZES.findall(status) == [b"9", b"1", b"2", b"3", b"2048"]


def test_pages_on_a_disk_count() -> None:
    status = b"VmSize:\t 9 kB\nVmLck:\t 8 kB\nVmRSS:\t 3 kB\nVmPTE:\t 2 kB\nVmSwap:\t 1 kB\n"
    assert confinement.SIZES.findall(status) == [b"9", b"3", b"2", b"1"]


def test_files_in_folders_of_its_own_count_as_memory(full: Sandbox) -> None:
    code = """
for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    with open(f"{folder}/part", "wb") as file:
        for _ in range(12):
            file.write(bytes(1 << 23))
time.sleep(300)
"""
    done = run(code, replace(full, memory_bytes=1 << 28))
    assert done.returncode == -signal.SIGKILL
    assert "over the limit of 0.27 GB" in done.stderr


def test_a_file_in_such_a_folder_counts_once(full: Sandbox) -> None:
    code = """
print(sum(" /dev/shm " in line for line in open("/proc/self/mountinfo")), flush=True)
with open("/dev/shm/part", "wb") as file:
    for _ in range(36):
        file.write(bytes(1 << 23))
time.sleep(4 * confinement.WATCH_S)
"""
    done = run(code, replace(full, memory_bytes=1 << 29))
    if done.stdout == "1\n":
        pytest.skip("nothing lies below the folder")
    assert (done.returncode, done.stderr) == (0, "")


def test_mounts_are_listed_once(full: Sandbox) -> None:
    listed = """
list_folders = confinement.list_own_folders
def list_and_tell(*given):
    print("listed", file=sys.stderr, flush=True)
    return list_folders(*given)
confinement.list_own_folders = list_and_tell
confinement.confine("""
    done = run("time.sleep(6 * confinement.WATCH_S)", full, HEAD.replace("confinement.confine(", listed.lstrip()))
    assert (done.returncode, done.stderr) == (0, "listed\n")
