import enum
import hashlib
import importlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuprof.core.records import DeviceFacts, Measure
from cuprof.families import (
    Array,
    Copy,
    Execute,
    File,
    Fill,
    Invoke,
    Launch,
    Point,
    Program,
    Reduced,
    Repeat,
    TensorMap,
    Texture,
)
from cuprof.families.fingerprint import contract_text, hash_text, source_text
from cuprof.families.origin import load_family
from cuprof.families.toolchain import Compiler, Headers
from cuprof.plan import Selection, plan, plan_hash
from cuprof.plan.identity import Identifier, canonical_json, hash_content

PROGRAM = Program(
    steps=(Fill("y", 1), Launch("k", (2, 3), (32,), ("x", "y", 5, 0.5, np.int64(7)), 16)),
    defines={"A": 1, "B": "float"},
    options=("--use_fast_math",),
    scratch={"part": Array((4,), "float32")},
    results={"y": "part"},
    constants={"c": "x"},
)

LINE_TYPE = [("slope", "f4"), ("length", "i4")]
LINE, OTHER_LINE = (np.array((1.0, length), LINE_TYPE)[()] for length in (2, 3))


def changed_launch(**changes) -> Program:
    return replace(PROGRAM, steps=(PROGRAM.steps[0], replace(PROGRAM.steps[1], **changes)))


@pytest.fixture
def scale(make_scale):
    return make_scale()


def identify_with(identifier, problem, tunables, program) -> str:
    return identifier.identify(problem, tunables, program)


def identity(family, variant, problem, tunables, program, device) -> str:
    source, contract = source_text(family, variant), hash_text(contract_text(family, variant))
    identifier = Identifier(family, variant, device, source, contract)
    return identify_with(identifier, problem, tunables, program)


def get_identity(family, program=PROGRAM, problem=None, tune=None, variant="plain", device=None):
    return identity(family, family.variant(variant), problem or Point(n=8), tune or Point(block=64), program, device)


def test_is_32_hexadecimal_digits_and_repeatable(scale):
    assert re.fullmatch("[0-9a-f]{32}", get_identity(scale))
    assert get_identity(scale) == get_identity(scale)


