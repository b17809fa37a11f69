from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import Made, fill

from cuprof.cli.compare import print_comparison
from cuprof.comparison.compare import Comparison, Options, compare, row_label
from cuprof.comparison.sides import load_sides, read_side
from cuprof.comparison.trials import each, ending_of
from cuprof.core.errors import CuprofError, SelectionError, UsageError
from cuprof.core.records import State
from cuprof.interop import results
from cuprof.statistics.verdict import Verdict
from cuprof.store.store import Store


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
    assert [(row.base_problem["n"], row.verdict) for row in each(found.rows)] == [
        (1024, Verdict.SLOWER),
        (4096, Verdict.SLOWER),
    ]
    assert found.rows.iloc[0].base_median_ns == pytest.approx(1e4, rel=0.01)
    assert found.rows.iloc[0].base_device == "Test GPU 9000"
    assert any("--jsonbin keeps samples" in text for text in found.warnings) is not samples


def test_a_state_meets_the_trial_at_its_axes(tmp_path: Path, store: Store, url: str) -> None:
    fill(store, [Made("copy", 10.0, n=1024), Made("copy", 10.5, n=4096), Made("other", 1.0, n=4096)])
    path = write(tmp_path, "new.json")
    found = compare(*load_sides("latest", str(path), url), Options(noise=0.002))
    assert {row.base_problem["n"]: row.verdict for row in each(found.rows)} == {
        1024: Verdict.SAME,
        4096: Verdict.FASTER,
    }
    assert [entry.variant for entry in each(found.only_base)] == ["other"]
    assert any("its own method" in text for text in found.warnings)
    back = compare(*load_sides(str(path), "latest", url), Options(noise=0.002))
    assert [row.verdict for row in each(back.rows) if row.base_problem["n"] == 4096] == [Verdict.SLOWER]


def test_samples_are_found_where_nvbench_was_started(tmp_path: Path) -> None:
    path = write(tmp_path / "out", "run.json")
    text = path.read_text(encoding="utf-8").replace("run.json-bin/", "out/run.json-bin/")
    path.write_text(text, encoding="utf-8")
    side = read_side(path)
    assert side.source.read(side.trials).counts[0] == 80


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "not what nvbench writes"),
        ('{"a": 1}', "not what nvbench writes"),
        ('{"benchmarks": [{"name": "x"}]}', "not what nvbench writes"),
        ("[" * 200_000, "not what nvbench writes .RecursionError"),
        ('{"a":' * 200_000, "not what nvbench writes .RecursionError"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        read_side(path)
    assert "\n" not in str(caught.value)


def test_a_truncated_sample_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "x.json")
    sidecar = tmp_path / "x.json-bin" / "0.bin"
    sidecar.write_bytes(sidecar.read_bytes()[:-8])
    with pytest.raises(UsageError, match="78 samples where 80"):
        read_side(path)


def test_states_that_name_one_file_of_samples_again_and_again_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST_SAMPLES", 150)
    with pytest.raises(UsageError, match="it has more than 150 samples"):
        read_side(write(tmp_path, "x.json"))


def test_a_byte_order_mark_ahead_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path, "x.json")
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert len(read_side(path).trials) == 3


