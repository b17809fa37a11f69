"""What `make` would do, asked with `make --dry-run` and stand-ins for nvidia-smi and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cuprof.core.project import checkout

ROOT = checkout()
pytestmark = [
    pytest.mark.skipif(ROOT is None, reason="not a source checkout"),
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with what the Makefile reads, and nothing built, beside a Python that starts at once."""
    assert ROOT is not None
    folder = tmp_path / "fresh"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    program(tmp_path / "bin", "python3.13", "exit 0")
    return folder


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def make(folder: Path, *argv: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or f"{folder.parent / 'bin'}:{os.environ['PATH']}"}
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS", "JOBS"):  # make may have started the tests
        environment.pop(name, None)
    command = [shutil.which("make") or "make", *argv]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("banner", "extra"),
    [
        ("| NVIDIA-SMI 580.1   Driver Version: 580.1   CUDA Version: 13.0 |", "opencl,cuda13"),
        ("| NVIDIA-SMI 550.1   Driver Version: 550.1   CUDA Version: 12.4 |", "opencl,cuda12"),
        ("| NVIDIA-SMI 470.1   Driver Version: 470.1   CUDA Version: 11.4 |", "opencl"),
        ("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", "opencl"),
    ],
)
def test_the_extra_fits_the_driver(copy: Path, tmp_path: Path, banner: str, extra: str) -> None:
    program(tmp_path / "bin", "nvidia-smi", f"echo '{banner}'")
    done = make(copy, "--dry-run", "sweep")
    assert f"-e '.[{extra}]'" in done.stdout
    assert done.stdout.strip().endswith(".venv/bin/python -m cuprof sweep")


def test_a_second_time_nothing_is_installed(copy: Path) -> None:
    (copy / ".venv" / "bin").mkdir(parents=True)
    (copy / ".venv" / "bin" / "python").touch()
    assert "pip install" in make(copy, "--dry-run", "sweep").stdout
    (copy / ".stamps").mkdir()
    for kind in ("run", "dev"):
        for extra in ("cpu", "cuda12", "cuda13"):
            (copy / ".stamps" / f"{kind}-{extra}").touch()
    assert "pip install" not in make(copy, "--dry-run", "sweep", "test").stdout
    stamp_time = (copy / ".stamps" / "run-cpu").stat().st_mtime
    os.utime(copy / "pyproject.toml", (stamp_time + 10, stamp_time + 10))
    assert "pip install" in make(copy, "--dry-run", "sweep").stdout


def test_without_python_it_says_what_to_install(copy: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "sed", "head", "test", "mkdir", "touch"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    done = make(copy, "sweep", path=str(tools))
    assert done.returncode != 0
    assert "sudo apt install python3 python3-venv" in done.stderr
    assert not (copy / ".venv").exists()


def test_without_the_venv_module_it_says_what_to_install(copy: Path, tmp_path: Path) -> None:
    script = 'case "$*" in *ensurepip*) exit 1;; *sys.version_info*) exit 0;; *) exit 9;; esac'
    for name in ("python3.13", "python3.12", "python3.11", "python3"):
        program(tmp_path / "bin", name, script)
    done = make(copy, "sweep", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode != 0
    assert "sudo apt install python3-venv" in done.stderr


def test_an_old_python_is_passed_over(copy: Path, tmp_path: Path) -> None:
    for name in ("python3.13", "python3.12", "python3"):
        program(tmp_path / "bin", name, "exit 1")
    program(tmp_path / "bin", "python3.11", "exit 0")
    done = make(copy, "--dry-run", "setup", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert f'"{tmp_path / "bin" / "python3.11"}" -m venv .venv' in done.stdout


def test_uv_installs_where_it_is_there_and_pip_where_it_cannot(copy: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    program(tmp_path / "bin", "uv", f'echo "uv $*" >> {said}; exit 1')
    (copy / ".venv" / "bin").mkdir(parents=True)
    program(copy / ".venv" / "bin", "python", f'echo "python $*" >> {said}')
    assert make(copy, "setup").returncode == 0
    uv, pip = said.read_text().splitlines()
    assert uv.startswith("uv pip install --quiet --python .venv/bin/python -e .[opencl")
    assert pip.startswith("python -m pip install ")
    assert pip.endswith(uv.rpartition(" -e ")[2])


def test_arguments_reach_the_sweep(copy: Path) -> None:
    done = make(copy, "--dry-run", "sweep", "ARGS=measure=quick device=cpu")
    assert done.stdout.strip().endswith("-m cuprof sweep measure=quick device=cpu")


@pytest.mark.parametrize(("cores", "jobs"), [("echo 2", "4"), ("echo 12", "16"), ("echo 64", "64"), ("exit 1", "auto")])
def test_few_cores_run_two_processes_of_tests_each(copy: Path, tmp_path: Path, cores: str, jobs: str) -> None:
    program(tmp_path / "bin", "getconf", cores)
    done = make(copy, "--dry-run", "test")
    assert f"-m pytest -n {jobs} " in done.stdout


def test_check_runs_the_tests_unless_they_have_just_passed(copy: Path) -> None:
    whole, reused = make(copy, "--dry-run", "check").stdout, make(copy, "--dry-run", "check", "TESTED=1").stdout
    for tool in ("ruff format --check", "ruff check", "lint-imports", "-m mypy"):
        assert tool in whole
        assert tool in reused
    assert "-m pytest" in whole
    assert "-m pytest" not in reused


def test_the_continuous_integration_runs_both() -> None:
    assert ROOT is not None
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert text.index("\nmake check TESTED=1 >") < text.index("\nmake test || ") < text.index('\nwait "$checked" || ')
    subprocess.run(["bash", "-n", str(script)], check=True)
