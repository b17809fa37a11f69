"""A cache of Kernel Tuner's and its results in format T4 as a side of a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made import Made, fill

from cuprof.comparison.compare import Options, compare
from cuprof.comparison.sides import load_sides
from cuprof.comparison.trials import each
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure, State
from cuprof.statistics.verdict import Verdict
from cuprof.store.store import Store

ROWS: dict[str, dict[str, Any]] = {
    "64": {"block": 64, "time": 0.0100, "times": [0.0099, 0.0100, 0.0101, 0.0100, 0.0099, 0.0101, 0.01]},
    "128": {"block": 128, "time": 0.0050, "times": [0.0050, 0.0051, 0.0049, 0.0050, 0.0050, 0.0050, 0.0051]},
    "256": {"block": 256, "time": "CompilationFailedConfig", "times": []},
    "512": {"block": 512, "time": "InvalidConfig"},
}
CACHE = {
    "device_name": "Test GPU 9000",
    "kernel_name": "copy",
    "problem_size": 4096,
    "tune_params_keys": ["block"],
    "tune_params": {"block": [64, 128, 256, 512]},
    "objective": "time",
    "cache": ROWS,
}
T4 = {
    "schema_version": "1.0.0",
    "results": [
        {
            "configuration": {"block": 64},
            "times": {"compilation_time": 1.0, "runtimes": [10.0, 10.1, 9.9]},
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": 10.0, "unit": "us"}],
        },
        {"configuration": {"block": 128}, "times": {}, "invalidity": "correctness", "correctness": 0},
    ],
}


def side(path: Path, content: Any) -> Any:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return load_sides(str(path), str(path), "sqlite:///unused")[0]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_cache_is_read_whether_it_is_closed_or_not(tmp_path: Path, is_open: bool) -> None:
    text = json.dumps(CACHE)
    found = side(tmp_path / "cache.json", text.removesuffix("}}") + "," if is_open else text)
    assert [(entry.family, entry.tunables["block"], entry.state) for entry in each(found.trials)] == [
        ("copy", 64, State.OK), ("copy", 128, State.OK),
        ("copy", 256, State.COMPILE_ERROR), ("copy", 512, State.SKIPPED),
    ]  # fmt: skip
    assert found.trials["median_ns"][0] == pytest.approx(10_000)
    assert found.trials["device"][0] == "Test GPU 9000"


def test_t4_names_its_units_and_what_was_invalid(tmp_path: Path) -> None:
    right, wrong = each(side(tmp_path / "copy.t4.json", T4).trials)
    assert (right.family, right.measure, right.median_ns) == ("copy", Measure.HOT, pytest.approx(10_000))
    assert (wrong.state, wrong.measure) == (State.WRONG_RESULT, "")


def with_unit(unit: str | None) -> dict[str, Any]:
    first, *others = T4["results"]
    measured = {"name": "time", "value": 10.0} | ({} if unit is None else {"unit": unit})
    return {**T4, "results": [{**first, "measurements": [measured]}, *others]}


@pytest.mark.parametrize(
    ("unit", "ns"),
    [
        (None, 1e6), ("", 1e6), ("MS", 1e6), ("Milliseconds", 1e6), ("sec", 1e9), ("seconds", 1e9), ("US", 1e3),
        ("\u00b5s", 1e3), ("\u03bcs", 1e3), ("ns", 1.0), ("nanoseconds", 1.0),
    ],
)  # fmt: skip
def test_t4_units_are_known_by_their_usual_spellings(tmp_path: Path, unit: str | None, ns: float) -> None:
    right, _ = each(side(tmp_path / "copy.json", with_unit(unit)).trials)
    assert right.median_ns == pytest.approx(10 * ns)


def test_t4_in_another_unit_is_refused_in_one_line(tmp_path: Path) -> None:
    said = r"copy\.json: unknown unit of time 'parsec'; known are s, .*nanoseconds"
    with pytest.raises(UsageError, match=said) as caught:
        side(tmp_path / "copy.json", with_unit("parsec"))
    assert "\n" not in str(caught.value)


def test_a_configuration_meets_the_trial_of_its_tunables(tmp_path: Path, store: Store, url: str) -> None:
    times = {64: 5.0, 128: 10.0}
    hot = (Measure.HOT,)
    fill(store, [Made("copy", time, n=4096, tune={"block": block}, measures=hot) for block, time in times.items()])
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(CACHE), encoding="utf-8")
    found = compare(*load_sides("latest", str(path), url), Options(noise=0.01))
    verdicts = {row.base_tunables["block"]: row.verdict for row in each(found.rows)}
    assert verdicts == {64: Verdict.SLOWER, 128: Verdict.FASTER}
    assert any("Kernel Tuner's times are of its own method" in text for text in found.warnings)
    assert [entry.tunables["block"] for entry in each(found.only_new)] == [256, 512]


def test_what_is_neither_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not what kernel_tuner writes") as caught:
        side(tmp_path / "x.json", '{"tune_params_keys": 1')
    assert "\n" not in str(caught.value)
