"""Judging small candidates on the CPU in real processes, in a project that holds a small family."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from cuprof.judge.border.signals import Ask
from cuprof.judge.border.suspect import Lap, Suspect
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
PATIENCE_S = 100.0
"""How long one step of a candidate may take whose limits are not what is tested, however busy the host is."""
TRIP_NS = 100_000


def take_each(execution_ns: int) -> Callable[[int, int], int]:
    """Return what gives the nanoseconds of a request on an even host, where an execution on any set takes as long."""
    return lambda prepared, count: TRIP_NS + count * execution_ns


take_as_long = take_each(1_000_000)


@contextmanager
def even_host(
    durations: Callable[[str], Callable[[int, int], int] | None] = lambda file: take_as_long,
    is_limited: Callable[[str, bytes], bool] = lambda file, ask: False,
) -> Iterator[None]:
    """Let what others do on this host decide nothing: requests are carried out, and their times are given.

    Args:
        durations: of a file, told its name, or of the baseline, whose file has no name: what gives the duration of a
            request from how many sets its process has prepared and how many executions it asks for. None leaves the
            clock as it is.
        is_limited: whether limits hold, told a file's name and what its process is asked.
    """
    begin, send, answer, clock = Suspect.__init__, Suspect.send, Suspect.await_answer, Suspect._clock_stopped
    asked: dict[int, tuple[str, bytes, int]] = {}

    def begin_named(self: Suspect, server: ForkServer, task: Any, *others: Any) -> None:
        extension = getattr(task, "job", task).extension
        asked[id(self)] = Path(extension.file).name if extension else "", b"", 0
        begin(self, server, task, *others)

    def send_and_note(self: Suspect, ask: bytes, count: int = 0) -> None:
        file, _, prepared = asked[id(self)]
        asked[id(self)] = file, ask, max(prepared, count if ask == Ask.PREPARE else 0)
        send(self, ask, count)

    def await_for_long(self: Suspect, limit_s: float, *kinds: Sequence[bytes]) -> bytes:
        file, ask, _ = asked[id(self)]
        if not is_limited(file, ask):
            limit_s, self.deadline = PATIENCE_S, time.monotonic() + PATIENCE_S
        return answer(self, limit_s, *kinds)

    def clock_evenly(self: Suspect, ask: bytes, count: int, *others: Any) -> Lap:
        lap, (file, _, prepared) = clock(self, ask, count, *others), asked[id(self)]
        if (given := durations(file)) is None:
            return lap
        return Lap(given(prepared, count), is_sound=not lap.is_stirred, is_stirred=lap.is_stirred)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Suspect, "__init__", begin_named)
        patch.setattr(Suspect, "send", send_and_note)
        patch.setattr(Suspect, "await_answer", await_for_long)
        patch.setattr(Suspect, "_clock_stopped", clock_evenly)
        yield


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


@pytest.fixture
def _even_host() -> Iterator[None]:
    """Let what others do on this host decide nothing."""
    with even_host():
        yield


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
