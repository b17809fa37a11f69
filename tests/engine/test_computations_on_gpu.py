"""Every kind of output on a GPU: one family with a right variant and one that is wrong in each kind, in one sweep."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.project import Project
from cuprof.families.origin import load_family

pytestmark = pytest.mark.gpu

COMPUTATIONS = Path(__file__).parents[1] / "data" / "families" / "computations"
FIRST = {
    "in_place": "sums", "tolerance": "exact", "order": "exact", "border": "inner[1]", "count": "count[0]",
    "pairs": "kept", "misses": "kept_at", "sparse": "product[5]", "bfloat16": "brain[7]", "float8": "eighth[2048]",
    "complex": "rotated", "struct": "points.index[3]", "random": "verify: random numbers are uniform",
    "iterations": "verify: a root is off", "parts": "total[0]",
}  # fmt: skip
"""What the first words about a fault are."""


def test_each_kind_of_output_is_judged_in_checks_and_in_timed_executions(
    project: Project, cli: Callable[..., Any]
) -> None:
    shutil.copytree(COMPUTATIONS, project.root / "kernels" / "computations")
    faults = [name for name in load_family(COMPUTATIONS).variants if name.startswith("device")]
    given = cli(
        "sweep", "family=computations", f"variants=[{','.join(faults)}]", "tune.block=128,256", "measure=quick",
        "measure.modes=[cold,hot,total]", "output=json", "report=none",
    )  # fmt: skip
    trials = json.loads(given.out)["trials"]
    right = [trial for trial in trials if trial["variant"] == "device"]
    assert [(trial["state"], trial["message"]) for trial in right] == [("ok", "")] * 2
    assert {trial["tunables"]["block"] for trial in right} == {128, 256}
    for trial in right:
        assert trial["cold_ns"] > 2e3  # others on the device may take most of its time
        assert trial["hot_ns"] > 1e3
    wrong = {trial["variant"].removeprefix("device_"): trial for trial in trials if trial["variant"] != "device"}
    assert wrong.keys() == FIRST.keys()
    assert {name: trial["state"] for name, trial in wrong.items()} == dict.fromkeys(FIRST, "wrong_result")
    assert {
        name: trial["message"] for name, trial in wrong.items() if not trial["message"].startswith(FIRST[name])
    } == {}


SOURCE = """
extern "C" __global__ void relax(float *y, const float *x, float *shifted, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (y[i] + x[i]) * STEP;
    if (i > 0 && i < n) shifted[i] = x[i - 1];
}
"""
FAMILY = """
import numpy as np
from cuprof.families import *

array = lambda problem: Array((problem.n,), "float32")
family = Family(
    name="relaxed", title="in place, compared on the device", axes=(Axis("n", 100_003, low=2),),
    signature=lambda p: Signature({"x": array(p)}, {"y": array(p), "shifted": array(p)}),
    generate=lambda p, rng: {name: rng.uniform(1, 2, p.n).astype(np.float32) for name in "xy"},
    reference=lambda p, inputs: {
        "y": (inputs["y"] + inputs["x"].astype(np.float64)) / 2,
        "shifted": np.ma.masked_array(np.roll(inputs["x"], 1), np.arange(p.n) == 0),
    },
    tolerance=lambda p, inputs, e: {"y": Tolerance(relative=1e-6), "shifted": Tolerance()},
    useful_bytes=lambda p: 16 * p.n, in_place=("y",),
)

def register(name, step, late):
    @family.cuda(name, source="relax.cu", expected="wrong" if late else "right")
    def make(problem, tune):
        launch = Launch("relax", (-(-problem.n // 256),), (256,), ("y", "x", "shifted", problem.n))
        return Program((launch, *([Fill("shifted")] if late else ())), {"STEP": step})

register("right", "0.5f", False)
register("overwritten", "0.5f", True)
register("far", "0.50001f", True)
"""


def test_what_is_in_place_masked_and_of_its_own_tolerance_is_compared_on_the_device(
    project: Project, cli: Callable[..., Any]
) -> None:
    folder = project.root / "kernels" / "relaxed"
    folder.mkdir(parents=True)
    (folder / "family.py").write_text(FAMILY)
    (folder / "relax.cu").write_text(SOURCE)
    given = cli("sweep", "family=relaxed", "variants=all", "measure=quick", "output=json", "report=none")
    trials = {trial["variant"]: trial for trial in json.loads(given.out)["trials"]}
    assert (trials["right"]["state"], trials["right"]["message"]) == ("ok", "")
    assert re.match(r"shifted\[\d+\] = 0.0", trials["overwritten"]["message"])
    assert re.match(r"y\[\d+\]", trials["far"]["message"])
    (compared,) = {row[0] for row in project_rows(project)}
    assert compared >= 50  # on the host, comparing so many takes longer than is given to it


TORCH = """
import cuprof
import torch

def inputs(n=5000):
    kind = torch.%s
    return {name: torch.randn(n, device="cuda").to(kind) for name in "xy"}

def total(x, y):
    return (y.float() + x.float()).to(y.dtype)

def right(x, y):
    y.copy_(total(x, y))

def off(x, y):
    y.copy_((2 * total(x, y).float()).to(y.dtype))

cuprof.compare(right, off, inputs=inputs, in_place="y", reference=lambda x, y: x + y)
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_tensors_of_types_that_numpy_lacks_are_worked_on_in_place(
    project: Project, cli: Callable[..., Any], dtype: str
) -> None:
    pytest.importorskip("torch")
    (project.root / "tensors.py").write_text(TORCH % dtype)
    given = cli("sweep", "tensors.py", "measure=quick", "measure.modes=[cold]", "output=json", "report=none")
    trials = {trial["variant"]: trial for trial in json.loads(given.out)["trials"]}
    assert (trials["right"]["state"], trials["right"]["message"]) == ("ok", "")
    assert trials["off"]["state"] == "wrong_result"
    assert f"({dtype}: eps, and 8·√terms·eps of float32" in trials["off"]["message"]


def project_rows(project: Project) -> list[tuple[Any, ...]]:
    """Return how many executions of each timing were compared."""
    from cuprof.results.queries import query
    from cuprof.store.store import Store

    sql = "SELECT json_extract(details, '$.compared') FROM timing"
    with Store.open(project.database_url, create=False, read_only=True) as store:
        return list(query(store.url, sql).itertuples(index=False, name=None))
