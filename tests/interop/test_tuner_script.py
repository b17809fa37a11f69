"""A script of Kernel Tuner's is swept as it is: what its call of `tune_kernel` says is what is planned and judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cuprof.core.errors import FamilyError
from cuprof.core.project import Project
from cuprof.families import Family, Point
from cuprof.families.fingerprint import contract_text, hash_text
from cuprof.interop.origins import TunerScript, find_origin
from tests.conftest import Result

SCRIPT = """
import json

import numpy as np
import kernel_tuner
from kernel_tuner import tune_kernel
from kernel_tuner.observers.nvml import NVMLObserver


class Seen(NVMLObserver):
    pass


def check(answer, result, atol=None):
    return np.isclose(answer[0], result[0].sum(), atol=atol)


def tune():
    n = np.int32(1000)
    x = np.random.rand(n).astype(np.float32)
    y = np.zeros_like(x)
    source = \"\"\"
    // scale(1) is no signature
    __global__ void scale(float *y, const float *x, /* how many */ int n) {
        y[blockIdx.x * block_size_x + threadIdx.x] = 2 * x[0];
    }\"\"\"
    results, _ = tune_kernel("scale", source, (n, 3), [y, x, n], {"block_size_x": [32, 64], "tile": [1, 2, 4]},
        grid_div_x=["block_size_x", "tile"], restrictions=["tile < 4", lambda p: p["block_size_x"] * p["tile"] != 64],
        answer=[2 * x, None, None], observers=[Seen()], strategy="mls", atol=1e-3)
    json.dump(results, open("written.json", "w"))


if __name__ == "__main__":
    print("told by the script")
    tune()
"""
CL = """
import numpy as np
import kernel_tuner

