"""What a device lacks for a launch is found before it is launched, or refused by the driver, and is no failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.core.project import Project
from tests.conftest import Result

pytestmark = pytest.mark.gpu
FAMILY = '''
import numpy as np
from cuprof.families import Array, Axis, Family, Launch, Program, Signature, Tolerance, Tunable

family = Family(
    name="beyond", title="y = 2x", axes=(Axis("n", default=4096, low=1),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float32")}, {"y": Array((problem.n,), "float32")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n, dtype=np.float32)},
    reference=lambda problem, inputs: {"y": 2.0 * inputs["x"].astype(np.float64)},
    tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 8 * problem.n,
)
TUNABLES = (
    Tunable("block", (256, 512, 2048), 256), Tunable("words", (32, 5120, 16384), 32),
    Tunable("dynamic", (0, 40960, 204800, 409600), 0), Tunable("most", (256, 1024), 1024),
    Tunable("cluster", (1, 16), 1),
)


@family.cuda("twice", source="twice.cu", tunables=TUNABLES, constraint="cluster == 1 or (words == 32 and dynamic == 0)")
def twice(problem, tune):
    """Shared memory, threads and clusters to choose."""
    launch = Launch("twice", (16,), (tune.block,), ("x", "y", problem.n), tune.dynamic,
                    cluster=(tune.cluster,) if tune.cluster > 1 else ())
    return Program(steps=(launch,), defines={"WORDS": tune.words, "MOST": tune.most, "DYNAMIC": tune.dynamic})
'''
SOURCE = """
extern "C" __global__ void __launch_bounds__(MOST) twice(const float *x, float *y, int n) {
  __shared__ float kept[WORDS];
  extern __shared__ float more[];
  kept[threadIdx.x % WORDS] = 2.0f;
  if (DYNAMIC) more[threadIdx.x] = 1.0f;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = x[i] * kept[threadIdx.x % WORDS];
}
"""
SPACE = ("tune.block=all", "tune.words=all", "tune.dynamic=all", "tune.most=all", "tune.cluster=all")
QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.02", "measure.settle_seconds=0", "report=none")


def test_what_the_device_lacks_is_no_failure(project: Project, cli: Callable[..., Result]) -> None:
    folder = project.root / "kernels" / "beyond"
    folder.mkdir(parents=True)
    Path(folder, "family.py").write_text(FAMILY)
    Path(folder, "twice.cu").write_text(SOURCE)
    done = cli("sweep", "family=beyond", *SPACE, *QUICK, "output=json")
    assert done.exit_code == 0, done.err
    assert "impossible whatever the device: threads a block 2,048 > 1,024" in done.err
    trials = json.loads(done.out)["trials"]
    for trial in trials:
        tune = trial["tunables"]
        static, block = 4 * tune["words"], tune["block"]
        expected = "ok"
        if static > 48 * 1024 or static + tune["dynamic"] > 227 * 1024 or block > tune["most"]:
            expected = "impossible"
        if tune["cluster"] == 1:
            assert trial["state"] == expected, trial
        else:  # more blocks a cluster than are portable: what the device says of them counts
            assert trial["state"] in ("ok", "impossible"), trial
    again = cli("sweep", "family=beyond", *SPACE, *QUICK, "retry=failed")
    assert f"{len(trials)} trials, {len(trials)} of them stored already" in again.err
    lines = [line for line in again.out.splitlines() if "impossible on" in line]
    assert any("static shared memory a block 64 KiB > 48 KiB" in line for line in lines), lines
    assert len(lines) <= 4, lines
