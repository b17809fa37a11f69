"""Counters by source line, equal to those that NVIDIA's own reader gives for a recorded report, with stored text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from store_samples import FACTS, make_trial

from cuprof.core.errors import StoreError
from cuprof.core.records import LaunchRecord, Profile, State
from cuprof.ncu.files import find_conditions
from cuprof.ncu.report_file import read_report
from cuprof.results.source import (
    NO_STALLS,
    KernelSource,
    list_profiles,
    list_trial_sources,
    read_lines,
    read_sources,
)
from cuprof.store.store import Store

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "recorded" / "source_counters.ncu-rep"
STALL = "smsp__pcsamp_warps_issue_stalled_"


@cache
def recorded() -> list[LaunchRecord]:
    """Return the recorded launches, which take a second to read: not while tests are collected."""
    return [launch for found in read_report(REPORT).values() for launch in found]


def stored(url: str, launches: list[LaunchRecord], name: str = "kernel") -> list[KernelSource]:
    """Return launches as they come back from a database."""
    with Store.open(url) as store:
        profile = Profile(None, name, State.OK, find_conditions(REPORT), launches=tuple(launches))
        store.record_profile(None, profile)
        with store.snapshot() as connection:
            return read_sources(connection, list_profiles(connection)[1][name])


def test_every_line_has_the_numbers_of_nvidias_reader(url: str) -> None:
    """For all five kernels and their later launches."""
    ncu_report = pytest.importorskip("ncu_report")
    part = ncu_report.load_report(str(REPORT)).range_by_idx(0)
    actions = [part.action_by_idx(number) for number in range(part.num_actions())]
    found = stored(url, [replace(launch, ordinal=number) for number, launch in enumerate(recorded())])
    assert [each.kernel for each in found] == [action.name() for action in actions]
    assert len({each.kernel for each in found}) == 6
    for each, action in zip(found, actions, strict=True):
        lines, line_of = rows(each), cache(partial(find_line, action))
        executed = by_line(action, "inst_executed", line_of)
        assert {row.line: row.executed for row in lines} == executed
        stalls: Counter[int] = Counter()
        for name in action.metric_names():
            reason = name.removeprefix(STALL)
            if name.startswith(STALL) and not name.endswith("_not_issued") and reason not in NO_STALLS:
                samples = by_line(action, name, line_of)
                stalls.update(samples)
                shown = {row.line: row.reasons.get(reason, 0) for row in lines}
                assert {line: count for line, count in shown.items() if count} == {
                    line: count for line, count in samples.items() if count
                }
        assert {row.line: row.stalled for row in lines} == {line: stalls[line] for line in executed}
        assert each.lines["share"].sum() == pytest.approx(1 if each.stalled else 0)


def rows(source: KernelSource) -> list[Any]:
    """Return the lines of a kernel."""
    return list(source.lines.itertuples())


def by_line(action: Any, name: str, line_of: Callable[[int], int]) -> Counter[int]:
    """Return the values of a metric summed by source line, with NVIDIA's reader alone."""
    metric, found = action[name], Counter[int]()
    addresses = metric.correlation_ids()
    for number in range(metric.num_instances()):
        found[line_of(addresses.as_uint64(number))] += metric.as_uint64(number)
    return found


def find_line(action: Any, address: int) -> int:
    """Return the source line of an instruction; 0 where none is known."""
    info = action.source_info(address)
    return info.line() if info else 0


def test_a_trials_lines_have_the_text_that_was_compiled(url: str) -> None:
    text = "\n".join(f"line {number}" for number in range(1, 40))
    (launch, *_) = recorded()
    with Store.open(url) as store:
        one = make_trial(source_text=text)
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, [one])
        conditions = find_conditions(REPORT)
        store.record_profile(sweep, Profile(one.identity, "", State.OK, conditions, launches=(launch,)))
        store.record_profile(sweep, Profile(one.identity, "", State.OK, conditions))  # newer, without any
        with store.snapshot() as connection:
            (found,) = list_trial_sources(connection, 1)
            assert list_profiles(connection)[1] == {}
    assert found.name == one.label
    assert found.source_name == "/tmp/w5/interleaved_divergent.cu"
    assert all(row.text == f"line {row.line}" for row in rows(found))


def test_a_foreign_profile_has_no_text_but_its_files_on_this_machine(url: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text("first\n" * 30)
    source = recorded()[0].source
    assert source is not None
    (found,) = stored(url, [replace(recorded()[0], source=replace(source, files=(str(file),)))])
    assert set(found.lines["text"]) == {"first"}
    (found,) = stored(url, [recorded()[0]], "other")
    assert set(found.lines["text"]) == {""}


def test_only_source_files_are_read(tmp_path: Path) -> None:
    for name, lines in {"secret": [], "key.pem": [], "a.cuh": ["text"], "none.cu": []}.items():
        if name != "none.cu":
            (tmp_path / name).write_text("text")
        assert read_lines(str(tmp_path / name)) == lines
    os.mkfifo(tmp_path / "endless.cu")
    assert read_lines(str(tmp_path / "endless.cu")) == []


def test_limits_that_are_no_numbers_are_told(url: str) -> None:
    (launch, *_) = recorded()
    with pytest.raises(StoreError, match="is damaged or was changed by hand"):
        stored(url, [replace(launch, details={"occupancy_limits": {"warps": [1]}})])


def test_code_without_a_line_table_has_instructions_alone(url: str) -> None:
    source = recorded()[0].source
    assert source is not None
    bare = replace(source, files=(), file_numbers=(-1,) * len(source.sass), lines=(0,) * len(source.sass))
    (found,) = stored(url, [replace(recorded()[0], source=bare)])
    assert not found.has_lines
    assert found.lines["instructions"].tolist() == [len(source.sass)]
    assert found.instructions["stalled"].sum() == found.stalled
