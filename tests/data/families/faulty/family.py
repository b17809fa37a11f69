"""Variants that are broken on purpose, each in one way, with sound ones before, between and after them."""

import ctypes
import os
import signal
import stat
import sys
import threading
import time
import warnings

import numpy as np

from cuprof import Array, Axis, Family, Launch, Program, Signature, Tolerance, Tunable

BLOCK = 64


def signature(problem):
    return Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")})


def generate(problem, rng):
    return {"x": rng.random(problem.n, dtype=np.float32)}


def reference(problem, inputs):
    return {"y": 2.0 * inputs["x"].astype(np.float64)}


def tolerance(problem, inputs, reference):
    return Tolerance()


family = Family(
    name="faulty",
    title="y = 2x, in ways that fail",
    axes=(Axis("n", default=128, low=1, high=2**20),),
    signature=signature,
    generate=generate,
    reference=reference,
    tolerance=tolerance,
    useful_bytes=lambda problem: 8 * problem.n,
    baseline="sound_first",
)


def double(inputs, outputs):
    np.multiply(inputs["x"], 2, out=outputs["y"])


@family.cpu("sound_first")
def sound_first(problem, tune, inputs, outputs):
    """Right."""
    return lambda: double(inputs, outputs)


@family.cpu("segfault")
def segfault(problem, tune, inputs, outputs):
    """Reads address 0."""
    return lambda: ctypes.string_at(0)


@family.cpu("aborts")
def aborts(problem, tune, inputs, outputs):
    """Calls abort(), as a failed assertion in C does."""
    return os.abort


@family.cpu("exits")
def exits(problem, tune, inputs, outputs):
    """Ends the process by itself, politely."""
    return lambda: sys.exit(3)


@family.cpu("exits_at_once")
def exits_at_once(problem, tune, inputs, outputs):
    """Ends the process while it is prepared, without clearing up."""
    os._exit(0)


@family.cpu("killed")
def killed(problem, tune, inputs, outputs):
    """Is killed, as by the system when memory runs out."""
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


@family.cpu("crashes_later")
def crashes_later(problem, tune, inputs, outputs):
    """Right, but a thread that it leaves behind brings the process down while others are timed."""
    began = []

    def run():
        began.append(time.monotonic())
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGSEGV)).start()
        double(inputs, outputs)
        if began[-1] > began[0] + 0.1:  # the thread is late, on a busy host
            time.sleep(1e6)

    return run


@family.cpu("holds_the_interpreter_later")
def holds_the_interpreter_later(problem, tune, inputs, outputs):
    """Right, but a thread that it leaves behind lets nobody else run Python for a while."""

    def run():
        threading.Timer(0.3, ctypes.PyDLL(None).sleep, (6,)).start()
        double(inputs, outputs)

    return run


@family.cpu("scribbles_later")
def scribbles_later(problem, tune, inputs, outputs):
    """Right at first, but a thread that it leaves behind goes on writing into its output, which is everybody's."""
    address, size = outputs["y"].ctypes.data, outputs["y"].nbytes

    def scribble():
        while True:
            ctypes.memset(address, 0, size)
            time.sleep(1e-4)

    def run():
        double(inputs, outputs)
        if threading.active_count() < 30:
            threading.Thread(target=scribble, daemon=True).start()

    return run


@family.cpu("takes_its_time")
def takes_its_time(problem, tune, inputs, outputs):
    """Right, and long enough about it to meet what others left behind."""

    def run():
        time.sleep(0.1)
        double(inputs, outputs)

    return run


@family.cpu("patches_numpy")
def patches_numpy(problem, tune, inputs, outputs):
    """Right, but leaves a function of NumPy that raises."""
    multiply = np.multiply

    def refuse(*_, **__):
        raise RuntimeError("patched")

    def run():
        multiply(inputs["x"], 2, out=outputs["y"])
        np.multiply = refuse

    return run


def leave_error_mode():
    np.seterr(all="raise")


def leave_warning_filter():
    warnings.simplefilter("error")


def leave_folder():
    os.chdir("/")


def leave_environment():
    os.environ["LEFT_BEHIND"] = "1"
    os.environ.pop("HOME", None)


def leave_handler():
    signal.signal(signal.SIGUSR1, lambda *_: 1 / 0)