def test_identity_is_the_hash_of_the_documented_text():
    """A change here means that stored trials no longer match: raise IDENTITY_VERSION on purpose."""
    family = load_family(Path(__file__).parent.parent / "data" / "families" / "vector")
    device = DeviceFacts("cpu", 0, "name", identity={"name": "CPU", "cores": "2"})
    whole = Identifier(family, family.variant("cpu_whole"), device, "text", "1" * 64)
    shared = (
        f'{{"backend":"cpu","contract":"{"1" * 64}","device":{{"cores":"2","name":"CPU"}},"family":"vector",'
        f'"libraries":{{}},"source":"{hash_text("text")}","variant":"cpu_whole","version":2}}\n'
    )
    trial = '{"problem":{"dtype":"int32","n":8},"program":null,"tunables":{}}'
    assert identify_with(whole, Point(n=8, dtype="int32"), Point(), None) == sha256(shared + trial)
    chunks = Identifier(family, family.variant("cpu_chunks"), None, "text", "1" * 64)
    shared = (
        f'{{"backend":"cpu","contract":"{"1" * 64}","device":null,"family":"vector",'
        f'"libraries":{{}},"source":"{hash_text("text")}","variant":"cpu_chunks","version":2}}\n'
    )
    trial = (
        '{"problem":{"n":8},"program":{"constants":{"c":"x"},"defines":{"A":"1","B":"float"},'
        '"options":["--use_fast_math"],"results":{"y":"part"},"scratch":{"part":[[4],"<f4"]},"steps":[["fill","y",1],'
        '["launch","k",[2,3],[32],[["buffer","x"],["buffer","y"],["int","5"],["float","0.5"],["<i8","7"]],16]]},'
        '"tunables":{"chunk":16,"reverse":true}}'
    )
    assert identify_with(chunks, Point(n=8), Point(chunk=16, reverse=True), PROGRAM) == sha256(shared + trial)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@pytest.mark.parametrize(
    "program",
    [
        replace(PROGRAM, defines={"A": 2, "B": "float"}),
        replace(PROGRAM, options=()),
        replace(PROGRAM, scratch={"part": Array((5,), "float32")}),
        replace(PROGRAM, scratch={"part": Array((4,), "int32")}),
        replace(PROGRAM, results={}),
        replace(PROGRAM, constants={}),
        replace(PROGRAM, scratch={"part": Array((4,), "bfloat16")}),
        replace(PROGRAM, scratch={"part": Array((4,), np.dtype([("a", "f4")]))}),
        replace(PROGRAM, results={"y": Reduced("part")}),
        replace(PROGRAM, results={"y": Reduced("part", "max")}),
        replace(PROGRAM, setup=(Fill("part"),)),
        replace(PROGRAM, setup=(Copy("x", "part"),)),
        replace(PROGRAM, steps=(*PROGRAM.steps, Copy("x", "part"))),
        replace(PROGRAM, steps=(Repeat(PROGRAM.steps, 2),)),
        replace(PROGRAM, steps=(Repeat(PROGRAM.steps, 3),)),
        replace(PROGRAM, steps=(Repeat(PROGRAM.steps, 3, "part"),)),
        replace(PROGRAM, steps=PROGRAM.steps[::-1]),
        replace(PROGRAM, steps=(Fill("y", 2), PROGRAM.steps[1])),
        changed_launch(kernel="l"),
        changed_launch(grid=(3, 2)),
        changed_launch(block=(64,)),
        changed_launch(shared_bytes=32),
        changed_launch(cooperative=True),
        changed_launch(cluster=(1,)),
        changed_launch(cluster=(2,)),
        changed_launch(overlaps=True),
        changed_launch(args=(Texture("x"), "y", 5, 0.5, np.int64(7))),
        changed_launch(args=(Texture("x", 8), "y", 5, 0.5, np.int64(7))),
        changed_launch(args=(TensorMap("x", (8,)), "y", 5, 0.5, np.int64(7))),
        changed_launch(args=("x", "y", LINE, 0.5, np.int64(7))),
        changed_launch(args=("x", "y", OTHER_LINE, 0.5, np.int64(7))),
        replace(PROGRAM, steps=(Invoke("k", ("x", "y")),)),
        replace(PROGRAM, steps=(Invoke("k", ("y", "x")),)),
        replace(PROGRAM, steps=(Execute((File("x"),), "y"),)),
        replace(PROGRAM, steps=(Execute((File("x", "npy"),), "y"),)),
        replace(PROGRAM, steps=(Execute((File("x"),), "y", {"MODE": "fast"}),)),
        changed_launch(args=("y", "x", 5, 0.5, np.int64(7))),
        changed_launch(args=("x", "y", 5.0, 0.5, np.int64(7))),
        changed_launch(args=("x", "y", 5, 0.5, np.int32(7))),
        changed_launch(args=("x", "y", 5, 0.5, 7)),
        changed_launch(args=("x", "y", 5, np.float64(0.5), np.int64(7))),
        changed_launch(args=("x", "y", 5, np.float32(0.5), np.int64(7))),
        changed_launch(args=("x", "y", 5, float("nan"), np.int64(7))),
        None,
    ],
)
def test_every_part_of_a_program_counts(scale, program):
    assert get_identity(scale, program) != get_identity(scale)


def test_order_of_names_and_the_writing_of_numbers_do_not_count(scale):
    same = replace(changed_launch(grid=(np.int64(2), 3)), defines={"B": "float", "A": "1"})
    assert get_identity(scale, same) == get_identity(scale)
    assert get_identity(scale, problem=Point(a=1, b=2)) == get_identity(scale, problem=Point(b=2, a=1))


