"""The kernel's own books on processes: how long they ran, and how long they waited for a processor.

A stranger's code cannot write them. On a busy machine most of a short request is waiting behind others, which is no
part of what the code takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cuprof.sandbox.confinement import list_threads


@dataclass(frozen=True)
class Accounts:
    """One look at the books, in nanoseconds; taken before and after a request.

    Args:
        threads: of the stranger's processes: how long each has run, and has waited.
        read_at: when the first of them was read, by the monotonic clock; it is read before the others are looked for.
        cpu: CPU time of all of the stranger's processes.
        ended: page faults of children that have ended, which show that there were some.
        last: the process or thread that was started last, anybody's: a child that nobody waits for shows nowhere else.
        started: how many processes and threads this machine has started, also outside our namespace: after 32768 or
            more of them `last` may be what it was.
    """

    threads: Mapping[str, tuple[int, int]]
    read_at: int
    cpu: int
    ended: int
    last: int
    started: int = 0

    @classmethod
    def read(cls, first: str, pids: Sequence[int], guards: Iterable[int]) -> Accounts:
        """Read them.

        Args:
            first: the thread that is read before all others.
            pids: all processes that may run the stranger's code.
            guards: the processes above them.
        """
        threads, read_at = {first: _schedule(first)}, time.perf_counter_ns()
        names = (f"{pid}/task/{thread}" for pid in pids for thread in list_threads(pid))
        threads |= {name: _schedule(name) for name in names if name != first}
        faults = sum(map(_child_faults, (*pids, *guards)))
        return cls(threads, read_at, sum(map(cpu_ns, pids)), faults, _last_started(), _count_started())

    def until(self, after: Accounts, thread: str) -> tuple[int, int]:
        """Return how long a thread ran, and how long it waited behind others than the processes that are known."""
        (run, delay), (run_after, delay_after) = (each.threads.get(thread, (0, 0)) for each in (self, after))
        run = run_after - run
        return run, max(delay_after - delay - max(after.cpu - self.cpu - run, 0), 0)


def read_own_delay() -> int:
    """Return how long our thread has waited for a processor."""
    return _schedule(f"self/task/{threading.get_native_id()}")[1]


def _schedule(thread: str) -> tuple[int, int]:
    """Return how long a thread has run and waited; 0 where the kernel does not say."""
    with suppress(OSError, ValueError), open(f"/proc/{thread}/schedstat", "rb") as file:  # noqa: PTH123
        run, delay, _ = file.read().split()
        return int(run), int(delay)
    return 0, 0


def _last_started() -> int:
    """Return the number of the process or thread that was started last in our namespace and all below it."""
    with open("/proc/loadavg", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[-1])


def _count_started() -> int:
    """Return how many processes and threads have been started; 0 where the kernel does not say."""
    with suppress(OSError, IndexError), open("/proc/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().partition(b"\nprocesses ")[2].split()[0])
    return 0


def cpu_ns(pid: int) -> int:
    """Return the CPU time of all threads that a process has or had (Linux: CPUCLOCK_SCHED of a process)."""
    with suppress(OSError):
        return time.clock_gettime_ns(~pid << 3 | 2)
    return 0


def _child_faults(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[8])
    return 0
