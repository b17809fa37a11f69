"""A back end of an installed package."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.conftest import Run
from tests.plugins.test_strategies import FAMILY

VARIANT = """
@family.library("beads", backend="abacus", requires="numpy")
def beads(problem, tune, inputs, outputs):
    \"\"\"One call.\"\"\"
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
"""


def test_its_variants_are_checked_timed_and_listed(cuprof: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels/steps").mkdir(parents=True)
    (tmp_path / "kernels/steps/family.py").write_text(FAMILY + VARIANT)
    (tmp_path / "cuprof.toml").touch()
    assert "abacus" in cuprof("list", "devices").stdout
    done = cuprof(
        "sweep", "family=kernels/steps/family.py", "variants=beads", "device.backends=[abacus]", "measure=quick",
        "measure.modes=cold", "report=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    query = "SELECT v.backend, r.state FROM run AS r JOIN trial AS t ON t.id = r.trial_id "
    found = cuprof("query", "--format=csv", query + "JOIN variant AS v ON v.id = t.variant_id")
    assert "abacus,ok" in found.stdout, (found.stdout, found.stderr, done.stdout)
