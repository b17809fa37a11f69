import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.backends.contract import arena_bytes
from cuprof.core.errors import FamilyError, SelectionError, UnknownNameError
from cuprof.core.records import DeviceFacts, Unavailable
from cuprof.families import Point
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan
from tests.plan.test_identity import identity

FAMILIES = Path(__file__).parent.parent / "data" / "families"
CPU = DeviceFacts("cpu", 0, "Example CPU", memory_bytes=2**33, identity={"name": "Example CPU"})


@pytest.fixture
def vector():
    return load_family(FAMILIES / "vector")


def labels(family, devices=None, **selection):
    made = plan(family, Selection(**selection), {"cpu": CPU} if devices is None else devices)
    return [trial.label for trial in made.trials]


def test_defaults_are_taken_for_what_is_not_named(vector):
    assert labels(vector) == [
        "vector/cpu_whole · n=1000, dtype=float32",
        "vector/cpu_chunks · n=1000, dtype=float32 · chunk=64, reverse=False",
        "vector/wide · n=1000, dtype=float32 · chunk=256",
        "vector/cpu_wrong · n=1000, dtype=float32",
    ]


def test_order_is_problem_variant_tunables_whatever_the_order_asked(vector):
    found = labels(
        vector,
        variants=("cpu_wrong", "cpu_chunks", "cpu_wrong"),
        problem={"n": ("2**10", 300)},
        tune={"reverse": (True, False), "chunk": (64, 16)},
    )
    one = [
        "vector/cpu_chunks · {} · chunk=64, reverse=True",
        "vector/cpu_chunks · {} · chunk=64, reverse=False",
        "vector/cpu_chunks · {} · chunk=16, reverse=True",
        "vector/cpu_chunks · {} · chunk=16, reverse=False",
        "vector/cpu_wrong · {}",
    ]
    problems = ("n=1024, dtype=float32", "n=300, dtype=float32")
    assert found == [label.format(problem) for problem in problems for label in one]


def test_trial_carries_what_the_store_and_the_report_need(vector):
    trial, wrong = plan(vector, Selection(("cpu_whole", "cpu_wrong"), {"n": (100,)}), {"cpu": CPU}).trials
    assert (trial.family, trial.variant, trial.backend, trial.kind) == ("vector", "cpu_whole", "cpu", "cpu")
    assert trial.problem == Point(n=100, dtype="float32")
    assert trial.tunables == Point()
    assert trial.device is CPU
    assert (trial.useful_bytes, trial.flops) == (800, 100)
    assert (trial.origin, trial.expected, wrong.expected) == ("kernel 1", "right", "wrong")
    assert trial.description == "One call for the whole array."
    assert (trial.order, wrong.order) == (0, 3)
    assert "np.multiply" in trial.source_text
    assert len(trial.identity) == 32
    assert pickle.loads(pickle.dumps(trial)) == trial


@pytest.mark.parametrize(
    ("variants", "chosen"),
    [
        (("cpu_*",), {"cpu_whole", "cpu_chunks", "cpu_wrong"}),
        (("*w*",), {"cpu_whole", "wide", "cpu_wrong"}),
        (("cpu",), {"cpu_whole", "cpu_chunks", "wide", "cpu_wrong"}),
        (("all",), {"cpu_whole", "cpu_chunks", "wide", "cpu_wrong"}),
        (("wide", "cpu_[wx]hole"), {"wide", "cpu_whole"}),
    ],
)
def test_variants_by_pattern_and_kind(vector, variants, chosen):
    made = plan(vector, Selection(variants), {"cpu": CPU})
    assert {trial.variant for trial in made.trials} == chosen


