"""A stranger's process as the trusted side sees it: started, asked, stopped while it has nothing to do, ended."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import msgspec

from cuprof.backends.registry import CUDA
from cuprof.core.errors import CuprofError, LaunchError
from cuprof.core.interrupts import shielded, stop_if_requested
from cuprof.core.processes import MARK, child_environment, count_cores, end_guarded, name_end
from cuprof.core.scratch import ScratchFolder, read_end
from cuprof.judge.border.accounts import Accounts, cpu_ns, read_own_delay
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.border.signals import LENGTH, MOST_BYTES, REQUEST, Answer, Ask, Refusal, Task
from cuprof.sandbox.confinement import GUARDS, Held, list_family, list_own_folders, read_states, weigh
from cuprof.sandbox.settings import Sandbox, inner_environment

POLL_S = 0.05
START_LIMIT_S = 60.0
"""How long the process may take until it has opened the device; a stranger's code does not run by then."""
STOP_LIMIT_S, STOPS_S = 5.0, 0.002
"""Stop processes again and again for this long; each time, look for further ones after this."""
UNDISTURBED_NS = 20_000
"""What we may wait for a processor while a request is on its way. It may be executed meanwhile, so it cannot be left
out."""
QUIET_SHARE = 0.2
"""If a thread waits for a processor for more of the duration, it says nothing of what the work takes."""
STIRRING_NS = 50_000
"""Stopped processes may use the processor no longer than this: each of their threads has still to leave it."""
MOST_STIRS, STIR_WEIGHT, LONGEST_STIR_NS = 9, 5, 20_000_000
"""A hypervisor may take the processor away while a thread leaves it, so a few stirs are excused: `MOST_STIRS` of up to
`STIRRING_NS`, a longer one weighs as much as `STIR_WEIGHT` of them, and one of `LONGEST_STIR_NS` ends the trial. Laps
with a stir never count."""
RESTING_NS = 5_000
"""Stopped processes use none once they have left it. To be woken, and to start a process that may compute and end
unseen, takes more than this."""
MOST_STARTED = 5_000
"""If more processes and threads were started during a request, their numbers may have begun anew: there are 32768 by
default, less those in use."""
INVALID = "its process sent an invalid message"
STIRS = "its processes go on by themselves when they are stopped"
PROCESSORS = count_cores()
SPIN_NS = 50_000_000
"""Wait awake for an answer as long as this."""


class RefusedError(CuprofError):
    """Report that a stranger's process says it cannot do what it was asked."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


class LostError(CuprofError):
    """Report that a stranger's process ended or broke the protocol."""


class LateError(CuprofError):
    """Report that a stranger's process gave no answer within its limit."""


class Lap(NamedTuple):
    """The duration of one request, without waiting for a processor that others have.

    Args:
        look_ns: how long reading results took afterwards; 0 where that is part of the duration.
        cpu_ns: CPU time of all of the process's threads; None where it cannot be told, since children have ended.
        is_sound: we did not wait for a processor ourselves while the request was on its way or executed.
        is_quiet: no thread of the process did, for long.
        is_stirred: the process may have worked before it was asked, while it was to be stopped.
    """

    duration_ns: int
    look_ns: int = 0
    cpu_ns: int | None = None
    is_sound: bool = True
    is_quiet: bool = True
    is_stirred: bool = False

    @property
    def costs_ns(self) -> tuple[float, float]:
        """Return the CPU time where it is known, else the duration; and the duration."""
        return float(self.duration_ns if self.cpu_ns is None else self.cpu_ns), float(self.duration_ns)


