"""What the scripts that start other processes do where there is no GPU."""

import runpy
import subprocess
import sys

import pytest

from benchmarks import agreement, faults, profilers, search_gpu, side_by_side
from benchmarks.gpu import NoGpuError, require_gpu
from benchmarks.process import ROOT
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.worker.devices import DeviceTable

SCRIPTS = (agreement, faults, profilers, search_gpu, side_by_side)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(DeviceTable, "describe", lambda self, backend: Unavailable("no driver here", "install one"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_nothing_is_started_one_line_says_so_and_the_command_ends_with_2(
    script, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was started"))
    monkeypatch.setattr(sys, "argv", [script.__file__, "--out", str(tmp_path / "out")])
    monkeypatch.delitem(sys.modules, script.__name__)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(script.__name__, run_name="__main__")
    heard = capsys.readouterr()
    assert (ended.value.code, heard.out) == (2, "")
    assert heard.err == "error: no GPU to measure: no driver here; install one\n"
    assert not (tmp_path / "out").exists()


def test_with_a_gpu_the_script_goes_on(monkeypatch):
    asked = []

    def describe(self, backend):
        asked.append(backend)
        return DeviceFacts(backend, 0, "Test GPU")

    monkeypatch.setattr(DeviceTable, "describe", describe)
    require_gpu()
    assert asked == ["cuda"]


@pytest.mark.usefixtures("no_gpu")
def test_the_error_is_one_that_start_knows():
    with pytest.raises(NoGpuError):
        require_gpu()


def test_a_machine_without_a_gpu_is_told_apart_by_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    ended = subprocess.run(
        [sys.executable, "-m", faults.__name__, "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("error: no GPU to measure: ")
