"""What no variant may do in the worker's process: the interpreter asks before it does it, and cannot be kept from it.

Python's audit hooks (PEP 578) see what runs through the interpreter. Machine code that a variant brings does not ask.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

from cuprof.worker.opened import OPENED

HOOKS = {
    "cpython.PyInterpreterState_New": "it starts another interpreter",
    "sys.setprofile": "it hooks the interpreter (sys.setprofile)",
    "sys.settrace": "it hooks the interpreter (sys.settrace)",
    "sys.monitoring.register_callback": "it hooks the interpreter (sys.monitoring)",
}
"""Audit events after which code could run unseen, or between a clock and the comparison. Audit hooks cover one
interpreter only."""
MEMORY = re.compile(r"/+(\./+)*proc/(.*/)?mem")
WRITERS = frozenset(
    {"dlsym", "dlvsym", "mprotect", "mremap", "pkey_mprotect", "process_vm_readv", "process_vm_writev", "ptrace",
     "syscall"}
)  # fmt: skip
"""C library functions through which Python code can reach memory that it was not given, or look up such functions."""
HOOKING = "_PyInterpreterState_SetEvalFrameFunc"
"""The interpreter's function that replaces its frame evaluator (PEP 523)."""


class RefusedError(RuntimeError):
    """Report that a variant tried something forbidden."""


def set_ward() -> None:
    """From now on, refuse forbidden actions in this process and its forks.

    Further audit hooks are refused too, since their code would run whenever the judge calls the interpreter. Python
    drops them silently, so libraries that add optional ones still work.
    """
    OPENED.install()
    sys.addaudithook(_make_guard())


def _make_guard() -> Callable[[str, tuple[Any, ...]], None]:
    """Return a hook that raises `RefusedError` for a forbidden event.

    The hook looks up no outside name before it refuses, and no reference leads to it. Otherwise a variant could disarm
    it for a moment and restore everything before the next check.
    """
    hooks, is_memory, writers, hooking, refuse = frozenset(HOOKS), MEMORY.fullmatch, WRITERS, HOOKING, RefusedError
    is_a, named, decode = isinstance, (str, bytes, os.PathLike), os.fsdecode

    def guard(event: str, given: tuple[Any, ...]) -> None:
        if event in hooks:
            raise refuse(f"{HOOKS.get(event, event)}, which runs code where the clock does not look")
        if event == "open":
            if is_a(given[0], named) and is_memory(decode(given[0])):
                raise refuse("it opens a process's memory (/proc/…/mem), in which its judge lies")
        elif event == "sys.addaudithook":
            raise refuse("it hooks the interpreter (sys.addaudithook)")
        elif event == "ctypes.dlsym" and given[1] == hooking:
            raise refuse("it hooks the interpreter (PEP 523), which runs code where the clock does not look")
        elif event == "ctypes.dlsym" and given[1] in writers:
            raise refuse(f"it reaches for memory that it was not given (the C library's {given[1]})")

    return guard
