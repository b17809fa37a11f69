"""Outlive every limit."""

import ctypes
import os
import signal
import sys
import threading
import time


@family.cpu("prepares_for_ever")
def prepares_for_ever(problem, tune, inputs, outputs):
    """Sleep while it prepares."""
    time.sleep(600)


@family.cpu("runs_for_ever")
def runs_for_ever(problem, tune, inputs, outputs):
    """Sleep while it runs."""
    return lambda: time.sleep(600)


@family.cpu("spins_in_c")
def spins_in_c(problem, tune, inputs, outputs):
    """Hold the interpreter's lock in a call that never ends."""
    return lambda: ctypes.PyDLL(None).pause()


@family.cpu("ignores_signals")
def ignores_signals(problem, tune, inputs, outputs):
    """Ignore what can be ignored, and go on in a session of its own."""
    for number in range(1, 32):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    if os.fork() == 0:
        os.setsid()
    time.sleep(600)


@family.cpu("deep_recursion")
def deep_recursion(problem, tune, inputs, outputs):
    """Exhaust the stack."""
    sys.setrecursionlimit(1 << 30)

    def again(number):
        return again(number + 1) + 1

    return lambda: again(0)


@family.cpu("error_that_errs")
def error_that_errs(problem, tune, inputs, outputs):
    """Raise an error whose text raises one."""

    class Odd(Exception):
        def __str__(self):
            raise Odd

    raise Odd


@family.cpu("error_that_hangs")
def error_that_hangs(problem, tune, inputs, outputs):
    """Raise an error whose text never comes."""

    class Odd(Exception):
        def __str__(self):
            time.sleep(600)
            return ""

    raise Odd


@family.cpu("exits_with_threads")
def exits_with_threads(problem, tune, inputs, outputs):
    """Leave a thread that keeps the process from ending."""
    threading.Thread(target=lambda: time.sleep(600)).start()
    raise SystemExit(3)


@family.cpu("slower_and_slower")
def slower_and_slower(problem, tune, inputs, outputs):
    """Take a little less than the limit, again and again."""

    def run():
        time.sleep(0.4)
        right(inputs, outputs)

    return run


@family.cpu("talks_without_end")
def talks_without_end(problem, tune, inputs, outputs):
    """Write into the log without end."""
    while True:
        sys.stderr.write("x" * 65536)
