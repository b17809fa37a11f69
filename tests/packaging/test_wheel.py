"""The wheel works without the source tree: built, installed into an environment of its own, run from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from cuprof.core.project import BUNDLED, checkout

ROOT = checkout()
pytestmark = pytest.mark.skipif(ROOT is None, reason="not a source checkout")


def build(folder: Path) -> Path:
    """Build both archives into a folder; return the wheel."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def list_needed(requirements: Iterable[str], extras: Iterable[str] = ("",)) -> Iterator[Distribution]:
    """Yield the installed packages that requirements ask for, and what those need."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            found = distribution(requirement.name)
            assert requirement.specifier.contains(found.version, prereleases=True), f"{requirement}: {found.version}"
            yield found
            yield from list_needed(found.requires or (), ("", *requirement.extras))


def link(folder: Path, packages: Iterable[Distribution]) -> None:
    """Make the files of installed packages, with their bytecode, part of another environment."""
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for package in packages:
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (purelib / top).exists():
                (purelib / top).symlink_to(Path(str(package.locate_file(top))))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let pipx install the wheel; return the folder of its commands.

    What the wheel's metadata asks for comes from this environment, and nothing else does: pip takes a minute's work to
    install it all, where the package index can be reached.
    """
    pytest.importorskip("pipx")
    root = tmp_path_factory.mktemp("environment with space")
    folders = {"PIPX_HOME": "home", "PIPX_BIN_DIR": "bin", "PIPX_MAN_DIR": "man", "PIPX_SHARED_LIBS": "shared"}
    (metadata,) = (path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    for folder, packages in {
        root / "shared": [distribution("pip")],
        root / "home" / "venvs" / "cuprof": list_needed(PathDistribution(metadata).requires or ()),
    }.items():
        venv.create(folder, with_pip=False, symlinks=True)
        link(folder, packages)
    install = [
        sys.executable,
        "-m",
        "pipx",
        "install",
        "--force",
        "--skip-maintenance",
        "--pip-args=--no-deps --no-index",
    ]
    settings = {name: str(root / folder) for name, folder in folders.items()}
    environment = {**os.environ, **settings, "PIP_NO_COMPILE": "0"}  # to pip it is the value of "compile"
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([*install, str(wheel)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return root / "bin"


def run(installed: Path, folder: Path, *argv: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(installed / "cuprof"), *argv]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_archives_are_the_same_when_built_again(wheel: Path, tmp_path: Path) -> None:
    build(tmp_path)
    first, again = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (wheel.parent, tmp_path))
    assert {Path(name).suffix for name in first} == {".whl", ".gz"}
    assert first == again


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


def test_it_sweeps_and_reports(installed: Path, tmp_path: Path) -> None:
    settings = ["measure=quick", "variants=cpu_numpy", "problem.n=2**12", "output=json"]
    shown = json.loads(run(installed, tmp_path, "sweep", "reduction", *settings))
    assert [trial["state"] for trial in shown["trials"]] == ["ok"]
    assert Path(shown["report"]).is_file()
    rows = json.loads(run(installed, tmp_path, "query", "best", "--format", "json"))
    assert {row["variant"] for row in rows} == {"cpu_numpy"}
