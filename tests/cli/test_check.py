"""cuprof check: what compiles for an architecture, and what does not, by file and line; no GPU is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.core.project import Project
from tests.conftest import Result

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

FILE = """
import numpy as np
import cuprof

def inputs(rng, n=64):
    return {"y": np.empty(n, np.float32), "x": rng.random(n, np.float32), "n": np.int32(n)}

twice = cuprof.kernel("twice", source="twice.cu", threads="n", block_size_x=[32, 64], REAL=["float", "double"])
cuprof.compare(twice, inputs=inputs, outputs="y", reference=lambda x: 2 * x)
"""
SOURCE = (
    '#include "half.cuh"\nextern "C" __global__ void twice(float *y, const float *x, int n) { y[0] = two() * x[0]; }\n'
)

CALLS = """
from cuprof import Array, Axis, Family, Invoke, Launch, Program, Signature, Tolerance

ARRAY = Array((8,), "float32")
family = Family(
    name="calls", title="calls", axes=(Axis("n", default=8, low=1, high=8),),
    signature=lambda problem: Signature({"x": ARRAY}, {"y": ARRAY}), generate=lambda problem, rng: {},
    reference=lambda problem, inputs: {}, tolerance=lambda problem, inputs, reference: Tolerance(),
    useful_bytes=lambda problem: 64,
)

@family.kernel("right", backend="cpu", source="a.c", compiler="gcc")
def right(problem, tune):
    return Program((Invoke("run", ("x", "y", problem.n)),))

@family.kernel("c", backend="cpu", source="a.c", compiler="gcc")
def in_c(problem, tune):
    return Program((Invoke("run", ("x", "y")),))

@family.opencl("opencl", source="a.cl")
@family.cuda("cuda", source="a.cu")
def launched(problem, tune):
    return Program((Launch("run", (1,), (8,), ("x", "y")),))
"""


@pytest.fixture
def folder(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUPROF_CACHE", str(project.root / "cache"))
    (project.root / "mine.py").write_text(FILE)
    (project.root / "twice.cu").write_text(SOURCE)
    (project.root / "half.cuh").write_text(
        "__device__ float one() { return 1; }\n__device__ REAL two() { return 2; }\n"
    )
    return project.root


def test_all_choices_of_tunables_are_compiled(folder: Path, cli: Callable[..., Result]) -> None:
    done = cli("check", "mine.py")
    assert (done.exit_code, done.out) == (0, "4 of 4 programs compile for sm_90\n")
    assert cli("check", "family=mine.py").out == done.out  # as cuprof sweep takes it


def test_what_is_refused_is_told_once_by_file_and_line(folder: Path, cli: Callable[..., Result]) -> None:
    (folder / "half.cuh").write_text("\n__device__ REAL two() { return undefined; }\n")
    done = cli("check", "mine.py", "tune.REAL=float", "--arch", "sm_80")
    assert (done.exit_code, done.out) == (1, "0 of 2 programs compile for sm_80\n")
    assert done.err.count("failed:") == 1
    assert 'and 1 more: NVRTC refused twice.cu for sm_80: half.cuh(2): error: identifier "undefined"' in done.err


@pytest.mark.parametrize(
    ("launched", "compiled", "there"),
    [
        ("twcie", "twice", "twice"),
        ("twice", "ns::twice", "ns::twice(float*, float const*, int)"),
        ("twice", "template", "none; a template is named with its arguments"),
    ],
)
def test_a_kernel_that_is_not_there_is_told(
    folder: Path, cli: Callable[..., Result], launched: str, compiled: str, there: str
) -> None:
    plain = SOURCE.replace('extern "C" ', "")
    texts = {
        "twice": SOURCE,
        "ns::twice": f"namespace ns {{\n{plain}}}\n",
        "template": plain.replace("__gl", "template <typename T> __gl"),
    }
    (folder / "twice.cu").write_text(texts[compiled])
    (folder / "mine.py").write_text(FILE.replace('kernel("twice"', f'kernel("{launched}"'))
    done = cli("check", "mine.py")
    assert (done.exit_code, done.out) == (1, "0 of 4 programs compile for sm_90\n")
    assert f"twice.cu has no kernel {launched}; there are {there}" in done.err


def test_an_architecture_that_nobody_knows_is_told(folder: Path, cli: Callable[..., Result]) -> None:
    done = cli("check", "mine.py", "--arch", "sm_1")
    assert done.exit_code == 2
    assert "unknown architecture 'sm_1'; this compiler knows sm_" in done.err


def test_calls_that_do_not_fit_their_source_are_failures_wherever_it_is_compiled(
    cli: Callable[..., Result], project: Project
) -> None:
    folder = project.root / "kernels" / "calls"
    folder.mkdir(parents=True)
    (folder / "a.c").write_text("int run(const float *x, float *y, int n) { return 0; }\n")
    (folder / "a.cl").write_text("__kernel void run(__global float *x, __global float *y, int n) {}\n")
    (folder / "a.cu").write_text('extern "C" __global__ void run(float *x, float *y, int n) {}')
    (folder / "family.py").write_text(CALLS)
    done = cli("check", "calls")
    assert done.exit_code == 1
    assert done.err.startswith("failed: calls/c · n=8 and 2 more: run takes 3 arguments (x, y, n), and is given 2")
    assert "calls/right" not in done.err
    assert done.out == (
        "0 of 1 programs compile for sm_90\n"
        "1 of 3 programs call their source with the parameters it declares\n"
        "compiled where they run: right, c, opencl\n"
    )


def test_what_is_not_compiled_ahead_is_said_to_be_checked_by_a_sweep(
    cli: Callable[..., Result], project: Project
) -> None:
    done = cli("check", "reduction", "variants=cpu_*")
    assert (done.exit_code, done.err) == (0, "")
    assert done.out == "functions and libraries, checked by cuprof sweep alone: cpu_serial, cpu_numpy, cpu_parallel\n"
