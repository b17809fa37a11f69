"""Bend the memory that both processes share, or the kernel's view of a process."""

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import struct
import time

LIBC = ctypes.CDLL(None, use_errno=True)


def memory():
    for name in os.listdir("/proc/self/fd"):
        try:
            if "memfd" in os.readlink(f"/proc/self/fd/{name}"):
                return int(name)
        except OSError:
            pass
    raise OSError("no shared memory")


def address(array):
    return ctypes.c_void_p(array.ctypes.data & -4096)


@family.cpu("grows_the_memory")
def grows_the_memory(problem, tune, inputs, outputs):
    os.ftruncate(memory(), 1 << 40)
    return lambda: None


@family.cpu("seals_against_writing")
def seals_against_writing(problem, tune, inputs, outputs):
    """Seal the memory, so that the judge can write no inputs into it."""
    fcntl.fcntl(memory(), 1033, 0x0008 | 0x0010)
    return lambda: None


@family.cpu("private_copy_of_memory")
def private_copy_of_memory(problem, tune, inputs, outputs):
    """Map zeros over the shared memory, and compute there alone."""
    LIBC.mmap(address(inputs["x"]), ctypes.c_size_t(4096), 3, 0x32, -1, ctypes.c_long(0))
    return lambda: right(inputs, outputs)


@family.cpu("output_onto_input")
def output_onto_input(problem, tune, inputs, outputs):
    """Map the pages of one set's output onto those of another."""
    LIBC.mremap.restype = ctypes.c_void_p
    place, size = address(outputs["y"]), ctypes.c_size_t(4096)
    LIBC.mremap(address(inputs["x"]), size, size, 3, place)
    return lambda: None


@family.cpu("punches_while_read")
def punches_while_read(problem, tune, inputs, outputs):
    """Remove the pages again and again in a process of its own, while the judge reads."""
    handle = memory()
    if os.fork() == 0:
        while True:
            LIBC.fallocate(handle, 3, ctypes.c_long(0), ctypes.c_long(1 << 22))
    return lambda: right(inputs, outputs)


@family.cpu("faults_handled_by_user")
def faults_handled_by_user(problem, tune, inputs, outputs):
    """Ask to be told of page faults, so that a result is computed when it is read."""
    handle = LIBC.syscall(323, 1)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "userfaultfd")
    return lambda: None


@family.cpu("shared_library_memory")
def shared_library_memory(problem, tune, inputs, outputs):
    """Make System V memory that stays when the process has gone."""
    for _ in range(64):
        segment = LIBC.shmget(0, ctypes.c_size_t(1 << 26), 0o1600)
        if segment < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        LIBC.shmat(segment, None, 0)
    return lambda: None


@family.cpu("own_memory_as_file")
def own_memory_as_file(problem, tune, inputs, outputs):
    """Write through /proc/self/mem over code of the C library."""
    place = ctypes.cast(LIBC.write, ctypes.c_void_p).value
    with open("/proc/self/mem", "r+b", buffering=0) as file:
        file.seek(place)
        file.write(b"\xc3" * 16)
    return lambda: None


@family.cpu("memory_of_all_others")
def memory_of_all_others(problem, tune, inputs, outputs):
    """Read and write other processes by process_vm_writev and by /proc."""
    done = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/maps") as maps:
                    start = int(maps.readline().split("-")[0], 16)
                with open(f"/proc/{name}/mem", "r+b", buffering=0) as file:
                    file.seek(start)
                    file.write(b"\0")
                    done += 1
            except OSError:
                pass
    return lambda: None


@family.cpu("takes_others_descriptors")
def takes_others_descriptors(problem, tune, inputs, outputs):
    """Take descriptors out of other processes."""
    for pid in range(1, 400):
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        for number in range(3, 16):
            taken = LIBC.syscall(438, handle, number, 0)
            if taken >= 0 and pid != os.getpid():
                os.write(taken, b"d")
    return lambda: None


@family.cpu("traced_by_its_child")
def traced_by_its_child(problem, tune, inputs, outputs):
    """Let a child trace the process, which then stops and runs as the child likes."""
    me = os.getpid()
    LIBC.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
    if os.fork() == 0:
        LIBC.ptrace(16, me, None, None)
        os.waitpid(me, 0x40000000)
        while True:
            LIBC.ptrace(7, me, None, None)
            time.sleep(0.0001)
    time.sleep(0.05)
    return lambda: None


