"""Definitions, workloads and solutions of FlashInfer-Bench and SOL-ExecBench are swept as they are."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from cuprof.core.errors import BuildError, UsageError
from cuprof.core.project import Project
from cuprof.families import Point
from cuprof.families.fingerprint import contract_text
from cuprof.interop.definition import DefinitionFamily
from cuprof.interop.origins import Definition, copy_alone
from cuprof.interop.schema import Solution
from cuprof.interop.solutions import load_function, takes_outputs
from tests.conftest import Result
from tests.interop import samples
from tests.interop.samples import DEFINITION, WORKLOADS, write_beside, write_trace_set

QUICK = ("measure=quick", "measure.modes=[cold]", "measure.max_seconds=0.01", "measure.settle_seconds=0", "report=none")
CUSTOM = {name: {"type": "custom"} for name in DEFINITION["inputs"]}
NAMES = ["reference", "no_weight", "returning", "writing"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPROF_CACHE", str(tmp_path / "cache"))


def task(folder: Path, **parts: Any) -> DefinitionFamily:
    return DefinitionFamily(write_beside(folder, **parts))


def test_a_definition_is_swept_as_it_lies(project: Project, cli: Callable[..., Result]) -> None:
    write_beside(project.root / "rmsnorm")
    done = cli("sweep", "rmsnorm", *QUICK, "output=json")
    trials = json.loads(done.out)["trials"]
    assert [(trial["variant"], trial["problem"]["rows"], trial["state"]) for trial in trials] == [
        (name, rows, "wrong_result" if name == "no_weight" else "ok") for rows in (4, 32) for name in NAMES
    ]
    assert done.exit_code == 1
    reasons = [trial["message"] for trial in trials if trial["state"] == "wrong_result"]
    assert "(the benchmarks' default, where a workload states none)" in reasons[0]
    assert "(as the workload states)" in reasons[1]
    again = cli("sweep", "rmsnorm", *QUICK)
    assert "8 trials, 8 of them stored already" in again.err
    changed = samples.solution("writing", {"src/kernel.py": samples.WRITING + "\n# another text\n"})
    write_beside(project.root / "rmsnorm", solutions=[changed])
    preview = cli("sweep", "rmsnorm/definition.json", *QUICK, "dry_run=true", "problem.preset=bbbb-2", "output=json")
    rows = json.loads(preview.out)
    assert [(row["label"].split()[0], row["state"]) for row in rows] == [
        ("rmsnorm_h64/reference", "stored"), ("rmsnorm_h64/no_weight", "stored"),
        ("rmsnorm_h64/returning", "stored"), ("rmsnorm_h64/writing", "missing"),
    ]  # fmt: skip


def test_a_trace_set_is_the_same_definition(tmp_path: Path) -> None:
    beside = task(tmp_path / "beside").make_family()
    root = write_trace_set(tmp_path / "set")
    for named in (root, root / "definitions" / "rmsnorm" / "rmsnorm_h64.json"):
        family = DefinitionFamily(named).make_family()
        assert {*family.variants} == {*NAMES}
        assert (family.usual, family.contract["definition"].args) == (beside.usual, beside.contract["definition"].args)
        assert family.variants["writing"].content.args == beside.variants["writing"].content.args


def test_workloads_say_where_inputs_come_from(tmp_path: Path) -> None:
    weight = np.arange(64, dtype="<f4")
    header = json.dumps({"w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    content = struct.pack("<Q", len(header)) + header + weight.tobytes()
    stored = {**samples.RANDOM, "weight": {"type": "safetensors", "path": "w.safetensors", "tensor_key": "w"}}
    folder = write_beside(tmp_path, workloads=[{"uuid": "a", "axes": {"rows": 4}, "inputs": stored}])
    (folder / "w.safetensors").write_bytes(content)
    made = DefinitionFamily(folder)
    inputs = made.generate(Point(rows=4), np.random.default_rng(1))
    assert np.array_equal(inputs["weight"], weight)
    assert (inputs["x"].shape, inputs["x"].dtype, abs(float(inputs["x"].mean())) < 0.3) == ((4, 64), np.float32, True)
    (folder / "w.safetensors").write_bytes(content.replace(b"F32", b"F16"))
    with pytest.raises(UsageError, match=r"w is F16 of \[64\], not float32 of \(64,\)"):
        made.generate(Point(rows=4), np.random.default_rng(1))


def test_a_function_of_the_definition_makes_custom_inputs(tmp_path: Path) -> None:
    made = task(
        tmp_path,
        definition={**DEFINITION, "reference": samples.CUSTOM, "custom_inputs_entrypoint": "make"},
        workloads=[{"uuid": "a", "axes": {"rows": 4}, "inputs": CUSTOM}],
    )
    inputs = made.generate(Point(rows=4), np.random.default_rng(1))
    again = made.generate(Point(rows=4), np.random.default_rng(1))
    assert np.array_equal(inputs["x"], again["x"])
    assert np.array_equal(inputs["weight"], np.ones(64))
    expected = made.compute_reference(Point(rows=4), inputs)["y"]
    assert expected.dtype == np.float64
    assert np.allclose(np.square(expected).mean(-1), 1)


def test_numbers_that_a_function_draws_are_the_same_with_all_inputs_and_in_every_process(tmp_path: Path) -> None:
    parts = {
        "definition": {
            **DEFINITION,
            "reference": samples.CUSTOM.replace("1e-6}", "float(np.random.rand())}"),
            "custom_inputs_entrypoint": "make",
        },
        "workloads": [{"uuid": "a", "axes": {"rows": 4}, "inputs": CUSTOM}],
    }
    judging, executing = task(tmp_path, **parts), task(tmp_path, **parts)
    problem, outputs = Point(rows=4), {"y": np.zeros((4, 64), np.float32)}
    draws = [judging.generate(problem, np.random.default_rng(seed)) for seed in (1, 2)]
    assert not np.array_equal(draws[0]["x"], draws[1]["x"])
    for inputs in draws:
        expected = judging.compute_reference(problem, inputs)["y"]
        call = executing.bind(executing.reference, problem, Point(), inputs, outputs)
        call()
        call.deliver()
        assert np.allclose(outputs["y"], expected)


def test_a_share_of_the_elements_may_be_far(tmp_path: Path) -> None:
    bounds = {"max_atol": 0.1, "max_rtol": 0.0, "required_matched_ratio": 0.9}
    made = task(tmp_path, workloads=[{**WORKLOADS[0], "tolerance": bounds}])
    expected = {"y": np.zeros((4, 64))}
    assert made.make_family().verify is not None
    for wrong, said in ((25, None), (26, "89.84% of y is near the reference, and 90.00% must be")):
        found = np.zeros(256)
        found[:wrong] = 1
        assert made.judge(Point(rows=4), {}, {"y": found.reshape(4, 64)}, expected) == said


def test_an_identity_does_not_depend_on_the_folder_or_on_other_solutions(tmp_path: Path) -> None:
    workloads = [{**WORKLOADS[0], "tolerance": {"max_atol": 0.1, "required_matched_ratio": 0.9}}]
    folders = [write_beside(tmp_path / "a", workloads=workloads)]
    folders.append(write_beside(tmp_path / "b", workloads=workloads, solutions=samples.SOLUTIONS[:1]))
    first, second = (contract_text(Definition(folder).load()) for folder in folders)
    assert first == second


def test_workloads_with_the_same_axes_are_told_apart(tmp_path: Path) -> None:
    made = task(tmp_path, workloads=[{**WORKLOADS[0], "uuid": name} for name in ("a", "b")])
    assert [dict(point) for point in made.problems] == [{"rows": 4, "workload": "a"}, {"rows": 4, "workload": "b"}]


def test_a_workload_may_repeat_what_the_definition_says_of_an_axis(tmp_path: Path) -> None:
    made = task(tmp_path, workloads=[{**WORKLOADS[0], "axes": {"rows": 4, "hidden": 64, "half": 32}}])
    assert list(made.problems) == [Point({"rows": 4})]


@pytest.mark.parametrize(
    ("imported", "is_so"), [("", True), ("import torch\nimport numpy\n", True), ("import numpy", False)]
)
def test_the_reference_alone_says_where_all_run(tmp_path: Path, imported: str, is_so: bool) -> None:
    reference = f"{imported}\ndef run(x, weight, eps):\n    return x + 1"
    folder = write_beside(tmp_path, definition={**DEFINITION, "reference": reference})
    for with_solutions in (True, False):  # as a sweep has it, and a judge
        assert DefinitionFamily(folder, with_solutions=with_solutions).on_device is is_so


def test_a_constraint_of_the_definition_holds_for_its_problems(tmp_path: Path) -> None:
    made = task(tmp_path, workloads=[*WORKLOADS, {**WORKLOADS[0], "uuid": "c", "axes": {"rows": 2000}}])
    assert made.explain_absence(Point(rows=4)) is None
    assert made.explain_absence(Point(rows=2000)) == "not rows < 1000"
    assert made.explain_absence(Point(rows=5)) == "no workload has these axes"


SILENT = samples.solution("s", {"main.py": samples.WRITING})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"definition": {**DEFINITION, "inputs": {"x": {"shape": ["rows"], "dtype": "float4_e2m1"}}}},
         "x is of type float4_e2m1; supported are float64, "),
        ({"definition": {**DEFINITION, "axes": {}}}, "x has the axis rows; there are "),
        ({"definition": {**DEFINITION, "op_type": "sampling"}}, "op_type sampling compares distributions"),
        ({"definition": {**DEFINITION, "custom_inputs_entrypoint": "a=b"}},
         "definition.json is no definition of FlashInfer-Bench or SOL-ExecBench: custom_inputs_entrypoint a=b must be"),
        ({"definition": {"name": "x"}}, "is no definition of FlashInfer-Bench or SOL-ExecBench: Object missing"),
        ({"workloads": [{**WORKLOADS[0], "inputs": CUSTOM}]}, "workload aaaa-1 is custom, and the definition has"),
        ({"workloads": [{**WORKLOADS[0], "axes": {"n": 4}}]}, "workload aaaa-1 sets n, and not rows"),
        ({"workloads": [{**WORKLOADS[0], "axes": {"rows": 4, "half": 31}}]}, "half to 31, and the definition says 32"),
        ({"solutions": [{**SILENT, "sources": [{"path": "../x.py", "content": "x"}]}]}, "a relative path without .."),
        ({"solutions": [{**SILENT, "spec": {"entry_point": "main.py"}}]}, "must be FILE::FUNCTION with one of main.py"),
        ({"solutions": [{**SILENT, "definition": "other"}]}, "no solution names definition rmsnorm_h64"),
        ({"solutions": [{**SILENT, "spec": {**SILENT["spec"], "binding": "jni"}}]}, "binding jni is not supported"),
    ],
)  # fmt: skip
def test_what_is_not_taken_in_is_refused_in_a_line(tmp_path: Path, parts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        task(tmp_path, **parts)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_solution_that_is_no_python_is_told_by_name_and_costs_its_own_trials(tmp_path: Path) -> None:
    broken = samples.solution("s", {"main.py": "def run(x)\n    return x"})
    made = task(tmp_path, solutions=[broken, samples.solution("t", {"main.py": samples.WRITING})])
    assert {"s", "t"} <= {*made.make_family().variants}
    (solution,) = (each for each in made.solutions if each.name == "s")
    with pytest.raises(BuildError, match=r"^s: main\.py, line 1: expected ':'"):
        load_function(solution)


def test_a_solutions_source_may_have_any_ending() -> None:
    made = samples.solution("s", {"main.kernel": samples.WRITING}, entry_point="main.kernel::run")
    assert load_function(msgspec.convert(made, Solution)).__name__ == "run"


@pytest.mark.timeout(600)
def test_a_solution_is_judged_against_the_definitions_own_reference(
    project: Project, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether a solution remembers results is told by times, which a busy host spoils; here nothing is asked of them.
    monkeypatch.setattr("cuprof.judge.clock.REMEMBERS_NS", float("inf"))
    folder = write_beside(project.root / "task", solutions=[], workloads=WORKLOADS[:1])
    for each in samples.SOLUTIONS[1:]:
        (project.root / f"{each['name'].replace(' ', '_')}.json").write_text(json.dumps(each))
    words = ("writing.json", "no_weight.json", "--rounds", "1", "--sandbox", "off", "--json")
    done = cli("judge", str(folder), *words, *QUICK[:-1])
    found = {each["variant"]: each for each in json.loads(done.out)["candidates"]}
    assert found["no_weight"]["ruling"] == "wrong"
    assert found["writing"]["ruling"] != "wrong"
    assert done.exit_code == 3


IN_PLACE = """
import numpy


