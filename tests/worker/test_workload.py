"""What is drawn of a problem, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cuprof.config.model import MeasureConfig
from cuprof.core.errors import FamilyFault
from cuprof.core.records import Measure
from cuprof.families import Arrays, Family, Point, Tolerance, Variant
from cuprof.families.origin import Folder
from cuprof.worker import workload
from cuprof.worker.messages import Job
from cuprof.worker.workload import COMPARED_SETS, UNSEEN_SETS, Workload
from tests.worker.twice import make_twice

N = 64
HOST = Job(Folder(Path()), "cpu", Point(n=N), (), 3, MeasureConfig(), {Measure.COLD: "m" * 16})
CARD = replace(HOST, backend="cuda")
FAMILY = make_twice(N)
PLAIN = Variant("plain", "cpu", "cpu", lambda *_: None, "")


def test_a_job_on_the_host_finds_all_its_sets_after_one_on_a_card() -> None:
    drawn, fresh = Workload.make(FAMILY, CARD), Workload.make(FAMILY, HOST)
    assert len(drawn.sets) == COMPARED_SETS + UNSEEN_SETS
    more = drawn.for_job(HOST)
    shown = [[each.inputs["x"].tolist() for each in workload.sets] for workload in (more, fresh)]
    assert len(shown[0]) == len(shown[1]) == len(more.unseen) + COMPARED_SETS
    assert shown[0][:COMPARED_SETS] == shown[1][:COMPARED_SETS]
    assert not any(each in shown[1] for each in shown[0][COMPARED_SETS:])  # nobody can have kept their results
    assert more.compared == COMPARED_SETS
    assert more.for_job(HOST) is more
    assert drawn.for_job(CARD) is drawn


def test_a_job_on_a_card_keeps_what_was_drawn_for_the_host() -> None:
    drawn = Workload.make(FAMILY, HOST)
    assert drawn.for_job(CARD) is drawn


def test_where_there_was_no_room_for_a_further_set_none_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "available_bytes", lambda: workload.MEMORY_SHARE * 4 * N)
    drawn = Workload.make(FAMILY, CARD)
    assert len(drawn.sets) == COMPARED_SETS
    assert drawn.for_job(HOST) is drawn


def give(family: Family, right: Callable[[Arrays], np.ndarray]) -> tuple[Workload, dict[str, np.ndarray]]:
    """Return a workload, and results on its first set without a reference."""
    drawn = Workload.make(family, HOST)
    return drawn, {"y": right(drawn.sets[COMPARED_SETS].inputs).astype(np.float32)}


def twice(inputs: Arrays) -> np.ndarray:
    return np.asarray(2 * inputs["x"])


def test_what_is_right_for_unseen_inputs_is_found_out_when_it_is_asked_for_and_once() -> None:
    asked: list[None] = []
    family = make_twice(N)
    known = family.reference
    family.reference = lambda *given: (asked.append(None), known(*given))[1]
    drawn, right = give(family, twice)
    assert len(asked) == COMPARED_SETS
    for outputs, passed in ((right, True), ({"y": right["y"] + 1}, False), (right, True)):
        check = drawn.judge_unseen(outputs, COMPARED_SETS, PLAIN, 1)
        assert check.passed is passed
    assert len(asked) == COMPARED_SETS + 1
    inputs = drawn.redraw(COMPARED_SETS)
    assert inputs is drawn.sets[COMPARED_SETS].inputs
    for outputs, passed in ((right, False), ({"y": twice(inputs).astype(np.float32)}, True)):
        check = drawn.judge_unseen(outputs, COMPARED_SETS, PLAIN, 1)
        assert check.passed is passed


@pytest.mark.parametrize("absolute", [1e-3, np.full(N, 1e-3)])
def test_of_long_outputs_a_stretch_is_looked_at(monkeypatch: pytest.MonkeyPatch, absolute: float | np.ndarray) -> None:
    monkeypatch.setattr(workload, "STRETCH", N // 4)
    family = make_twice(N)
    family.tolerance = lambda *_: Tolerance(absolute=absolute, reason="a test")
    found = []
    for _ in range(40):
        drawn, outputs = give(family, twice)
        outputs["y"][: N // 2] = 0
        check = drawn.judge_unseen(outputs, COMPARED_SETS, PLAIN, 1)
        found.append(check.passed)
    assert {*found} == {True, False}
    check = drawn.judge_unseen({"y": 0 * outputs["y"]}, COMPARED_SETS, PLAIN, 1)
    assert check.message.endswith(f"{N // 4} of {N // 4} elements are wrong")


def test_a_tolerance_of_a_variants_own_holds_for_unseen_inputs_too() -> None:
    family = make_twice(N)
    family.cpu("lenient", tolerance=lambda *_: None)(lambda *_: None)
    drawn, outputs = give(family, lambda inputs: twice(inputs) + 0.5)

    def own(problem: Point, inputs: Arrays, expected: Arrays) -> Tolerance:
        assert inputs["x"].shape == expected["y"].shape == (N,)
        return Tolerance(absolute=1.0)

    for tolerance, passed in ((own, True), (None, False)):
        check = drawn.judge_unseen(outputs, COMPARED_SETS, replace(PLAIN, tolerance=tolerance), 1)
        assert check.passed is passed


def test_where_references_take_long_or_fail_no_variant_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    family = make_twice(N)
    drawn, outputs = give(family, twice)
    assert drawn.looks_late

    def fail(*_: object) -> Arrays:
        raise ZeroDivisionError("no inverse")

    broken = replace(drawn, family=replace(drawn.family, reference=fail))
    with pytest.raises(FamilyFault, match="no inverse"):
        broken.judge_unseen(outputs, COMPARED_SETS, PLAIN, 1)
    monkeypatch.setattr(workload, "LATE_S", 0.0)
    assert not Workload.make(family, HOST).looks_late
    assert Workload.make(family, replace(HOST, isolated=True)).looks_late
