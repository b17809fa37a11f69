"""Make the time seem shorter than it is."""

import os
import sys
import threading
import time


def slowly(inputs, outputs):
    for _ in range(50):
        right(inputs, outputs)


def stage():
    frame = sys._getframe()
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "Stage":
            return found
        frame = frame.f_back


@family.cpu("clock_slowed")
def clock_slowed(problem, tune, inputs, outputs):
    """Replace every clock of the process."""
    began = time.perf_counter_ns()
    time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: began
    time.perf_counter = time.monotonic = time.time = lambda: 0.0
    return lambda: slowly(inputs, outputs)


@family.cpu("short_requests_take_long")
def short_requests_take_long(problem, tune, inputs, outputs):
    """Sleep where few executions are asked for, so that the slope becomes flat."""
    found = stage()
    execute = type(found).execute

    def run(self, count):
        execute(self, count)
        if count < len(self.calls):
            time.sleep(0.02)

    type(found).execute = run
    return lambda: slowly(inputs, outputs)


@family.cpu("responses_take_long")
def responses_take_long(problem, tune, inputs, outputs):
    """Sleep at each request, and hide work in what seems to be its cost."""
    found = stage()
    execute = type(found).execute
    done = set()

    def run(self, count):
        time.sleep(0.01)
        execute(self, count)

    type(found).execute = run
    return lambda: slowly(inputs, outputs)


@family.cpu("waits_behind_itself")
def waits_behind_itself(problem, tune, inputs, outputs):
    """Let a thread on the same processor do the work, while the one that executes waits for the processor."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ready, done = threading.Event(), threading.Event()

    def work():
        while True:
            ready.wait()
            ready.clear()
            slowly(inputs, outputs)
            done.set()

    threading.Thread(target=work, daemon=True).start()

    def run():
        done.clear()
        ready.set()
        while not done.is_set():
            os.sched_yield()

    return run


@family.cpu("waits_behind_a_child")
def waits_behind_a_child(problem, tune, inputs, outputs):
    """Let a short-lived child on the same processor do the work."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    def run():
        child = os.fork()
        if child == 0:
            slowly(inputs, outputs)
            os._exit(0)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            os.sched_yield()

    return run


@family.cpu("sets_side_by_side")
def sets_side_by_side(problem, tune, inputs, outputs):
    """Execute on all sets at once, in one vectorised call a half."""
    found = stage()

    def run(self, count):
        threads = [threading.Thread(target=call) for call in self.calls[:count]]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    type(found).execute = run

    def work():
        time.sleep(0.001)
        right(inputs, outputs)

    return work


@family.cpu("only_new_is_slow")
def only_new_is_slow(problem, tune, inputs, outputs):
    """Remember results by their inputs' sum, in all sets together."""
    kept = sys.__dict__.setdefault("kept", {})

    def run():
        key = float(inputs["x"].sum(dtype="f8")), float(inputs["x"][1]), float(inputs["x"][7])
        if key not in kept:
            slowly(inputs, outputs)
            slowly(inputs, outputs)
            kept[key] = outputs["y"].copy()
        else:
            np.copyto(outputs["y"], kept[key])

    return run
