"""Reach what belongs to others: processes, files, the network, the kernel."""

import ctypes
import os
import socket
import signal
import time

import numpy as np


@family.cpu("kills_the_judge")
def kills_the_judge(problem, tune, inputs, outputs):
    """Signal every process that it can name, and then compute nothing."""
    for pid in range(2, 5000):
        try:
            if pid != os.getpid():
                os.kill(pid, signal.SIGTERM)
        except OSError:
            pass
    return lambda: None


@family.cpu("continues_itself")
def continues_itself(problem, tune, inputs, outputs):
    """Let a child send SIGCONT without end, so that the process cannot be stopped."""
    me = os.getpid()
    if os.fork() == 0:
        while True:
            os.kill(me, signal.SIGCONT)
    return lambda: None


@family.cpu("many_processes")
def many_processes(problem, tune, inputs, outputs):
    """Fork until the system says no."""
    for _ in range(300):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            break
    return lambda: None


@family.cpu("fills_memory")
def fills_memory(problem, tune, inputs, outputs):
    """Take memory without end."""
    kept = [np.ones(1 << 26) for _ in range(64)]
    return lambda: kept


@family.cpu("fills_files")
def fills_files(problem, tune, inputs, outputs):
    """Fill every private folder at once."""
    for number in range(64):
        for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run"):
            try:
                with open(f"{folder}/f{number}", "wb") as file:
                    file.write(bytes(64 << 20))
            except OSError:
                pass
    return lambda: None


@family.cpu("fills_memory_files")
def fills_memory_files(problem, tune, inputs, outputs):
    """Hide memory in files without a name."""
    kept = []
    for _ in range(64):
        handle = os.memfd_create("hidden")
        os.write(handle, bytes(64 << 20))
        kept.append(handle)
    return lambda: None


@family.cpu("new_user_namespace")
def new_user_namespace(problem, tune, inputs, outputs):
    """Become root in a namespace of its own, by clone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(56, ctypes.c_long(0x10000000 | signal.SIGCHLD), 0, 0, 0, 0) == 0:
        os._exit(0)
    return lambda: None


@family.cpu("kernel_settings")
def kernel_settings(problem, tune, inputs, outputs):
    """Change a setting of the kernel."""
    with open("/proc/sys/kernel/core_pattern", "w") as file:
        file.write("|/tmp/evil")
    return lambda: None


@family.cpu("asks_another_machine")
def asks_another_machine(problem, tune, inputs, outputs):
    """Open a connection."""
    with socket.create_connection(("127.0.0.1", 22), 0.2):
        return lambda: None


@family.cpu("virtual_machine_socket")
def virtual_machine_socket(problem, tune, inputs, outputs):
    """Ask the machine that this one runs on."""
    with socket.socket(40, socket.SOCK_STREAM):
        return lambda: None


@family.cpu("traces_its_parent")
def traces_its_parent(problem, tune, inputs, outputs):
    """Attach to the process that started this one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, os.getppid(), 0, 0):
        raise OSError(ctypes.get_errno(), "ptrace")
    return lambda: None


@family.cpu("rewrites_the_judge")
def rewrites_the_judge(problem, tune, inputs, outputs):
    """Change the package that judges."""
    import cuprof.judge

    with open(cuprof.judge.__file__, "a") as file:
        file.write("\n")
    return lambda: None


@family.cpu("memory_of_the_parent")
def memory_of_the_parent(problem, tune, inputs, outputs):
    """Write into another process's memory."""
    with open(f"/proc/{os.getppid()}/mem", "r+b") as file:
        file.seek(4096)
        file.write(b"x")
    return lambda: None