def test_an_experiments_own_tunable_is_left_out_where_no_chosen_variant_has_it(vector):
    chosen = {"variants": ("cpu_whole",), "tune": {"chunk": (64,)}}
    assert labels(vector, **chosen, optional=frozenset({"chunk"})) == labels(vector, variants=("cpu_whole",))
    with pytest.raises(UnknownNameError, match="unknown tunable 'chunks'"):
        labels(vector, variants=("cpu_whole",), tune={"chunks": (1,)}, optional=frozenset({"chunks"}))


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"variants": ("cpu_hole",)}, r"unknown variant 'cpu_hole' of family vector: did you mean cpu_whole"),
        ({"variants": ("gpu_*",)}, "unknown variant 'gpu_\\*'"),
        ({"variants": ("cuda",)}, "unknown variant 'cuda'"),
        ({"problem": {"m": (1,)}}, "unknown problem axis 'm' of family vector: there are dtype, n"),
        ({"presets": ("smal",)}, r"unknown preset 'smal' of family vector: did you mean small\?"),
        ({"tune": {"chunks": (1,)}}, r"unknown tunable 'chunks' of variants cpu_whole, .*: did you mean chunk\?"),
        (
            {"tune": {"chunk": (64,)}, "variants": ("cpu_whole",)},
            r"unknown tunable 'chunk' of variant cpu_whole \(variant cpu_chunks has it\): there are none",
        ),
    ],
)
def test_unknown_names(vector, selection, said):
    with pytest.raises(UnknownNameError, match=said) as caught:
        labels(vector, **selection)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"problem": {"n": (0,)}}, r"problem\.n=0 is out of range; problem axis n takes a whole number from 1 to"),
        ({"problem": {"n": ("abc",)}}, r"problem\.n=abc is not a number"),
        ({"problem": {"dtype": ("half",)}}, "takes one of float32, int32"),
        ({"tune": {"chunk": (7,)}}, "cpu_chunks takes chunk = 16, 64, 256; wide takes chunk = 256, 512"),
        ({"problem": {"n": (13,)}}, "the constraints leave no trial of the 1 combinations: n must not be 13"),
        ({"problem": {"n": range(1, 1_000_000)}}, "has 3,999,996 combinations"),
    ],
)
def test_selections_that_cannot_be_carried_out(vector, selection, said):
    with pytest.raises(SelectionError, match=said) as caught:
        labels(vector, **selection)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_variant_that_its_constraints_leave_nothing_of_is_told(vector):
    def notes(*chunks):
        selection = Selection(("cpu_whole", "cpu_chunks"), {"n": (32,)}, {"chunk": chunks})
        return plan(vector, selection, {"cpu": CPU}).notes

    assert notes(16, 64) == ()
    (told,) = notes(64, 256)
    assert told.startswith("cpu_chunks: the constraints leave no trial of the 2 combinations: ")


def test_constraints_exclude_with_their_reason(vector):
    made = plan(
        vector,
        Selection(("cpu_chunks",), {"n": (13, 32)}, {"chunk": (16, 64)}),
        {"cpu": CPU},
    )
    assert [trial.label for trial in made.trials] == [
        "vector/cpu_chunks · n=32, dtype=float32 · chunk=16, reverse=False"
    ]
    assert [(one.label, one.reason) for one in made.excluded] == [
        ("vector · n=13, dtype=float32", "n must not be 13"),
        ("vector/cpu_chunks · n=32, dtype=float32 · chunk=64, reverse=False", "chunk 64 is larger than n"),
    ]


def test_what_no_device_launches_is_left_out_and_counted_once(make_scale, devices):
    family = make_scale(("(64, 128, 256)", "(64, 128, 2048, 4096)"))
    made = plan(family, Selection(("plain",), tune={"block": ("all",)}), devices)
    assert [trial.tunables.block for trial in made.trials] == [64, 128]
    assert made.notes == ("2 impossible whatever the device: threads a block 2,048 > 1,024, and 1 other size",)


def test_a_constraint_gives_a_reason_or_none(vector):
    vector.constraint = lambda problem: problem.n == 1000
    with pytest.raises(FamilyError, match=r"constraint at n=1000, .*: returned True; return the reason why"):
        labels(vector)
    vector.constraint = None
    whole = replace(vector.variant("cpu_whole"), constraint=lambda problem, tunables: False)
    vector.variants["cpu_whole"] = whole
    with pytest.raises(FamilyError, match=r"vector/cpu_whole .*: constraint: returned False"):
        labels(vector)


def test_all_excluded_lists_each_reason_once(vector):
    with pytest.raises(SelectionError, match=r"2 combinations: chunk 16 is larger than n$"):
        labels(vector, variants=("cpu_chunks",), problem={"n": (2,)}, tune={"chunk": (16,), "reverse": (False, True)})


