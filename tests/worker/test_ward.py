"""What the interpreter refuses once the ward is set; in processes of their own, since it cannot be taken back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cuprof.core.processes import child_environment

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

libc = ctypes.CDLL(None)
set_ward()
refused = [
    lambda: sys.setprofile(print), lambda: sys.settrace(print), lambda: open("/proc/self/mem", "r+b"),
    lambda: os.open(b"/proc/self/task/1/mem", os.O_RDWR), lambda: libc.mprotect, lambda: libc["process_vm_writev"],
    lambda: libc.dlsym, lambda: ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc,
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
    assert done.stdout == f"{[True] * 10} {[False] * 6}\n"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python makes one whatever an audit hook says of it")
def test_no_other_interpreter_comes_of_asking_for_one() -> None:
    code = """
from cuprof.worker.ward import set_ward

set_ward()
__import__("_xxsubinterpreters").create()  # Python 3.11 says that it failed, Python 3.12 ends the process
print("made")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=child_environment())
    assert done.returncode
    assert not done.stdout
