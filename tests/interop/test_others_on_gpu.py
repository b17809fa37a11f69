"""Three definitions in the schema of each benchmark: a solution in Triton, one in CUDA C++, one in PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.processes import child_environment
from tests.interop.samples import write_beside
from tests.interop.torch_samples import FLASHINFER_BENCH, SOL_EXECBENCH

pytestmark = pytest.mark.gpu
QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.3", "report=none", "output=json")
BUILD = """
import sys
from cuprof.interop.solutions import load_function
from cuprof.interop.schema import Solution
import msgspec
load_function(msgspec.json.decode(sys.argv[1], type=Solution))
"""
MODULES = {"sol": ("torch", "triton", "ninja"), "fib": ("torch", "triton", "ninja", "tvm_ffi")}


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Sweep all side by side whose modules are there; nvcc compiles before, since a sweep does so in its turn."""
    tasks = {("sol", form): task for form, task in SOL_EXECBENCH.items()}
    tasks |= {("fib", form): task for form, task in FLASHINFER_BENCH.items()}
    tasks = {key: task for key, task in tasks.items() if all(map(find_spec, MODULES[key[0]]))}
    folders = {key: tmp_path_factory.mktemp("_".join(key)) for key in tasks}
    building = {
        key: start(["-c", BUILD, json.dumps(task[2][0])], folders[key])
        for key, task in tasks.items()
        if key[1] == "cuda"
    }
    running = {}
    for key, task in sorted(tasks.items(), key=lambda each: each[0] in building):
        (folders[key] / "cuprof.toml").touch()
        (write_beside if key[0] == "sol" else write_set)(folders[key] / "task", *task)
        if key in building:
            assert not building[key].wait(timeout=100), (folders[key] / "err").read_text()
        running[key] = start(["-m", "cuprof", "sweep", "task", *QUICK], folders[key])
    codes = {key: process.wait(timeout=100) for key, process in running.items()}
    return {key: ([(folders[key] / name).read_text() for name in ("out", "err")], code) for key, code in codes.items()}


def start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        return subprocess.Popen([sys.executable, *words], cwd=folder, stdout=out, stderr=err, env=child_environment())


def write_set(root: Path, definition: Any, workloads: Any, solutions: Any) -> None:
    name = definition["name"]
    traces = [{"definition": name, "workload": each, "solution": None, "evaluation": None} for each in workloads]
    files = {f"definitions/op/{name}.json": [definition], f"workloads/op/{name}.jsonl": traces}
    files |= {f"solutions/somebody/op/{name}/{each['name']}.json": [each] for each in solutions}
    for place, contents in files.items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text("\n".join(map(json.dumps, contents)))


@pytest.mark.parametrize("form", ["triton", "cuda", "torch"])
@pytest.mark.parametrize("benchmark_of", ["sol", "fib"])
def test_solutions_run_and_are_judged(sweeps: dict[tuple[str, str], Any], benchmark_of: str, form: str) -> None:
    for module in MODULES[benchmark_of]:
        pytest.importorskip(module)
    (out, err), code = sweeps[benchmark_of, form]
    assert out, err
    trials = json.loads(out)["trials"]
    states = {(trial["variant"], trial["problem"][next(iter(trial["problem"]))]): trial for trial in trials}
    sys.stdout.write(
        "\n".join(f"{key} {trial['state']} {trial['cold_ns']} {trial['message']}" for key, trial in states.items())
    )
    solutions = {"triton": "one_row", "cuda": "elementwise", "torch": "index_add"}
    for size in (16, 1024):
        for variant in ("reference", solutions[form]):
            assert states[variant, size]["state"] == "ok", (states[variant, size]["message"], err)
            assert states[variant, size]["cold_ns"] > 500
        if form == "triton":
            assert states["no_weight", size]["state"] == "wrong_result"
    assert code == (1 if form == "triton" else 0)
