"""A launcher of an installed package."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.conftest import Run
from tests.plugins.test_strategies import FAMILY, SETTINGS


def test_it_starts_the_jobs_and_later_ones_find_the_sweep_complete(cuprof: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels/steps").mkdir(parents=True)
    (tmp_path / "kernels/steps/family.py").write_text(FAMILY)
    (tmp_path / "cuprof.toml").touch()
    done = cuprof("sweep", *SETTINGS, "launch=queue", "launch.jobs=2", "report=none")
    assert done.returncode == 0, done.stderr
    assert "2 jobs started by queue" in done.stderr
    assert "sweep 1 is complete already" in done.stderr
    assert cuprof("query", "--format=csv", "SELECT COUNT(*) AS n FROM sweep").stdout.split() == ["n", "1"]


def test_its_name_is_among_the_nearest(cuprof: Run) -> None:
    done = cuprof("sweep", "experiment=reduction", "launch=queu")
    assert (done.returncode, done.stderr) == (2, "error: unknown launch 'queu': did you mean queue?\n")
