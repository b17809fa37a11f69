from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.core.errors import FamilyError
from cuprof.families import Axis, Family, Program, Signature, Tolerance, Tunable
from cuprof.families.validation import check_family

N = Axis("n", default=4, low=1, high=8)


def make_family(folder: Path | None = None, **changes) -> Family:
    details = {
        "name": "good",
        "title": "a family",
        "axes": (N,),
        "signature": lambda problem: Signature({}, {}),
        "generate": lambda problem, rng: {},
        "reference": lambda problem, inputs: {},
        "tolerance": lambda problem, inputs, reference: Tolerance(),
        "useful_bytes": lambda problem: 0,
        **changes,
    }
    family = Family(**details)
    family.folder = folder
    return family


def add_cpu(family: Family, name: str = "plain", **details) -> Family:
    family.cpu(name, **details)(lambda problem, tune, inputs, outputs: lambda: None)
    return family


def test_a_sound_family_passes():
    check_family(add_cpu(make_family(), tunables=(Tunable("block", (1, 2), 2),)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "white space"}, "is not made of letters"),
        ({"axes": ()}, "has no axes"),
        ({"axes": (N, N)}, "problem axis n is declared twice"),
        ({"axes": (replace(N, name="items"),)}, "cannot have that name; reserved are .*preset"),
        ({"axes": (replace(N, name="preset"),)}, "cannot have that name"),
        ({"axes": (replace(N, name="_n"),)}, "can be read as problem.name"),
        ({"axes": (replace(N, name="lambda"),)}, "can be read as problem.name"),
        ({"axes": (Axis("t", default="a"),)}, "needs choices"),
        ({"axes": (Axis("t", default="a", choices=("b", "c")),)}, "default 'a', but takes one of b, c"),
        ({"axes": (Axis("t", default="b", choices=("b", "b")),)}, "lists a value twice"),
        ({"axes": (Axis("n", default=1, low=3, high=2),)}, "low 3 above high 2"),
        ({"axes": (Axis("n", default=1, choices=(True, 2)),)}, "has the default 1"),
        ({"presets": {"big": {"m": 1}}}, "preset big sets m, which is no problem axis; there are n"),
        ({"presets": {"big": {"n": 9}}}, "preset big sets n = 9, but n takes a whole number from 1 to 8"),
        ({"presets": {"so big": {"n": 8}}}, "preset name 'so big'"),
        ({"baseline": "none"}, "baseline 'none' is no variant; there are plain"),
        ({"constants": "w"}, "constants is the text 'w', and must be a tuple of names"),
        ({"reference": None}, "reference is not a function"),
    ],
)
def test_faults_of_a_family(changes, said):
    with pytest.raises(FamilyError, match=said) as caught:
        check_family(add_cpu(make_family(**changes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"tunables": (Tunable("n", (1,), 1),)}, "tunable n has the name of a problem axis"),
        ({"tunables": (Tunable("b", (), 1),)}, "tunable b has no values"),
        ({"tunables": (Tunable("b", (1, 2), 3),)}, "has the default 3, which is not among 1, 2"),
        ({"tunables": (Tunable("b", (1, 2), True),)}, "has the default True, which is not among 1, 2"),
        ({"tunables": (Tunable("b", (1, 1), 1),)}, "lists a value twice: 1, 1"),
        ({"tunables": (Tunable("b", (1,), 1), Tunable("b", (1,), 1))}, "tunable b is declared twice"),
        ({"tunables": (Tunable("label", (1,), 1),)}, "cannot have that name"),
        ({"compiler": "icc"}, r"compiler 'icc' is not known; there are nvcc, g\+\+, gcc"),
        ({"expected": "maybe"}, 'must be "right" or "wrong"'),
        ({"name": "all"}, "is not all"),
        ({"name": "a,b"}, "made of letters"),
    ],
)
def test_faults_of_a_variant(details, said):
    with pytest.raises(FamilyError, match=said):
        check_family(add_cpu(make_family(), **details))


def test_no_variants():
    with pytest.raises(FamilyError, match="the family has no variants"):
        check_family(make_family())


def test_name_and_folder_differ(tmp_path):
    with pytest.raises(FamilyError, match=f"named 'good' but its folder {tmp_path.name!r}"):
        check_family(add_cpu(make_family(tmp_path)))


def test_missing_source_names_the_files_that_are_there(tmp_path):
    folder = tmp_path / "good"
    folder.mkdir()
    (folder / "plain.cu").touch()
    (folder / "plain.cl").touch()
    family = make_family(folder)
    family.cuda("plain", source="plane.cu")(lambda problem, tune: Program(()))
    with pytest.raises(FamilyError, match=r"source plane\.cu does not exist; its folder has plain\.cu$"):
        check_family(family)
    (folder / "plane.cu").mkdir()
    with pytest.raises(FamilyError, match=r"source plane\.cu is no regular file; name another$"):
        check_family(family)


def test_required_module_may_be_given_as_one_name():
    family = add_cpu(make_family(), requires="numba")
    assert family.variant("plain").requires == ("numba",)


def test_domain_without_both_bounds():
    assert Axis("n", 1, low=1).domain() == "a whole number from 1 up"
    assert Axis("n", 1, high=9).domain() == "a whole number up to 9"
    assert Axis("n", 1).domain() == "a whole number"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"axes": N}, r"axes is one Axis; write axes=\(Axis\(...\),\) with a comma"),
        ({"axes": "n"}, r"axes is 'n'; it takes a tuple"),
    ],
)
def test_a_missing_comma_is_told(changes, told):
    with pytest.raises(FamilyError, match=told):
        check_family(add_cpu(make_family(**changes)))


def test_a_missing_comma_after_a_tunable_is_told():
    with pytest.raises(
        FamilyError, match=r"variant plain: tunables is one Tunable; write tunables=\(Tunable\(...\),\)"
    ):
        check_family(add_cpu(make_family(), tunables=Tunable("block", (1,), 1)))
