"""Temporary folders: those of the dead are removed, all others stay."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from cuprof.core import scratch
from cuprof.core.processes import MARK
from cuprof.core.scratch import PREFIX, ScratchFolder, remove_dead_folders

AT_ONCE = -math.inf
"""In place of `NEWBORN_S`: no folder is so young that it stays, whatever the clock and a file's time say."""
OWNER = """
import os, signal
from cuprof.core.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "file").touch()
print(folder.path, flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_goes_when_its_owner_was_killed_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEWBORN_S", AT_ONCE)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        remove_dead_folders(tmp_path)
        assert (path / "file").exists()
        process.communicate("end\n")
    assert path.exists()
    remove_dead_folders(tmp_path)
    assert not path.exists()


def test_what_a_dead_owner_s_worker_has_left_running_ends_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEWBORN_S", AT_ONCE)
    dead, other = tmp_path / f"{PREFIX}dead", tmp_path / f"{PREFIX}deadlier"
    dead.mkdir()
    sleeping = [sys.executable, "-c", "print(flush=True); input()"]
    with ExitStack() as stack:
        left, stays = [
            stack.enter_context(
                subprocess.Popen(
                    sleeping,
                    env={**os.environ, MARK: str(folder)},
                    start_new_session=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for folder in (dead, other)
        ]
        for each in (left, stays):
            assert each.stdout is not None
            each.stdout.readline()
        remove_dead_folders(tmp_path)
        assert left.wait(100) == -signal.SIGKILL
        assert stays.poll() is None
    assert stays.returncode == 1
    assert not dead.exists()


def test_what_is_new_or_only_looks_like_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newborn = tmp_path / f"{PREFIX}newborn"
    newborn.mkdir()
    monkeypatch.setattr(scratch, "NEWBORN_S", 600.0)
    remove_dead_folders(tmp_path)
    assert newborn.exists()
    monkeypatch.setattr(scratch, "NEWBORN_S", AT_ONCE)
    (tmp_path / "precious").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "precious")
    (tmp_path / f"{PREFIX}file").touch()
    remove_dead_folders(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}file", f"{PREFIX}link", "precious"]


def test_cleaning_up_twice_is_harmless() -> None:
    folder = ScratchFolder()
    folder.cleanup()
    folder.cleanup()
    assert not folder.path.exists()


@pytest.mark.parametrize("by_owner", [True, False])
def test_folders_deeper_than_functions_may_call_each_other_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_owner: bool
) -> None:
    monkeypatch.setattr(scratch, "NEWBORN_S", AT_ONCE)
    folder = ScratchFolder() if by_owner else None
    place = folder.path if folder else tmp_path / f"{PREFIX}dead"
    place.mkdir(exist_ok=True)
    here = os.getcwd()  # noqa: PTH109
    try:
        os.chdir(place)
        for _ in range(2 * sys.getrecursionlimit()):
            os.mkdir("d")  # noqa: PTH102 - the path is longer than paths may be
            os.chdir("d")
    finally:
        os.chdir(here)
    if folder:
        folder.cleanup()
    else:
        remove_dead_folders(tmp_path)
    assert not place.exists()


LEAVES = """
import os, sys
from pathlib import Path
from cuprof.core.scratch import remove
from cuprof.sandbox.kernel import drop_capabilities
drop_capabilities()  # which let root read any folder
place = Path(sys.argv[1])
place.mkdir()
os.chdir(place)
for number in range(1200):
    os.mkdir("d", 0o700 if number % 500 else 0o300)
    os.chdir("d")
Path("left").touch()
os.mkdir("locked", 0)
os.chdir("/")
remove(place)
"""


def test_folders_that_cannot_be_read_are_removed(tmp_path: Path) -> None:
    place = tmp_path / "deep"
    subprocess.run([sys.executable, "-c", LEAVES, str(place)], check=True)
    assert not place.exists()