def test_a_value_that_only_some_variants_allow_leaves_the_others_out(vector):
    made = plan(vector, Selection(tune={"chunk": (16, 256, 512)}), {"cpu": CPU})
    assert [trial.tunables["chunk"] for trial in made.trials if trial.variant == "cpu_chunks"] == [16, 256]
    assert [trial.tunables["chunk"] for trial in made.trials if trial.variant == "wide"] == [256, 512]
    assert {trial.variant for trial in made.trials} == set(vector.variants)
    assert [(one.label, one.reason) for one in made.excluded] == [
        ("vector/cpu_chunks", "chunk = 512 is not among the values it allows"),
        ("vector/wide", "chunk = 16 is not among the values it allows"),
    ]


def test_presets_fix_their_axes_and_the_rest_varies(vector):
    found = labels(vector, variants=("cpu_whole",), problem={"dtype": ("int32", "float32")}, presets=("small", "whole"))
    assert found == [
        "vector/cpu_whole · small (n=16, dtype=int32)",
        "vector/cpu_whole · small (n=16, dtype=float32)",
        "vector/cpu_whole · whole (n=64, dtype=int32)",
    ]


def test_preset_may_be_written_as_an_axis_and_does_not_enter_the_identity(vector):
    by_preset = plan(vector, Selection(("cpu_whole",), {"n": (7,)}, presets=("small",)), {"cpu": CPU})
    by_value = plan(vector, Selection(("cpu_whole",), {"n": (16,)}), {"cpu": CPU})
    assert by_preset.notes == ("problem.n is not used: every preset chosen fixes it",)
    assert by_value.notes == ()
    assert [trial.identity for trial in by_preset.trials] == [trial.identity for trial in by_value.trials]
    assert by_preset.trials[0].label != by_value.trials[0].label


def test_equal_problems_are_planned_once(vector):
    assert len(labels(vector, variants=("cpu_whole",), problem={"n": ("2**4", 16, 16.0)})) == 1


def test_absent_modules_make_a_trial_unavailable(vector):
    made = plan(vector, Selection(), {"cpu": CPU})
    assert {trial.variant for trial in made.trials if trial.unavailable} == {"wide"}
    assert next(str(trial.unavailable) for trial in made.trials if trial.unavailable) == (
        "Python module module_that_does_not_exist is not installed; pip install module_that_does_not_exist"
    )
    made.require_runnable()
    with pytest.raises(SelectionError, match="none of the 1 trials can run here: Python module"):
        plan(vector, Selection(("wide",)), {"cpu": CPU}).require_runnable()


def test_a_missing_device_makes_trials_unavailable_with_another_identity(make_scale, devices):
    family = make_scale()
    there = plan(family, Selection(("plain",)), devices).trials[0]
    gone = plan(family, Selection(("plain",)), {"cuda": Unavailable("no GPU")}).trials[0]
    unasked = plan(family, Selection(("plain",)), {}).trials[0]
    assert there.unavailable is None
    assert (gone.device, gone.unavailable) == (None, Unavailable("no GPU"))
    assert unasked.unavailable is not None
    assert gone.identity == unasked.identity != there.identity


def test_one_unavailable_back_end_leaves_the_others(make_scale, devices):
    made = plan(make_scale(), Selection(), devices)
    assert [(trial.variant, trial.unavailable is None) for trial in made.trials] == [
        ("plain", True),
        ("open", False),
        ("host", True),
    ]


def test_the_threads_of_a_block_are_known_of_launches_and_of_warps_alone(make_scale, devices):
    chosen = Selection(tune={"block": (64, 256)})
    found = {
        (trial.variant, trial.tunables.get("block")): trial.threads
        for trial in plan(make_scale(), chosen, devices).trials
    }
    assert found == {("plain", 64): 64, ("plain", 256): 256, ("open", 64): 64, ("open", 256): 256, ("host", None): None}
    warps = (
        ('(tune.block,), ("x", "y", np.int64(problem.n))', 'args=("x", "y", np.int64(problem.n))'),
        ('defines={"BLOCK": tune.block}', 'defines={"num_warps": tune.block // 32}'),
    )
    changed = plan(make_scale(*warps), replace(chosen, variants=("plain",)), devices)
    assert [trial.threads for trial in changed.trials] == [64, 256]


