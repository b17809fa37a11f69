"""Calibrations that are kept from sweep to sweep, whatever database each goes into."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cuprof.core.records import Calibration, DeviceFacts
from cuprof.engine.calibration import find_kept, keep, name_others

GPU = DeviceFacts("cuda", 0, "H200", uuid="GPU-1", identity={"driver": "580.1"})
FOUND = Calibration("cuda", 4.3e12, 1200.0, {"fma_rate": 6e13, "other_processes": []})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cuprof" / "calibrations"


def test_a_calibration_is_of_one_card_and_driver() -> None:
    assert find_kept(GPU) is None
    keep(GPU, FOUND)
    assert find_kept(GPU) == FOUND
    for other in (
        replace(GPU, uuid="GPU-2"),
        replace(GPU, identity={"driver": "590.1"}),
        replace(GPU, backend="opencl"),
    ):
        assert find_kept(other) is None


def test_one_of_an_earlier_boot_or_a_damaged_one_does_not_count(cache: Path) -> None:
    keep(GPU, FOUND)
    (file,) = cache.iterdir()
    os.utime(file, (time.time(), psutil.boot_time() - 1))
    assert find_kept(GPU) is None
    file.write_text("{")
    assert find_kept(GPU) is None


def test_a_cache_that_cannot_be_written_costs_nothing_else(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    keep(GPU, FOUND)
    assert find_kept(GPU) is None


def test_processes_of_ones_own_are_not_others_and_are_asked_for_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = set[int](), psutil.Process.name
    monkeypatch.setattr(psutil.Process, "name", lambda self: (asked.add(self.pid), ask(self))[1])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as own:
        name, nobody = psutil.Process().name(), 1 << 30
        assert name_others([own.pid, os.getpid(), nobody]) == f"{name} (pid {os.getpid()}), pid {nobody}"
    assert asked == {os.getpid()}