def run(x, weight, eps):
    x *= 2
    return x * weight
"""


def test_an_input_that_the_reference_works_on_is_written_anew_and_not_looked_at(tmp_path: Path) -> None:
    returning = {"main.py": "def run(x, weight, eps):\n    return 2 * x * weight\n"}
    made = task(
        tmp_path,
        definition={**DEFINITION, "reference": IN_PLACE},
        solutions=[samples.solution("returns", returning), samples.solution("writes", {"main.py": samples.WRITING})],
    )
    family, problem = made.make_family(), Point(rows=4)
    assert (family.in_place, [*made.signature(problem).inputs]) == (("x",), ["weight"])
    inputs = family.generate(problem, np.random.default_rng(1))
    right = family.reference(problem, inputs)
    assert np.ma.getmaskarray(right["x"]).all()
    assert np.array_equal(right["y"], 2 * inputs["x"] * inputs["weight"])
    for name in ("reference", "returns"):
        outputs = {"x": inputs["x"].copy(), "y": np.empty_like(inputs["x"])}
        call = family.variants[name].make(problem, Point(), {"weight": inputs["weight"]}, outputs)
        call()
        call.deliver()  # a function with no place for outputs returns them, whatever the default of the schema
        assert np.array_equal(outputs["y"], right["y"])
    outputs = {"x": inputs["x"].copy(), "y": np.zeros_like(inputs["x"])}
    call = family.variants["writes"].make(problem, Point(), {"weight": inputs["weight"]}, outputs)
    call()
    call.deliver()
    assert outputs["y"].any()


@pytest.mark.parametrize(("text", "binding"), [("#include <tvm/ffi/function.h>", "tvm-ffi"), ("", "torch")])
def test_of_a_compiled_solution_the_sources_tell_what_is_not_said(tmp_path: Path, text: str, binding: str) -> None:
    sources = {"kernel.cu": f"{text}\nvoid run();"}
    compiled = samples.solution("compiled", sources, language="cuda", entry_point="any_name::run")
    (made,) = task(tmp_path, solutions=[compiled]).solutions
    assert (made.binding, made.spec.destination_passing_style) == (binding, None)


def test_a_compilers_own_line_is_told_and_its_builder_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(**given: Any) -> None:
        asked.append(given["name"])
        raise RuntimeError(
            "Error building extension 'x': [1/2] c++ -c main.cpp\nmain.cpp:3:1: error: half is unknown\n"
        )

    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.utils.cpp_extension", SimpleNamespace(load=load))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = samples.solution("compiled", {"main.cpp": "half x;"}, language="cuda", entry_point="main.cpp::run")
    solution = msgspec.convert(compiled, Solution)
    for _ in range(2):
        with pytest.raises(BuildError, match=r"^compiled \(main.cpp\) does not compile: main.cpp:3:1: error: half is"):
            load_function(solution)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("declared", "takes"),
    [
        ("run(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-05) -> torch.Tensor\n\nIt runs", False),
        ("run(arg0: torch.Tensor, arg1: Optional[torch.Tensor], arg2: float, arg3: torch.Tensor) -> None", True),
        ("run(*args, **kwargs)\nOverloaded function.", True),
        (None, True),
    ],
)
def test_a_compiled_function_is_given_outputs_where_its_module_declares_them(declared: str, takes: bool) -> None:
    def run() -> None: ...

    run.__doc__ = declared
    spec = {"language": "cuda", "entry_point": "main.cpp::run"}
    made = msgspec.convert({"name": "a", "definition": "d", "spec": spec, "sources": []}, Solution)
    assert takes_outputs(made, run, 3) is takes


def test_an_edit_of_any_file_of_a_definition_is_noticed(tmp_path: Path) -> None:
    stored = {**samples.RANDOM, "weight": {"type": "safetensors", "path": "w.safetensors", "tensor_key": "w"}}
    folder = write_beside(tmp_path, workloads=[{**WORKLOADS[0], "inputs": stored}])
    (folder / "w.safetensors").write_bytes(b"some bytes")
    origin = Definition(folder)
    family = origin.load()
    named = {Path(file).name for file in family.code}
    assert {"definition.json", "workload.jsonl", "solution_writing.json", "w.safetensors"} <= named
    for file in family.code:
        before = Path(file).read_bytes()
        Path(file).write_bytes(before + b" ")
        assert origin.digests() != family.code
        Path(file).write_bytes(before)
    assert origin.digests() == family.code


def test_a_judge_copies_a_definition_without_its_solutions(tmp_path: Path) -> None:
    origin = copy_alone(str(write_trace_set(tmp_path / "set")), tmp_path / "copy")
    assert sorted(file.name for file in origin.folder.iterdir()) == ["definition.json", "workload.jsonl"]
    assert [*origin.load().variants] == ["reference"]
