"""Tricks on the CPU that do their work where no clock looks: in threads, processes, finalisers, signals and hooks."""

from __future__ import annotations

import atexit
import gc
import mmap
import os
import queue
import signal
import sys
import threading
import time

from .problem import family, looks_poisoned, polynomial


@family.cpu("thread_handed")
def thread_handed(problem, tune, inputs, outputs):
    """Hands the work to a thread and returns, and waits only where a check seems to follow."""
    tasks: queue.Queue[bool] = queue.Queue()

    def work():
        while tasks.get():
            polynomial(inputs["x"], inputs["y"], outputs["z"])
            tasks.task_done()

    threading.Thread(target=work, daemon=True).start()

    def run():
        checked = looks_poisoned(outputs["z"])
        if checked:
            tasks.join()
        if tasks.unfinished_tasks == 0:
            tasks.put(True)
        if checked:
            tasks.join()

    return run


@family.cpu("process_handed")
def process_handed(problem, tune, inputs, outputs):
    """Has a forked process compute and write the result into this one's memory, and does not wait for it."""
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    shared, parent = mmap.mmap(-1, 2), os.getpid()
    if os.fork() == 0:
        own = z.copy()
        with open(f"/proc/{parent}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
            while os.getppid() == parent:
                if shared[ASKED] != shared[DONE]:
                    asked = shared[ASKED]
                    polynomial(x, y, own)
                    memory.seek(z.ctypes.data)
                    memory.write(own.tobytes())
                    shared[DONE] = asked
                time.sleep(0.0005)
        os._exit(0)

    def wait():
        while shared[ASKED] != shared[DONE]:
            time.sleep(0.0005)

    def run():
        checked = looks_poisoned(z)
        if checked:
            wait()
        shared[ASKED] = (shared[ASKED] + 1) % 256
        if checked:
            wait()

    return run


ASKED, DONE = 0, 1


@family.cpu("finaliser_deferred")
def finaliser_deferred(problem, tune, inputs, outputs):
    """Leaves the work to the finaliser of an unreachable cycle, and garbage collection eager."""

    class Work:
        def __init__(self):
            self.itself = self

        def __del__(self):
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    def run():
        gc.disable()
        Work()
        gc.set_threshold(1, 1, 1)
        gc.enable()

    return run


@family.cpu("signal_deferred")
def signal_deferred(problem, tune, inputs, outputs):
    """Leaves the work to the handler of an alarm that goes off a little later, and waits only for a check."""
    z = outputs["z"]
    signal.signal(signal.SIGALRM, lambda *_: polynomial(inputs["x"], inputs["y"], z))

    def run():
        if looks_poisoned(z):
            polynomial(inputs["x"], inputs["y"], z)
        signal.setitimer(signal.ITIMER_REAL, 0.0003)

    return run


@family.cpu("profiler_hooked")
def profiler_hooked(problem, tune, inputs, outputs):
    """Works when the interpreter enters the function that takes the result away, through sys.setprofile."""

    def hook(frame, event, argument):
        if event == "call" and frame.f_code.co_name in ("fetch", "check_in_place", "compare"):
            sys.setprofile(None)
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    return lambda: sys.setprofile(hook)


@family.cpu("exit_deferred")
def exit_deferred(problem, tune, inputs, outputs):
    """Leaves the work to the end of the process."""
    return lambda: atexit.register(polynomial, inputs["x"], inputs["y"], outputs["z"])
