"""Turns on a device, between real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.records import DeviceFacts
from cuprof.engine import device_lock
from cuprof.engine.device_lock import DeviceLocks, lock_name

HOST = DeviceFacts("cpu", 0, "Test CPU")
POCL = DeviceFacts("opencl", 0, "Test pocl", "beef", details={"type": "CPU"})
GPU = DeviceFacts("cuda", 0, "Test GPU", "abcd")
GPU_BY_OPENCL = DeviceFacts("opencl", 1, "Test GPU", "abcd", details={"type": "GPU"})
HOLDER = """
import sys, time
from pathlib import Path
from cuprof.engine.device_lock import DeviceLocks
from cuprof.core.records import DeviceFacts

log, name, turns, length, other = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
locks = DeviceLocks(lambda text: print("note", text, flush=True))
print("ready", flush=True)
sys.stdin.readline()
give_up = time.monotonic() + 90

def has_come_after_the_other():
    begun = [line.split()[0] for line in log.read_text().splitlines() if line.endswith("begins")]
    return not other or (other in begun and name in begun[begun.index(other):]) or time.monotonic() > give_up

while turns > 0 or not has_come_after_the_other():
    turns -= 1
    with locks.hold(DeviceFacts("cpu", 0, "Test CPU")):
        with log.open("a") as lines:
            lines.write(f"{name} begins\\n")
        print("held", flush=True)
        time.sleep(length)
        with log.open("a") as lines:
            lines.write(f"{name} ends\\n")
"""


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPROF_LOCKS", str(tmp_path / "locks of ü"))


def start(log: Path, name: str, turns: int, length: float, other: str = "") -> subprocess.Popen[str]:
    """Start a process that holds the lock so often, and until it has had a turn after one of another's, or in vain."""
    command = [sys.executable, "-c", HOLDER, str(log), name, str(turns), str(length), other]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"the process ended without {word!r}")


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that holds the host's lock for as long as a test may take."""
    with start(tmp_path / "log", "holder", 1, 600) as process:
        begin(process)
        wait_for(process, "held")
        yield process
        process.kill()


def test_processes_on_one_device_take_turns_and_say_once_whom_they_wait_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with start(log, "a", 8, 0.1, "b") as one, start(log, "b", 8, 0.1, "a") as other:
        for process in (one, other):
            wait_for(process, "ready")
        for process in (one, other):
            begin(process)
        said = [process.communicate(timeout=150)[0].splitlines() for process in (one, other)]
        pids = one.pid, other.pid
    lines = log.read_text().splitlines()
    assert len(lines) == 2 * sum(lines_of.count("held") for lines_of in said) >= 32
    assert all(
        (first, second) == (f"{name} begins", f"{name} ends")
        for first, second in zip(lines[::2], lines[1::2], strict=True)
        if (name := first.split()[0])
    ), "two held it at once"
    order = [line.split()[0] for line in lines[::2]]
    switches = sum(now != then for now, then in pairwise(order))
    # 15 where neither is late for its turn, and 1 where the first one never lets the other go ahead
    assert switches >= 2, "one went on while the other waited"
    for lines_of, pid in zip(said, reversed(pids), strict=True):
        notes = {line for line in lines_of if line.startswith("note")}
        assert len(notes) == sum(line.startswith("note") for line in lines_of)
        assert notes <= {
            f"note waiting for another cuprof process (pid {pid}) that measures on Test CPU",
            "note waiting for another cuprof process that measures on Test CPU",  # just between two of its turns
        }


def test_a_dead_process_blocks_nobody(holder: subprocess.Popen[str]) -> None:
    notes: list[str] = []

    def kill(text: str) -> None:
        notes.append(text)
        holder.send_signal(signal.SIGKILL)

    waiting, free = DeviceLocks(kill), DeviceLocks(notes.append)
    with waiting.hold(HOST):
        assert notes == [f"waiting for another cuprof process (pid {holder.pid}) that measures on Test CPU"]
    with free.hold(HOST):
        assert len(notes) == 1
    assert waiting.waited_s > 0 == free.waited_s


def test_a_holder_that_stands_still_is_told_with_what_to_do(holder: subprocess.Popen[str]) -> None:
    notes: list[str] = []

    def kill(text: str) -> None:
        notes.append(text)
        holder.send_signal(signal.SIGKILL)

    holder.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
    with DeviceLocks(kill).hold(HOST):
        assert f"is stopped: continue it (kill -CONT {holder.pid}), or end it" in notes[0]


