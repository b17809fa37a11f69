"""What is drawn of a problem, and where its parts are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import current_thread
from typing import Any

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.errors import FamilyFault
from cuprof.core.records import Measure
from cuprof.families import Array, Arrays, Point, Signature, Tolerance, Variant
from cuprof.families.origin import Folder
from cuprof.worker import problem as module
from cuprof.worker.messages import Job
from cuprof.worker.problem import COMPARED_SETS, Problem
from tests.worker.twice import make_twice

N = 64
JOB = Job(Folder(Path()), "cpu", Point(n=N), (), 3, MeasureConfig(), {Measure.COLD: "m" * 16})
PLAIN = Variant("plain", "cpu", "cpu", lambda *_: None, "")


def test_two_sets_have_a_reference_and_further_ones_are_drawn_when_they_are_asked_for() -> None:
    drawn: list[None] = []
    family = make_twice(N)
    generate = family.generate
    family.generate = lambda *given: (drawn.append(None), generate(*given))[1]
    made = Problem.make(family, JOB)
    assert (len(drawn), len(made.standards), len(made.sets)) == (2, COMPARED_SETS, COMPARED_SETS)
    for number in range(COMPARED_SETS):
        assert np.array_equal(made.standards[number].expected["y"], 2.0 * made.sets[number]["x"])
    unmet = [made.draw()["x"].tobytes() for _ in range(3)]
    assert len({*unmet, *(inputs["x"].tobytes() for inputs in made.sets)}) == 5


def test_a_family_that_draws_what_it_should_not_is_at_fault_itself() -> None:
    made = Problem.make(make_twice(N), JOB)
    made.family.generate = lambda problem, rng: {"x": np.zeros(3, np.float32)}
    with pytest.raises(FamilyFault, match=r"generate\(\) gave input x as float32 of shape \(3,\), signature\(\) says"):
        made.draw()


def test_sets_that_are_made_at_once_are_those_that_are_made_one_after_the_other() -> None:
    names = set[str]()
    family = make_twice(N)
    generate = family.generate
    family.generate = lambda *given: (names.add(current_thread().name), generate(*given))[1]
    one, other = Problem.make(family, JOB), Problem.make(family, JOB, at_once=True)
    assert (current_thread().name in names, len(names) > 1) == (True, True)
    for number in range(COMPARED_SETS):
        assert np.array_equal(one.sets[number]["x"], other.sets[number]["x"])
        assert np.array_equal(one.standards[number].expected["y"], other.standards[number].expected["y"])


def test_where_there_is_no_room_for_further_sets_none_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_bytes", lambda: module.MEMORY_SHARE * 4 * N - 1)
    for at_once in (False, True):
        assert len(Problem.make(make_twice(N), JOB, at_once=at_once).sets) == 1


def test_results_that_are_the_same_for_all_inputs_tell_nothing_apart() -> None:
    def tells(draws: Callable[[np.random.Generator], Any], **parts: Any) -> bool:
        family = make_twice(N)
        family.generate = lambda point, rng: {"x": np.full(N, draws(rng), np.float32)}
        return Problem.make(replace(family, **parts), JOB).tells_apart()

    assert tells(lambda rng: rng.random())
    assert tells(lambda rng: rng.integers(2))  # equal for every other draw
    assert not tells(lambda rng: np.random.default_rng(42).random())
    near = lambda rng: 1 + rng.random() / 1e3  # noqa: E731
    assert tells(near)
    assert not tells(near, tolerance=lambda *_: Tolerance(relative=0.01))
    assert tells(near, tolerance=lambda *_: Tolerance(relative=0.01), verify=lambda *_: False)


def test_inputs_that_all_draws_have_in_common_are_named() -> None:
    def find_same(count: int, **parts: Any) -> list[str]:
        family, kept = make_twice(N), np.ones(count, np.float32)
        inputs = {"x": Array((N,), "float32"), "w": Array((count,), "float32")}
        family.signature = lambda point: Signature(inputs, {"y": Array((N,), "float32")})
        family.generate = lambda point, rng: {"x": rng.random(N, np.float32), "w": kept.copy()}
        return Problem.make(replace(family, **parts), JOB).list_same()

    assert find_same(100) == ["w"]
    assert find_same(100, constants=("w",)) == find_same(2) == []


def test_what_verify_alone_knows_is_taken_to_tell_them_apart() -> None:
    family = replace(make_twice(N), reference=lambda *_: {}, verify=lambda *_: True)
    assert Problem.make(family, JOB).tells_apart()


def test_results_are_compared_with_the_reference_of_their_own_set() -> None:
    made = Problem.make(make_twice(N), JOB)
    right = {"y": (2 * made.sets[1]["x"]).astype(np.float32)}
    found = [made.compare(right, each, made.hold(PLAIN, each), 1).passed for each in made.standards]  # type: ignore[arg-type]
    assert found == [False, True]


def test_a_variant_is_held_to_a_tolerance_of_its_own_on_each_set() -> None:
    asked: list[Arrays] = []

    def own(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
        assert np.array_equal(expected["y"], 2.0 * inputs["x"])
        asked.append(inputs)
        return Tolerance(absolute=1.0)

    made = Problem.make(make_twice(N), JOB)
    lenient = Variant("lenient", "cpu", "cpu", lambda *_: None, "", tolerance=own)
    (_, wide), (_, plain) = ([made.hold(variant, each) for each in made.standards] for variant in (lenient, PLAIN))
    assert len(asked) == COMPARED_SETS
    off = {"y": (2 * made.sets[1]["x"] + 0.5).astype(np.float32)}
    assert [made.compare(off, made.standards[1], each, 1).passed for each in (wide, plain)] == [True, False]  # type: ignore[arg-type]
