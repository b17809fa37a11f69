"""Have others do the work: threads, children, signals, timers and hooks, before, after or between the requests."""

import atexit
import ctypes
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

shared = {}
LIBC = ctypes.CDLL(None, use_errno=True)


def stage():
    frame = sys._getframe()
    while frame is not None:
        for name in ("stage", "self"):
            if type(frame.f_locals.get(name)).__name__ == "Stage":
                return frame.f_locals[name]
        frame = frame.f_back


@family.cpu("alarm_works_later")
def alarm_works_later(problem, tune, inputs, outputs):
    """Let a timer's signal do the work after the call has returned."""
    signal.signal(signal.SIGALRM, lambda *_: right(inputs, outputs))
    return lambda: signal.setitimer(signal.ITIMER_REAL, 0.001)


@family.cpu("timer_thread_works_later")
def timer_thread_works_later(problem, tune, inputs, outputs):
    return lambda: threading.Timer(0.001, right, (inputs, outputs)).start()


@family.cpu("continued_signal_works")
def continued_signal_works(problem, tune, inputs, outputs):
    """Compute when the process goes on, and hope that the clock starts later."""
    shared.setdefault("all", []).append((inputs, outputs))
    signal.signal(signal.SIGCONT, lambda *_: [right(*each) for each in shared["all"]])
    return lambda: None


@family.cpu("stops_itself")
def stops_itself(problem, tune, inputs, outputs):
    """Be stopped when others want to stop it, and let a child compute meanwhile."""
    me = os.getpid()
    if os.fork() == 0:
        os.setsid()
        while True:
            right(inputs, outputs)
            os.kill(me, signal.SIGCONT)
            time.sleep(0.0005)
    return lambda: os.kill(me, signal.SIGSTOP)


@family.cpu("spawned_pool_works_ahead")
def spawned_pool_works_ahead(problem, tune, inputs, outputs):
    """Keep a pool of forked processes that compute whenever they see new inputs."""
    pool = shared.setdefault("pool", multiprocessing.get_context("fork").Pool(2))
    shared.setdefault("work", []).append(pool.apply_async(forever, (0.05,)))
    return lambda: None


def forever(seconds):
    time.sleep(seconds)


@family.cpu("vfork_bomb")
def vfork_bomb(problem, tune, inputs, outputs):
    """Fork at each execution, each child computing for a while."""

    def run():
        if os.fork() == 0:
            for _ in range(200):
                right(inputs, outputs)
            os._exit(0)

    return run


@family.cpu("chain_of_forks")
def chain_of_forks(problem, tune, inputs, outputs):
    """Be another process every millisecond, so that no list of processes is true."""
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            right(inputs, outputs)
            time.sleep(0.001)
    return lambda: None


