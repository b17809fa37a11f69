"""Continue as a confined process: the process tree of a sandbox, and its limits.

The caller becomes the keeper, which counts memory and threads of all processes inside; where a control group can be
made, the kernel counts their memory. Inside, the first process does nothing but wait for the others, since signals do
not reach a namespace's first process as they reach any other. The third one returns to the caller's code.

    keeper (outside)  →  first process of the namespace  →  the one that goes on
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, NoReturn

from cuprof.core.processes import end_like
from cuprof.sandbox.cgroup import ControlGroup, join_group, list_thread_limits
from cuprof.sandbox.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    control,
    drop_capabilities,
    leave_keyring,
)
from cuprof.sandbox.landlock import keep_signals_within, keep_within
from cuprof.sandbox.seccomp import refuse_calls
from cuprof.sandbox.settings import CACHES, HIDDEN, Sandbox
from cuprof.sandbox.view import enter_namespaces, list_devices, show_own_processes

WATCH_S = 0.25
"""Look at all processes this often: a look at one takes a tenth of a millisecond, beside code that is being timed; at
4000 threads it takes a thousand times as long."""
GUARDS = 2
"""Processes between the one that is confined and its caller's parent: the keeper, and the first of the namespace."""
MOST_LOG_BYTES = 1 << 30
"""Of what the processes print: it lies on a disk that others need."""
MOST_FILES, SOCKET_BYTES = 512, 1 << 18
"""Files that a process may have open, and how much memory the kernel keeps for one where it is a full socket. Sockets
may hold 750 more on their way to a process, which no process shows. The kernel counts these for a user, and refuses to
send any beyond the sender's own limit: others, who usually have 1024, can still send theirs. Of threads that send at
the same time it lets each through before any has counted, so that there may be thousands; see `can_send_files`."""
MOST_THREADS, THREADS_SHARE = 4096, 4
"""Of all processes together: the machine has numbers for 32768 by default. A container or a user may have fewer: one in
N of them, since candidates that wait may have as many as the one whose turn it is."""
MOST_DEPTH = 16
"""Generations of processes: for each mapping the kernel keeps something for every ancestor."""
THREAD_BYTES, NODE_BYTES = 1 << 15, 1 << 11
"""What the kernel keeps for a thread, with its stack there, and for a file in memory, or a kilobyte of attributes."""
WATCHES, WATCHES_SHARE = "/proc/sys/fs/epoll/max_user_watches", 4
"""Where the kernel says how many events on files a user's processes may await. A sandbox gets one in N of them."""
PIPES, PIPES_SHARE, PIPE_PAGES = "/proc/sys/fs/pipe-user-pages-soft", 8, 16
"""Where the kernel says how many pages the pipes of a user may have until it makes each further one small, be it of
another program that expects 64 KB; and how many a pipe has. A sandbox gets one in N of them, and those that wait
together as many: half of all may be under way in sockets."""
FEW_FILES = 64
"""Look for pipes and epolls where processes have more files than this: it takes a look at each of them."""
EPOLL = "anon_inode:[eventpoll]"
REFUSED = 125
"""Exit code of the keeper if the system refused its sandbox."""
SIZES = re.compile(rb"^(?:Vm(?:Size|RSS|PTE|Swap)|HugetlbPages):\s+(\d+) kB", re.MULTILINE)
MAP_BYTES, LINK_BYTES, PAGE, MOST_MAPS = 352, 64, 4096, 65530
"""What the kernel keeps for a mapping, of a page or more, and for each generation of processes before it; and how many
a process may have by default. The kernel tells their number only by listing them all; CUDA reserves room for more than
any process has."""
PENDING = 1024
"""Signals and timers of a process that the kernel keeps. Each timer of a stopped process still interrupts others."""