def test_problem_tunables_variant_and_device_count(scale):
    base = get_identity(scale)
    device = DeviceFacts("cuda", 0, "GPU", identity={"driver": "580.1"})
    others = [
        get_identity(scale, problem=Point(n=9)),
        get_identity(scale, problem=Point(m=8)),
        get_identity(scale, problem=Point(n=8.0)),
        get_identity(scale, problem=Point(n=True)),
        get_identity(scale, tune=Point(block=128)),
        get_identity(scale, variant="open"),
        get_identity(scale, device=device),
        get_identity(scale, device=replace(device, identity={"driver": "580.2"})),
    ]
    assert len({base, *others}) == 1 + len(others)


def test_host_card_and_facts_for_people_do_not_count(scale):
    device = DeviceFacts("cuda", 0, "GPU", uuid="GPU-1", memory_bytes=5, identity={"a": "1", "b": "2"})
    other = DeviceFacts("cuda", 3, "gpu", uuid="GPU-2", memory_bytes=6, identity={"b": "2", "a": "1"}, details={"x": 1})
    assert get_identity(scale, device=device) == get_identity(scale, device=other)


def identities(family, devices) -> dict[str, str]:
    return {trial.variant: trial.identity for trial in plan(family, Selection(), devices).trials}


def test_editing_a_source_makes_its_trials_new_and_no_others(make_scale, devices):
    family = make_scale()
    before = identities(family, devices)
    (family.folder / "plain.cu").write_text("// edited\n")
    after = identities(make_scale(), devices)
    assert {name for name in before if before[name] != after[name]} == {"plain"}


def test_renaming_a_source_keeps_the_identity(make_scale, devices):
    family = make_scale()
    before = identities(family, devices)
    (family.folder / "plain.cu").rename(family.folder / "renamed.cu")
    assert identities(make_scale(('source="plain.cu"', 'source="renamed.cu"')), devices) == before


def test_the_contract_is_part_of_every_identity(make_scale, devices):
    before = identities(make_scale(), devices)
    after = identities(make_scale(("2.0 * inputs", "4.0 * inputs")), devices)
    assert not set(before.values()) & set(after.values())


def test_a_variant_has_the_contract_of_its_own_tolerance(make_scale, devices):
    own = ('@family.cpu("host")', '@family.cpu("host", tolerance=lambda problem, inputs, reference: Tolerance(1.0))')
    before = identities(make_scale(), devices)
    after = identities(make_scale(own), devices)
    assert {name for name in before if before[name] != after[name]} == {"host"}
    looser = identities(make_scale((own[0], own[1].replace("1.0", "2.0"))), devices)
    assert {name for name in before if after[name] != looser[name]} == {"host"}


def test_what_people_read_is_no_part(make_scale, devices):
    before = identities(make_scale(), devices)
    changed = make_scale(
        ('"""One thread an element."""', '"""Another description."""'),
        ('title="y = 2x"', 'title="doubling"'),
        ("8 * problem.n", "9 * problem.n"),
        ("(64, 128, 256)", "(32, 64, 128, 256)"),
    )
    assert identities(changed, devices) == before


def test_versions_of_required_libraries_count(scale, monkeypatch):
    variant = replace(scale.variant("host"), requires=("numpy",))
    before = identify_with(Identifier(scale, variant, None, "0", "1"), Point(n=1), Point(), None)
    module = importlib.import_module("cuprof.plan.identity")
    monkeypatch.setattr(module, "get_version", lambda name: "9.9")
    assert identify_with(Identifier(scale, variant, None, "0", "1"), Point(n=1), Point(), None) != before


def test_a_compiler_that_is_named_counts_by_its_version(scale, monkeypatch):
    def identify(compiler, version):
        module = importlib.import_module("cuprof.plan.identity")
        monkeypatch.setattr(module, "get_compiler", lambda name: Compiler(name, None, version))
        variant = replace(scale.variant("plain"), compiler=compiler)
        return identify_with(Identifier(scale, variant, None, "0", "1"), Point(n=8), Point(block=64), PROGRAM)

    unnamed = identify("", "nvcc 13.0.88")
    found = {identify("nvcc", "nvcc 13.0.88"), identify("nvcc", "nvcc 13.1.0"), unnamed, identify("", "other")}
    assert len(found) == 3
    assert unnamed == identify("", "another")


