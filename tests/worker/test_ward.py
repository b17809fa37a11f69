"""What the interpreter refuses once the ward is set; in processes of their own, since it cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

from cuprof.child import child_environment

CODE = """
import ctypes, io, os, pathlib, sys
from cuprof.worker import ward
from cuprof.worker.ward import RefusedError, set_ward

def is_refused(action):
    try:
        action()
    except RefusedError:
        return True
    except Exception:
        return False
    return False

def make_interpreter():
    interpreters = __import__("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    try:
        interpreters.create()
    except Exception as error:  # Python says by an error of its own that it was not allowed
        raise RefusedError from error

libc = ctypes.CDLL(None)
set_ward()
refused = [
    lambda: sys.setprofile(print), lambda: sys.settrace(print), lambda: open("/proc/self/mem", "r+b"),
    lambda: os.open(b"/proc/self/task/1/mem", os.O_RDWR), lambda: libc.mprotect, lambda: libc["process_vm_writev"],
    lambda: libc.dlsym, lambda: ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc,
    make_interpreter,
    lambda: io.FileIO(pathlib.Path("/proc/self/mem")), lambda: open("//proc/self/mem", "r+b"),
]
allowed = [
    lambda: open("/proc/self/maps").close(), lambda: open("/proc/meminfo").close(), lambda: libc.getpid(), os.getpid,
    lambda: __import__("wave"), lambda: os.open("/proc/self/status", os.O_RDONLY),
]
heard = []
sys.addaudithook(lambda event, given: heard.append(event))  # which is left out
sys.audit("anything")
assert not heard
ward.HOOKS.clear()  # whatever its names stand for by now
ward.MEMORY, ward.WRITERS, ward.HOOKING = ward.re.compile("none"), frozenset(), ""
print([is_refused(each) for each in refused], [is_refused(each) for each in allowed])
"""


def test_hooks_and_memory_are_refused_and_nothing_else() -> None:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=child_environment())
    assert done.stdout == f"{[True] * 11} {[False] * 6}\n"