class Suspect(AbstractContextManager["Suspect"]):
    """One process that runs a stranger's code; use as a context manager.

    Args:
        server: starts it.
        task: sent to it, pickled.
        memory: the descriptor of the memory that it shares with us; -1 for none.
        sandbox: confines it; None for no sandbox.
        deadline: the end of all its time, by the monotonic clock; it may be put off.

    Raises:
        LaunchError: the system refuses a process.

    Attributes:
        spins: both sides wait for each other awake, where the work is a device's.
    """

    def __init__(self, server: ForkServer, task: object, memory: int, sandbox: Sandbox | None, deadline: float) -> None:
        self.deadline, self._folder = deadline, ScratchFolder()
        self.spins = isinstance(task, Task) and task.job.backend == CUDA.name
        self._sandbox, self._count_of_guards = sandbox, 1 + (GUARDS if sandbox is not None else 0)
        self._guards: frozenset[int] = frozenset()
        self._stopped: list[int] = []
        self._stopped_cpu: dict[int, int] = {}
        self._stirs = 0
        self._main = 0
        self._log = self._folder.path / "log"
        self._pipe, theirs = socket.socketpair()
        environment, confined = child_environment(), ""
        if sandbox is not None:
            home = self._folder.path / "home"
            home.mkdir()
            sandbox = replace(sandbox, home=str(home))
            environment, confined = inner_environment(environment, sandbox), sandbox.write(self._folder.path)
        environment |= {"PYTHONUNBUFFERED": "1", MARK: str(self._folder.path)}
        with shielded(), theirs, self._log.open("wb") as log, ExitStack() as unless_started:
            unless_started.callback(self._folder.cleanup)
            unless_started.callback(self._pipe.close)
            handles = [log.fileno(), theirs.fileno(), *([memory] if memory >= 0 else [])]
            self._process = server.fork(environment, confined, handles)
            unless_started.pop_all()
        try:
            packed = pickle.dumps(task)
            self._pipe.sendall(LENGTH.pack(len(packed)) + packed)
            self._pipe.setblocking(False)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise LaunchError(f"its process could not be started: {error.strerror}") from None
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and whatever it started, and remove its files."""
        with shielded():
            self._pipe.close()
            end_guarded(self._process, self._folder.path)
            self._folder.cleanup()

    def open(self) -> None:
        """Let the process open the device; a stranger's code runs after that.

        Raises:
            LaunchError: it has ended, which is not the stranger's fault.
        """
        try:
            self.ask(Ask.OPEN)
        except LostError as error:
            raise LaunchError(f"its process could not be started: {error}") from None
        found = list(list_family(self._process.pid))
        self._guards = frozenset(found[: self._count_of_guards])
        self._main = found[self._count_of_guards]

    def ask(self, ask: bytes, count: int = 0, limit_s: float = START_LIMIT_S) -> bytes:
        """Ask for something; return the byte that says it is done.

        Raises:
            RefusedError: the process says that it cannot.
            LateError: there was no answer in time.
            LostError: the process ended, or said something else.
        """
        self.send(ask, count)
        return self.await_answer(limit_s)

    def send(self, ask: bytes, count: int = 0) -> None:
        """Send a request; the pipe is empty, so it takes one at once."""
        if select.select([self._pipe], [], [], 0)[0]:
            is_running = self._process.poll() is None
            raise LostError("its process answered before it was asked") if is_running else self._lost()
        try:
            self._pipe.sendall(REQUEST.pack(ask, count))
        except BlockingIOError:
            raise LostError("its process reads no requests") from None
        except OSError:
            raise self._lost() from None

    def await_answer(
        self, limit_s: float, kinds: Sequence[bytes] = (Answer.DONE, Answer.GRAPH, Answer.DIRECT)
    ) -> bytes:
        """Return the answer to the last request, one of these kinds; of an outline its text. Raises as `ask` does."""
        until = min(time.monotonic() + limit_s, self.deadline)
        kind = self._receive(1, until, limit_s)
        if kind not in (*kinds, Answer.REFUSED):
            raise LostError(INVALID)
        text = self._receive_text(until, limit_s) if kind in (Answer.OUTLINE, Answer.REFUSED) else b""
        if kind == Answer.REFUSED:
            try:
                raise RefusedError(msgspec.json.decode(text, type=Refusal))
            except msgspec.MsgspecError:
                raise LostError(INVALID) from None
        return text or kind

    def _receive_text(self, until: float, limit_s: float) -> bytes:
        (size,) = LENGTH.unpack(self._receive(LENGTH.size, until, limit_s))
        if size > MOST_BYTES:
            raise LostError(f"its process sent more than {MOST_BYTES >> 20} MB")
        text = self._receive(size, until, limit_s)
        try:
            json.dumps(json.loads(text), ensure_ascii=False).encode()  # half a character could be stored nowhere
        except (ValueError, RecursionError):
            raise LostError(INVALID) from None
        return text

    def _receive(self, size: int, until: float, limit_s: float) -> bytes:
        data = self._spin(size) if self.spins else b""
        while len(data) < size:
            left_s = until - time.monotonic()
            if left_s <= 0:
                whole = "" if until < self.deadline else " with all that it did"
                raise LateError(f"stopped after {limit_s:g} s{whole}")
            stop_if_requested()
            if not select.select([self._pipe], [], [], min(left_s, POLL_S))[0]:
                if self._process.poll() is not None and not select.select([self._pipe], [], [], 0)[0]:
                    raise self._lost()
                continue
            try:
                part = self._pipe.recv(size - len(data))
            except OSError:
                part = b""
            if not part:
                raise self._lost()
            data += part
        return data

    def _spin(self, size: int) -> bytes:
        """Return what comes within a short time, which no sleep adds to."""
        until = time.perf_counter_ns() + SPIN_NS
        while time.perf_counter_ns() < until:
            with suppress(BlockingIOError):
                return self._pipe.recv(size)
        return b""

    def clock(self, ask: bytes, counts: Sequence[int], limit_s: float, look: Callable[[], None]) -> list[Lap]:
        """Send requests one right after another, each with this number of sets; return their laps.

        A request for k executions is worked on with the first k sets. The last lap ends when `look`, which reads
        results, has returned. The process is stopped before and afterwards; the clock starts before it goes on.
        """
        if not self.spins:
            (count,) = counts
            return [self._clock_stopped(ask, count, limit_s, look)]
        times = [time.perf_counter_ns()]
        for count in counts:
            self.send(ask, count)
            self.await_answer(limit_s)
            times.append(time.perf_counter_ns())
        look()
        look_ns = time.perf_counter_ns() - times[-1]
        *laps, last = (Lap(after - before) for before, after in pairwise(times))
        return [*laps, last._replace(look_ns=look_ns)]

    def _clock_stopped(self, ask: bytes, count: int, limit_s: float, look: Callable[[], None]) -> Lap:
        """Return the lap of a request to a process that is stopped before and afterwards."""
        looked, main = time.perf_counter_ns(), f"{self._main}/task/{self._main}"
        self.send(ask, count)
        before, stopped = Accounts.read(main, self._stopped, self._guards), self._stopped
        # The CPU time of one that runs again shows at the next tick, up to 4 ms later; its state shows at once.
        is_changed = self._is_changed() or not all(map(_is_stopped, self._stopped_cpu))
        own = [read_own_delay()]
        started = time.perf_counter_ns()
        stirred_ns = self._find_stirring()  # now: whoever goes on after this look does so while the clock runs
        is_long = stirred_ns > STIRRING_NS or is_changed
        is_stirred = is_long or stirred_ns > RESTING_NS
        self._stirs += STIR_WEIGHT if is_long else is_stirred
        if self._stirs > MOST_STIRS or stirred_ns > LONGEST_STIR_NS:
            raise LostError(STIRS)
        self.go_on()
        own.append(read_own_delay())
        self.await_answer(limit_s)
        look()
        ended = time.perf_counter_ns()
        own.append(read_own_delay())
        after = Accounts.read(main, stopped, self._guards)
        self.stop()
        ran_ns, waited_ns = before.until(after, main)
        waited_ns = max(waited_ns - max(after.read_at - ended, 0), 0)  # since the end it may have waited behind us
        ours_ns = own[2] - own[1]
        cpu_ns: int | None = after.cpu - before.cpu
        has_forked = stopped != self._stopped or after.ended != before.ended
        # A thread that runs another program takes the main thread's place, with what it has waited itself.
        is_same = after.last == before.last and after.started - before.started < MOST_STARTED
        is_same &= before.threads.keys() <= after.threads.keys()
        is_sound, is_known = True, not has_forked and is_same
        if not is_known:  # the work may have been done by what was started meanwhile
            is_sound = has_forked or max(waited_ns, ours_ns) < UNDISTURBED_NS
            waited_ns, ours_ns, cpu_ns = 0, 0, None
        if has_forked:  # what was started may have worked since we began to look, which its number makes long
            started = looked
        # If it had all processors while we waited for one, it may have worked all the time.
        used_ns, taken_ns = cpu_ns or 0, ended - started - waited_ns
        left_ns = max(taken_ns - ours_ns, used_ns // PROCESSORS)
        # Where both of us waited at once, too much has been left out.
        is_sound &= own[1] - own[0] < UNDISTURBED_NS and left_ns >= ran_ns and not is_stirred
        # It may have answered early, and kept our processor busy: CPU time that does not fit into the rest is its own.
        duration_ns = max(left_ns, min(taken_ns, used_ns))
        longest_ns = max((before.until(after, thread)[1] for thread in after.threads), default=0)
        is_quiet = is_sound and longest_ns <= QUIET_SHARE * duration_ns
        return Lap(duration_ns, 0, cpu_ns, is_sound, is_quiet, is_stirred)

    def stop(self) -> None:
        """Stop all of its processes, and return when none of their threads runs.

        A process whose work is a device's stays awake: a request would take ten times as long.
        """
        if not self.spins:
            self.pause()

    def pause(self) -> None:
        """Stop all of its processes in any case, until they are to go on.

        Raises:
            LostError: one cannot be stopped.
        """
        # Children may have ended since, and others may have their numbers by now.
        until, pids = time.monotonic() + STOP_LIMIT_S, [self._main] if self._stopped == [self._main] else self._inner()
        while True:
            for pid in pids:
                with suppress(OSError):
                    os.kill(pid, signal.SIGSTOP)
            is_still, found = _are_stopped(pids), self._inner()
            if is_still and found == pids:
                self._stopped = pids
                self._stopped_cpu = {pid: cpu_ns(pid) for pid in pids if not _has_ended(pid)}
                return
            pids = found
            if time.monotonic() > until:
                raise LostError("its processes cannot be stopped")

    def rest(self) -> None:
        """Stop all of its processes until another turn; on the host, return when every thread has left the processor.

        Raises:
            LostError: one cannot be stopped.
        """
        self.pause()
        until = time.monotonic() + STOP_LIMIT_S
        while not self.spins:
            time.sleep(STOPS_S)
            is_still = self._find_stirring() == 0
            if is_still and all(state in b"TtZX" for pid in self._stopped for state in read_states(pid)):
                return
            if time.monotonic() > until:
                if is_still:  # one awaits a disk for long
                    return
                raise LostError(STIRS)
            self.pause()  # with what has been started meanwhile

    def weigh(self) -> Held:
        """Return what its processes hold, as the sandbox counts it."""
        found = [*list_family(self._process.pid).items()][self._count_of_guards - 1 :]  # none if it has ended
        if not found:
            return Held()
        return weigh(dict(found), list_own_folders(found[0][0], self._sandbox or Sandbox(namespaces=False)))

    def go_on(self) -> None:
        """Let its processes go on."""
        for pid in self._stopped:
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)

    def has_stirred(self) -> bool:
        """Return whether its processes have gone on by themselves while they waited for another turn."""
        return self._find_stirring() > (LONGEST_STIR_NS if self.spins else RESTING_NS) or self._is_changed()

    def _find_stirring(self) -> int:
        """Return how long processes have run since they were stopped: a timer of the kernel's may send SIGCONT."""
        return sum(max(cpu_ns(pid) - before, 0) for pid, before in self._stopped_cpu.items())

    def _is_changed(self) -> bool:
        """Return whether a process has begun or ended since all were stopped, other than by being awaited."""
        inner = {*self._inner()}
        return not inner <= {*self._stopped} or not self._stopped_cpu.keys() <= inner

    def _inner(self) -> list[int]:
        """Return the processes that may run a stranger's code: all but those that guard it."""
        return [pid for pid in list_family(self._process.pid) if pid not in self._guards]

    def _lost(self) -> LostError:
        """Return how the process ended."""
        give_up = time.monotonic() + STOP_LIMIT_S
        while (code := self._process.poll()) is None and time.monotonic() < give_up:
            time.sleep(0.002)
        return LostError("its process closed its pipe" if code is None else name_end(code))

    def log_tail(self) -> str:
        """Return the end of the process's output."""
        return read_end(self._log)


def _are_stopped(pids: Sequence[int]) -> bool:
    """Return whether no thread of these processes runs, after a moment."""
    until = time.monotonic() + STOPS_S
    while not all(map(_is_stopped, pids)):
        if time.monotonic() > until:
            return False
    return True


def _has_ended(pid: int) -> bool:
    """Return whether all threads of a process have ended; its parent may not have waited for it yet."""
    return all(state in b"ZX" for state in read_states(pid))


def _is_stopped(pid: int) -> bool:
    """Return whether no thread of a process runs; one that awaits a disk (D) stops, as told, before it goes on."""
    return all(state in b"TtZXD" for state in read_states(pid))
