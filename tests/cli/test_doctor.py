from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuprof.backends.cuda.presence import Driver
from cuprof.backends.opencl.presence import has_nvidia_icd
from cuprof.backends.spec import ListedDevice
from cuprof.cli import diagnosis
from cuprof.cli.diagnosis import (
    Diagnosis,
    Health,
    examine_counters,
    examine_cupy,
    examine_database,
    examine_dependencies,
    examine_driver,
    examine_locks,
    examine_opencl,
)
from cuprof.core.project import Project
from cuprof.store.store import Store
from tests.conftest import Result

Cli = Callable[..., Result]
GPU = ListedDevice(0, "Test GPU 9000", "compute capability 9.0")
DRIVER_13 = Driver("580.1", (13, 0), (GPU,))
DRIVER_12 = Driver("550.1", (12, 4), (GPU,))
DRIVER_11 = Driver("470.1", (11, 4), (GPU,))
POCL = ("Portable Computing Language", ["cpu"])


def test_doctor_runs_on_this_machine(cli: Cli, project: Project) -> None:
    result = cli("doctor", "--json")
    diagnoses = {diagnosis["what"]: diagnosis for diagnosis in json.loads(result.out)}
    assert result.exit_code == 0
    assert diagnoses["Python"]["health"] == "good"
    assert diagnoses["numpy"]["health"] == "good"
    assert str(project.root) in diagnoses["database"]["detail"]
    assert not (project.root / "db").exists()


def test_it_knows_what_the_launchers_need(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(diagnosis, "EXTRAS", {f"no-{name}": each for name, each in diagnosis.EXTRAS.items()})
    found = {each["what"]: each for each in json.loads(cli("doctor", "--json").out)}
    for name in ("joblib", "ray"):
        assert found[f"no-{name}"]["detail"] == f"only needed for launch={name}"
        assert f"[{name}]'" in found[f"no-{name}"]["remedy"]
    assert found["Slurm"]["detail"] == "only needed for launch=slurm"


def test_what_is_missing_is_named_with_the_command_that_mends_it(
    cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Diagnosis("numpy", Health.MISSING, "not installed", "pip install numpy"), Diagnosis("x", Health.GOOD, "1")]
    monkeypatch.setattr("cuprof.cli.doctor.examine", lambda project, store: found)
    result = cli("doctor")
    assert result.exit_code == 1
    assert "MISSING  numpy  not installed" in result.out
    assert "  numpy: pip install numpy" in result.out


def test_dependencies() -> None:
    diagnoses = examine_dependencies(["NumPy>=2.0", "ncu-report>=1", "rich>=13"], {"numpy": "1.26", "ncu-report": "2"})
    assert [(each.what, each.health) for each in diagnoses] == [
        ("NumPy", Health.MISSING),
        ("ncu-report", Health.GOOD),
        ("rich", Health.MISSING),
    ]


@pytest.mark.parametrize(
    ("driver", "health", "detail"),
    [
        (None, Health.OPTIONAL, "CPU variants run"),
        (DRIVER_11, Health.WARNING, "CUDA 11.4"),
        (DRIVER_13, Health.GOOD, "Test GPU 9000"),
        (Driver("580.1", (13, 0)), Health.GOOD, "no GPU visible"),
    ],
)
def test_driver(driver: Driver | None, health: Health, detail: str) -> None:
    diagnosis = examine_driver(driver)
    assert diagnosis.health is health
    assert detail in diagnosis.detail


@pytest.mark.parametrize(
    ("driver", "installed", "health", "remedy"),
    [
        (DRIVER_13, {}, Health.WARNING, "[cuda13]"),
        (DRIVER_12, {}, Health.WARNING, "[cuda12]"),
        (DRIVER_13, {"cupy-cuda13x": "14.0"}, Health.GOOD, ""),
        (DRIVER_13, {"cupy-cuda12x": "14.0"}, Health.GOOD, ""),
        (DRIVER_12, {"cupy-cuda13x": "14.0"}, Health.WARNING, "uninstall -y cupy-cuda13x"),
        (DRIVER_13, {"cupy-cuda12x": "14.0", "cupy-cuda13x": "14.0"}, Health.WARNING, "uninstall -y cupy-cuda12x"),
        (None, {}, Health.OPTIONAL, ""),
    ],
)
def test_cupy_must_fit_the_driver(
    driver: Driver | None, installed: dict[str, str], health: Health, remedy: str
) -> None:
    diagnosis = examine_cupy(driver, installed)
    assert diagnosis.health is health
    assert remedy in diagnosis.remedy
    assert bool(remedy) == bool(diagnosis.remedy)


def test_headers(cli: Cli, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "find_driver", lambda: None)
    for version, health, remedy in (("cudart 13000", "good", ""), ("", "optional", "[cuda13]'")):
        monkeypatch.setattr(diagnosis, "find_headers", lambda version=version: SimpleNamespace(version=version))
        found = {each["what"]: each for each in json.loads(cli("doctor", "--json").out)}["CUDA headers"]
        assert found["health"] == health
        assert found["remedy"].endswith(remedy)


def test_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    assert examine_counters(None, parameters).health is Health.OPTIONAL
    assert examine_counters(DRIVER_13, parameters).health is Health.OPTIONAL
    parameters.write_text("Mobile: 4294967295\nRmProfilingAdminOnly: 1\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in examine_counters(DRIVER_13, parameters).remedy
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert examine_counters(DRIVER_13, parameters).health is Health.GOOD


def test_opencl() -> None:
    assert "[opencl]" in examine_opencl(None, (), False, False).remedy
    assert "pocl-opencl-icd" in examine_opencl(None, (), True, False).remedy
    assert examine_opencl(None, (POCL,), True, False).health is Health.GOOD
    unregistered = examine_opencl(DRIVER_13, (POCL,), True, False)
    assert unregistered.health is Health.WARNING
    assert "/etc/OpenCL/vendors/nvidia.icd" in unregistered.remedy
    assert examine_opencl(DRIVER_13, (POCL,), True, True).health is Health.GOOD


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
    assert examine_database(url).health is Health.GOOD
    assert "cuprof backup FILE" in examine_database(url).detail
    # A file of its own: what a -wal file still holds of a database may serve in place of pages that were overwritten.
    other = tmp_path / "other.sqlite"
    other.write_bytes(b"no database at all" * 100)
    assert examine_database(f"sqlite:///{other}").health is Health.MISSING
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)
    assert "cannot be written" in examine_database(url).detail


@pytest.mark.parametrize(
    "url", ["postgresql://me@host:port/base", "nonsense", "postgresql://me:a@b@c/base", "sqlite://"]
)
def test_an_unusable_url_of_a_database_is_missing(url: str) -> None:
    assert examine_database(url).health is Health.MISSING


def test_a_database_on_a_network_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.store.connection.find_filesystem", lambda file: "nfs4")
    found = examine_database(f"sqlite:///{tmp_path}/a.sqlite")
    assert found.health is Health.WARNING
    assert "network file system (nfs4)" in found.detail
    assert found.remedy.startswith("keep it on a local disk")


def test_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, shared = tmp_path / "own", tmp_path / "shared"
    assert examine_locks((own, shared)).health is Health.GOOD
    assert not own.exists()
    shared.mkdir(mode=0o755)
    assert "mode 755" in examine_locks((own, shared)).detail
    shared.chmod(0o1777)
    assert examine_locks((own, shared)).health is Health.GOOD
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)
    refused = examine_locks((own, shared))
    assert refused.health is Health.WARNING
    assert "CUPROF_LOCKS" in refused.remedy