@family.cpu("daemon_outlives")
def daemon_outlives(problem, tune, inputs, outputs):
    """Leave a daemon that lost its parent, its session and its descriptors."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.closerange(0, 64)
        for number in range(1, 64):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        time.sleep(600)
    return lambda: None


@family.cpu("shell_outlives")
def shell_outlives(problem, tune, inputs, outputs):
    """Leave a program that knows nothing of Python."""
    subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"], start_new_session=True)
    return lambda: None


@family.cpu("subreaper")
def subreaper(problem, tune, inputs, outputs):
    """Adopt the children that others would find, and leave them."""
    LIBC.prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            while True:
                right(inputs, outputs)
        os._exit(0)
    return lambda: None


@family.cpu("spins_at_exit")
def spins_at_exit(problem, tune, inputs, outputs):
    """Go on in what runs when the interpreter ends."""

    def go_on():
        while True:
            pass

    atexit.register(go_on)
    raise SystemExit(0)


@family.cpu("exception_hook_spins")
def exception_hook_spins(problem, tune, inputs, outputs):
    """Go on while the error is written."""

    class Endless(BaseException):
        def __str__(self):
            while True:
                pass

        __repr__ = __str__

    raise Endless


@family.cpu("garbage_works_later")
def garbage_works_later(problem, tune, inputs, outputs):
    """Compute in a destructor that runs with the next request."""

    class Box:
        def __del__(self):
            right(inputs, outputs)

    kept = []

    def run():
        kept[:] = [Box()]

    return run


@family.cpu("trace_function_works")
def trace_function_works(problem, tune, inputs, outputs):
    """Compute in the trace function, after the call."""

    def trace(frame, event, argument):
        return trace

    def run():
        sys.setprofile(lambda *_: None)
        threading.Thread(target=lambda: (time.sleep(0.001), right(inputs, outputs))).start()

    sys.settrace(trace)
    return run


@family.cpu("half_before_half_after")
def half_before_half_after(problem, tune, inputs, outputs):
    """Compute the first half, report, and compute the other half in a thread."""
    middle = len(inputs["x"]) // 2

    def rest():
        time.sleep(0.0005)
        np.multiply(inputs["x"][middle:], 2, out=outputs["y"][middle:])

    def run():
        np.multiply(inputs["x"][:middle], 2, out=outputs["y"][:middle])
        threading.Thread(target=rest).start()

    return run


@family.cpu("answers_then_works")
def answers_then_works(problem, tune, inputs, outputs):
    """Say that it is done through the frames' own pipe, compute, and keep the second answer to itself."""
    frame, pipe = sys._getframe(), None
    while frame is not None and pipe is None:
        pipe = frame.f_locals.get("pipe")
        frame = frame.f_back
    found = stage()

    class Silent:
        def sendall(self, data):
            pass

        def __getattr__(self, name):
            return getattr(pipe, name)

    def run(self, count):
        pipe.sendall(b"d")
        for call in self.calls[:count]:
            call()

    type(found).execute = run
    return lambda: (time.sleep(0.001), right(inputs, outputs))


@family.cpu("computes_only_what_is_looked_at")
def computes_only_what_is_looked_at(problem, tune, inputs, outputs):
    """Compute every element but a few in a hundred."""
    mask = np.arange(len(inputs["x"])) % 100 != 7
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"], where=mask)


@family.cpu("writes_the_other_way_round")
def writes_the_other_way_round(problem, tune, inputs, outputs):
    """Write each result into another set's output."""
    sets = shared.setdefault("sets", [])
    sets.append((inputs, outputs))
    number = len(sets) - 1
    return lambda: right(sets[number][0], sets[number - 1][1])


@family.cpu("remembers_across_k")
def remembers_across_k(problem, tune, inputs, outputs):
    """Keep results of the smaller request for the larger one, by a hash of the contents."""
    kept = shared.setdefault("kept", {})

    def run():
        key = hash(inputs["x"].tobytes())
        if key not in kept:
            for _ in range(40):
                right(inputs, outputs)
            kept[key] = outputs["y"].copy()
        np.copyto(outputs["y"], kept[key])

    return run


@family.cpu("remembers_in_a_file")
def remembers_in_a_file(problem, tune, inputs, outputs):
    """Keep results in a file, for the next process."""

    def run():
        path = f"/tmp/{hash(inputs['x'].tobytes()):x}.npy"
        if os.path.exists(path):
            np.copyto(outputs["y"], np.load(path))
        else:
            for _ in range(200):
                right(inputs, outputs)
            np.save(path, outputs["y"])

    return run


@family.cpu("idle_until_new")
def idle_until_new(problem, tune, inputs, outputs):
    """Compute each set once, as long as its first and last elements are what they were."""
    seen = [None]

    def run():
        ends = inputs["x"][:4].tobytes(), inputs["x"][-4:].tobytes()
        if seen[0] != ends:
            seen[0] = ends
            np.copyto(outputs["y"], 0)
        else:
            right(inputs, outputs)

    return run


@family.cpu("second_mapping_of_memory")
def second_mapping_of_memory(problem, tune, inputs, outputs):
    """Map the shared memory again in a child, which writes results while the first one is stopped."""
    for name in os.listdir("/proc/self/fd"):
        if "memfd" in os.readlink(f"/proc/self/fd/{name}"):
            size = os.fstat(int(name)).st_size
            again = mmap.mmap(int(name), size)
            if os.fork() == 0:
                os.setsid()
                while True:
                    again[size - 4096 :] = bytes(4096)
                    right(inputs, outputs)
    return lambda: None
