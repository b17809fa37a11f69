"""What strangers try on a GPU: none is called good, and none makes an honest one beside it look worse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.judge.referee import LINGERS
from cuprof.judge.report import Candidate, Ruling
from tests.judge.conftest import QUICK

pytestmark = [pytest.mark.gpu, pytest.mark.alone, pytest.mark.timeout(900)]
FOLDER = Path(__file__).parent / "attempts_on_gpu"
STAYING = ("stays", "stays_between_requests", "meets_inputs_early", "short_kernels_of_a_thread")
FAMILY = '''
"""y = 2·x, three times over."""

from cuprof.families import Array, Axis, Family, Signature, Tolerance

family = Family(
    name="thrice",
    title="y = 2·x",
    axes=(Axis("n", default=2**20, description="numbers"),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, "float32")},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype("float64")},
    tolerance=lambda problem, inputs, expected: Tolerance(reason="a doubled number is exact"),
    useful_bytes=lambda problem: 8 * problem.n,
)


@family.library("thrice", requires="cupy")
def thrice(problem, tune, inputs, outputs):
    """Add three times."""
    import cupy

    x, y = inputs["x"], outputs["y"]
    return lambda: [cupy.add(x, x, out=y) for _ in range(3)]
'''


def judge(court: Any, name: str) -> dict[str, Candidate]:
    folder = court.family.parent / "thrice"
    folder.mkdir()
    (folder / "family.py").write_text(FAMILY)
    measure = replace(QUICK, min_samples=20, max_samples=20)
    report = court.judge(FOLDER / name, family="thrice", n=2**20, measure=measure)
    return {each.variant: each for each in report.candidates}


def test_executions_side_by_side_count_as_one_alone(court: Any) -> None:
    found = judge(court, "side_by_side.py")
    assert {name: each.ruling for name, each in found.items()} == dict.fromkeys(found, Ruling.NOT_FASTER)
    assert len(found) == 2


def test_half_of_the_results_remembered_are_found(court: Any) -> None:
    (found,) = judge(court, "remembers.py").values()
    assert found.ruling is Ruling.WRONG
    assert "it remembers results" in found.message


def test_none_stays_on_the_device(court: Any) -> None:
    found = judge(court, "stays_on_the_device.py")
    assert found.pop("honest").ruling is Ruling.GOOD
    found.pop("hoards_memory")  # it computes; what counts is that it has no memory of the device while others run
    seen = {name: (each.ruling, LINGERS in each.message) for name, each in found.items()}
    assert seen == dict.fromkeys(STAYING, (Ruling.UNUSABLE, True))
