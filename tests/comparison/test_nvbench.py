from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import Made, fill

from cuprof.comparison import Options, Verdict, compare, load_sides
from cuprof.comparison.nvbench import read_nvbench
from cuprof.errors import UsageError
from cuprof.records import Measure
from cuprof.store import Store


def state(n: int, *summaries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    axis = {"name": "n", "type": "int64", "value": str(n)}
    return {"name": f"Device=0 n={n}", "device": 0, "axis_values": [axis], "summaries": list(summaries), **changes}


def number(tag: str, value: object, kind: str = "float64", name: str = "value") -> dict[str, Any]:
    return {"tag": tag, "data": [{"name": name, "type": kind, "value": str(value)}]}


def write(folder: Path, name: str, factor: float = 1.0, *, samples: bool = True, bench: str = "copy") -> Path:
    """Write a file as `--jsonbin` leaves it: sample times in seconds, float32, in a folder beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    states = []
    for index, n in enumerate((1024, 4096)):
        times = 1e-5 * factor * (1 + 0.003 * np.random.default_rng(index + int(100 * factor)).standard_normal(80))
        summaries = [
            number("nv/cold/time/gpu/mean", times.mean()),
            number("nv/cold/time/gpu/stdev/relative", times.std() / times.mean()),
            number("nv/cold/sample_size", times.size, "int64"),
        ]
        if samples:
            side = folder / f"{name}-bin"
            side.mkdir(exist_ok=True)
            times.astype("<f4").tofile(side / f"{index}.bin")
            data = [
                {"name": "filename", "type": "string", "value": f"{name}-bin/{index}.bin"},
                {"name": "size", "type": "int64", "value": str(times.size)},
            ]
            summaries.append({"tag": "nv/json/bin:nv/cold/sample_times", "data": data})
        states.append(state(n, *summaries))
    states.append(state(5, is_skipped=True, skip_reason="too large", summaries=None))
    content = {
        "devices": [{"id": 0, "name": "Test GPU 9000"}],
        "benchmarks": [{"name": bench, "axes": [], "states": states}],
    }
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("samples", [True, False])
def test_two_files_are_matched_by_benchmark_and_axes(tmp_path: Path, samples: bool) -> None:
    base = write(tmp_path / "a b", "base.json", samples=samples)
    new = write(tmp_path / "ü", "new.json", 1.05, samples=samples)
    found = compare(*load_sides(str(base), str(new), "sqlite:///unused"))
    assert [(row.match.base.problem["n"], row.verdict) for row in found.rows] == [
        (1024, Verdict.SLOWER),
        (4096, Verdict.SLOWER),
    ]
    assert found.rows[0].base_ns == pytest.approx(1e4, rel=0.01)
    assert found.rows[0].match.base.device == "Test GPU 9000"
    assert any("--jsonbin keeps samples" in text for text in found.warnings) is not samples


def test_a_state_meets_the_trial_at_its_axes(tmp_path: Path, store: Store, url: str) -> None:
    fill(store, [Made("copy", 10.0, n=1024), Made("copy", 10.5, n=4096), Made("other", 1.0, n=4096)])
    path = write(tmp_path, "new.json")
    found = compare(*load_sides("latest", str(path), url), Options(noise=0.002))
    assert {row.match.base.problem["n"]: row.verdict for row in found.rows} == {
        1024: Verdict.SAME,
        4096: Verdict.FASTER,
    }
    assert [entry.variant for entry in found.only_base] == ["other"]
    assert any("its own method" in text for text in found.warnings)
    back = compare(*load_sides(str(path), "latest", url), Options(noise=0.002))
    assert [row.verdict for row in back.rows if row.match.base.problem["n"] == 4096] == [Verdict.SLOWER]


def test_samples_are_found_where_nvbench_was_started(tmp_path: Path) -> None:
    path = write(tmp_path / "out", "run.json")
    text = path.read_text(encoding="utf-8").replace("run.json-bin/", "out/run.json-bin/")
    path.write_text(text, encoding="utf-8")
    side = read_nvbench(path)
    assert side.entries[0].series[Measure.COLD].durations.size == 80


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("[]", "not what nvbench writes"),
        ('{"a": 1}', "not what nvbench writes"),
        ('{"benchmarks": [{"name": "x"}]}', "not what nvbench writes"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        read_nvbench(path)
    assert "\n" not in str(caught.value)


def test_a_truncated_sample_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "x.json")
    sidecar = tmp_path / "x.json-bin" / "0.bin"
    sidecar.write_bytes(sidecar.read_bytes()[:-8])
    with pytest.raises(UsageError, match="78 samples where 80"):
        read_nvbench(path)
