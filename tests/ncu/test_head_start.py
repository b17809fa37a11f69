"""An ncu process that is started before its trials are known."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from cuprof.config.model import NcuConfig
from cuprof.core.project import Project
from cuprof.core.records import State
from cuprof.ncu.batch import Batch
from cuprof.ncu.collector import Collector
from cuprof.ncu.setting import make_setting


def test_a_head_start_that_is_not_needed_leaves_nothing(fake_ncu, tmp_path: Path) -> None:
    setting = make_setting(NcuConfig(path=str(fake_ncu.path), metrics=("launch__grid_dim_z",)), Project(tmp_path))
    with Batch(setting, 1) as ahead:
        folder, process = ahead.folder, psutil.Process(ahead.process.pid)
        assert ahead.process.command[-4:] == (str(os.getpid()), "cuda", "1", str(ahead.task))
        assert process.is_running()
    assert not folder.exists()
    assert not process.is_running()
    assert fake_ncu.calls == []


def test_a_head_start_on_another_device_is_ended(fake_ncu, make_setting, make_trial) -> None:
    setting, ran = make_setting(), ["preparing", "launching", "done"]
    fake_ncu.plays(*[{"console": "", "report": "instructions", "progress": {"all": ran}}] * 2)
    ahead = Batch(setting, 1)
    process = psutil.Process(ahead.process.pid)
    result = Collector(setting, ahead).profile([make_trial("2" * 32)])
    assert [profile.state for profile in result.profiles] == [State.OK]
    assert not process.is_running()
    assert not ahead.folder.exists()
