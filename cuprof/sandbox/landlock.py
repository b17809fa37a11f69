"""Let a process read and write only where it may, by Landlock, which needs neither privileges nor namespaces."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable

from cuprof.sandbox.kernel import call

SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
"""The same on every architecture; Linux 5.13 and later."""
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
WRITE_FILE, READ_FILE, TRUNCATE = 1 << 1, 1 << 2, 1 << 14
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 14))
"""Writing, and removing and making entries of every kind, from version 2 on; version 3 adds `TRUNCATE`."""
TCP = 0b11
"""Binding and connecting, from version 4 on."""
SIGNALS = 0b10
SCOPES = 0b01 | SIGNALS
"""No abstract sockets of others, and no signals to them, from version 6 on."""


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scoped")]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def find_version() -> int:
    """Return the version of Landlock that the kernel has; 0 for none."""
    with contextlib.suppress(OSError):
        return call(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_RULESET_VERSION))
    return 0


def keep_within(writable: Iterable[str], readable: Iterable[str] = ()) -> None:
    """Refuse this process and its children to write, or to read, outside files and folders, where the kernel can.

    Privileges that running a program could give must have been given up.

    Args:
        writable: where they may write.
        readable: where they may read; anywhere if empty.
    """
    version = find_version()
    if version < 2:
        return
    changes = CHANGES | (TRUNCATE if version >= 3 else 0)
    handled = changes | (READ_FILE if readable else 0)
    rules = _make(version, _Ruleset(handled, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0))
    for place, rights in (*((each, changes) for each in writable), *((each, READ_FILE) for each in readable)):
        with contextlib.suppress(FileNotFoundError):
            parent = os.open(place, os.O_PATH | os.O_CLOEXEC)
            allowed = rights if os.path.isdir(place) else rights & (WRITE_FILE | READ_FILE | TRUNCATE)  # noqa: PTH112
            call(SYS_ADD_RULE, ctypes.c_int(rules), RULE_PATH_BENEATH, ctypes.byref(_Beneath(allowed, parent)), 0)
            os.close(parent)
    _obey(rules)


def keep_signals_within() -> bool:
    """Let this process and its children signal only one another; return whether the kernel can.

    Privileges that running a program could give must have been given up.
    """
    if (version := find_version()) < 6:
        return False
    _obey(_make(version, _Ruleset(scoped=SIGNALS)))
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return True
    return False


def _make(version: int, wanted: _Ruleset) -> int:
    size = ctypes.c_size_t(24 if version >= 6 else 16 if version >= 4 else 8)
    return call(SYS_CREATE_RULESET, ctypes.byref(wanted), size, ctypes.c_uint32(0))


def _obey(rules: int) -> None:
    call(SYS_RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    os.close(rules)
