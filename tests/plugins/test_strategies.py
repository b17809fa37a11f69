"""A search strategy of an installed package."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plugins.conftest import Run

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
'''
SETTINGS = ("family=kernels/steps/family.py", "tune.step=all", "measure=quick", "measure.modes=cold", "device=cpu")


def test_it_is_chosen_by_its_name_and_asked(cuprof: Run, tmp_path: Path) -> None:
    (tmp_path / "kernels/steps").mkdir(parents=True)
    (tmp_path / "kernels/steps/family.py").write_text(FAMILY)
    (tmp_path / "cuprof.toml").touch()
    done = cuprof("sweep", *SETTINGS, "search=backwards", "search.trials=2", "search.finalists=2", "report=none")
    assert done.returncode == 0, done.stderr
    tried = cuprof(
        "query", "--format=csv", "SELECT t.tunables FROM run AS r JOIN trial AS t ON t.id = r.trial_id"
    ).stdout
    assert {int(step) for step in re.findall(r"step\W+(\d)", tried)} == {7, 8}


def test_its_name_is_among_the_nearest(cuprof: Run) -> None:
    done = cuprof("sweep", "experiment=reduction", "search=backward")
    assert (done.returncode, done.stderr) == (2, "error: unknown search 'backward': did you mean backwards?\n")


def test_its_configuration_is_shown_like_any_other(cuprof: Run) -> None:
    done = cuprof("sweep", "experiment=reduction", "search=backwards", "--cfg", "job", "-p", "search")
    assert done.stdout.startswith("# @package search\nname: backwards\nbudget: ''\n")
