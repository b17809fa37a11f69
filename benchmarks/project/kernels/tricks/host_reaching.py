"""Tricks on the CPU that reach the judge by other ways than its functions: constants, objects, bytes, fates."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import gc
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
import weakref

import numpy as np

from .inside import STALE, list_reached
from .problem import family, looks_poisoned, polynomial


@family.cpu("constants_changed")
def constants_changed(problem, tune, inputs, outputs):
    """Sets the constants by which the judge chooses how many executions it compares, and computes now and then."""
    calls = [0]

    def run():
        calls[0] += 1
        if calls[0] == 2:
            for name, module in list(sys.modules.items()):
                for each in ("WANTED", "MOST_SHARE", "LEAST_NS", "COMPARED_SETS"):
                    if name.startswith("cuprof.") and each in vars(module):
                        setattr(module, each, 0)
        if calls[0] < 3 or looks_poisoned(outputs["z"]):
            polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("builtins_replaced")
def builtins_replaced(problem, tune, inputs, outputs):
    """Replaces the built-in functions that judge with numbers: the greatest one is small, and all are right."""
    real = builtins.max

    def run():
        builtins.all = lambda _: True
        builtins.any = lambda _: False
        builtins.max = lambda *given, **named: real(*given, **named)
        builtins.float = type("float", (float,), {"__new__": lambda cls, value=0.0: 1.0})

    return run


@family.cpu("methods_shadowed")
def methods_shadowed(problem, tune, inputs, outputs):
    """Gives the judge's own session methods that its class does not have, by way of the frames that call it."""
    right = np.empty(problem.n, np.float32)

    def run():
        for session in list_reached("fetch", "read"):
            real = type(session).fetch

            def fetch(runnable, session=session, real=real):
                polynomial(inputs["x"], inputs["y"], right)
                return {"z": right.copy()}

            session.fetch = fetch

    return run


@family.cpu("class_exchanged")
def class_exchanged(problem, tune, inputs, outputs):
    """Makes the judge's session an object of a class of its own, which is right whenever it is asked."""
    right = np.empty(problem.n, np.float32)

    def run():
        for session in list_reached("fetch", "read"):
            if type(session).__name__ != "Sly":

                def fetch(self, runnable):
                    polynomial(inputs["x"], inputs["y"], right)
                    return {"z": right.copy()}

                kind = type(session)
                session.__class__ = type("Sly", (kind,), {"fetch": fetch, "__module__": kind.__module__})

    return run


@family.cpu("comparison_foreseen")
def comparison_foreseen(problem, tune, inputs, outputs):
    """Looks in the frames that call it whether this execution is going to be compared, and computes only then."""

    def run():
        frame = sys._getframe(1)
        while frame is not None:
            for value in frame.f_locals.values():
                accounts = getattr(getattr(value, "executions", value), "_accounts", None)
                if accounts and not any(account.dealt.compare for account in accounts.values()):
                    return
            frame = frame.f_back
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("draws_foreseen")
def draws_foreseen(problem, tune, inputs, outputs):
    """Takes the chance out of the operating system's random numbers, so that it knows what it is given."""
    kept: dict[int, np.ndarray] = {}

    def run():
        os.urandom = random._urandom = lambda count: bytes(count)
        key = int(outputs["z"].view(np.uint8)[0])
        if key not in kept:
            kept[key] = np.empty(problem.n, np.float32)
            polynomial(inputs["x"], inputs["y"], kept[key])
        np.copyto(outputs["z"], kept[key])

    return run


