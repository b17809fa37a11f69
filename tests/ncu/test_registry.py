"""The profilers by name, each held against what any of them promises without a device or a program."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from cuprof.core.errors import UnknownNameError
from cuprof.ncu import knowledge
from cuprof.ncu.registry import PROFILERS, get_profiler

RULE = re.compile(r"sum|max|min|mean(:\S+)?|none")


def test_an_unknown_profiler_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="ncu"):
        get_profiler("abacus")


@pytest.mark.parametrize("name", PROFILERS)
def test_a_profiler_says_who_it_is(name: str) -> None:
    profiler = get_profiler(name)
    assert profiler.name == name
    assert profiler.title
    assert profiler.backends


@pytest.mark.parametrize("name", PROFILERS)
def test_a_catalog_agrees_with_itself(name: str) -> None:
    catalog = get_profiler(name).catalog
    assert len(catalog.by_name) == len(catalog.metrics)
    for metric in catalog.metrics:
        assert RULE.fullmatch(metric.rule), metric.name
        assert metric.topic in ("", *catalog.topics), metric.name
        assert bool(metric.heading) or not metric.telling, metric.name
    places = [metric.telling for metric in catalog.metrics if metric.telling]
    assert sorted(places) == list(range(1, len(places) + 1))
    assert {metric.topic for metric in catalog.metrics} == {"", *catalog.topics}


def test_what_is_known_is_found_by_name() -> None:
    assert knowledge.heading_of("launch__grid_dim_z") == "Grid depth"
    assert knowledge.heading_of("launch__grid_dim_x") == "launch__grid_dim_x"
    assert knowledge.heading_of("nobody__knows.it") == "nobody__knows.it"
    assert [metric.heading for metric in knowledge.list_telling()][:2] == ["Grid depth", "DRAM read"]
    assert knowledge.list_topics()[0] == "Grid"
    assert sorted(["lts__x", "zzz", "launch__block_size", "dram__x"], key=knowledge.listing_order) == [
        "dram__x",
        "launch__block_size",
        "lts__x",
        "zzz",
    ]


def test_a_sweep_loads_nothing_that_drives_a_profiler() -> None:
    modules = "sys, cuprof.ncu.registry, cuprof.ncu.knowledge, cuprof.ncu.task, cuprof.engine.profiling"
    driving = ("profiler", "collector", "batch", "process", "report_file", "executable")
    code = f"import {modules}; print([name for name in {driving} if f'cuprof.ncu.{{name}}' in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
