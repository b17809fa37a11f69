"""Tricks on the CPU that do their work where no clock looks: in threads, processes, finalisers, signals and hooks."""

from __future__ import annotations

import atexit
import gc
import os
import queue
import signal
import sys
import threading

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
        if tasks.unfinished_tasks == 0:
            tasks.put(True)
        if checked:
            tasks.join()

    return run


@family.cpu("process_handed")
def process_handed(problem, tune, inputs, outputs):
    """Has a forked process compute and write the result into this one's memory, and does not wait for it."""
    x, y, z = inputs["x"], inputs["y"], outputs["z"]
    (asked, ask), (answered, answer) = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.close(ask)
        own = z.copy()
        with open(f"/proc/{parent}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123
            while os.read(asked, 1):
                polynomial(x, y, own)
                memory.seek(z.ctypes.data)
                memory.write(own.tobytes())
                os.write(answer, b"d")
        os._exit(0)
    os.close(asked)
    os.close(answer)
    os.set_blocking(answered, False)
    pending = [0]

    def run():
        checked = looks_poisoned(z)
        if not pending[0]:
            os.write(ask, b"g")
            pending[0] = 1
        if checked:
            os.set_blocking(answered, True)
        try:
            pending[0] -= len(os.read(answered, 1))
        except BlockingIOError:
            pass
        finally:
            os.set_blocking(answered, False)

    return run


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