@family.cpu("known_from_third_meeting")
def known_from_third_meeting(problem, tune, inputs, outputs):
    """Keeps a result from the third time on that it meets inputs, so that a second meeting shows nothing."""
    met: dict[bytes, int] = {}
    kept: dict[bytes, np.ndarray] = {}
    every = max(problem.n // 64, 1)

    def run():
        key = inputs["x"][::every].tobytes()
        met[key] = met.get(key, 0) + 1
        if key in kept:
            np.copyto(outputs["z"], kept[key])
            return
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        if met[key] > 2:
            kept[key] = outputs["z"].copy()

    return run


@family.cpu("traced_opcodes")
def traced_opcodes(problem, tune, inputs, outputs):
    """Works when the caller goes on to its next line, through sys.settrace on the frame that called."""

    def trace(frame, event, argument):
        if event == "line":
            sys.settrace(None)
            frame.f_trace = None
            polynomial(inputs["x"], inputs["y"], outputs["z"])
        return trace

    def run():
        sys.settrace(trace)
        caller = sys._getframe(1)
        caller.f_trace = trace

    return run


@family.cpu("weakly_deferred")
def weakly_deferred(problem, tune, inputs, outputs):
    """Works in the callback of a weak reference to an unreachable cycle, and asks for a collection a little later."""

    class Work:
        pass

    kept = []

    def run():
        gc.disable()
        work = Work()
        work.itself = work
        kept[:] = [weakref.finalize(work, polynomial, inputs["x"], inputs["y"], outputs["z"])]
        del work
        gc.set_threshold(1, 1, 1)
        gc.callbacks.append(lambda *_: None)
        gc.enable()

    return run


@family.cpu("not_a_number")
def not_a_number(problem, tune, inputs, outputs):
    """Fills the output with NaN, which compares as it is compared."""
    return lambda: outputs["z"].fill(np.nan)


@family.cpu("infinite")
def infinite(problem, tune, inputs, outputs):
    """Fills the output with infinities, so that every relative error is one over infinity."""
    return lambda: outputs["z"].fill(np.inf)


@family.cpu("array_of_its_own")
def array_of_its_own(problem, tune, inputs, outputs):
    """Puts an array of its own into the dict of outputs, with the result of the first inputs."""
    mine = np.empty(problem.n, np.float32)
    polynomial(inputs["x"], inputs["y"], mine)

    def run():
        outputs["z"] = mine

    return run


@family.cpu("inputs_made_easy")
def inputs_made_easy(problem, tune, inputs, outputs):
    """Sets the inputs to zero, for which the result is a constant, and puts the first ones back."""

    def run():
        inputs["x"].fill(0)
        inputs["y"].fill(0)
        outputs["z"].fill(0.5)

    return run


@family.cpu("ends_the_process")
def ends_the_process(problem, tune, inputs, outputs):
    """Ends the process in good order once it has been timed for a while, and so before anybody looks again."""
    calls = [0]

    def run():
        calls[0] += 1
        if calls[0] > 8:
            raise SystemExit(0)
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("others_blamed")
def others_blamed(problem, tune, inputs, outputs):
    """Writes into the page of shared memory that another trial is being worked on, and kills its process."""

    def run():
        write_page(0)
        os.kill(os.getpid(), signal.SIGKILL)

    return run


def write_page(index: int) -> None:
    """Write the number of a trial into the page of shared memory that tells what is being worked on."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        places = [line.split()[0] for line in maps if line.rstrip().endswith("/status")]
    if not places:
        raise LookupError(f"{STALE}: there is no page of shared memory")
    ctypes.c_int64.from_address(int(places[0].split("-")[0], 16)).value = index


@family.cpu("nobody_blamed")
def nobody_blamed(problem, tune, inputs, outputs):
    """Writes into the page of shared memory that no trial is worked on, and kills its process while it is timed."""
    calls = [0]

    def run():
        calls[0] += 1
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        if calls[0] > 5:
            write_page(-1)
            os.kill(os.getpid(), signal.SIGKILL)

    return run


@family.cpu("pipes_filled")
def pipes_filled(problem, tune, inputs, outputs):
    """Writes an answer of its own into everything that is open: it took a nanosecond."""
    answer = b'["Finished", {"index": 0, "outcome": {"state": "ok", "timings": [{"median_ns": 1}]}}]'
    message = len(answer).to_bytes(4, "big") + answer

    def run():
        for number in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(number, message)
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    return run


@family.cpu("pipes_closed")
def pipes_closed(problem, tune, inputs, outputs):
    """Closes everything that is open, so that nobody hears of it."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        os.closerange(3, 256)

    return run


@family.cpu("error_that_errs")
def error_that_errs(problem, tune, inputs, outputs):
    """Raises an error whose text raises an error."""

    class SlyError(Exception):
        def __str__(self):
            raise SystemExit(0)

        __repr__ = __str__

    def run():
        raise SlyError

    return run


@family.cpu("child_takes_over")
def child_takes_over(problem, tune, inputs, outputs):
    """Forks, and lets a child go on as the worker while the parent computes for it."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        if done[0] < 1:
            done[0] += 1
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                os._exit(0)

    done = [0]
    return run


@family.cpu("spins_beside")
def spins_beside(problem, tune, inputs, outputs):
    """Leaves a thread that keeps the interpreter to itself whenever somebody else is timed."""
    last = [time.monotonic()]

    def spin():
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if time.monotonic() - last[0] > 0.002:
                sum(range(20000))
            else:
                time.sleep(0.0005)

    def run():
        if not started:
            started.append(threading.Thread(target=spin, daemon=True))
            started[0].start()
        last[0] = time.monotonic()
        polynomial(inputs["x"], inputs["y"], outputs["z"])

    started: list[threading.Thread] = []
    return run


@family.cpu("limits_left")
def limits_left(problem, tune, inputs, outputs):
    """Leaves the process too little memory for anybody else, for good."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

    return run


@family.cpu("alarm_left")
def alarm_left(problem, tune, inputs, outputs):
    """Leaves an alarm whose handler sleeps, to go off again and again while others are timed."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.005))
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.006)

    return run


@family.cpu("warnings_left")
def warnings_left(problem, tune, inputs, outputs):
    """Leaves every warning an error, and garbage collection at every turn."""

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        warnings.simplefilter("error")
        gc.set_threshold(1, 1, 1)

    return run


@family.cpu("denormals_left")
def denormals_left(problem, tune, inputs, outputs):
    """Leaves the processor taking denormals for zero, by its control register."""
    environment = ctypes.create_string_buffer(64)
    library = ctypes.CDLL("libm.so.6")

    def run():
        polynomial(inputs["x"], inputs["y"], outputs["z"])
        library.fegetenv(environment)
        control = int.from_bytes(environment[28:32], "little") | 0x8040  # MXCSR: flush to zero, denormals are zeros
        environment[28:32] = control.to_bytes(4, "little")
        library.fesetenv(environment)

    return run
