"""The family of tricks and its records belong together, and its sources compile."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import tricks
from benchmarks.trick_records import APART, BASELINES, CHECKED, FAMILY, HONEST, OK, PROBES, STALE, TRICKS, Shown, Trick
from benchmarks.trick_sweeps import Judgement, list_unsound
from cuprof.builds.nvrtc import NvrtcBuild
from cuprof.core.records import State
from cuprof.families import Point
from cuprof.families.origin import load_family

US = 1e3


@pytest.fixture(scope="module")
def family():
    return load_family(FAMILY)


def test_every_variant_is_a_trick_or_honest_and_none_is_both(family):
    honest = [name for names in HONEST.values() for name in names]
    assert Counter([*honest, *(trick.variant for trick in TRICKS)]) == Counter(list(family.variants))
    for backend, names in HONEST.items():
        assert {family.variant(name).backend for name in names} == {backend}
        assert BASELINES[backend] in names
        assert PROBES.get(backend, names[0]) in names


def test_there_are_enough_of_each_kind(family):
    on = {name: variant.backend for name, variant in family.variants.items()}
    kinds = {backend: {trick.kind for trick in TRICKS if on[trick.variant] == backend} for backend in BASELINES}
    assert len(kinds["cuda"]) >= 36
    assert len(kinds["cpu"]) >= 12
    assert len(kinds["opencl"]) >= 4
    assert len(HONEST["cuda"]) >= 18
    for backend in BASELINES:  # of another kind each, on one back end
        assert len(kinds[backend]) == sum(on[trick.variant] == backend for trick in TRICKS)


def test_every_variant_says_what_it_does_and_every_trick_what_catches_it(family):
    assert all(variant.description.endswith(".") for variant in family.variants.values())
    states = {*map(str, State), "implausible", "timed in full"}
    for trick in TRICKS:
        assert trick.caught_by
        assert set(trick.expected) <= states


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_the_cuda_source_compiles_and_holds_what_is_launched(family, arch):
    pytest.importorskip("cuda.bindings.nvrtc")
    source = FAMILY / "tricks.cu"
    cubin = NvrtcBuild(source.read_text(), name=source.name, arch=arch, defines={"BLOCK": 256}).run()
    kernels = [variant for variant in family.variants.values() if variant.source == source.name]
    launched = {launch.kernel for each in kernels for launch in each.make(Point(n=2**20), Point()).launches}
    assert launched == set(cubin.kernels)


def judged(state: str, median_ns: float | None = None, message: str = "", **details: object) -> Judgement:
    expected = details.pop("expected", ("wrong_result", "timed in full"))
    trick = Trick("x", "kind", details.pop("caught_by", CHECKED), expected)
    return Judgement(trick, Shown(state, median_ns, message), 0.8, 50 * US, **details)


def test_a_time_below_the_honest_one_is_false():
    assert judged(OK, 50 * US).ending == "timed in full"
    assert judged(OK, 30 * US).ending == "false time"
    assert judged(OK, 0.0).ending == judged(OK, None).ending == judged(OK, float("nan")).ending == "false time"
    assert judged("wrong_result").ending == "wrong_result"


def test_a_trick_is_caught_where_it_ends_as_it_ought_to_and_harms_nobody():
    assert judged("wrong_result").is_caught
    assert judged(OK, 50 * US).is_caught
    assert not judged(OK, 30 * US).is_caught
    assert not judged(OK, 50 * US, expected=("wrong_result",)).is_caught
    assert not judged("wrong_result", unsound=("polynomial 0.0 µs of 50.0",)).is_caught
    assert judged(OK, 30 * US, expected=("ok",)).is_caught
    # Behind the border, a trick that changes nothing is timed in full: it gained nothing.
    assert judged(OK, 50 * US, expected=("wrong_result",), caught_by=APART).is_caught


def test_a_trick_that_finds_nothing_to_change_has_shown_nothing():
    stale = judged("launch_error", message=f"LookupError: {STALE}: no object", expected=("launch_error",))
    assert not stale.is_caught


def test_the_message_of_a_trick_that_is_out_of_date_is_the_one_that_is_looked_for():
    text = (FAMILY / "inside.py").read_text()
    assert f'STALE = "{STALE}"' in text


def test_those_beside_are_unsound_where_they_fail_or_their_time_is_another():
    true_ns = {"a": 50 * US, "b": 50 * US}
    sound = {"a": Shown(OK, 52 * US), "b": Shown(OK, 49 * US)}
    assert list_unsound(sound, true_ns, (0.8, 1.25)) == ()
    assert list_unsound({**sound, "a": Shown(OK, 90 * US)}, true_ns, (0.8, 1.25)) == ("a 90.0 µs of 50.0",)
    assert list_unsound({**sound, "b": Shown("crashed")}, true_ns, (0.8, 1.25)) == ("b crashed",)


def test_the_table_counts_tricks_believed_and_honest_variants_accused():
    honest = tricks.make_honest_row("twice", Shown(OK, 50 * US))
    accused = tricks.make_honest_row("default_stream", Shown("launch_error", None, "outside"))
    left_out = tricks.make_honest_row("triton_default_stream", Shown("skipped", None, "not installed"))
    caught, believed = tricks.make_row(judged("wrong_result")), tricks.make_row(judged(OK, 1 * US))
    assert list(tricks.make_criteria([honest, left_out, caught]).values()) == [True, True]
    found = tricks.make_criteria([honest, accused, left_out, caught, believed])
    assert list(found.values()) == [False, False]
    assert next(iter(found)).startswith("1 of 2 tricks")
    assert list(found)[-1] == "1 of 2 honest variants are accused"


def test_other_tools_are_counted_by_what_they_were_given():
    rows = [
        {"kind": "honest", "do_bench": "timed in full"},
        {"kind": "own stream", "do_bench": tricks.BELIEVED},
        {"kind": "sparse work", "do_bench": tricks.REFUSED, "kernel tuner": tricks.REFUSED},
        {"kind": "gate", "do_bench": tricks.NO_RESULT},
    ]
    assert tricks.count_believed(rows) == "do_bench 1 of 2, kernel tuner 0 of 1"


def test_the_other_tools_are_given_kernels_of_one_launch():
    kernels = tricks.list_kernels()
    assert "kept_in_module" in kernels
    assert "two_launches" not in kernels
    assert "own_stream" not in kernels