def test_memory_counts_scratch_and_only_devices_that_are_there(make_scale, devices):
    family = make_scale()
    problem = Point(n=2**30)
    program = family.variant("open").make(problem, Point(block=64))
    signature = family.signature(problem)
    arrays = (*signature.inputs.values(), *signature.outputs.values())
    assert sum(array.nbytes for array in arrays) == 2**33
    assert 2**32 < arena_bytes(program) < 2**32 + 2**12, "aligned as sessions align it"
    small = DeviceFacts("opencl", 0, "Small", memory_bytes=2**33)
    made = plan(family, Selection(("open",), {"n": ("2**29", "2**30")}), {"opencl": small})
    assert [trial.unavailable is None for trial in made.trials] == [True, False]
    assert str(made.trials[1].unavailable) == (
        "n=2^30 needs 12.9 GB of memory for inputs, outputs and scratch, and Small has 8.59 GB; choose a smaller n"
    )
    made.require_runnable()
    with pytest.raises(SelectionError, match=r"can run here: n=2\^30 needs 12\.9 GB .*; choose a smaller n"):
        plan(family, Selection(("open",), {"n": ("2**30",)}), {"opencl": small}).require_runnable()
    unknown = DeviceFacts("opencl", 0, "Unknown", memory_bytes=0)
    for device in (unknown, devices["opencl"]):
        assert plan(family, Selection(("open",), {"n": ("2**30",)}), {"opencl": device}).trials


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("blocks = -(-", "blocks = 1 / 0 -(-", r"scale/plain · n=1024 · block=128: raised ZeroDivisionError"),
        ("8 * problem.n", "exit('no')", r"useful_bytes at n=1024: raised SystemExit: no"),
        ("8 * problem.n", "8 * problem.m", r"useful_bytes at n=1024: raised AttributeError: no coordinate 'm'"),
        ('Array((problem.n,), "float32")}, {"y"', 'Array((problem.k,), "float32")}, {"y"', "signature at n="),
        ('("x", "y", np', '("z", "y", np', r"scale/plain .*: step 2, launch of scale: argument 1 is 'z'"),
        ("return Program(", "return str(", r"scale/plain .*: raised TypeError"),
        ('steps=(Fill("y"),', "steps=(5,", r"scale/plain .*: step 1 is of the kind int"),
        (
            "useful_bytes=lambda problem: 8 * problem.n",
            "useful_bytes=lambda problem: None",
            "useful_bytes .* TypeError",
        ),
        ("8 * problem.n", "-5", r"useful_bytes at n=1024 is -5"),
        ("8 * problem.n", "2**63", r"useful_bytes at n=1024 is 9223372036854775808; it is from 0 to 2\^63 - 1"),
        ("signature=lambda problem: Signature(", "signature=lambda problem: str(", "signature at .*: raised TypeError"),
        ("blocks = -(-", "return 3; blocks = -(-", "returned a int, and must return a Program"),
    ],
)
def test_faults_in_a_family_say_where(make_scale, devices, old, new, said):
    with pytest.raises(FamilyError, match=said) as caught:
        plan(make_scale((old, new)), Selection(), devices)
    assert "\n" not in str(caught.value)
    if "raised Z" in said:
        assert "(family.py, line " in str(caught.value)


def test_launches_that_are_equal_and_not_the_same_have_identities_of_their_own(make_scale, devices):
    numbers = "(0.0, -0.0, 5, np.int64(5), np.int32(5), True, 5.0)"
    family = make_scale(
        ("(64, 128, 256), default=128", "tuple(range(1, 8)), default=1"),
        ('(tune.block,), ("x", "y", np.int64(problem.n))', f'(64,), ("x", "y", {numbers}[tune.block - 1])'),
        ('defines={"BLOCK": tune.block}', "defines={}"),
    )
    made = plan(family, Selection(("plain",), tune={"block": ("all",)}), devices)
    programs = [family.variant("plain").make(trial.problem, trial.tunables) for trial in made.trials]
    assert len({trial.identity for trial in made.trials}) == 7
    for trial, program in zip(made.trials, programs, strict=True):
        device = devices["cuda"]
        assert trial.identity == identity(
            family, family.variant("plain"), trial.problem, trial.tunables, program, device
        )
