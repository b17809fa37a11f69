"""Temporary folders: those of the dead are removed, all others stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuprof import scratch
from cuprof.scratch import PREFIX, ScratchFolder, remove_dead_folders

OWNER = """
import os, signal
from cuprof.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "file").touch()
print(folder.path, flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_goes_when_its_owner_was_killed_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "NEWBORN_S", 0.0)
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


def test_what_is_new_or_only_looks_like_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newborn = tmp_path / f"{PREFIX}newborn"
    newborn.mkdir()
    remove_dead_folders(tmp_path)
    assert newborn.exists()
    monkeypatch.setattr(scratch, "NEWBORN_S", 0.0)
    (tmp_path / "precious").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "precious")
    (tmp_path / f"{PREFIX}file").touch()
    time.sleep(0.01)
    remove_dead_folders(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}file", f"{PREFIX}link", "precious"]


def test_cleaning_up_twice_is_harmless() -> None:
    folder = ScratchFolder()
    folder.cleanup()
    folder.cleanup()
    assert not folder.path.exists()
