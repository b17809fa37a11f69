"""The hash of a method: it changes with what changes the numbers, and with nothing else."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from cuprof.backends.contract import ReadingOptions
from cuprof.backends.registry import get_spec, list_backends
from cuprof.config.model import MeasureConfig
from cuprof.core.records import Measure
from cuprof.worker import method
from cuprof.worker.method import ignored_settings, methods, reading_options, relevant_settings

ALL = MeasureConfig(modes=("cold", "hot", "total"))
EVERY, KERNEL = {Measure.COLD, Measure.HOT, Measure.TOTAL}, {Measure.COLD, Measure.HOT}
SAMPLING = {
    "target": 0.01, "confidence": 0.9, "min_samples": 30, "max_samples": 999, "max_seconds": 2.0,
    "patience_seconds": 20.0, "warmup": 5, "settle_seconds": 0.5,
}  # fmt: skip
CHANGES: dict[str, tuple[Any, set[Measure]]] = {
    **{name: (value, EVERY) for name, value in SAMPLING.items()},
    "clock_tolerance": (0.1, EVERY),
    "interleave": (False, EVERY),
    "energy": (True, EVERY),
    "flush": ("dirty", {Measure.COLD}),
    "blocking": (False, KERNEL),
    "graph": (True, KERNEL),
    "timer": ("cupti", KERNEL),
    "host_memory": ("pageable", {Measure.TOTAL}),
    "energy_seconds": (0.5, set()),
    "race": (True, EVERY),
    "rotation": (4, set()),
}
"""Setting → another value, and the measures that it matters to where the back end heeds it."""


def test_every_setting_is_thought_of() -> None:
    assert set(CHANGES) | {"modes"} == {field.name for field in fields(MeasureConfig)}


@pytest.mark.parametrize("backend", list_backends())
@pytest.mark.parametrize("setting", CHANGES)
def test_a_setting_changes_the_hashes_of_the_measures_that_it_matters_to(setting: str, backend: str) -> None:
    (value, matters), spec = CHANGES[setting], get_spec(backend)
    before, after = methods(ALL, backend), methods(replace(ALL, **{setting: value}), backend)
    assert set(before) == set(spec.measures)
    heeded = set() if setting in spec.unheeded else matters & set(before)
    assert {measure for measure in before if before[measure] != after[measure]} == heeded


def test_how_long_energy_is_taken_matters_where_it_is() -> None:
    energy = replace(ALL, energy=True)
    before, after = methods(energy, "cuda"), methods(replace(energy, energy_seconds=0.5), "cuda")
    assert not set(before.values()) & set(after.values())


@pytest.mark.parametrize(
    ("backends", "ignored"),
    [
        (("cpu",), ("blocking", "graph", "energy", "timer", "clock_tolerance")),
        (("opencl",), ("graph", "timer")),
        (("cpu", "opencl"), ("graph", "timer")),
        (("cpu", "cuda"), ()),
        ((), ()),
    ],
)
def test_a_setting_is_ignored_where_no_back_end_heeds_it(backends: tuple[str, ...], ignored: tuple[str, ...]) -> None:
    changed = replace(ALL, blocking=False, graph=True, energy=True, timer="cupti", clock_tolerance=0.1, target=0.1)
    assert ignored_settings(changed, backends) == ignored
    assert ignored_settings(ALL, backends) == ()


@pytest.mark.parametrize("backend", list_backends())
@pytest.mark.parametrize("setting", CHANGES)
def test_what_is_ignored_changes_no_hash(setting: str, backend: str) -> None:
    changed = replace(ALL, **{setting: CHANGES[setting][0]})
    if ignored_settings(changed, [backend]):
        assert methods(changed, backend) == methods(ALL, backend)


def test_relevant_settings_are_those_in_effect() -> None:
    composed = {"flush": "clean", "graph": False, "energy": False, "energy_seconds": 1.0, "target": 0.005}
    assert relevant_settings(Measure.COLD, composed, "cuda") == {"flush": "clean", "graph": False, "energy": False}
    with_energy = {**composed, "energy": True}
    assert relevant_settings(Measure.TOTAL, with_energy, "cuda") == {"energy": True, "energy_seconds": 1.0}


def test_measures_have_methods_of_their_own_where_they_are_asked_for_and_offered() -> None:
    assert set(methods(ALL, "cuda")) == set(methods(ALL, "opencl")) == EVERY
    assert set(methods(ALL, "cpu")) == KERNEL
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in methods(ALL, "cuda").values())
    assert len(set(methods(ALL, "cuda").values())) == 3
    assert set(methods(MeasureConfig(modes=("total",)), "cuda")) == {Measure.TOTAL}
    assert methods(MeasureConfig(modes=("total",)), "cpu") == {}


def test_which_measures_are_taken_besides_is_no_part() -> None:
    alone = methods(MeasureConfig(modes=("cold",)), "cuda")
    assert alone[Measure.COLD] == methods(ALL, "cuda")[Measure.COLD]


def test_versions_change_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {backend: methods(ALL, backend) for backend in ("cuda", "opencl", "cpu")}
    changed = replace(get_spec("opencl"), timing_version=-1)
    monkeypatch.setattr(method, "get_spec", lambda backend: changed if backend == "opencl" else get_spec(backend))
    assert methods(ALL, "cuda") == before["cuda"]
    assert methods(ALL, "cpu") == before["cpu"]
    assert not set(methods(ALL, "opencl").values()) & set(before["opencl"].values())
    monkeypatch.setattr(method, "METHOD_VERSION", -1)
    assert not set(methods(ALL, "cuda").values()) & set(before["cuda"].values())
    assert not set(methods(ALL, "cpu").values()) & set(before["cpu"].values())


def test_what_the_settings_become() -> None:
    assert reading_options(MeasureConfig()) == ReadingOptions()
    changed = MeasureConfig(flush="none", blocking=False, graph=True, host_memory="pageable", timer="cupti")
    assert reading_options(changed) == ReadingOptions("none", False, False, True, True)
