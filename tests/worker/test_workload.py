"""What is drawn of a problem, and for whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.config.model import MeasureConfig
from cuprof.family import Point
from cuprof.records import Measure
from cuprof.worker import workload
from cuprof.worker.messages import Job
from cuprof.worker.workload import COMPARED_SETS, UNSEEN_SETS, Workload
from tests.worker.twice import make_twice

N = 64
HOST = Job(Path(), "cpu", Point(n=N), (), 3, MeasureConfig(), {Measure.COLD: "m" * 16})
CARD = replace(HOST, backend="cuda")
FAMILY = make_twice(N)


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
