"""Filter system calls through libseccomp's own Python bindings (`seccomp`) or `pyseccomp`, if installed."""

from __future__ import annotations

import errno
import fcntl
import importlib
import socket
from contextlib import suppress
from types import ModuleType

REFUSED = (
    # other processes' memory, and this one's past Python
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "process_madvise", "userfaultfd", "pidfd_getfd",
    # files, mounts and namespaces
    "mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "open_tree", "move_mount", "fsopen", "fsmount",
    "mount_setattr", "open_by_handle_at", "name_to_handle_at", "swapon", "swapoff", "quotactl", "quotactl_fd",
    # memory that no process's size shows
    "memfd_create", "memfd_secret", "shmget", "shmat", "msgget", "semget", "mq_open", "vmsplice", "splice",
    "tee", "sendfile", "inotify_init", "inotify_init1", "fanotify_init", "io_setup", "landlock_create_ruleset",
    "seccomp",
    # the kernel itself, and ways into it that have been holes
    "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key",
    "request_key", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
    "reboot", "syslog", "acct",
    # clocks of the machine
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
)  # fmt: skip
"""System calls that neither NumPy nor a GPU's driver makes."""
IOPRIO_WHO_PROCESS, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 1, 32, 33
METADATA = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat",
    "futimesat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
)  # fmt: skip
"""System calls that change modes, owners and dates, which Landlock lets pass. They seem to succeed: compilers give what
they write a mode."""
ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat")
"""System calls that give a file attributes. They seem to succeed: of a file in memory, the kernel keeps a list of who
may use it in up to 64 KB, of a folder two, and counts them nowhere."""
NEWER = {"quotactl_fd": 443, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469}
"""Numbers of system calls that older libraries know no name of; the same on every architecture."""
FLAGS = (0x40086602, 0x40046602, 0x401C5820)
"""Requests of `ioctl` that change a file's flags (FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR)."""
ALLOCATES = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839)
"""Requests of `ioctl` that do what `fallocate` does (FS_IOC_RESVSP, UNRESVSP, both with 64, ZERO_RANGE)."""
F_SETSIG, F_OFD_SETLK, F_OFD_SETLKW, F_NOTIFY, F_SETPIPE_SZ = 10, 37, 38, 1026, 1031
LOCKS = (fcntl.F_SETLK, fcntl.F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW)
"""Requests of `fcntl` for locks. They seem to succeed: the kernel keeps millions for one file, and others wait."""
SEEM_DONE = ("sync", "syncfs", "flock", "fadvise64")
"""System calls that others' files, what the kernel has read of them, and locks would feel. They seem to succeed."""
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_MM, PR_SCHED_CORE, PR_FUTEX_HASH = 4, 22, 35, 62, 78
MADV_COLD, MADV_PAGEOUT = 20, 21
SETS_THREADS = (
    ("sched_setaffinity", 0, 0), ("sched_setscheduler", 0, 0), ("sched_setparam", 0, 0), ("sched_setattr", 0, 0),
    ("move_pages", 0, 0), ("migrate_pages", 0, 0), ("ioprio_set", 0, IOPRIO_WHO_PROCESS), ("ioprio_set", 1, 0),
)  # fmt: skip
"""System calls that set how a thread runs, with the place and value of an argument that means the calling one. With
another value they seem to succeed: libraries name the thread that they start, and a filter cannot tell whose it is."""
BUFFERS = (socket.SO_SNDBUF, socket.SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE)
"""Options that have the kernel keep more for a socket than it counts for. They seem to succeed."""
SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF = 26, 50, 51, 52
PROGRAMS = (SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_CBPF, SO_ATTACH_REUSEPORT_EBPF)
"""Options that give a socket a program, for which all users of the machine together have little memory."""
SHARED_NAMELESS = 0x21
"""Flags of `mmap`: MAP_SHARED | MAP_ANONYMOUS, memory that stays when no process has it in its size any more."""
CLONE_FILES, CLONE_THREAD, CLONE_NEWUSER, CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 0x10000000, 2
AF_UNIX, SOCKET_TYPES, WORD = 1, 0xF, 0xFFFFFFFF
PACKAGES = ("seccomp", "pyseccomp")


def find_bindings() -> ModuleType | None:
    """Return libseccomp's bindings, or None if not installed."""
    for name in PACKAGES:
        with suppress(ImportError, RuntimeError, OSError):  # the bindings without the library raise whatever they like
            return importlib.import_module(name)
    return None