def test_a_wait_can_be_interrupted_and_leaves_nothing_locked(holder: subprocess.Popen[str]) -> None:
    def interrupt(text: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def list_open() -> list[str]:
        """Return the open files of locks; other threads may open and close others meanwhile."""
        found: list[str] = []
        for handle in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                found.append(str(handle.readlink()))
        return [each for each in found if each.endswith(".lock")]

    before = list_open()
    with pytest.raises(KeyboardInterrupt), DeviceLocks(interrupt).hold(HOST):
        pass
    assert list_open() == before


def test_other_devices_are_not_waited_for(holder: subprocess.Popen[str]) -> None:
    notes: list[str] = []
    with DeviceLocks(notes.append).hold(GPU):
        assert notes == []


def test_the_lock_is_the_physical_devices() -> None:
    assert lock_name(HOST) == lock_name(POCL)
    assert lock_name(GPU) == lock_name(GPU_BY_OPENCL) == "abcd"
    assert lock_name(DeviceFacts("opencl", 0, "A")) != lock_name(DeviceFacts("opencl", 1, "B"))


def test_without_a_place_for_locks_times_are_taken_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPROF_LOCKS", str(tmp_path / "file" / "locks"))
    notes: list[str] = []
    locks = DeviceLocks(notes.append)
    for _ in range(2):
        with locks.hold(HOST):
            pass
    (note,) = notes
    assert note.startswith("Test CPU: other cuprof processes may measure on it at the same time: ")
    monkeypatch.delenv("CUPROF_LOCKS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(device_lock, "SHARED_FOLDER", tmp_path / "shared")
    with locks.hold(HOST):
        assert [path.name for path in (tmp_path / "shared").glob("*.lock")]
    assert len(notes) == 1


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_users_own_and_the_machines_lock_are_both_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUPROF_LOCKS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(device_lock, "SHARED_FOLDER", tmp_path / "shared")
    with DeviceLocks(print).hold(GPU):
        own = tmp_path / "cache" / "cuprof" / "locks"
        assert names_in(tmp_path / "shared") == names_in(own) == ["abcd.lock"]
        assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_plain_file_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    folder, victim = tmp_path / "locks", tmp_path / "victim"
    folder.mkdir()
    place = folder / "abcd.lock"
    if "link" in kind:
        place.symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    if kind == "link":
        victim.write_text("precious")
    monkeypatch.setenv("CUPROF_LOCKS", str(folder))
    notes: list[str] = []
    with DeviceLocks(notes.append).hold(GPU):
        pass
    assert len(notes) == 1
    assert notes[0].startswith("Test GPU: other cuprof processes may measure on it at the same time: ")
    assert victim.read_text() == "precious" if kind == "link" else not victim.exists()


def test_a_link_in_place_of_the_machines_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "shared").symlink_to(tmp_path / "elsewhere")
    monkeypatch.delenv("CUPROF_LOCKS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(device_lock, "SHARED_FOLDER", tmp_path / "shared")
    with DeviceLocks(print).hold(GPU):
        assert names_in(tmp_path / "elsewhere") == []


def test_what_a_lock_file_holds_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "abcd.lock").write_text("precious")
    monkeypatch.setenv("CUPROF_LOCKS", str(tmp_path))
    with DeviceLocks(print).hold(GPU):
        pass
    assert (tmp_path / "abcd.lock").read_text() == "precious"


STRANGER = """
import os, sys
from cuprof.engine.device_lock import DeviceLocks
from cuprof.core.records import DeviceFacts
os.umask(0o077)
if int(sys.argv[1]):  # that user may not be able to read what Python imports
    os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
with DeviceLocks(lambda text: print("note", text, flush=True)).hold(DeviceFacts("cuda", 0, "Test GPU", "abcd")):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be two users")
@pytest.mark.parametrize("first", [0, 65534])
def test_two_users_share_a_lock(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o777)
        folder = Path(place) / "locks"
        monkeypatch.setenv("CUPROF_LOCKS", str(folder))
        command = [sys.executable, "-c", STRANGER]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*command, str(first)], **pipes) as one:
            wait_for(one, "held")
            assert folder.stat().st_mode & 0o7777 == 0o1777
            assert (folder / "abcd.lock").stat().st_mode & 0o777 == 0o666
            with subprocess.Popen([*command, str(65534 - first)], **pipes) as other:
                note = wait_for(other, "note")
                assert note == f"note waiting for another cuprof process (pid {one.pid}) that measures on Test GPU\n"
                begin(one)
                wait_for(other, "held")
                begin(other)


@pytest.mark.parametrize("is_timed", [True, False], ids=["timed", "only checked"])
def test_a_sweep_waits_for_its_turn_and_then_goes_on(
    bench: Any, make_listener: Any, holder: subprocess.Popen[str], is_timed: bool
) -> None:
    """Also where nothing is timed: what is executed would show in what another process measures."""
    heard = make_listener()

    def note(text: str) -> None:
        heard.notes.append(text)
        assert heard.begun == []
        if text != bench.place:
            holder.kill()

    heard.note = note
    if is_timed:
        result, _ = bench.sweep("sound_first", problem={"n": (1, 2)}, listener=heard)
        assert result.exit_code == 0
        assert heard.notes.pop(0) == bench.place
    else:
        bench.check("sound_first", "sound_last", listener=heard)
    assert len(heard.outcomes) == 2
    assert heard.notes[0].startswith(f"waiting for another cuprof process (pid {holder.pid}) that measures on ")


def test_a_sweep_that_waits_for_its_turn_can_be_stopped(
    bench: Any, make_listener: Any, holder: subprocess.Popen[str]
) -> None:
    heard, asked = make_listener(), list[float]()

    def stop(text: str) -> None:
        if text.startswith("waiting for another cuprof process"):
            asked.append(time.monotonic())
            raise KeyboardInterrupt

    heard.note = stop
    with pytest.raises(KeyboardInterrupt):
        bench.sweep("sound_first", listener=heard)
    assert time.monotonic() - asked[0] < 60.0
    assert bench.query("SELECT state FROM sweep") == [("interrupted",)]
