from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.commands import diagnosis
from cuprof.commands.diagnosis import (
    Finding,
    Verdict,
    examine_counters,
    examine_cupy,
    examine_database,
    examine_dependencies,
    examine_disk,
    examine_driver,
    examine_headers,
    examine_opencl,
    examine_python,
)
from cuprof.commands.machine import Driver, Gpu, Platform, has_nvidia_icd
from cuprof.project import Project
from cuprof.store import Store
from tests.conftest import Result

Cli = Callable[..., Result]
GPU = Gpu(0, "Test GPU 9000", 2**34, "9.0")
DRIVER_13 = Driver("580.1", (13, 0), (GPU,))
DRIVER_12 = Driver("550.1", (12, 4), (GPU,))
DRIVER_11 = Driver("470.1", (11, 4), (GPU,))
POCL = Platform("Portable Computing Language", "OpenCL 3.0", ("cpu",))


def test_doctor_runs_on_this_machine(cli: Cli, project: Project) -> None:
    result = cli("doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(result.out)}
    assert result.exit_code == 0
    assert findings["Python"]["verdict"] == "good"
    assert findings["numpy"]["verdict"] == "good"
    assert str(project.root) in findings["database"]["detail"]
    assert not (project.root / "db").exists()


def test_what_is_missing_is_named_with_the_command_that_mends_it(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("numpy", Verdict.MISSING, "not installed", "pip install numpy"), Finding("x", Verdict.GOOD, "1")]
    monkeypatch.setattr("cuprof.commands.doctor.examine", lambda project, store: found)
    result = cli("doctor")
    assert result.exit_code == 1
    assert "MISSING  numpy  not installed" in result.out
    assert "  numpy: pip install numpy" in result.out


@pytest.mark.parametrize(("version", "verdict"), [((3, 10, 9), Verdict.MISSING), ((3, 11, 0), Verdict.GOOD)])
def test_python(version: tuple[int, ...], verdict: Verdict) -> None:
    assert examine_python(version).verdict is verdict


def test_dependencies() -> None:
    findings = examine_dependencies(["NumPy>=2.0", "ncu-report>=1", "rich>=13"], {"numpy": "1.26", "ncu-report": "2"})
    assert [(each.what, each.verdict) for each in findings] == [
        ("NumPy", Verdict.MISSING),
        ("ncu-report", Verdict.GOOD),
        ("rich", Verdict.MISSING),
    ]


@pytest.mark.parametrize(
    ("driver", "verdict", "detail"),
    [
        (None, Verdict.OPTIONAL, "CPU variants run"),
        (DRIVER_11, Verdict.WARNING, "CUDA 11.4"),
        (DRIVER_13, Verdict.GOOD, "Test GPU 9000"),
        (Driver("580.1", (13, 0)), Verdict.GOOD, "no GPU visible"),
    ],
)
def test_driver(driver: Driver | None, verdict: Verdict, detail: str) -> None:
    finding = examine_driver(driver)
    assert finding.verdict is verdict
    assert detail in finding.detail


@pytest.mark.parametrize(
    ("driver", "installed", "verdict", "remedy"),
    [
        (DRIVER_13, {}, Verdict.WARNING, "[cuda13]"),
        (DRIVER_12, {}, Verdict.WARNING, "[cuda12]"),
        (DRIVER_13, {"cupy-cuda13x": "14.0"}, Verdict.GOOD, ""),
        (DRIVER_13, {"cupy-cuda12x": "14.0"}, Verdict.GOOD, ""),
        (DRIVER_12, {"cupy-cuda13x": "14.0"}, Verdict.WARNING, "uninstall -y cupy-cuda13x"),
        (DRIVER_13, {"cupy-cuda12x": "14.0", "cupy-cuda13x": "14.0"}, Verdict.WARNING, "uninstall -y cupy-cuda12x"),
        (None, {}, Verdict.OPTIONAL, ""),
    ],
)
def test_cupy_must_fit_the_driver(
    driver: Driver | None, installed: dict[str, str], verdict: Verdict, remedy: str
) -> None:
    finding = examine_cupy(driver, installed)
    assert finding.verdict is verdict
    assert remedy in finding.remedy
    assert bool(remedy) == bool(finding.remedy)


def test_headers() -> None:
    assert examine_headers(None, "cudart 13000").verdict is Verdict.GOOD
    finding = examine_headers(None, "")
    assert finding.verdict is Verdict.OPTIONAL
    assert finding.remedy.endswith("[cuda13]'")


def test_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    assert examine_counters(None, parameters).verdict is Verdict.OPTIONAL
    assert examine_counters(DRIVER_13, parameters).verdict is Verdict.OPTIONAL
    parameters.write_text("Mobile: 4294967295\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in examine_counters(DRIVER_13, parameters).remedy
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert examine_counters(DRIVER_13, parameters).verdict is Verdict.GOOD


def test_opencl() -> None:
    assert "[opencl]" in examine_opencl(None, (), False, False).remedy
    assert "pocl-opencl-icd" in examine_opencl(None, (), True, False).remedy
    assert examine_opencl(None, (POCL,), True, False).verdict is Verdict.GOOD
    unregistered = examine_opencl(DRIVER_13, (POCL,), True, False)
    assert unregistered.verdict is Verdict.WARNING
    assert "/etc/OpenCL/vendors/nvidia.icd" in unregistered.remedy
    assert examine_opencl(DRIVER_13, (POCL,), True, True).verdict is Verdict.GOOD


def test_nvidias_opencl_is_found_by_its_registration(tmp_path: Path) -> None:
    (tmp_path / "pocl.icd").write_text("libpocl.so.2\n")
    assert not has_nvidia_icd(tmp_path)
    (tmp_path / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    assert has_nvidia_icd(tmp_path)
    assert not has_nvidia_icd(tmp_path / "absent")


def test_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "db" / "cuprof.sqlite"
    url = f"sqlite:///{file}"
    assert "made by the first sweep" in examine_database(url).detail
    assert not file.parent.exists()
    Store.open(url).close()
    assert examine_database(url).verdict is Verdict.GOOD
    file.write_bytes(b"no database at all" * 100)
    assert examine_database(url).verdict is Verdict.MISSING
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)
    assert "cannot be written" in examine_database(url).detail


def test_disk(tmp_path: Path) -> None:
    assert examine_disk(tmp_path, 2**20).verdict is Verdict.WARNING
    assert examine_disk(tmp_path, 2**40).verdict is Verdict.GOOD
