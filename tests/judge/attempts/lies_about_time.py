"""Make the time seem shorter than it is."""

import ctypes
import os
import subprocess
import sys
import threading
import time

HIDDEN_C = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile int asked, done;
static float *x[256], *y[256];
static long length;
static char *stack;
static int work(void *_) {
    for (int set = 0; set < asked; set++)
        for (int turn = 0; turn < 80; turn++)
            for (long i = 0; i < length; i++) ((volatile float *) y[set])[i] = 2 * x[set][i];
    done = 1;
    _exit(0);
}
static void *start(void *_) {
    for (;;) {
        while (!asked || done) usleep(20);
        clone(work, stack + (1 << 20), CLONE_VM | SIGCHLD, 0);
        while (!done) usleep(20);
    }
}
void add(int set, float *from, float *to, long n) { x[set] = from; y[set] = to; length = n; }
void run(int count) {
    done = 0;
    asked = count;
    while (!done) sched_yield();
    asked = 0;
    for (volatile long i = 0; i < 500L * count; i++) ;
}
void begin(void) {
    pthread_t thread;
    cpu_set_t first;
    struct sigaction nobody_waits = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    struct sched_param none = {0};
    CPU_ZERO(&first);
    CPU_SET(sched_getcpu(), &first);
    sched_setaffinity(0, sizeof first, &first);
    sigaction(SIGCHLD, &nobody_waits, 0);
    stack = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&thread, 0, start, 0);
    usleep(10000);
    sched_setscheduler(0, SCHED_IDLE, &none);
}
"""


shared = {}


def slowly(inputs, outputs):
    for _ in range(2):
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
    kind = type(stage())
    execute = shared.setdefault("execute", kind.execute)

    def run(self, count):
        execute(self, count)
        if count < len(self.calls):
            time.sleep(0.02)

    kind.execute = run
    return lambda: slowly(inputs, outputs)


@family.cpu("responses_take_long")
def responses_take_long(problem, tune, inputs, outputs):
    """Sleep at each request, and hide work in what seems to be its cost."""
    kind = type(stage())
    execute = shared.setdefault("execute", kind.execute)

    def run(self, count):
        time.sleep(0.01)
        execute(self, count)

    kind.execute = run
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


@family.cpu("waits_behind_a_child_that_nobody_awaits")
def waits_behind_a_child_that_nobody_awaits(problem, tune, inputs, outputs):
    """Let the work be done by a child whose end shows in no books, while the thread that executes is in the queue."""
    found = stage()
    if not found.calls:
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-o", "hidden.so", "-"], input=HIDDEN_C.encode(), check=True
        )
        found.library = ctypes.CDLL(os.path.abspath("hidden.so"))
        found.library.begin()
        type(found).execute = lambda self, count: self.library.run(count)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (inputs["x"], outputs["y"])]
    found.library.add(len(found.calls), *places, ctypes.c_long(problem.n))
    return lambda: None


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