def confine(sandbox: Sandbox, close: tuple[int, ...] = ()) -> None:
    """Continue in a confined process; the caller's own stays as its keeper and never returns.

    Must be called while the process has one thread.

    Args:
        close: file descriptors that only the confined process keeps.
    """
    inside, outside = os.pipe()
    # Without namespaces what is inside could leave a group.
    group = join_group(sandbox.memory_bytes) if sandbox.memory_bytes and sandbox.namespaces else None
    if sandbox.namespaces:
        with _or_end("the sandbox"):
            enter_namespaces(sandbox)
    first = os.fork()
    if first:
        for handle in (*close, outside):
            os.close(handle)
        _keep(first, inside, sandbox, group)
    if group:
        group.close()
    os.setsid()  # what is inside sets how much of a processor this process's session gets; the keeper's stays as it is
    control(PR_SET_NO_NEW_PRIVS, 1)
    is_apart = False
    if not sandbox.namespaces:
        with _or_end("Landlock"):
            is_apart = keep_signals_within()
    control(PR_SET_PDEATHSIG, signal.SIGTERM if is_apart else signal.SIGKILL)
    control(PR_SET_CHILD_SUBREAPER, 1)  # those whose parent has ended count as well, also without a namespace
    os.close(inside)
    if sandbox.namespaces:
        with _or_end("the sandbox"):
            show_own_processes()
    inner = os.fork()
    if inner:
        for handle in close:
            os.close(handle)
        if is_apart:
            signal.signal(signal.SIGTERM, _end_all)
        _wait(inner, outside, is_apart)
    os.close(outside)
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    leave_keyring()
    drop_capabilities()
    _limit(sandbox)
    with _or_end("the filter of system calls"):
        if sandbox.namespaces:  # whose files are read-only, but for pipes that others read from
            keep_within((*HIDDEN, "/dev", "/proc", *sandbox.writable))
        elif sandbox.home:
            os.chdir(sandbox.home)
            own = "/proc/self"  # where the driver names its threads
            devices = [*map(str, list_devices(sandbox))]
            files = [f"/{name}" for name in os.listdir("/") if name != "dev"]  # noqa: PTH208 - no terminals
            keep_within((sandbox.home, own, *sandbox.writable, *devices), (*files, "/dev/shm", *devices))
        refuse_calls(devices=sandbox.devices, alone=not sandbox.namespaces)
    for name in CACHES.keys() & os.environ.keys():  # modules that are imported already do not make these any more
        with contextlib.suppress(OSError):
            os.makedirs(os.environ[name], exist_ok=True)  # noqa: PTH103


@contextlib.contextmanager
def _or_end(what: str) -> Iterator[None]:
    """End this process if the system refuses something."""
    try:
        yield
    except OSError as error:
        _tell(f"cuprof: {what} is refused: {error}")
        os._exit(REFUSED)


def _limit(sandbox: Sandbox) -> None:
    """Set the limits of a process, but none on its address space: CUDA reserves a lot of that."""
    _lower(resource.RLIMIT_CORE, 1)  # with 0 a core still goes to a program, where the system has one for it
    _lower(resource.RLIMIT_NOFILE, MOST_FILES)
    _lower(resource.RLIMIT_SIGPENDING, PENDING)
    if sandbox.memory_bytes:
        _lower(resource.RLIMIT_DATA, sandbox.memory_bytes)
        _lower(resource.RLIMIT_FSIZE, sandbox.memory_bytes)