@family.cpu("locks_memory")
def locks_memory(problem, tune, inputs, outputs):
    """Take memory that cannot be paged out, in many processes."""
    for _ in range(8):
        if os.fork() == 0:
            held = mmap.mmap(-1, 1 << 29, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for place in range(0, 1 << 29, 4096):
                held[place] = 1
            time.sleep(600)
    time.sleep(1)
    return lambda: None


@family.cpu("higher_limits")
def higher_limits(problem, tune, inputs, outputs):
    """Raise the limits, then take memory."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        try:
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            pass
    held = [np.ones(1 << 26) for _ in range(64)]
    return lambda: held


@family.cpu("control_group_of_its_own")
def control_group_of_its_own(problem, tune, inputs, outputs):
    """Leave the control group."""
    for folder, _, names in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in names:
            try:
                with open(f"{folder}/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
            except OSError:
                pass
    return lambda: None


@family.cpu("first_in_the_queue")
def first_in_the_queue(problem, tune, inputs, outputs):
    """Take the processor for itself, so that the judge's clock stands still."""
    for policy in (os.SCHED_FIFO, os.SCHED_RR):
        try:
            os.sched_setscheduler(0, policy, os.sched_param(99))
        except OSError:
            pass
    for pid in range(1, 400):
        try:
            os.setpriority(os.PRIO_PROCESS, pid, 19)
            os.sched_setaffinity(pid, {0})
        except OSError:
            pass
    return lambda: None


@family.cpu("slows_the_judge")
def slows_the_judge(problem, tune, inputs, outputs):
    """Keep every processor busy with children, so that the judge waits and leaves that out."""
    for _ in range(2 * os.cpu_count()):
        if os.fork() == 0:
            while True:
                pass

    def run():
        for _ in range(30):
            right(inputs, outputs)

    return run


@family.cpu("sets_the_clock")
def sets_the_clock(problem, tune, inputs, outputs):
    """Set the machine's clock back."""
    time.clock_settime(time.CLOCK_REALTIME, 0)
    return lambda: None


@family.cpu("slow_clock_namespace")
def slow_clock_namespace(problem, tune, inputs, outputs):
    """Make a namespace with another clock."""
    if LIBC.unshare(0x00000080):
        raise OSError(ctypes.get_errno(), "unshare")
    with open("/proc/self/timens_offsets", "w") as file:
        file.write("monotonic -1000000 0")
    return lambda: None


@family.cpu("debug_registers")
def debug_registers(problem, tune, inputs, outputs):
    """Be told of writes to its inputs by a performance counter."""
    words = struct.pack("=II", 5, 112) + bytes(104)
    handle = LIBC.syscall(298, words, 0, -1, -1, 0)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "perf_event_open")
    return lambda: None


@family.cpu("write_signal_of_memory")
def write_signal_of_memory(problem, tune, inputs, outputs):
    """Protect the output, and compute in the handler of the fault."""
    LIBC.mprotect(address(outputs["y"]), ctypes.c_size_t(4096), 0)
    signal.signal(signal.SIGSEGV, lambda *_: right(inputs, outputs))
    return lambda: right(inputs, outputs)


@family.cpu("shares_nameless_memory")
def shares_nameless_memory(problem, tune, inputs, outputs):
    """Fill shared memory, and give its pages back, so that no size shows it."""
    held = mmap.mmap(-1, 3 << 30)
    for place in range(0, len(held), 1 << 26):
        held[place : place + (1 << 26)] = bytes(1 << 26)
        held.madvise(mmap.MADV_DONTNEED, place, 1 << 26)
    return lambda: held and right(inputs, outputs)


@family.cpu("tables_of_pages")
def tables_of_pages(problem, tune, inputs, outputs):
    """Read one byte in every two megabytes: each takes a table of 4 KB, and no page."""
    held = mmap.mmap(-1, 1 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, mmap.PROT_READ)
    held.madvise(15)
    while True:
        for place in range(0, len(held), 1 << 21):
            held[place]
