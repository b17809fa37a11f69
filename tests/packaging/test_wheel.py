"""The wheel works without the source tree: built, installed into an environment of its own, run from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from cuprof.core.project import BUNDLED, checkout

ROOT = checkout()
pytestmark = pytest.mark.skipif(ROOT is None, reason="not a source checkout")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    assert ROOT is not None
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scripts folder of an environment with the wheel; dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("environment with space")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*install, "--quiet", "--disable-pip-version-check"], check=True, capture_output=True, text=True)
    # A path that a .pth file adds has its own .pth files ignored: an editable install there does not come along.
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(installed: Path, folder: Path, *argv: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(installed / "cuprof"), *argv]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_archives_are_the_same_when_built_again(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    built = []
    for name in ("first", "second"):
        folder = tmp_path / name
        build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True)
        built.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert {Path(name).suffix for name in built[0]} == {".whl", ".gz"}
    assert built[0] == built[1]


def test_pipx_installs_it_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("pipx")
    folders = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man", "PIPX_SHARED_LIBS": "shared"}
    environment = {**os.environ, **{name: str(tmp_path / folder) for name, folder in folders.items()}}
    environment.pop("PYTHONPATH", None)
    # Python compiles what it imports: a small part of all files. To pip the variable is the value of "compile".
    environment["PIP_NO_COMPILE"] = "0"
    install = [sys.executable, "-m", "pipx", "install", "--python", sys.executable, str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False, env=environment, timeout=600)
    if "No matching distribution" in done.stderr + done.stdout or "connection" in (done.stderr + done.stdout).lower():
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [tmp_path / "bin" / "cuprof", "sweep", "reduction", "variants=cpu_numpy", "problem.n=2**12", "measure=quick"],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "cpu_numpy" in shown.stdout


def test_the_wheel_carries_the_bundled_folders(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for folder in BUNDLED:
        assert any(name.startswith(f"cuprof/_bundled/{folder}/") for name in names), folder
    assert "cuprof/_bundled/conf/config.yaml" in names
    assert "cuprof/_bundled/kernels/reduction/family.py" in names
    assert "cuprof/py.typed" in names
    assert "cuprof/cli/template/kernels/scale/plain.cu" in names


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"cuprof"}
    unwanted = (".sqlite", "/reports/out/", "__pycache__", "/artifacts/", "/jobs/")
    assert [name for name in names if any(part in name for part in unwanted) and not name.endswith(".sql")] == []


def test_it_finds_the_bundled_families_from_another_folder(installed: Path, tmp_path: Path) -> None:
    families = json.loads(run(installed, tmp_path, "list", "families", "--json"))
    by_name = {record["family"]: record for record in families}
    assert "_bundled" in by_name["reduction"]["folder"]
    assert by_name["reduction"]["variants"] > 5
    assert list(tmp_path.iterdir()) == []


def test_it_composes_the_projects_configuration_in_front(installed: Path, tmp_path: Path) -> None:
    run(installed, tmp_path, "init", "mine")
    shown = run(installed, tmp_path / "mine", "sweep", "experiment=scale", "--cfg", "job")
    assert "family: scale" in shown
    assert "project" in run(installed, tmp_path / "mine", "sweep", "--info", "searchpath")


def test_it_sweeps_and_reports(installed: Path, tmp_path: Path) -> None:
    settings = ["measure=quick", "variants=cpu_numpy", "problem.n=2**12", "output=json"]
    shown = json.loads(run(installed, tmp_path, "sweep", "reduction", *settings))
    assert [trial["state"] for trial in shown["trials"]] == ["ok"]
    assert Path(shown["report"]).is_file()
    rows = json.loads(run(installed, tmp_path, "query", "best", "--format", "json"))
    assert {row["variant"] for row in rows} == {"cpu_numpy"}