def leave_timer():
    signal.signal(signal.SIGVTALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000.0)


def leave_closed_descriptors():
    os.closerange(1, 3)


def leave_closed_stream():
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr.close()


def leaves(leave):
    def make(problem, tune, inputs, outputs):
        def run():
            double(inputs, outputs)
            leave()

        return run

    return make


family.cpu("leave_error_mode")(leaves(leave_error_mode))
family.cpu("leave_warning_filter")(leaves(leave_warning_filter))
family.cpu("leave_folder")(leaves(leave_folder))
family.cpu("leave_environment")(leaves(leave_environment))
family.cpu("leave_handler")(leaves(leave_handler))
family.cpu("leave_timer")(leaves(leave_timer))
family.cpu("leave_closed_descriptors")(leaves(leave_closed_descriptors))
family.cpu("leave_closed_stream")(leaves(leave_closed_stream))


SURROUNDINGS = (os.getcwd(), "LEFT_BEHIND" in os.environ, os.environ.get("HOME"), signal.getsignal(signal.SIGUSR1))  # noqa: PTH109


@family.cpu("looks_around")
def looks_around(problem, tune, inputs, outputs):
    """Right, where nothing is other than it was when this file was imported."""

    def run():
        np.float32(1e38) * np.float32(10)
        warnings.warn("as anybody may", stacklevel=2)
        print("said", flush=True)  # noqa: T201
        print("said", file=sys.stderr, flush=True)  # noqa: T201
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
        environment = ("LEFT_BEHIND" in os.environ, os.environ.get("HOME"))
        assert (os.getcwd(), *environment, signal.getsignal(signal.SIGUSR1)) == SURROUNDINGS  # noqa: PTH109
        double(inputs, outputs)

    return run


@family.cpu("arranges_itself")
def arranges_itself(problem, tune, inputs, outputs):
    """Right, and relies on what it sets as it runs: what it set while it was prepared is put back."""
    os.chdir("/")
    np.seterr(all="raise")

    def run():
        os.chdir("/")
        np.seterr(all="raise")
        assert os.getcwd() == "/"  # noqa: PTH109
        assert np.geterr()["over"] == "raise"
        double(inputs, outputs)

    return run


@family.cpu("complains_at_length")
def complains_at_length(problem, tune, inputs, outputs):
    """Raises with a message that nobody wants to read."""

    def run():
        raise ValueError("begin " + 12_000_000 * "x" + " end")

    return run


@family.cpu("sound_between")
def sound_between(problem, tune, inputs, outputs):
    """Right."""
    return lambda: double(inputs, outputs)


@family.cpu("hangs")
def hangs(problem, tune, inputs, outputs):
    """Never returns."""

    def run():
        while True:
            pass

    return run


@family.cpu("builds_for_ever")
def builds_for_ever(problem, tune, inputs, outputs):
    """Never gets ready."""
    time.sleep(1e6)


@family.cpu("hangs_while_timed")
def hangs_while_timed(problem, tune, inputs, outputs):
    """Returns twice and then never again."""
    calls = []

    def run():
        calls.append(None)
        while len(calls) > 2:
            time.sleep(0.01)
        double(inputs, outputs)

    return run


@family.cpu("raises")
def raises(problem, tune, inputs, outputs):
    """Raises."""

    def run():
        raise ValueError("n is not to my liking\nand here is more")

    return run


@family.cpu("raises_in_make")
def raises_in_make(problem, tune, inputs, outputs):
    """Raises while it is prepared."""
    return {}["no such key"]


@family.cpu("raises_while_timed")
def raises_while_timed(problem, tune, inputs, outputs):
    """Raises from the third call on."""
    calls = []

    def run():
        calls.append(None)
        if len(calls) > 2:
            raise RuntimeError("tired")
        double(inputs, outputs)

    return run


@family.cpu("allocates")
def allocates(problem, tune, inputs, outputs):
    """Asks for a pebibyte."""
    return lambda: np.ones(2**47)


@family.cpu("rebinds")
def rebinds(problem, tune, inputs, outputs):
    """Puts an array of its own in the output's place."""

    def run():
        outputs["y"] = 2 * inputs["x"]

    return run


@family.cpu("returns_nothing")
def returns_nothing(problem, tune, inputs, outputs):
    """Returns no function to call."""