def skip(path: Path, place: int, reason: str) -> None:
    """Make one state one that has no times."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["benchmarks"][0]["states"][place] |= {"is_skipped": True, "skip_reason": reason, "summaries": None}
    path.write_text(json.dumps(content), encoding="utf-8")


def sides(*paths: Path) -> Comparison:
    return compare(*load_sides(str(paths[0]), str(paths[1]), "sqlite:///unused"))


def test_a_state_that_raised_is_a_failure_and_one_that_skipped_itself_is_none(tmp_path: Path) -> None:
    base, new = write(tmp_path / "a", "base.json"), write(tmp_path / "b", "new.json")
    skip(new, 0, "Unexpected error: an illegal memory\naccess was encountered")
    skip(new, 1, "needs 80 GiB")
    found = sides(base, new)
    assert [(trial.state, ending_of(trial)) for trial in each(found.broken)] == [
        (State.CRASHED, "copy · n=1024: crashed: Unexpected error: an illegal memory access was encountered")
    ]
    assert (len(found.rows), found.exit_code) == (0, 1)
    assert found.incomparable == ("copy · n=4096: skipped in NEW: needs 80 GiB",)
    assert len(found.skipped) == 1
    with pytest.raises(SelectionError, match="crashed in BASE: Unexpected error: an illegal memory access"):
        sides(new, base)


def on_devices(folder: Path, name: str, numbers: tuple[int, ...], slower: int = -1) -> Path:
    """Write a file with the states of several devices of one name; one of them may be slower."""
    folder.mkdir(parents=True, exist_ok=True)
    states = []
    for number_ in numbers:
        mean = 1.2e-5 if number_ == slower else 1e-5
        summaries = [
            number("nv/cold/time/gpu/mean", mean),
            number("nv/cold/time/gpu/stdev/relative", 0.01),
            number("nv/cold/sample_size", 100, "int64"),
        ]
        states.append(state(1024, *summaries, device=number_))
    machine = [{"id": number_, "name": "Test GPU 9000"} for number_ in range(4)]  # nvbench lists unused ones too
    content = {"devices": machine, "benchmarks": [{"name": "copy", "axes": [], "states": states}]}
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_devices_of_one_name_meet_by_their_number(tmp_path: Path) -> None:
    base = on_devices(tmp_path, "base.json", (0, 1))
    new = on_devices(tmp_path, "new.json", (1, 0), slower=1)
    found = sides(base, new)
    assert [(row_label(row), row.verdict) for row in each(found.rows)] == [
        ("copy · n=1024 · device 0", Verdict.UNDECIDED),
        ("copy · n=1024 · device 1", Verdict.SLOWER),
    ]


def test_one_device_of_a_name_meets_the_one_of_the_other_machine(tmp_path: Path) -> None:
    found = sides(on_devices(tmp_path, "base.json", (0,)), on_devices(tmp_path, "new.json", (3,), slower=3))
    assert [(row_label(row), row.verdict) for row in each(found.rows)] == [("copy · n=1024", Verdict.SLOWER)]


def test_which_of_several_devices_is_meant_is_not_guessed(tmp_path: Path) -> None:
    base, new = on_devices(tmp_path, "base.json", (0, 2)), on_devices(tmp_path, "new.json", (0, 1))
    found = sides(base, new)
    assert [row_label(row) for row in each(found.rows)] == ["copy · n=1024 · device 0"]
    assert found.incomparable == (
        "copy · n=1024 · device 2: Test GPU 9000 is device 2 in BASE, Test GPU 9000 is device 1 in NEW; several "
        "devices have that name, and which is meant cannot be told",
    )
    with pytest.raises(SelectionError, match="which is meant cannot be told"):
        sides(on_devices(tmp_path, "base.json", (3,)), on_devices(tmp_path, "new.json", (0, 1)))


def test_a_trial_is_not_compared_with_one_of_several_devices_at_random(tmp_path: Path, store: Store, url: str) -> None:
    fill(store, [Made("copy", 10.0, n=1024)])
    path = on_devices(tmp_path, "new.json", (0, 1))
    with pytest.raises(SelectionError, match="Test GPU 9000 is device 0 in the other tool's file; several devices"):
        compare(*load_sides("latest", str(path), url))


NUMBERS = (
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "1" * 400,
    "-1",
    "0",
    "1e-400",
    "1e308",
    "true",
    "null",
    '""',
    "{}",
    "[]",
)


def mutate(text: str, chosen: random.Random) -> str:
    """Return the JSON with a value of another kind, a name changed, a part left out, or a character replaced."""
    way = chosen.randrange(4)
    if way == 0:
        values = list(re.finditer(r'(?<=: )("[^"]*"|[\d.e+-]+|true|false|null)', text))
        found = chosen.choice(values)
        return text[: found.start()] + chosen.choice(NUMBERS) + text[found.end() :]
    if way == 1:
        values = list(re.finditer(r'(?<=: ")[\d.e+-]+(?=")', text))
        found = chosen.choice(values)
        return text[: found.start()] + chosen.choice(NUMBERS).strip('"') + text[found.end() :]
    if way == 2:
        names = list(re.finditer(r'"(\w+)": ', text))
        found = chosen.choice(names)
        return text[: found.start(1)] + chosen.choice(("x", "name", "value")) + text[found.end(1) :]
    place = chosen.randrange(len(text))
    return text[:place] + chosen.choice('"{}[],:0e\\\0ü') + text[place + 1 :]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_mutated_files_are_refused_in_one_line_or_compared(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    whole = write(tmp_path, "whole.json")
    without = write(tmp_path, "without.json", samples=False)
    refused, count = 0, 24 if seed == 1 else 200
    for _ in range(count):
        text = chosen.choice((whole, without)).read_text(encoding="utf-8")
        for _ in range(chosen.choice((1, 1, 3))):
            text = mutate(text, chosen)
        path = tmp_path / "mutated.json"
        path.write_text(text, encoding="utf-8")
        try:
            comparison = compare(*load_sides(str(whole), str(path), "sqlite:///unused"))
            print_comparison(comparison, chosen.choice(("table", "json", "markdown")))
        except CuprofError:  # anything else would be a traceback
            refused += 1
    assert count / 10 < refused < count