def test_versions_of_cudas_headers_count_where_they_are_included(scale, monkeypatch):
    def identify(text):
        variant = scale.variant("plain")
        return identify_with(Identifier(scale, variant, None, text, "1"), Point(n=1), Point(), None)

    module = importlib.import_module("cuprof.plan.identity")
    with_headers, without = "#include <cuda_fp16.h>", '#include "own.cuh"'
    found = set()
    for version in ("cudart 12080", "cudart 13000"):
        monkeypatch.setattr(module, "find_headers", lambda version=version: Headers((), version))
        found |= {identify(with_headers), identify(without)}
    assert len(found) == 3


def test_planned_identity_is_the_one_of_the_function(make_scale, devices):
    family = make_scale()
    for trial in plan(family, Selection(), devices).trials:
        variant = family.variant(trial.variant)
        program = variant.make(trial.problem, trial.tunables) if variant.kind == "kernel" else None
        found = identity(family, variant, trial.problem, trial.tunables, program, trial.device)
        assert found == trial.identity


class Flush(enum.StrEnum):
    CLEAN = "clean"


def test_content_hash_is_32_digits_of_plain_settings():
    settings = {
        "measure": Measure.COLD,
        "flush": Flush.CLEAN,
        "interval": 0.005,
        "range": (20, 100),
        "more": {"a": None},
    }
    plain = {"more": {"a": None}, "range": [20, 100], "interval": 0.005, "flush": "clean", "measure": "cold"}
    assert re.fullmatch("[0-9a-f]{32}", hash_content(settings))
    assert hash_content(settings) == hash_content(plain)
    assert hash_content({**plain, "flush": "dirty"}) != hash_content(plain)
    with pytest.raises(TypeError):
        hash_content({"what": object()})
    with pytest.raises(ValueError, match="not JSON compliant"):
        hash_content({"what": float("nan")})


def test_plan_hash_follows_trials_and_methods(make_scale, devices):
    family = make_scale()
    one = plan(family, Selection(problem={"n": (8, 16)}), devices)
    same = plan(family, Selection(problem={"n": ("2**3", "2**4")}), devices)
    other = plan(family, Selection(problem={"n": (8, 32)}), devices)
    methods = {"cold": "a" * 16}
    assert re.fullmatch("[0-9a-f]{32}", plan_hash(one, methods))
    assert plan_hash(one, methods) == plan_hash(same, {Measure.COLD: "a" * 16})
    assert plan_hash(one, methods) != plan_hash(other, methods)
    assert plan_hash(one, methods) != plan_hash(one, {"cold": "b" * 16})
    assert plan_hash(one, methods) != plan_hash(one, {"hot": "a" * 16})


coordinates = st.one_of(
    st.integers(), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False)
)
points = st.dictionaries(st.from_regex("[a-z]{1,4}", fullmatch=True), coordinates, max_size=4)


@given(points, st.randoms())
def test_points_with_equal_coordinates_have_equal_json(values, random):
    shuffled = list(values.items())
    random.shuffle(shuffled)
    assert canonical_json(dict(Point(values))) == canonical_json(dict(Point(dict(shuffled))))


@given(points, points)
def test_json_differs_where_points_differ(one, other):
    if canonical_json(dict(Point(one))) == canonical_json(dict(Point(other))):
        assert Point(one) == Point(other)
        assert {name: type(value) for name, value in one.items()} == {
            name: type(value) for name, value in other.items()
        }


@given(
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=4)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.one_of(st.integers(), st.text(max_size=4)), max_size=3),
)
def test_programs_have_canonical_json_whatever_is_in_them(args, defines):
    made = Program(steps=(Launch("k", (1,), (1,), tuple(args)), Fill("y")), defines=defines)
    text = canonical_json(made.describe())
    assert canonical_json(json.loads(text)) == text


def test_equal_numbers_of_other_types_are_other_programs():
    def text(argument):
        return canonical_json(Program(steps=(Launch("k", (1,), (1,), (argument,)),)).describe())

    different = [5, 5.0, np.int64(5), np.int32(5), np.float32(5), 0.0, -0.0]
    assert len({text(argument) for argument in different}) == len(different)
