"""A package with extensions, installed as a user would install it, into a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuprof.core import plugins
from tests.conftest import Result

PACKAGE = Path(__file__).with_name("package")
FAMILY = '''
import numpy as np
from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="steps", title="y = 2x", axes=(Axis("n", default=64, low=1),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)


@family.cpu("host", tunables=(Tunable("step", tuple(range(1, 9)), default=1),))
def host(problem, tune, inputs, outputs):
    """One call."""
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])


@family.library("beads", backend="abacus", requires="numpy")
def beads(problem, tune, inputs, outputs):
    """One call."""
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
'''


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the package is installed in."""
    pytest.importorskip("hatchling")
    source = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("source") / "package")
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)
    return target


@pytest.fixture
def cuprof(
    installed: Path, cli: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Result]]:
    """Return what runs a command line where the package is installed, in a project that has a small family."""
    paths = [str(installed), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # for the processes that it starts
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cuprof.toml").touch()
    (tmp_path / "kernels/steps").mkdir(parents=True)
    (tmp_path / "kernels/steps/family.py").write_text(FAMILY)
    plugins._installed.cache_clear()
    yield cli
    plugins._installed.cache_clear()
