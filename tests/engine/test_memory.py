"""The memory of engine and worker over a long sweep, and a sweep where there is little of it.

`pytest -m slow tests/engine/test_memory.py` takes minutes; CUPROF_TRIALS says how many trials (2000).
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil
import pytest

from cuprof.core.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

FAMILIES = Path(__file__).parents[1] / "data" / "families"
TRIALS = int(os.environ.get("CUPROF_TRIALS", "2000"))
SAMPLES = 10_000
LIMIT_BYTES = 8 * 1024
"""How much a trial may add: a tenth of its samples as plain numbers, a three-hundredth of them as objects."""
GIBIBYTE = 2**30


def count_runs(path: Path) -> int:
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as connection:
        try:
            return int(connection.execute("SELECT COUNT(*) FROM run").fetchone()[0])
        except sqlite3.OperationalError:  # no tables yet
            return 0


def resident_bytes(engine: psutil.Process) -> tuple[int, int]:
    """Return what the engine holds, and the worker: of guardian and worker the larger one."""
    return engine.memory_info().rss, max(
        (each.memory_info().rss for each in engine.children(recursive=True)), default=0
    )


def test_memory_stays_flat(project: Project) -> None:
    shutil.copytree(FAMILIES / "restless", project.root / "kernels" / "restless")
    command = [
        sys.executable, "-m", "cuprof", "sweep", "family=restless", "variants=plain",
        f"problem.n=range(1,{TRIALS + 1})",
        "report=none", "measure.modes=[cold]", "measure.target=0.0001", f"measure.min_samples={SAMPLES}",
        f"measure.max_samples={SAMPLES}", "measure.max_seconds=1000", "measure.patience_seconds=1000",
        "measure.settle_seconds=0", "measure.flush=none",
    ]  # fmt: skip
    seen: list[tuple[int, int, int]] = []
    database = project.root / "db" / "cuprof.sqlite"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        engine = psutil.Process(process.pid)
        while (done := count_runs(database)) < TRIALS and process.poll() is None:
            if done:
                seen.append((done, *resident_bytes(engine)))
            time.sleep(0.25)
    assert process.returncode == 0
    trials, *held = np.array([each for each in seen if each[0] >= TRIALS // 4], dtype=float).T
    for who, rss in zip(("engine", "worker"), held, strict=True):
        slope = np.polyfit(trials, rss, 1)[0]
        print(f"{who}: {rss[0] / 2**20:.1f} MiB, then {rss[-1] / 2**20:.1f} MiB: {slope:.0f} B a trial")  # noqa: T201
        assert slope < LIMIT_BYTES, who
        assert np.median(rss[-len(rss) // 4 :]) - np.median(rss[: len(rss) // 4]) < LIMIT_BYTES * TRIALS / 2, who


def test_a_sweep_with_its_page_in_a_gibibyte_of_address_space(project: Project) -> None:
    command = [
        sys.executable, "-m", "cuprof", "sweep", "experiment=reduction", "device=cpu", "measure=quick",
        "problem.n=2**20,2**22",
    ]  # fmt: skip
    limit = (GIBIBYTE, GIBIBYTE)
    run = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit)
    )
    assert run.returncode == 0, run.stderr
    assert "CRASHED" not in run.stdout
    assert (project.root / "reports" / "out" / "reduction.html").exists()
