"""Counters of a candidate and of the reduction family's baseline, by the real ncu on a real GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuprof.config.model import MeasureConfig, NcuConfig, SweepConfig
from cuprof.core.errors import ProfilerError
from cuprof.core.project import Project, bundled
from cuprof.engine.observer import Observer
from cuprof.families.origin import Folder
from cuprof.judge.border.fork_server import ForkServer
from cuprof.judge.contenders import check_file
from cuprof.judge.court import Request, judge
from cuprof.judge.report import Report, Ruling
from cuprof.judge.warden import Warden
from cuprof.ncu.executable import get_executable

pytestmark = [pytest.mark.gpu, pytest.mark.alone, pytest.mark.timeout(900)]

N = 2**22
METRICS = ("launch__grid_size", "launch__block_size", "dram__bytes_read.sum", "smsp__inst_executed.sum")
FAMILY = bundled("kernels") / "reduction"
SUM = """
import cupy

@family.library("mine", requires="cupy")
def mine(problem, tune, inputs, outputs):
    return lambda: cupy.sum(inputs["x"], out=outputs["sum"].reshape(()))
"""


def _judge(root: Path, *files: Path, sandbox: str = "auto", **changes: Any) -> Report:
    measure = MeasureConfig(modes=("hot",), target=0.5, min_samples=30, max_samples=40, warmup=1, settle_seconds=0.0)
    config = SweepConfig(
        experiment="",
        family="reduction",
        problem={"n": (N,), "dtype": ("float32",)},
        measure=measure,
        ncu=NcuConfig(name="named", metrics=METRICS),
    )
    candidates = tuple(map(check_file, files))
    request = Request(
        config,
        Folder(FAMILY),
        candidates,
        like="last_warp",
        rounds=1,
        noise=0.05,
        counters=True,
        as_root=True,
        **changes,
    )
    project = root / "project"
    project.mkdir(exist_ok=True)
    warden = Warden(project, candidates, sandbox).ask_system()
    with ForkServer() as server:
        report = judge(request, Project(project), Observer(), server, warden)
    assert not list(project.iterdir())
    return report


def _counted(report: Report, variant: str) -> dict[str, tuple[Any, Any]]:
    """Return metric → values of baseline and candidate, which has been found right."""
    (found,) = (each for each in report.candidates if each.variant == variant)
    assert found.ruling in (Ruling.GOOD, Ruling.NOT_FASTER), found
    return {one.metric: (one.base, one.new) for one in found.counters}


def test_a_source_is_counted_beside_its_baseline_and_host_code_without_a_sandbox_alone(tmp_path: Path) -> None:
    try:
        get_executable()
    except ProfilerError as error:
        pytest.skip(str(error))
    source, python = tmp_path / "rewritten.cu", tmp_path / "mine.py"
    source.write_text((FAMILY / "last_warp.cu").read_text())
    python.write_text(SUM)
    report = _judge(tmp_path, source, python, database=tmp_path / "kept.sqlite")
    counters = _counted(report, "rewritten")
    assert tuple(counters) == METRICS, report.notes
    assert counters["launch__grid_size"] == (N // 64, N // 128)  # the baseline has one element a thread
    assert counters["launch__block_size"] == (64, 64)
    assert counters["dram__bytes_read.sum"] == pytest.approx((4 * N, 4 * N), rel=0.05)
    base, new = counters["smsp__inst_executed.sum"]
    assert new < base / 1.5
    assert _counted(report, "mine") == {}
    assert [note for note in report.notes if "--sandbox=off allows it" in note] == list(report.notes)[-1:]
    assert len(list((tmp_path / "artifacts").glob("*.ncu-rep"))) == 2

    report = _judge(tmp_path, python, sandbox="off")
    counters = _counted(report, "mine")
    assert tuple(counters) == METRICS, report.notes
    assert counters["dram__bytes_read.sum"] == pytest.approx((4 * N, 4 * N), rel=0.05)
    assert counters["launch__grid_size"][1] < N // 64