@family.cpu("closes_everything")
def closes_everything(problem, tune, inputs, outputs):
    """Closes every file, the pipe to the engine among them, and stays."""

    def run():
        os.closerange(3, 1024)
        time.sleep(0.5)
        os._exit(0)

    return run


@family.cpu("writes_to_sockets")
def writes_to_sockets(problem, tune, inputs, outputs):
    """Writes nonsense to every open socket, the pipe to the engine among them."""

    def run():
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if os.path.exists(f"/proc/self/fd/{name}") and stat.S_ISSOCK(os.fstat(int(name)).st_mode):  # noqa: PTH110
                os.write(int(name), b"\xff" * 64)
        time.sleep(1e6)

    return run


@family.cpu("leaves_a_child")
def leaves_a_child(problem, tune, inputs, outputs):
    """Dies while a child of its own holds the pipe to the engine open."""

    def run():
        if os.fork() == 0:
            time.sleep(1e6)
        os._exit(9)

    return run


@family.cpu("prints")
def prints(problem, tune, inputs, outputs):
    """Right, and noisy: in text, in bytes that are no text, and on both streams."""

    def run():
        print("nonsense\x00 ünd mehr")  # noqa: T201
        os.write(1, b"\xff\xfe\x80 not text\n")
        os.write(2, b"x" * 10_000 + b"\n")
        double(inputs, outputs)

    return run


@family.cpu("wrong")
def wrong(problem, tune, inputs, outputs):
    """Forgets the factor."""
    return lambda: np.copyto(outputs["y"], inputs["x"])


@family.cpu("overwrites_input")
def overwrites_input(problem, tune, inputs, outputs):
    """Right, and leaves zeros where its input was."""

    def run():
        double(inputs, outputs)
        inputs["x"][...] = 0

    return run


@family.cpu("overwrites_while_timed")
def overwrites_while_timed(problem, tune, inputs, outputs):
    """Right, but destroys its input the third time that it is called."""
    calls = []

    def run():
        calls.append(None)
        double(inputs, outputs)
        if len(calls) == 3:
            inputs["x"][:] = 0

    return run


@family.cpu("writes_outside")
def writes_outside(problem, tune, inputs, outputs):
    """Right, and writes 64 bytes too many."""

    def run():
        double(inputs, outputs)
        ctypes.memset(outputs["y"].ctypes.data + outputs["y"].nbytes, 0, 64)

    return run


@family.cpu("meddles")
def meddles(problem, tune, inputs, outputs):
    """Right, and leaves its arrays with other shapes and flags than it got them with."""

    def run():
        double(inputs, outputs)
        with warnings.catch_warnings(action="ignore"):  # NumPy has advised against it since version 2.5
            inputs["x"].shape = outputs["y"].shape = (1, problem.n)
        outputs["y"].setflags(write=False)
        raise ValueError("\x1b[31mI am \a red")

    return run


@family.cpu("nan")
def nan(problem, tune, inputs, outputs):
    """Leaves one NaN."""

    def run():
        double(inputs, outputs)
        outputs["y"][-1] = np.nan

    return run


@family.cpu("unwritten")
def unwritten(problem, tune, inputs, outputs):
    """Leaves the second half as it was."""
    half = problem.n // 2
    return lambda: np.multiply(inputs["x"][:half], 2, out=outputs["y"][:half])


@family.cpu("right_at_first")
def right_at_first(problem, tune, inputs, outputs):
    """Adds up what it computed before."""
    sums = np.zeros_like(outputs["y"])

    def run():
        np.add(sums, 2 * inputs["x"], out=sums)
        np.copyto(outputs["y"], sums)

    return run


@family.cpu("lacks_a_module", requires=("module_that_does_not_exist",))
def lacks_a_module(problem, tune, inputs, outputs):
    """Needs what is not installed, and says so."""
    raise AssertionError("never called")


@family.cpu("imports")
def imports(problem, tune, inputs, outputs):
    """Needs what is not installed, and finds out late."""
    import module_that_does_not_exist

    return module_that_does_not_exist.run


@family.cpu("known_wrong", expected="wrong")
def known_wrong(problem, tune, inputs, outputs):
    """Is kept though it is known to be wrong."""
    return lambda: np.copyto(outputs["y"], inputs["x"])


