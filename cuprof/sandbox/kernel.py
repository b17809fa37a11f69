"""System calls that Python does not offer: namespaces, mounts, capabilities."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = (
    0x2, 0x4, 0x8, 0x1000, 0x2000, 0x4000, 0x40000,
)  # fmt: skip
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID = 0x1, 0x2
SYS_MOUNT_SETATTR = 442
"""The same on every architecture; Linux 5.12 and later."""
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SYS_KEYCTL, KEYCTL_JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
CAPABILITY_VERSION_3 = 0x20080522
MOST_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def unshare(flags: int) -> None:
    """Give this process namespaces of its own; raise OSError if refused."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system; raise OSError if refused."""
    words = [text.encode("utf-8", "surrogateescape") or None for text in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def make_read_only(folder: str) -> None:
    """Make all mounts at and below a folder read-only, and disable set-user-ID programs there."""
    _set_attributes(folder, _MountAttributes(attr_set=MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID))


def make_writable(place: str) -> None:
    """Undo `make_read_only` for the mount at a path."""
    _set_attributes(place, _MountAttributes(attr_clr=MOUNT_ATTR_RDONLY))


def _set_attributes(target: str, attributes: _MountAttributes) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    place = ctypes.c_int(AT_FDCWD), target.encode(), ctypes.c_uint(AT_RECURSIVE)
    call(SYS_MOUNT_SETATTR, *place, ctypes.byref(attributes), size)


def call(number: int, *arguments: Any) -> int:
    """Make a system call by its number; raise OSError if refused."""
    done = int(_libc.syscall(ctypes.c_long(number), *arguments))
    _check(min(done, 0), f"system call {number}")
    return done


def control(option: int, *arguments: int) -> None:
    """Call prctl; raise OSError if refused."""
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(ctypes.c_int(option), *values), f"prctl {option}")


def leave_keyring() -> None:
    """Have an empty keyring in place of the session's, whose keys this user's other processes read and leave."""
    if number := SYS_KEYCTL.get(os.uname().machine):
        with contextlib.suppress(OSError):  # a kernel, or a container, without keys
            call(number, KEYCTL_JOIN_SESSION_KEYRING, None)


def drop_capabilities() -> None:
    """Drop all capabilities for good, including those that a root program would regain."""
    for capability in range(MOST_CAPABILITIES):
        try:
            control(PR_CAPBSET_DROP, capability)
        except OSError:  # the kernel knows no further one, or we may not and have none to give up
            break
    with contextlib.suppress(OSError):  # older than ambient capabilities
        control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _check(returned: int, what: str) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
