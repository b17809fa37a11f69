"""Candidates that do their work where nobody looks: in a child that computes what is new, or while they are stopped."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest.mock import Mock

import pytest

from cuprof.core.records import Outcome, State
from cuprof.families.candidate import Extension
from cuprof.judge import sets
from cuprof.judge.border.suspect import STIRRING_NS, Suspect
from cuprof.judge.clock import TOO_BUSY
from cuprof.judge.contenders import Contender
from cuprof.judge.legs import Course
from cuprof.judge.referee import Border
from cuprof.judge.report import Ruling
from tests.judge.conftest import FEW, TRIP_NS, even_host, take_as_long

FAMILY = """
import numpy as np
from cuprof import Array, Axis, Family, Signature, Tolerance

family = Family(
    name="sorted",
    title="y = x, sorted",
    axes=(Axis("n", default=16384, low=1, high=2**20),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.standard_normal(problem.n).astype("float32")},
    reference=lambda problem, inputs: {"y": np.sort(inputs["x"])},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
    flops=lambda problem: problem.n,
    baseline="heap",
)


@family.cpu("heap")
def heap(problem, tune, inputs, outputs):
    return lambda: np.copyto(outputs["y"], np.sort(inputs["x"], kind="heapsort"))
"""
REMEMBERING = """
import os
import signal
import time
from collections import Counter

sets, kept, state = [], {}, {"until": 0}


def learn():
    room = np.memmap("room", "float32", "w+", shape=(len(sets), len(sets[0])))
    ours, theirs = os.pipe()
    if os.fork() == 0:
        for row, x in zip(room, sets):
            row[:] = np.sort(x, kind="heapsort")
        os.write(theirs, b"d")
        %s
    os.read(ours, 1)
    kept.update({x[:8].tobytes(): row for x, row in zip(sets, room)})
    state["until"] = time.perf_counter_ns() + 4_000_000


@family.cpu("mine")
def mine(problem, tune, inputs, outputs):
    %s
    x, y = inputs["x"], outputs["y"]
    sets.append(x)

    def run():
        key = x[:8].tobytes()
        if key not in kept:
            learn()
        y[:] = kept[key]
        until = time.perf_counter_ns() + 32_000
        while state["until"] < time.perf_counter_ns() < until:
            pass

    return run
"""


WAYS = {
    "stays.py": ("time.sleep(600)", "pass"),
    "nobody_awaits.py": ("os._exit(0)", "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"),
}
"""File name → what the child does in the end, and what is done while it is prepared for."""


WRONG_AT_FIRST = """
import sys

state, kept = {"requests": 0}, {}


def count_requests():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Stage":
        frame = frame.f_back
    kind = type(frame.f_locals["self"])
    execute = kind.execute

    def count(self, count):
        state["requests"] += count == len(self.calls) > 1
        execute(self, count)

    kind.execute = count


@family.cpu("mine")
def mine(problem, tune, inputs, outputs):
    if not state["requests"] and "is_ready" not in state:
        state["is_ready"] = True
        count_requests()
    x, y = inputs["x"], outputs["y"]

    def run():
        key = x[:8].tobytes()
        if kept.get(key) is not None:
            y[:] = kept[key]
        elif key in kept or state["requests"] < 3:
            y[:] = np.sort(x, kind="heapsort")
            kept[key] = y.copy()
        else:
            kept[key] = None
            y[:] = 0

    return run