@family.cpu("healed", expected="wrong")
def healed(problem, tune, inputs, outputs):
    """Is said to be wrong and is right."""
    return lambda: double(inputs, outputs)


@family.cpu("sound_last")
def sound_last(problem, tune, inputs, outputs):
    """Right."""
    return lambda: double(inputs, outputs)


def launch(problem, kernel, *more, blocks=None, block=BLOCK, shared_bytes=0, **details):
    """Return a program of one launch with (x, y, n) and whatever more the kernel takes."""
    grid = (blocks or -(-problem.n // BLOCK),)
    return Program(steps=(Launch(kernel, grid, (block,), ("x", "y", problem.n, *more), shared_bytes),), **details)


@family.cuda("cuda_sound_first", source="faults.cu")
def cuda_sound_first(problem, tune):
    """Right."""
    return launch(problem, "sound")


@family.cuda("cuda_illegal_address", source="faults.cu")
def cuda_illegal_address(problem, tune):
    """Writes where nothing is mapped."""
    return launch(problem, "illegal_address")


@family.cuda("cuda_misaligned", source="faults.cu")
def cuda_misaligned(problem, tune):
    """Writes eight bytes at a multiple of four."""
    return launch(problem, "misaligned")


@family.cuda("cuda_trap", source="faults.cu")
def cuda_trap(problem, tune):
    """Traps, as a failed device assertion does."""
    return launch(problem, "trap")


@family.cuda("cuda_stack_overflow", source="faults.cu")
def cuda_stack_overflow(problem, tune):
    """Calls itself a million times over."""
    return launch(problem, "stack_overflow", 1_000_000)


@family.cuda("cuda_sound_between", source="faults.cu")
def cuda_sound_between(problem, tune):
    """Right."""
    return launch(problem, "sound")


@family.cuda("cuda_endless", source="faults.cu")
def cuda_endless(problem, tune):
    """Never ends."""
    return launch(problem, "endless")


@family.cuda("cuda_shared", source="faults.cu")
def cuda_shared(problem, tune):
    """Wants more shared memory a block than any device has."""
    return launch(problem, "sound", shared_bytes=1 << 20)


@family.cuda("cuda_threads", source="faults.cu")
def cuda_threads(problem, tune):
    """Launches more threads a block than the kernel was compiled for."""
    return launch(problem, "few_threads", block=1024, blocks=1)


@family.cuda("cuda_scratch", source="faults.cu", tunables=(Tunable("chunks", tuple(range(1, 4097)), default=1),))
def cuda_scratch(problem, tune):
    """Right, with `chunks` times 64 MiB of scratch, which may be more than there is."""
    return launch(problem, "sound", scratch={"spare": Array((tune.chunks << 26,), "uint8")})


@family.cuda("cuda_does_not_compile", source="broken.cu")
def cuda_does_not_compile(problem, tune):
    """Is no CUDA C++."""
    return launch(problem, "broken")


@family.cuda("cuda_no_such_kernel", source="faults.cu")
def cuda_no_such_kernel(problem, tune):
    """Launches a kernel that its source does not have."""
    return launch(problem, "absent")


@family.cuda("cuda_nan", source="faults.cu")
def cuda_nan(problem, tune):
    """Leaves one NaN."""
    return launch(problem, "leaves_nan")


@family.cuda("cuda_unwritten", source="faults.cu")
def cuda_unwritten(problem, tune):
    """Launches half the blocks."""
    return launch(problem, "sound", blocks=max(problem.n // BLOCK // 2, 1))


@family.cuda("cuda_shifted", source="faults.cu")
def cuda_shifted(problem, tune):
    """Writes one element too far along, out of the output's bounds, so that the first keeps its poison."""
    return launch(problem, "shifted")


@family.cuda("cuda_outside", source="faults.cu")
def cuda_outside(problem, tune):
    """Right, and its last block goes on past the output's end."""
    return launch(problem, "unbounded", blocks=-(-problem.n // BLOCK) + 1)


@family.cuda("cuda_right_at_first", source="faults.cu")
def cuda_right_at_first(problem, tune):
    """Counts its launches and is right in the first one alone."""
    return launch(problem, "right_at_first", blocks=1)


@family.cuda("cuda_sound_last", source="faults.cu")
def cuda_sound_last(problem, tune):
    """Right."""
    return launch(problem, "sound")