def _lower(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _wait(inner: int, outside: int, is_apart: bool) -> NoReturn:
    """Wait for all processes, and report how the confined one ended.

    Args:
        is_apart: all others are ended by `_end_all`; else their namespace ends with this process.
    """
    while True:
        with contextlib.suppress(InterruptedError):
            ended, status = os.wait()
            if ended == inner:
                os.write(outside, struct.pack("i", status))
                if is_apart:
                    _end_all()
                os._exit(0)


def _end_all(*_: object) -> NoReturn:
    """End all processes that this one may signal, which are those inside, at once: they may fork meanwhile."""
    with contextlib.suppress(OSError):  # there is none
        os.kill(-1, signal.SIGKILL)
    os._exit(0)


def _keep(first: int, inside: int, sandbox: Sandbox, group: ControlGroup | None) -> NoReturn:
    """Watch the memory and the threads until all processes have ended, and end the same way as the confined one."""
    if group:
        with _or_end("a control group"):
            group.leave()
    for handle in (0, 1):
        with contextlib.suppress(OSError):
            os.close(handle)
    most, why, most_watches = sandbox.memory_bytes, "", _read_most(WATCHES, WATCHES_SHARE)
    most_threads, most_pipes = find_most_threads(), find_most_pipes()
    folders = list_own_folders(first, sandbox)  # once: beside ten thousand doors the list of mounts is as long
    while not why and not select.select([inside], [], [], WATCH_S)[0]:
        family = list_family(first)
        if (printed := os.fstat(2).st_blocks * 512) > MOST_LOG_BYTES:
            why = f"it has printed {printed / 1e9:.2f} GB, over the limit of {MOST_LOG_BYTES / 1e9:.2f} GB"
        elif (held := weigh(family, folders)).threads > most_threads:
            why = f"it has {held.threads} threads, over the limit of {most_threads}"
        elif (depth := max(family.values())) > MOST_DEPTH:
            why = f"its processes are {depth} generations, over the limit of {MOST_DEPTH}"
        elif held.watches > most_watches:
            why = f"its open files may await {held.watches} events on files, over the limit of {most_watches}"
        elif held.pipes > most_pipes:
            why = f"it has {held.pipes} pipes, over the limit of {most_pipes}"
        elif most and not group and held.memory_bytes > most:
            why = f"{held.memory_bytes / 1e9:.2f} GB are in use, over the limit of {most / 1e9:.2f} GB"
    if why:
        if not sandbox.namespaces:
            os.kill(first, signal.SIGTERM)
            select.select([inside], [], [], WATCH_S)
        os.kill(first, signal.SIGKILL)
    told = os.read(inside, 4)
    os.waitpid(first, 0)
    if group:
        if not why and group.was_exceeded():
            why = f"more memory is needed, over the limit of {most / 1e9:.2f} GB"
        group.end()
    if why:  # below what they print until they have ended
        _tell(f"cuprof: {why}")
    end_like(struct.unpack("i", told)[0] if len(told) == 4 else signal.SIGKILL)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


def list_family(first: int) -> dict[int, int]:
    """Return a process and all its descendants, each with the number of its generation."""
    found, left = dict[int, int](), [(first, 0)]
    while left:
        pid, depth = left.pop()
        found[pid] = depth
        for thread in list_threads(pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:  # noqa: PTH123
                left += ((int(child), depth + 1) for child in file.read().split())
    return found


def list_threads(pid: int) -> list[str]:
    """Return the threads of a process; none of one that is gone."""
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a third of the time
    return []


def read_states(pid: int) -> Iterator[bytes]:
    """Yield the letter of the state of each thread of a process."""
    return filter(None, (_read_state(pid, thread) for thread in list_threads(pid)))


def _read_state(pid: int, thread: str) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()[0]
    return b""


class Held(NamedTuple):
    """What a process and its descendants hold together.

    Args:
        memory_bytes: with the files in their private folders, and what the kernel may keep for threads and open files.
        watches: how many events their files may await: each that can await any awaits all others; 0 as for `pipes`.
        pipes: how many pipes they have; 0 where they have too few files for the limit.
    """

    memory_bytes: int = 0
    threads: int = 0
    watches: int = 0
    pipes: int = 0


def weigh(family: Mapping[int, int], folders: Iterable[str]) -> Held:
    """Return what processes hold, given with their generations, and the files in folders of their own."""
    memory, count, all_files = sum(map(_file_bytes, folders)), 0, 0
    for pid, depth in family.items():
        threads = list_threads(pid)
        files = _count_files(pid, threads)
        memory += _resident_bytes(pid, threads, MAP_BYTES + LINK_BYTES * depth)
        memory += THREAD_BYTES * len(threads) + SOCKET_BYTES * files
        count += len(threads)
        all_files += files
    pipes, epolls = _count_special(family) if all_files > FEW_FILES else (0, 0)
    return Held(memory, count, epolls * all_files, pipes)


def list_own_folders(first: int, sandbox: Sandbox) -> set[str]:
    """Return the private in-memory folders of a sandbox's first process, by paths that this process can open.

    The list of mounts also has those that lie below them at the same place.
    """
    found = set[str]()
    if not sandbox.namespaces:
        return found
    with contextlib.suppress(OSError), open(f"/proc/{first}/mountinfo", errors="replace") as lines:  # noqa: PTH123
        for line in lines:
            place, _, kind = line.split()[4], *line.partition(" - ")[1:]
            if kind.startswith("tmpfs ") and place in HIDDEN:
                found.add(f"/proc/{first}/root{place}")
    return found


def _file_bytes(folder: str) -> int:
    with contextlib.suppress(OSError):
        found = os.statvfs(folder)
        return (found.f_blocks - found.f_bfree) * found.f_frsize + (found.f_files - found.f_ffree) * NODE_BYTES
    return 0


def _list_files(pid: int, threads: Iterable[str], read: Callable[[str], str] = str) -> list[str] | None:
    """Return what `read` makes of the path of each file that a process has open; None where it hides them.

    Its threads have the same ones.
    """
    for thread in threads:
        folder = f"/proc/{pid}/task/{thread}/fd"
        try:
            files = [read(f"{folder}/{name}") for name in os.listdir(folder)]  # noqa: PTH208
        except OSError as error:  # it has ended, or is about to and has given up its memory; root alone may look then
            if isinstance(error, PermissionError) and _resident_bytes(pid, [thread], 1):
                return None
            continue
        if files:
            return files
    return []


def _count_files(pid: int, threads: Iterable[str]) -> int:
    """Return how many files a process has open, or may have where it hides them."""
    files = _list_files(pid, threads)
    return MOST_FILES if files is None else len(files)


def _count_special(family: Iterable[int]) -> tuple[int, int]:
    """Return how many pipes and epolls processes have, or may have where they hide their files."""
    pipes, epolls, hidden = set[str](), 0, 0
    for pid in family:
        found = _list_files(pid, list_threads(pid), _name_special)
        if found is None:
            hidden += MOST_FILES
        else:
            epolls += found.count(EPOLL)
            pipes.update({*found} - {EPOLL, ""})
    return hidden + len(pipes), hidden + epolls


def _name_special(path: str) -> str:
    """Return the identity of an open pipe, with a name or without; `EPOLL`; or an empty text for others, or closed."""
    with contextlib.suppress(FileNotFoundError):
        file = os.stat(path)  # noqa: PTH116
        if stat.S_ISFIFO(file.st_mode):
            return f"{file.st_dev} {file.st_ino}"
        return EPOLL if not stat.S_IFMT(file.st_mode) and os.readlink(path) == EPOLL else ""  # noqa: PTH115
    return ""


def can_send_files() -> bool:
    """Return whether confined processes of this user could send open files now, as those do that compile."""
    own, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(own, MOST_FILES), most))
        try:
            socket.send_fds(ours, [b"?"], [ours.fileno()])
        except OSError:
            return False
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (own, most))
    return True


def find_most_pipes() -> int:
    """Return how many pipes a sandbox's processes may have together."""
    return _read_most(PIPES, PIPES_SHARE * PIPE_PAGES) or sys.maxsize


def find_most_threads() -> int:
    """Return how many threads a sandbox's processes may have together."""
    limits, of_user = [*list_thread_limits()], resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.geteuid() and of_user != resource.RLIM_INFINITY:
        limits.append(of_user)
    return min([MOST_THREADS, *(limit // THREADS_SHARE for limit in limits)])


def _read_most(path: str, share: int) -> int:
    """Return one in `share` of what the kernel allows a user."""
    with contextlib.suppress(OSError, ValueError), open(path) as file:  # noqa: PTH123
        return int(file.read()) // share
    return sys.maxsize


def _resident_bytes(pid: int, threads: Iterable[str], map_bytes: int) -> int:
    """Return a process's pages, the tables of its pages, which may be a thousand times as large, and its mappings."""
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", "rb") as file:  # noqa: PTH123
            if sizes := SIZES.findall(file.read()):  # none of a thread that has ended, be it the first
                reserved, *taken = (int(size) << 10 for size in sizes)
                return sum(taken) + map_bytes * min(reserved // PAGE, MOST_MAPS)
    return 0