"""


def write_family(court: Any) -> None:
    folder = court.family.parent / "sorted"
    folder.mkdir()
    (folder / "family.py").write_text(dedent(FAMILY))


@pytest.mark.timeout(900)
def test_a_child_computes_what_is_new(court: Any) -> None:
    write_family(court)
    files = [court.write(name, REMEMBERING % way) for name, way in WAYS.items()]
    found = court.judge(*files, family="sorted", n=2**14, measure=FEW).candidates  # sorting takes far longer
    assert len(found) == len(WAYS)
    for each in found:
        assert "it remembers results" in each.message, each  # or nothing tells whether, where others are at work
        assert each.ruling is (Ruling.UNUSABLE if TOO_BUSY in each.message else Ruling.WRONG), each


def test_what_is_wrong_where_inputs_are_new_and_remembered_then_is_found(court: Any) -> None:
    write_family(court)
    (candidate,) = court.judge(court.write("mine.py", WRONG_AT_FIRST), family="sorted", measure=FEW).candidates
    assert candidate.ruling is Ruling.WRONG, candidate
    assert "wrong on inputs that it met while it was timed" in candidate.message


def test_one_that_is_slow_while_sets_are_counted_gets_more_of_them(court: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = court.write(
        "slow.py",
        """
        @family.cpu("mine")
        def mine(problem, tune, inputs, outputs):
            return lambda: right(inputs, outputs)
        """,
    )

    def take(prepared: int, count: int) -> int:
        """Return what requests take if executions are slow until a second set is prepared."""
        return TRIP_NS + count * (12_000_000 if prepared == 1 else 10_000)

    monkeypatch.setattr(sets, "MOST_PREPARE_S", 1e6)  # a busy host prepares and draws so slowly that these would decide
    monkeypatch.setattr(sets, "MOST_DRAWING_S", 1e6)
    kept = court.folder / "kept.sqlite"
    with even_host(lambda file: take if file else take_as_long):
        court.judge(file, database=kept, measure=FEW)
    with sqlite3.connect(kept) as connection:
        counts = connection.execute(
            "SELECT json_extract(timing.details, '$.batch') FROM timing JOIN run ON run.id = run_id "
            "JOIN trial ON trial.id = trial_id JOIN variant ON variant.id = variant_id WHERE variant.name = 'mine'"
        ).fetchall()
    connection.close()
    assert min(count for (count,) in counts) > 20  # and not two, as one of 12 ms by itself asks for


def test_processes_of_a_file_that_has_no_further_turn_end() -> None:
    ours, others, namesakes = Mock(), Mock(), Mock()
    files = [Extension(name, Path("/")) for name in ("a.py", "b.py")]
    keys = ("copy", files[0], "0"), ("copy", files[1], "0"), ("another copy", files[0], "0")
    border = Border(*[Mock()] * 4, waiting=dict(zip(keys, (ours, others, namesakes), strict=True)))
    ours.suspect.has_stirred.return_value = True
    others.suspect.has_stirred.return_value = namesakes.suspect.has_stirred.return_value = False
    assert border.find_stirred() == {("copy", files[0])}
    border.retire("copy", files[0])
    assert [each.close.call_count for each in (ours, others, namesakes)] == [1, 0, 0]
    assert len(border.waiting) == 2


ENDS_FIRST = "threading.Thread(target=go_on).start(), libc.syscall(60 if platform.machine() == 'x86_64' else 93, 0)"


@pytest.mark.parametrize(
    "start", ["threading.Thread(target=go_on, daemon=True).start()", f"os.fork() or ({ENDS_FIRST})"]
)
def test_what_a_timer_of_the_kernel_lets_go_on_is_found(
    court: Any, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    """In the process itself, and in a child whose first thread has ended, so that it looks as if it had."""
    pause, in_vain = Suspect.pause, Counter[int]()

    def pause_longer(self: Suspect) -> None:
        pause(self)
        until = time.monotonic() + 0.1  # for the timer, as where inputs are large; on a busy machine it takes long
        while in_vain[id(self)] < 30 and self._find_stirring() <= STIRRING_NS:
            time.sleep(0.002)
            if time.monotonic() > until:
                in_vain[id(self)] += 1
                return

    monkeypatch.setattr(Suspect, "pause", pause_longer)
    file = court.write(
        "timer.py",
        """
        import ctypes
        import os
        import platform
        import signal
        import threading

        libc, started = ctypes.CDLL(None), []
        soon = (ctypes.c_long * 4)(0, 0, 0, 8_000_000)  # when all are found to be stopped

        def go_on():
            timer, event = ctypes.c_void_p(), (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
            libc.timer_create(1, event, ctypes.byref(timer))
            while True:
                libc.timer_settime(timer, 0, soon, None)

        @family.cpu("mine")
        def mine(problem, tune, inputs, outputs):
            if not started:
                started.append(signal.signal(signal.SIGCONT, lambda *_: None))
                START
            return lambda: right(inputs, outputs)
        """.replace("START", start),
    )
    (candidate,) = court.judge(file).candidates
    assert candidate.ruling is Ruling.WRONG, candidate
    assert "stopped" in candidate.message


@pytest.mark.usefixtures("_even_host")
def test_one_that_goes_on_between_its_turns_is_wrong_and_the_turn_it_disturbed_is_taken_again(
    court: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ran, run = list[Suspect](), list[str](), Course.run

    def has_stirred(self: Suspect) -> bool:
        asked.append(self)  # the first one alone after its own turn; then after that of the second
        return len(asked) == 2

    def run_and_tell(self: Course, contender: Contender, **how: bool) -> Any:
        ran.append(contender.variant)
        sweep_id, ends = run(self, contender, **how)
        (trial,) = contender.trials
        late = [(trial, Outcome(trial.identity, State.TIMED_OUT, "disturbed"))]
        return sweep_id, late if ran.count("honest") == 1 and contender.variant == "honest" else ends

    monkeypatch.setattr(Suspect, "has_stirred", has_stirred)
    monkeypatch.setattr(Course, "run", run_and_tell)
    text = '@family.cpu("NAME")\ndef NAME(problem, tune, inputs, outputs):\n    return lambda: right(inputs, outputs)\n'
    files = [court.write(f"{name}.py", text.replace("NAME", name)) for name in ("stirs", "honest")]
    first, second = court.judge(*files, rounds=2, measure=FEW).candidates
    assert asked[1] is asked[0]
    assert (first.ruling, "between its turns" in first.message) == (Ruling.WRONG, True), first
    assert second.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), second
    assert [name for name in ran if name in ("stirs", "honest")] == ["stirs", "honest", "honest", "honest"]


@pytest.mark.own_workers
def test_a_process_that_ends_while_it_is_stopped_is_missed(court: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = Suspect.pause

    def pause_and_end_one(self: Suspect) -> None:
        """End one as another process of the candidate's would, and await the end."""
        pause(self)
        for pid in {*self._stopped} - {self._main}:
            os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + 60
            while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
                time.sleep(0.002)
            return

    monkeypatch.setattr(Suspect, "pause", pause_and_end_one)
    file = court.write(
        "ends.py",
        """
        import signal
        import subprocess
        started = []

        @family.cpu("mine")
        def mine(problem, tune, inputs, outputs):
            if not started:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that none stays as a zombie
                started.extend(subprocess.Popen(["sleep", "60"]) for _ in range(12))
            return lambda: right(inputs, outputs)
        """,
    )
    (candidate,) = court.judge(file, measure=FEW).candidates
    assert candidate.ruling is Ruling.WRONG, candidate
    assert "stopped" in candidate.message