SOURCE = \"\"\"__kernel void fill(__global float *y, const int n)
{
    const int i = get_global_id(0);
    if (i < n) y[i] += i % by;
}\"\"\"
y = np.ones(1000, np.float32)
kernel_tuner.tune_kernel("fill", SOURCE, "1000 * 1", [y, np.int32(1000)], dict(block_size_x=[50], by=[7, 8]))
"""


@pytest.fixture
def load(project: Project) -> Callable[..., Family]:
    def made(old: str = "", new: str = "", text: str = SCRIPT) -> Family:
        assert old in text
        script = project.root / "script.py"
        script.write_text(text.replace(old, new))
        assert isinstance(find_origin(str(script), []), TunerScript)
        loaded = find_origin(str(script), ()).load()
        assert loaded.sample
        loaded.learn({GIVEN: loaded.sample(GIVEN)})
        return loaded

    return made


GIVEN = Point(inputs="given")


def program(family: Family, **tunables: Any) -> Any:
    (variant,) = family.variants.values()
    return variant.make(GIVEN, Point(**tunables))


def test_its_launch_and_macros_are_kernel_tuners(load: Callable[..., Family], capsys: Any, project: Project) -> None:
    made = program(load(), block_size_x=32, tile=2)
    (launch,) = made.steps
    assert (launch.kernel, launch.grid, launch.block) == ("scale", (16, 3, 1), (32, 1, 1))
    assert launch.args == ("y", "x", np.int32(1000))
    assert made.defines == {
        "block_size_x": 32, "tile": 2, "block_size_y": 1, "block_size_z": 1, "grid_size_x": 16, "grid_size_y": 3,
        "grid_size_z": 1, "kernel_tuner": 1,
    }  # fmt: skip
    told = capsys.readouterr()
    assert (told.out, "told by the script" in told.err) == ("", True)
    assert not (project.root / "written.json").exists()


def test_what_nvrtc_does_not_compile_is_left_to_nvcc_as_there(load: Callable[..., Family]) -> None:
    (plain,), (other,) = (
        load("// scale(1) is no signature", line).variants.values() for line in ("", "#include <cub/cub.cuh>")
    )
    assert (plain.compiler, other.compiler) == ("", "nvcc")


def test_restrictions_are_texts_and_functions_of_the_tunables(load: Callable[..., Family]) -> None:
    constraint = load().variants["scale"].constraint
    assert constraint is not None
    allowed = [
        (block, tile) for block in (32, 64) for tile in (1, 2, 4)
        if constraint(GIVEN, Point(block_size_x=block, tile=tile)) is None
    ]  # fmt: skip
    assert allowed == [(32, 1), (64, 2)]


def test_its_answer_is_what_is_right_and_what_that_leaves_out_need_not_be_written(load: Callable[..., Family]) -> None:
    family = load("const float", "float")
    assert family.in_place == ("y", "x")
    inputs = family.generate(GIVEN, np.random.default_rng(1))
    expected = family.reference(GIVEN, inputs)
    assert np.array_equal(expected["y"], 2 * inputs["x"])
    assert np.ma.getmaskarray(expected["x"]).all()
    tolerance = family.tolerance(GIVEN, inputs, expected)
    assert (tolerance.absolute, tolerance.relative) == (1e-3, 1e-5)
    assert family.useful_bytes(GIVEN) == 8000  # each array once: nobody knows which of them is read and written


def test_its_verify_judges(load: Callable[..., Family]) -> None:
    family = load("answer=[2 * x, None, None]", "answer=[x.sum(), None, None], verify=check")
    inputs = family.generate(GIVEN, np.random.default_rng(1))
    assert family.verify is not None
    assert family.verify(GIVEN, inputs, {"y": inputs["x"]}, {}) is True
    assert family.verify(GIVEN, inputs, {"y": 2 * inputs["x"]}, {}) is False


def test_arrays_that_its_verify_is_not_given_are_left_where_they_are(load: Callable[..., Family]) -> None:
    judged = SCRIPT.replace("answer=[2 * x, None, None]", "answer=[x.sum(), None, None], verify=check")
    family = load("const float", "float", judged)
    assert (family.in_place, family.judged) == (("y", "x"), ("y",))
    assert load("answer=[2 * x, None, None], ", "").judged is None  # all are held to the first configuration's


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("", "", "135bcfd804c7"),
        ("answer=[2 * x, None, None]", "answer=[x.sum(), None, None], verify=check", "f2363a51cd0f"),
        ("answer=[2 * x, None, None], ", "", "06d1d31d6670"),
    ],
    ids=["answer", "verify", "neither"],
)
def test_what_decides_a_script_s_results_is_known_as_before(
    load: Callable[..., Family], old: str, new: str, known: str
) -> None:
    assert hash_text(contract_text(load(old, new)))[:12] == known


def test_an_answer_of_run_kernel_leaves_each_configuration_held_to_the_first(load: Callable[..., Family]) -> None:
    old = "answer=[2 * x, None, None]"
    family = load(old, "answer=[kernel_tuner.run_kernel('f', '', n, [y, x, n], {})[0], None, None], verify=check")
    assert family.verify is not None
    problem, held = GIVEN, family.generate(GIVEN, np.random.default_rng(1))
    assert family.verify(problem, held, {"y": held["x"]}, {}) is None
    assert "not what the first configuration gave" in str(family.verify(problem, held, {"y": 2 * held["x"]}, {}))


def test_partial_results_of_as_many_elements_as_there_are_blocks_are_held_to_their_sum(
    load: Callable[..., Family],
) -> None:
    family = load("answer=[2 * x, None, None], ", "")
    assert family.verify is not None
    held = family.generate(GIVEN, np.random.default_rng(1))
    half, whole = np.zeros((2, 1000), np.float32)
    half[:500], whole[:] = 3, 1.5
    assert family.verify(GIVEN, held, {"y": whole}, {}) is None
    assert family.verify(GIVEN, held, {"y": half}, {}) is None
    assert family.verify(GIVEN, held, {"y": 1.1 * half}, {})
    assert family.verify(GIVEN, held, {"y": whole[::-1] * np.linspace(0.5, 1.5, 1000, dtype="f4")}, {})


@pytest.mark.parametrize(
    ("old", "new", "blocks", "macros"),
    [
        ("strategy=", "block_size_names=['a', 'b', 'c'], strategy=", (256, 1, 1), {"a": 256}),
        ("block_size_x\": [32", "block_size_y\": [32", (256, 32, 1), {"block_size_x": 256}),
        ("atol=", "defines={'T': 'tile', 'W': lambda p: 2 * p['tile']}, atol=", (32, 1, 1), {"T": "1", "W": "2"}),
    ],
)  # fmt: skip
def test_names_of_blocks_and_macros_of_its_own(
    load: Callable[..., Family], old: str, new: str, blocks: Any, macros: dict[str, Any]
) -> None:
    name = "block_size_y" if "block_size_y" in new else "block_size_x"
    family = load(old, new, SCRIPT.replace('["block_size_x", "tile"]', '"tile"').replace('p["block_size_x"]', "64"))
    made = program(family, **{name: 32, "tile": 1})
    assert made.steps[0].block == blocks
    assert macros.items() <= made.defines.items()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    tune()", "    pass", "calls no kernel_tuner.tune_kernel"),
        ("source = ", "raise ValueError('no'); source = ", r"raised ValueError: no \(script.py, line 22, in tune\)"),
        ("source, (n", "sum(kernel_tuner.run_kernel(0, 1, 2, [3])), (n", "run_kernel gives is not known here; compute"),
        ("strategy=", "lang='Fortran', strategy=", "lang='Fortran' of tune_kernel is not supported; CUDA and OpenCL"),
        ("source, (n", "lambda p: '', (n", "a kernel_source that is a function of tune_kernel"),
        ("[2 * x, None, None]", "[2 * x]", "an answer of 1 parts for 3 arguments"),
        ("[y, x, n]", "[y, x, Seen()]", "argument 2, a Seen of tune_kernel"),
        ("strategy=", "texmem_args={'t': x}, strategy=", "texmem_args"),
        ('{"block_size_x": [32, 64], "tile": [1, 2, 4]}', "[32]", "given what it cannot take: AttributeError: 'list'"),
        ("[32, 64]", "64", "given what it cannot take: TypeError: 'int'"),
        ("[y, x, n]", "n", "given what it cannot take: TypeError: 'numpy.int32'"),
        ("[2 * x, None, None]", "2", "given what it cannot take: TypeError: 'int'"),
        ("atol=1e-3)\n    json", "atol=[1])\n    json", "given what it cannot take: TypeError: float"),
    ],
)  # fmt: skip
def test_what_is_not_taken_in_is_one_line(load: Callable[..., Family], old: str, new: str, told: str) -> None:
    with pytest.raises(FamilyError, match=told):
        load(old, new)


def test_what_is_said_of_a_script_names_it_alone(project: Project, cli: Callable[..., Result]) -> None:
    (project.root / "script.py").write_text(SCRIPT.replace("    tune()", "    pass"))
    told = cli("sweep", "script.py", "dry_run=true").err
    assert told.splitlines()[-1].startswith(f"error: {project.root / 'script.py'} calls no kernel_tuner.tune_kernel")
    assert "families" not in told


def test_a_script_is_swept_by_its_name(project: Project, cli: Callable[..., Result]) -> None:
    pytest.importorskip("pyopencl")
    (project.root / "script.py").write_text(CL)
    quick = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.02", "measure.settle_seconds=0")
    done = cli("sweep", "script.py", *quick, "report=none", "output=json")
    if "an OpenCL device is not available" in done.err:
        pytest.skip("no OpenCL device")
    trials = json.loads(done.out)["trials"]
    assert [(trial["tunables"]["by"], trial["state"]) for trial in trials] == [(7, "ok"), (8, "wrong_result")]
    assert "elements of y are not what the first configuration gave" in trials[1]["message"]


def test_nan_is_near_nan_alone(load: Callable[..., Family]) -> None:
    family = load("answer=[2 * x, None, None], ", "")
    assert family.verify is not None
    held = family.generate(GIVEN, np.random.default_rng(1))
    first, other = np.ones((2, 1000), np.float32)
    first[3] = np.nan
    assert family.verify(GIVEN, held, {"y": first}, {}) is None
    assert family.verify(GIVEN, held, {"y": other}, {})
    other[3:5] = np.nan, np.float32(1) + np.float32(2e-7)
    assert family.verify(GIVEN, held, {"y": other}, {}) is None
