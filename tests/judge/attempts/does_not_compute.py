"""Give results without computing them, or compute another time than when it is asked."""

import ctypes
import gc
import os
import threading
import time
import weakref

known = {}


@family.cpu("nothing")
def nothing(problem, tune, inputs, outputs):
    """Do nothing."""
    return lambda: None


@family.cpu("wrong_factor")
def wrong_factor(problem, tune, inputs, outputs):
    """Compute something else."""
    return lambda: np.multiply(inputs["x"], 2.0001, out=outputs["y"])


@family.cpu("skips_the_tail")
def skips_the_tail(problem, tune, inputs, outputs):
    """Leave out the last element."""
    return lambda: np.multiply(inputs["x"][:-1], 2, out=outputs["y"][:-1])


@family.cpu("not_a_number")
def not_a_number(problem, tune, inputs, outputs):
    """Fill the result with NaN."""
    return lambda: outputs["y"].fill(np.nan)


@family.cpu("precomputed")
def precomputed(problem, tune, inputs, outputs):
    """Compute while it prepares, and copy."""
    result = inputs["x"] * 2
    return lambda: np.copyto(outputs["y"], result)


@family.cpu("kept_by_address")
def kept_by_address(problem, tune, inputs, outputs):
    """Keep the first result of each set."""
    kept = []

    def run():
        if not kept:
            right(inputs, outputs)
            kept.append(outputs["y"].copy())
        else:
            np.copyto(outputs["y"], kept[0])

    return run


@family.cpu("kept_by_content")
def kept_by_content(problem, tune, inputs, outputs):
    """Keep results by a few elements of the inputs, and take a hundred times as long for new ones."""

    def run():
        key = inputs["x"][::1024].tobytes()
        if key not in known:
            for _ in range(100):
                right(inputs, outputs)
            known[key] = outputs["y"].copy()
        else:
            np.copyto(outputs["y"], known[key])

    return run


@family.cpu("leaves_results_where_they_are")
def leaves_results_where_they_are(problem, tune, inputs, outputs):
    """Compute only if the sign of the first element is not what it was."""
    seen = []

    def run():
        if seen != [inputs["x"][0] > 0]:
            right(inputs, outputs)
            seen[:] = [inputs["x"][0] > 0]

    return run


@family.cpu("first_ten_then_nothing")
def first_ten_then_nothing(problem, tune, inputs, outputs):
    """Be honest for ten executions."""
    count = []

    def run():
        count.append(1)
        if len(count) < 10:
            right(inputs, outputs)

    return run


@family.cpu("one_in_fifty")
def one_in_fifty(problem, tune, inputs, outputs):
    """Leave out every third set."""
    number = len(known.setdefault("sets", []))
    known["sets"].append(number)

    def run():
        if number % 3 != 2:
            right(inputs, outputs)

    return run


@family.cpu("in_a_thread")
def in_a_thread(problem, tune, inputs, outputs):
    """Hand the work to a thread, and return."""

    def work():
        time.sleep(0.002)
        right(inputs, outputs)

    return lambda: threading.Thread(target=work).start()


@family.cpu("in_a_process")
def in_a_process(problem, tune, inputs, outputs):
    """Hand the work to a child, and return."""

    def run():
        if os.fork() == 0:
            time.sleep(0.002)
            right(inputs, outputs)
            os._exit(0)

    return run


@family.cpu("in_a_finaliser")
def in_a_finaliser(problem, tune, inputs, outputs):
    """Leave the work to the collector."""

    class Later:
        pass

    def run():
        later = Later()
        later.own = later
        weakref.finalize(later, right, inputs, outputs)

    gc.disable()
    return run


@family.cpu("works_ahead")
def works_ahead(problem, tune, inputs, outputs):
    """Look for new inputs in a thread, and compute while others write."""
    result = np.zeros_like(outputs["y"])

    def spy():
        while True:
            np.multiply(inputs["x"], 2, out=result)
            time.sleep(0.0005)

    threading.Thread(target=spy, daemon=True).start()
    return lambda: np.copyto(outputs["y"], result)


@family.cpu("works_ahead_in_a_process")
def works_ahead_in_a_process(problem, tune, inputs, outputs):
    """Compute in a child whenever there are new inputs, also while this process is stopped."""
    if os.fork() == 0:
        while True:
            right(inputs, outputs)
            time.sleep(0.0001)
    return lambda: None


@family.cpu("works_ahead_in_an_orphan")
def works_ahead_in_an_orphan(problem, tune, inputs, outputs):
    """Do the same in a process that has no parent here any more."""
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.setsid()
            while True:
                right(inputs, outputs)
                time.sleep(0.0001)
        os._exit(0)
    os.waitpid(child, 0)
    return lambda: None


@family.cpu("writes_beside")
def writes_beside(problem, tune, inputs, outputs):
    """Write one byte behind the result."""
    place = outputs["y"].ctypes.data + outputs["y"].nbytes

    def run():
        right(inputs, outputs)
        ctypes.c_ubyte.from_address(place).value ^= 1

    return run


@family.cpu("overwrites_inputs")
def overwrites_inputs(problem, tune, inputs, outputs):
    """Make the inputs easy, and give what is right for those."""

    def run():
        inputs["x"].fill(0)
        outputs["y"].fill(0)

    return run


@family.cpu("output_of_its_own")
def output_of_its_own(problem, tune, inputs, outputs):
    """Put another array in the place of the output."""

    def run():
        outputs["y"] = inputs["x"] * 2

    return run


@family.cpu("cuts_the_memory_off")
def cuts_the_memory_off(problem, tune, inputs, outputs):
    """Shorten the shared memory, so that whoever reads it is ended."""
    for name in os.listdir("/proc/self/fd"):
        try:
            os.ftruncate(int(name), 0)
        except OSError:
            pass
    return lambda: None


@family.cpu("empties_the_memory")
def empties_the_memory(problem, tune, inputs, outputs):
    """Punch a hole into the shared memory."""
    libc = ctypes.CDLL(None)

    def run():
        for handle in range(3, 32):
            libc.fallocate(handle, 3, ctypes.c_long(0), ctypes.c_long(1 << 20))

    return run
