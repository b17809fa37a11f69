"""Counters by instruction in SQLite and PostgreSQL: views have a row for each instruction, line and reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from cuprof.core.records import Profile, State, read_opcode
from cuprof.ncu.files import find_conditions
from cuprof.ncu.report_file import read_report
from cuprof.results.queries import query
from cuprof.store import tables as t
from cuprof.store.store import Store

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "recorded" / "source_counters.ncu-rep"


def test_views_have_a_row_for_each_instruction_line_and_reason(url: str) -> None:
    (launch, *_) = next(iter(read_report(REPORT).values()))
    source = launch.source
    assert source is not None
    with Store.open(url) as store:
        store.record_profile(None, Profile(None, launch.kernel, State.OK, find_conditions(REPORT), launches=(launch,)))
    rows = query(url, "SELECT * FROM instructions ORDER BY instruction")
    assert list(rows["opcode"]) == [read_opcode(text) for text in source.sass]
    assert list(rows["executed"]) == list(source.executed)
    waiting = {reason: found for reason, found in source.stalls.items() if not reason.endswith("selected")}
    total = sum(sum(found.values()) for found in waiting.values())
    assert rows["stalled"].sum() == total
    lines = query(url, "SELECT * FROM source_lines ORDER BY share DESC")
    assert lines["share"].sum() == pytest.approx(1)
    assert lines["instructions"].sum() == len(source.sass)
    reasons = query(url, "SELECT reason, SUM(samples) AS samples FROM stalls GROUP BY reason ORDER BY reason")
    assert dict(zip(reasons["reason"], reasons["samples"], strict=True)) == {
        reason: sum(found.values()) for reason, found in source.stalls.items()
    }


def test_a_launch_without_source_counters_has_no_row(url: str) -> None:
    (launch, *_) = next(iter(read_report(REPORT).values()))
    with Store.open(url) as store:
        store.record_profile(
            None, Profile(None, "bare", State.OK, find_conditions(REPORT), launches=(replace(launch, source=None),))
        )
        with store.snapshot() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(t.source_counters)).scalar() == 0
