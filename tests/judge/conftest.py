"""Judging small candidates on the CPU in real processes, in a project that holds a small family."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig, MeasureConfig, NcuConfig, SweepConfig
from cuprof.core.project import Project
from cuprof.engine.calibration import Calibrator
from cuprof.engine.observer import Observer
from cuprof.families.origin import Folder
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.contenders import check_file
from cuprof.judge.court import Request, judge
from cuprof.judge.report import Report
from cuprof.judge.warden import Warden
from cuprof.sandbox.probe import find_refusal
from tests.ncu.conftest import fake_ncu, make_trial, memory_store

__all__ = ["fake_ncu", "make_trial", "memory_store"]

ROOT = Path(__file__).parents[2]
FAMILIES = ROOT / "tests" / "data" / "families"
N = 2**12
QUICK = MeasureConfig(
    modes=("cold",), target=0.5, min_samples=6, max_samples=8, warmup=1, settle_seconds=0.0, flush="none"
)
"""Enough for an interval of the median; each sample takes the judge tens of milliseconds of a processor."""
FEW = replace(QUICK, min_samples=3, max_samples=3)
"""For rulings that no time decides."""


class Court:
    """A project, a folder of candidates, and the judge."""

    def __init__(self, root: Path, server: ForkServer) -> None:
        self.server = server
        self.project = Project(root / "project")
        self.family = self.project.root / "kernels" / "vector"
        self.folder = root / "candidates"
        self.folder.mkdir(parents=True)
        self.project.root.mkdir()
        (self.project.root / "cuprof.toml").touch()
        shutil.copytree(FAMILIES / "vector", self.family, ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, name: str, text: str) -> Path:
        """Write a candidate's file; of Python, NumPy is imported, and `right(inputs, outputs)` is there."""
        file = self.folder / name
        head = "import numpy as np\ndef right(inputs, outputs):\n    np.multiply(inputs['x'], 2, out=outputs['y'])\n"
        file.write_text((head if file.suffix == ".py" else "") + dedent(text))
        return file

    def judge(
        self,
        *files: Path,
        n: int | tuple[int, ...] = N,
        tune: dict[str, Any] | None = None,
        family: str = "vector",
        ncu: NcuConfig | None = None,
        sandbox: str = "auto",
        memory_bytes: int = 0,
        measure: MeasureConfig | None = None,
        **changes: Any,
    ) -> Report:
        config = SweepConfig(
            experiment="",
            family=family,
            problem={"n": n if isinstance(n, tuple) else (n,)},
            tune=tune or {},
            measure=measure or QUICK,
            limits=LimitsConfig(build_s=60, check_s=60, trial_s=120),
            ncu=ncu or NcuConfig(),
        )
        given = {"rounds": 1, "noise": 0.05, "as_root": True, **changes}
        places = [self.family.parent, FAMILIES, ROOT / "cuprof" / "cli" / "template" / "kernels", ROOT / "kernels"]
        folder = next(place / family for place in places if (place / family).is_dir())
        candidates = tuple(map(check_file, files))
        request = Request(config=config, origin=Folder(folder), candidates=candidates, **given)
        databases = [request.database] if request.database else []
        warden = Warden(self.project.root, candidates, sandbox, memory_bytes, databases).ask_system()
        return judge(request, self.project, Observer(), self.server, warden)


@pytest.fixture(scope="session")
def refusal() -> str:
    """Return why this system refuses namespaces, or the empty text."""
    return find_refusal()


@pytest.fixture
def namespaces(refusal: str) -> None:
    """Skip where this system refuses namespaces."""
    if refusal:
        pytest.skip(f"no namespaces here: {refusal}")


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """Return what starts the processes of candidates."""
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="session")
def make_court(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Iterator[Callable[[], Court]]:
    """Return what makes courts, each with a project of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calibrator, "calibrate", lambda *_: None)
        yield lambda: Court(tmp_path_factory.mktemp("my prüf"), server)


@pytest.fixture
def court(make_court: Callable[[], Court]) -> Court:
    """Return a court of one test's own."""
    return make_court()
