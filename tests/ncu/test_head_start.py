"""An ncu process that is started before its trials are known."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from cuprof.config.model import NcuConfig
from cuprof.ncu.head_start import Batch, read_device_index, wait_for_job
from cuprof.ncu.setting import make_setting
from cuprof.project import Project


def note(folder: Path, pid: int) -> Path:
    (folder / "owner.json").write_text(json.dumps({"pid": pid, "device_index": 3}))
    return folder / "job.json"


def test_the_wait_ends_when_the_job_is_there(tmp_path: Path) -> None:
    job = note(tmp_path, psutil.Process().pid)
    threading.Timer(0.1, job.touch).start()
    assert wait_for_job(job)
    assert read_device_index(job) == 3


def test_the_wait_ends_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"]) as owner:
        job = note(tmp_path, owner.pid)
        threading.Timer(0.4, owner.wait).start()
        started = time.monotonic()
        assert not wait_for_job(job)
        assert time.monotonic() - started < 30


def test_without_a_note_nobody_is_waited_for(tmp_path: Path) -> None:
    assert not wait_for_job(tmp_path / "job.json")
    assert read_device_index(tmp_path / "job.json") is None


def test_a_head_start_that_is_not_needed_leaves_nothing(fake_ncu, tmp_path: Path) -> None:
    setting = make_setting(NcuConfig(path=str(fake_ncu.path), metrics=("launch__grid_dim_z",)), Project(tmp_path))
    with Batch(setting, 1) as ahead:
        folder, process = ahead.files.folder, psutil.Process(ahead.process.pid)
        assert read_device_index(ahead.files.job) == 1
        assert process.is_running()
    assert not folder.exists()
    assert not process.is_running()
    assert fake_ncu.calls == []