def refuse_calls(*, devices: bool = False, alone: bool = False) -> None:
    """Have the kernel refuse some system calls (EPERM) from now on; do nothing without bindings.

    First give up privileges that running a program could gain (no_new_privs).

    Args:
        devices: a GPU's driver is used.
        alone: no namespaces keep files and processes from being changed.

    Raises:
        OSError: the kernel refuses the filter.
    """
    bindings = find_bindings()
    if bindings is None:
        return
    rules = bindings.SyscallFilter(bindings.ALLOW)

    def equals(place: int, value: int) -> object:
        """Compare the 32 bits of an argument that the kernel looks at."""
        return bindings.Arg(place, bindings.MASKED_EQ, WORD, value)

    seeming = (*SEEM_DONE, *ATTRIBUTES, *(METADATA if alone else ()))
    for name, number in (*((each, errno.EPERM) for each in REFUSED), *((each, 0) for each in seeming)):
        with suppress(OSError, ValueError, RuntimeError):  # a call that this library, or this processor, does not have
            rules.add_rule(bindings.ERRNO(number), NEWER.get(name, name))
    # Flags of `clone3` lie in memory, where a filter cannot look; the C library falls back on `clone`.
    rules.add_rule(bindings.ERRNO(errno.ENOSYS), "clone3")
    new_user = bindings.Arg(0, bindings.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)
    rules.add_rule(bindings.ERRNO(errno.EPERM), "clone", new_user)
    # Open files of a thread's own would be counted nowhere.
    own_files = bindings.Arg(0, bindings.MASKED_EQ, CLONE_THREAD | CLONE_FILES, CLONE_THREAD)
    rules.add_rule(bindings.ERRNO(errno.EPERM), "clone", own_files)
    with suppress(OSError, ValueError, RuntimeError):  # an old library does not know the call
        unshares = bindings.Arg(2, bindings.MASKED_EQ, CLOSE_RANGE_UNSHARE, CLOSE_RANGE_UNSHARE)
        rules.add_rule(bindings.ERRNO(errno.EPERM), "close_range", unshares)
    # It fills a disk in less time than passes between two looks at the log. The C library writes zeros in its place.
    rules.add_rule(bindings.ERRNO(errno.EOPNOTSUPP), "fallocate")
    for request in ALLOCATES:
        rules.add_rule(bindings.ERRNO(errno.EOPNOTSUPP), "ioctl", equals(1, request))
    if not devices:
        rules.add_rule(bindings.ERRNO(0), "mbind")  # the kernel keeps what holds for each page of a file
        shared = bindings.Arg(3, bindings.MASKED_EQ, SHARED_NAMELESS, SHARED_NAMELESS)
        rules.add_rule(bindings.ERRNO(errno.EPERM), "mmap", shared)
    for advice in (MADV_COLD, MADV_PAGEOUT):  # as fadvise64
        rules.add_rule(bindings.ERRNO(0), "madvise", equals(2, advice))
    for request in FLAGS if alone else ():
        rules.add_rule(bindings.ERRNO(errno.EPERM), "ioctl", equals(1, request))
    # Who opens a file that somebody has a lease on waits for 45 s. Larger pipes leave others of the user small ones. A
    # signal that tells of a request could let a stopped process go on.
    refused = [(each, errno.EPERM) for each in (F_SETSIG, fcntl.F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ)]
    for request, number in (*refused, *((each, 0) for each in LOCKS)):
        rules.add_rule(bindings.ERRNO(number), "fcntl", equals(1, request))
    # The kernel keeps a filter of its own for each of its threads, and a table as large as it likes for its locks.
    # Where two processors are one core, it keeps all others off the second while a thread with a core of its own runs.
    # Who reads the environment of a process reads as much as it says that there is.
    for option in (PR_SET_SECCOMP, PR_SET_MM, PR_SCHED_CORE, PR_FUTEX_HASH):
        rules.add_rule(bindings.ERRNO(errno.EPERM), "prctl", equals(0, option))
    # It would hide its open files, which are counted.
    rules.add_rule(bindings.ERRNO(0), "prctl", equals(0, PR_SET_DUMPABLE))
    for name, place in (("prlimit64", 0), ("setpriority", 0), ("setpriority", 1)):  # of others than itself
        rules.add_rule(bindings.ERRNO(errno.EPERM), name, bindings.Arg(place, bindings.NE, 0))
    for name, place, own in SETS_THREADS if alone else ():
        rules.add_rule(bindings.ERRNO(0), name, bindings.Arg(place, bindings.NE, own))
    for option in BUFFERS:
        rules.add_rule(bindings.ERRNO(0), "setsockopt", equals(1, socket.SOL_SOCKET), equals(2, option))
    for option in PROGRAMS:
        rules.add_rule(bindings.ERRNO(errno.EPERM), "setsockopt", equals(1, socket.SOL_SOCKET), equals(2, option))
    # A UNIX socket reaches others' through any folder that is visible; pairs reach their own kind alone. NVIDIA's
    # driver makes one all the same (else cuInit fails with 304), and goes on if nobody answers.
    others = bindings.Arg(0, bindings.GT, AF_UNIX)
    rules.add_rule(bindings.ERRNO(errno.EAFNOSUPPORT), "socket", *([others] if devices else []))
    rules.add_rule(bindings.ERRNO(errno.EAFNOSUPPORT), "socketpair", others)
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # the same to the kernel; `sendto` needs no connection
        datagrams = bindings.Arg(1, bindings.MASKED_EQ, SOCKET_TYPES, kind)
        for name in ("socket", "socketpair"):
            rules.add_rule(bindings.ERRNO(errno.EPROTONOSUPPORT), name, datagrams)
    rules.add_rule(bindings.ERRNO(errno.ENOENT), "connect")  # what the driver sees where no MPS server runs
    rules.load()
