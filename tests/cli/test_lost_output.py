"""A sweep does its work and tells the truth by its exit code, whatever becomes of its output."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cuprof.cli.init import make_project
from cuprof.core.project import Project

SWEEP = (
    f"{sys.executable} -m cuprof sweep experiment=scale device=cpu measure=quick report=none problem.n=64 "
    "measure.max_seconds=0.1 measure.settle_seconds=0"
)


@pytest.fixture
def wrong(project: Project) -> Path:
    """Make the example project, with a result that is wrong: the exit code is to be 1."""
    (project.root / "cuprof.toml").unlink()
    make_project(project.root)
    family = project.root / "kernels" / "scale" / "family.py"
    text = family.read_text()
    assert "np.float32(2)" in text
    family.write_text(text.replace("np.float32(2)", "np.float32(3)"))
    return project.root


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (f"{SWEEP} 2>&1 | head -n 1; exit ${{PIPESTATUS[0]}}", 1, ""),
        pytest.param(f"{SWEEP} >/dev/null 2>/dev/full", 1, "", marks=pytest.mark.slow),
        (f"{SWEEP} 1>&- 2>&- 0<&-", 1, ""),
        (f"{SWEEP} >/dev/full", 2, "error: the output cannot be written: No space left on device\n"),
    ],
)
def test_a_sweep(wrong: Path, line: str, code: int, told: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == code
    assert "Traceback" not in run.stdout + run.stderr
    assert run.stderr.endswith(told)
    with sqlite3.connect(wrong / "db" / "cuprof.sqlite") as database:
        states = database.execute("SELECT state FROM sweep").fetchall()
        trials = database.execute("SELECT count(*) FROM run").fetchone()
    database.close()
    assert states == [("finished",)]
    assert trials[0] >= 1


@pytest.mark.parametrize("argv", ["query", "compare --help"])
def test_a_closed_output_is_no_error(wrong: Path, argv: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = f"{sys.executable} -m cuprof {argv} 1>&-"
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
