"""Recorded spaces in every format, the score, and the benchmark's table."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import search, search_gpu
from benchmarks.process import Answer
from benchmarks.recorded_spaces import NoSpaceError, RecordedSpace, find_spaces, read_space
from benchmarks.space import PROJECT, copy_project
from benchmarks.table import Row, start
from benchmarks.wide_project import CASES, Case, Project
from cuprof.comparison.sides import Side
from cuprof.core.point import Point
from cuprof.core.records import Measure
from cuprof.families.origin import load_family
from cuprof.plan import Selection, plan
from tests.comparison.entries import made_side, record, series

TABLE = "x,mode,time_ms,cost_s\n1,a,2.5,0.5\n2,a,,0.25\n4,b,1.25,0.5\n"
ENTRY = {"compile_time": 300.0, "verification_time": 0, "benchmark_time": 200.0}
CACHE = {
    "tune_params_keys": ["x", "mode"],
    "objective": "time",
    "cache": {
        "1,a": {"x": 1, "mode": "a", "time": 2.5, **ENTRY},
        "2,a": {"x": 2, "mode": "a", "time": "RuntimeFailedConfig", **ENTRY, "benchmark_time": 0, "compile_time": 250},
        "4,b": {"x": 4, "mode": "b", "time": 1.25, **ENTRY},
    },
}
T4 = {
    "results": [
        {
            "configuration": {"x": each["x"], "mode": each["mode"]},
            "times": {"compilation": each["compile_time"], "validation": 0, "benchmark": each["benchmark_time"]},
            "invalidity": "correct" if isinstance(each["time"], float) else "runtime",
            "measurements": [{"name": "time", "value": each["time"], "unit": "ms"}],
            "objectives": ["time"],
        }
        for each in CACHE["cache"].values()  # type: ignore[attr-defined]
    ]
}


def test_all_formats_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    (tmp_path / "c.json").write_text(json.dumps(CACHE))
    (tmp_path / "d.json").write_text(json.dumps(CACHE)[:-2] + ",")  # as Kernel Tuner leaves it while it tunes
    (tmp_path / "e.json").write_text(json.dumps(T4))
    for path in find_spaces(tmp_path):
        space = read_space(path)
        assert [dict(each) for each in space.configurations] == [
            {"x": 1, "mode": "a"}, {"x": 2, "mode": "a"}, {"x": 4, "mode": "b"}
        ], path  # fmt: skip
        assert np.array_equal(space.times, [2.5, np.nan, 1.25], equal_nan=True)
        assert space.costs == pytest.approx([0.5, 0.25, 0.5])


BLOCKS = "block_size_x,block_size_y,tile_size_x,time_ms,cost_s\n32,4,2,1.5,0.5\n64,1,2,2.5,0.5\n48,4,1,2.5,0.5\n"


def test_a_search_of_a_recording_supposes_what_one_on_a_device_of_the_back_end_would(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text(BLOCKS)
    usual, half, broken = read_space(table).suppose("cuda")
    assert 0 == usual < half
    assert usual == broken, "192 threads are whole warps"
    assert read_space(table).suppose("cpu") == read_space(table).suppose(None) == [0, 0, 0]
    assert read_space(table).suppose("opencl") == [0, 0, 0], "multiples of 64 from 64 to 256"
    table.write_text(BLOCKS.replace("block_size_x", "MDIMC").replace("block_size_y", "NDIMC"))
    assert read_space(table).suppose("cuda") == [usual, half, broken], "as CLBlast calls them"
    table.write_text(BLOCKS.replace("block_size_x", "width").replace("block_size_y", "height"))
    assert read_space(table).suppose("cuda") == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("A100", "cuda"),
        ("convolution_RTX_3090", "cuda"),
        ("gemm-h200", "cuda"),
        ("rtx4090_T4", "cuda"),
        ("W6600_T4", "opencl"),
        ("MI250X", "opencl"),
        ("gemm_gfx90a", "opencl"),
        ("RX_7900_XTX", "opencl"),
        ("gemm_512", None),
        ("Arc_A770", None),
        ("pocl-AMD_EPYC_7742", None),
    ],
)
def test_whose_device_was_recorded_is_told_by_a_files_name(tmp_path: Path, name: str, backend: str | None) -> None:
    (tmp_path / f"{name}.csv").write_text(BLOCKS)
    assert read_space(tmp_path / f"{name}.csv").backend == backend


def test_what_a_cache_says_of_its_device_comes_before_its_name(tmp_path: Path) -> None:
    path = tmp_path / "A100.json"
    for device, backend in (("AMD Radeon PRO W7800", "opencl"), ("NVIDIA A100-PCIE-40GB", "cuda")):
        path.write_text(json.dumps({"device_name": device, **CACHE}))
        assert read_space(path).backend == backend


def test_recordings_are_searched_with_what_is_known_of_their_devices(tmp_path: Path) -> None:
    rows = "".join(f"{32 * x},{y},{1 + (x - 8) ** 2 + y},1\n" for x in range(1, 33) for y in range(9))
    for name in ("A100", "W7800"):
        (tmp_path / f"{name}.csv").write_text(f"block_size_x,y,time_ms,cost_s\n{rows}")
    contender = search.Contender(search.OURS, search.DEFAULT)
    cuda, opencl, told_opencl, told_cuda = (
        replace(search.repeat((contender, tmp_path / f"{name}.csv", 1, backend)), space="", own_ms=0)
        for name, backend in (("A100", None), ("W7800", None), ("A100", "opencl"), ("W7800", "cuda"))
    )
    assert cuda == told_cuda != opencl == told_opencl


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{}"),
        ("b.csv", "größe,time_ms,cost_s\n1,2,3\n".encode("latin-1")),
        ("c.csv", b"x," + b"1" * 200_000),
        ("d.csv.gz", b"x,time_ms,cost_s\n1,2,3\n"),
        ("e.csv.gz", gzip.compress(TABLE.encode(), mtime=0)[:10] + b"\xff" * 30),
        ("f.json", b'{"tune_params_keys": ["x"], "cache": [{"x": 1, "time": 2}]}'),
        ("g.json", b"[" * 100_000),
    ],
)
def test_what_is_no_space_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert search.main(["--spaces", str(tmp_path), "--seeds", "1", "--kernel-tuner", "--processes", "1"]) == 2
    assert f"{name}: neither a table, a Kernel Tuner cache nor T4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x,time_ms\n1,2\n", "no column cost_s; there are x, time_ms"),
        ("x;time_ms;cost_s\n1;2;3\n", "no column time_ms nor cost_s; there are x;time_ms;cost_s"),
        ("x,time_ms,cost_s\n1,failed,3\n2,,3\n", "none of its 2 configurations has a time"),
        ("x,time_ms,cost_s\n1,2,\n", "what trying its configurations costs is not known"),
        (f"x,time_ms,cost_s\n{10**400},2,3\n", "a tunable has a number of more than 64 bits"),
        ("x,time_ms,cost_s\n1,2,0.5\n2,3\n", "what trying its configurations costs is not known"),
    ],
)
def test_what_a_table_lacks_is_said(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(NoSpaceError, match=re.escape(said)):
        read_space(tmp_path / "a.csv")


def test_what_was_kept_and_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(TABLE)
    kept = tmp_path / "kept.jsonl"
    given = ["--spaces", str(tmp_path / "a.csv"), "--seeds", "1", "--kernel-tuner", "--processes", "1"]
    search.main([*given, "--keep", str(kept)])
    whole = kept.read_text()
    for broken in (whole + whole[:20], whole + "[1]\n", whole + '{"tool": "cuprof"}\n'):
        kept.write_text(broken)
        assert start(lambda: search.main([*given, "--keep", str(kept)])) == 2
        assert f"line {whole.count(chr(10)) + 1} of {kept} is no repetition" in capsys.readouterr().err
    assert start(lambda: search.main([*given, "--keep", str(tmp_path)])) == 2
    assert f"{tmp_path} cannot be added to: Is a directory" in capsys.readouterr().err


def test_numbers_that_are_texts_are_numbers_and_what_failed_has_no_measurement(tmp_path: Path) -> None:
    texts = {name: str(value) for name, value in ENTRY.items()}
    entries = {"1": {"x": 1, "time": "2.5", **texts}, "2": {"x": 2, "time": "InvalidConfig", **texts}}
    failed = {"configuration": {"x": 2}, "times": None, "invalidity": "compile"}
    right = {
        "configuration": {"x": 1},
        "times": {"compilation": "500"},
        "measurements": [{"name": "time", "value": "2.5"}],
    }
    (tmp_path / "a.json").write_text(json.dumps({"tune_params_keys": ["x"], "cache": entries}))
    (tmp_path / "b.json").write_text(json.dumps({"results": [right, failed]}))
    for path, costs in (("a.json", [0.5, 0.5]), ("b.json", [0.5, 0.0])):
        space = read_space(tmp_path / path)
        assert np.array_equal(space.times, [2.5, np.nan], equal_nan=True)
        assert space.costs == pytest.approx(costs)


def test_spaces_of_one_name_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("A100", "W7800"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "conv.csv").write_text(TABLE)
    assert search.main(["--spaces", str(tmp_path), "--kernel-tuner"]) == 2
    assert "conv.csv have the same name" in capsys.readouterr().err


def test_names_of_errors_and_what_is_no_time_are_failures_and_of_a_rate_the_largest_is_best(tmp_path: Path) -> None:
    rows = ["RuntimeFailedConfig", "0", "-1", "inf", "2.5"]
    table, cache = tmp_path / "a.csv", tmp_path / "b.json"
    table.write_text("x,time_ms,cost_s\n" + "".join(f"{x},{row},0.5\n" for x, row in enumerate(rows)))
    assert np.array_equal(read_space(table).times, [np.nan] * 4 + [2.5], equal_nan=True)
    entries = {str(rate): {"x": [rate], "GFLOP/s": rate, **ENTRY} for rate in (100.0, 400.0)}
    cache.write_text(json.dumps({"tune_params_keys": ["x"], "objective": ["GFLOP/s"], "cache": entries}))
    assert read_space(cache).configurations[read_space(cache).times.argmin()] == {"x": "[400.0]"}


def test_a_configuration_of_which_no_cost_was_recorded_costs_next_to_nothing() -> None:
    free = make([3.0, 2.0, 1.0, 4.0, 5.0, 6.0])
    free.costs[::2] = 0.0
    assert 2 in search.search(free, search.Space(free.configurations), "surrogate", 1)


def make(times: list[float]) -> RecordedSpace:
    return RecordedSpace("it", [{"x": x} for x in range(len(times))], np.array(times), np.ones(len(times)))


def test_the_expected_best_of_draws_is_the_mean_over_all_of_them() -> None:
    space = make([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])
    for draws in range(1, 7):
        exact = np.mean([min(each) for each in combinations(space.times, draws)])
        assert space.expected_best(draws) == pytest.approx(exact)


def test_the_optimum_at_once_scores_one_and_random_search_nothing() -> None:
    rng = np.random.default_rng(1)
    space = make(list(np.exp(rng.standard_normal(500))))
    order = list(np.argsort(space.times))
    assert space.score_curve(order) == pytest.approx(np.ones(50))
    scores = [space.score_curve(list(rng.permutation(500))).mean() for _ in range(300)]
    assert abs(np.mean(scores)) < 3 * np.std(scores) / 300**0.5 + 0.02


def test_nothing_found_yet_scores_nothing() -> None:
    space = make([np.nan, *np.linspace(1, 2, 99)])
    assert np.array_equal(space.score_curve([0]), np.zeros(50))


def test_the_benchmark_tells_what_holds_and_its_pieces_join(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{x},{y},{1 + abs(x - 7) + abs(y - 3)},1" for x in range(12) for y in range(12))
    (tmp_path / "it.csv").write_text("x,y,time_ms,cost_s\n" + rows)

    def run(seeds: str, keep: str) -> int:
        return search.main(
            ["--spaces", str(tmp_path / "it.csv"), "--seeds", seeds, "--strategies", "surrogate", "--kernel-tuner",
             "--processes", "1", "--out", str(tmp_path / "out"), "--keep", str(tmp_path / keep)]
        )  # fmt: skip

    assert run("1", "a") == 1, "Kernel Tuner was left out, so one criterion is not told"
    assert "not told: above every default of Kernel Tuner" in capsys.readouterr().out
    assert run("1:2", "b") == 1
    pieces = [(tmp_path / name).read_text() for name in ("a", "b")]
    (tmp_path / "c").write_text("".join(pieces))
    run("2", "c")
    assert (tmp_path / "c").read_text() == "".join(pieces), "nothing is left to run"
    (row,) = [each for each in json.loads((tmp_path / "out/search.json").read_text())["rows"] if each["space"] == "it"]
    assert row["seeds"] == 2
    assert row["score"] > 0.5
    assert search.main(["--spaces", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(("name", "case"), CASES.items())
def test_every_family_that_is_made_wide_still_has_what_is_edited(name: str, case: Case) -> None:
    for file, edits in case.edits.items():
        text = (PROJECT / "kernels" / name / file).read_text()
        assert [text.count(old) for old in edits] == [1] * len(edits)


TRIED = pd.DataFrame(
    {
        "tunables": ['{"x": 1}', '{"x": 2}', '{"x": 3}', '{"x": 1}', '{"x": 2}', '{"x": 3}'],
        "state": ["ok", "ok", "compile_error", "ok", "ok", "launch_error"],
        "job": ["look", "look", "look", "duel", "duel", "duel"],
        "median_ns": [900.0, 950.0, np.nan, 1100.0, 1000.0, 10.0],
        "cost_ns": [1e7, 3e7, 1e7, 1e7, 3e7, 1e7],
    }
)


def test_a_search_ends_with_the_best_of_its_last_comparison_and_not_with_the_luckiest_look() -> None:
    assert search_gpu.find_answer(TRIED) == '{"x": 2}'


def test_a_recorded_space_shares_the_whole_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_gpu, "query", lambda *_: TRIED[:3])
    space = search_gpu.record("", 10.0, tmp_path / "it.csv", ("x",))
    assert space.costs == pytest.approx([2, 6, 2])
    assert np.array_equal(space.times, [9e-4, 9.5e-4, np.nan], equal_nan=True)


def list_configurations(project: Project) -> list[Point]:
    """Return all that a sweep of the copied family is planned to run."""
    settings = dict(each.split("=") for each in project.case.settings)
    selection = Selection(
        variants=(settings.get("variants", "all"),),
        problem={"n": (settings["problem.n"],)},
        tune=dict.fromkeys(project.case.tunables, ("all",)),
    )
    return [trial.tunables for trial in plan(load_family(project.code), selection, {}).trials]


@pytest.mark.parametrize("name", CASES)
def test_a_family_that_is_restricted_has_the_chosen_configurations_and_no_other(name: str, tmp_path: Path) -> None:
    if name == "triton_matmul":
        pytest.importorskip("triton")
    project = Project(name, copy_project(tmp_path / "project"), tmp_path)
    project.widen()
    everything = list_configurations(project)
    assert len(everything) >= 4000
    chosen = [everything[0], everything[77], everything[-1]]
    project.restrict(chosen)
    assert list_configurations(project) == chosen


def test_replayed_searches_get_a_tenth_of_the_whole_time() -> None:
    points = [{"x": x, "y": y} for x in range(20) for y in range(20)]
    times = np.array([1 + abs(point["x"] - 12) + abs(point["y"] - 7) for point in points], float)
    rows = search_gpu.replay("grid", RecordedSpace("grid", points, times, np.ones(400), limit_s=40.0), 400.0)
    ours = [row for row in rows if row["search"] == search_gpu.OURS]
    assert len(ours) == search_gpu.SEEDS
    assert {(row["configurations"], row["share"], row["budget"]) for row in ours} == {(40, 0.1, 0.1)}
    assert {"x": 12, "y": 7} in [row["configuration"] for row in ours]


def make_truth(times_us: Sequence[float]) -> dict[Point, Side]:
    """Return a made-up truth: the configurations x = 0, 1, 2 … with these times."""
    noise = np.random.default_rng(1).normal(1, 0.002, (len(times_us), 60))
    records = []
    for x, time in enumerate(times_us):
        times = {Measure.COLD: series(1e3 * time * noise[x], np.arange(60), "one rotation")}
        records.append(record("it", "one", Point(), Point(x=x), times, identity=str(x), run_id=1 + x))
    side = made_side("variant", records)
    return {Point(x=x): replace(side, trials=side.trials.iloc[[x]]) for x in range(len(times_us))}


def make_rows(kind: str, found: Sequence[int | None]) -> list[Row]:
    return [
        {
            "space": "it",
            "search": kind,
            "configurations": 9,
            "share": 0.09 + 0.005 * number,
            "configuration": None if x is None else Point(x=x),
        }
        for number, x in enumerate(found)
    ]


def test_what_was_found_is_worth_what_the_truth_says() -> None:
    truth = make_truth([12.4, 12.0, 15.0])
    rows = search_gpu.rate([*make_rows("everything", [None]), *make_rows("one", [1, 2, 7, None])], truth)
    assert [row["over_best"] for row in rows] == [0, 0, pytest.approx(0.25, abs=0.005), None, None]
    assert rows[0]["found"] == rows[1]["found"] == "12.00 µs"
    assert rows[0]["configuration"] == Point(x=1)
    assert {row["over_best"] for row in search_gpu.rate(rows, {})} == {None}


@pytest.mark.parametrize(
    ("ours", "theirs", "no_worse", "seed_by_seed"),
    [
        ([0, 0, 2], [1, 1, 1], True, "1 slower, 0 faster, 2 same, 0 undecided, 0 not told"),
        ([2, 2, 0], [1, 1, 3], False, "2 slower, 1 faster, 0 same, 0 undecided, 0 not told"),
        ([0, 0, 0], [0, 0, 0], True, "0 slower, 0 faster, 3 same, 0 undecided, 0 not told"),
        ([0, 0, None], [0, 0, 0], None, "0 slower, 0 faster, 2 same, 0 undecided, 1 not told"),
        ([0, 0, 0], [0, 7, 0], None, "0 slower, 0 faster, 2 same, 0 undecided, 1 not told"),
        ([0, 0, 0], [], None, ""),
    ],
)
def test_no_worse_than_kernel_tuner_is_what_compare_says_of_both_medians(
    ours: list[int | None],
    theirs: list[int | None],
    no_worse: bool | None,
    seed_by_seed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    truth = make_truth([12.0, 12.02, 12.6, 14.0])
    found = [*make_rows("everything", [None]), *make_rows(search_gpu.OURS, ours), *make_rows(search_gpu.THEIRS, theirs)]
    asked = search_gpu.criteria(search_gpu.rate(found, truth), truth)
    assert asked["it: no worse than Kernel Tuner"] is no_worse
    assert asked["it: within 2% in 10% of the time, median of 10"] is (None if None in ours else ours[1] == 0)
    assert capsys.readouterr().out.rpartition(": ")[2].strip() == seed_by_seed
    assert not any(search_gpu.ON_GPU in text for text in asked)


@pytest.mark.parametrize(
    ("found", "holds"), [([0, 1], True), ([0, 2], False), ([2, 0, 0], True), ([0, None], None), ([None], None)]
)
def test_searches_on_the_gpu_are_asked_for_themselves(found: list[int | None], holds: bool | None) -> None:
    truth = make_truth([12.0, 12.02, 12.6])
    rows = search_gpu.rate([*make_rows("everything", [None]), *make_rows(f"{search_gpu.ON_GPU} 0", found)], truth)
    asked = search_gpu.criteria(rows, truth)
    assert asked[f"it: on the GPU within 2%, median of {len(found)}"] is holds
    assert asked[f"it: on the GPU in 10% of the time, median of {len(found)}"]
    late = [{**row, "share": row["share"] + 0.011} for row in rows]
    assert not search_gpu.criteria(late, truth)[f"it: on the GPU in 10% of the time, median of {len(found)}"]


@pytest.mark.parametrize(("whole_s", "budget_s"), [(200.0, "17.0"), (50.0, "2.5")])
def test_a_search_on_the_gpu_has_its_start_and_its_end_within_its_tenth(
    whole_s: float, budget_s: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[str] = []
    monkeypatch.setattr(
        Project, "sweep", lambda project, name, *settings: given.extend(settings) or Answer(7.0, fault="no")
    )
    search_gpu.search_live(Project("axpy", tmp_path, tmp_path), 3, whole_s)
    assert f"search.budget={budget_s}s" in given


FAMILY = """
import numpy as np
from cuprof.families import Array, Axis, Family, Signature, Tolerance, Tunable

family = Family(
    name="doubled", title="2 x", axes=(Axis("n", default=64, low=1, high=99),),
    signature=lambda problem: Signature({"x": Array((problem.n,), "float64")}, {"y": Array((problem.n,), "float64")}),
    generate=lambda problem, rng: {"x": rng.random(problem.n)},
    reference=lambda problem, inputs: {"y": 2 * inputs["x"]},
    tolerance=lambda problem, inputs, expected: Tolerance(reason="exact"),
    useful_bytes=lambda problem: 16 * problem.n,
)


@family.cpu("doubled", tunables=(Tunable("factor", (1, 2, 3), 2), Tunable("k", (1, 2), 1)), constraint="k < factor + 1")
def doubled(problem, tune, inputs, outputs):
    return lambda: np.multiply(inputs["x"], tune.factor, out=outputs["y"])
"""


def test_the_truth_has_what_is_right_and_one_line_says_what_has_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(CASES, "doubled", Case(("factor", "k"), (), {}))
    monkeypatch.setattr(search_gpu, "TRUTH", ("measure=quick",))
    project = Project("doubled", copy_project(tmp_path / "project"), tmp_path / "kept")
    project.code.mkdir()
    (project.code / "family.py").write_text(FAMILY)
    right, level, wrong = Point(factor=2, k=1), Point(factor=2, k=2), Point(factor=3, k=1)
    truth = search_gpu.measure_truth(project, [right, level, wrong])
    assert {*truth} == {right, level}
    rotations = [truth[one].trials["rotation"].iloc[0] for one in (right, level)]
    assert rotations[0] == rotations[1] != ""
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("doubled: side by side, 1 of 3 have no time: doubled/doubled · n=64 · factor=3, k=1: wrong_")


def test_a_sweep_for_the_truth_that_fails_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Project, "sweep", lambda *_: Answer(900.0, fault="stopped after 900 s"))
    project = Project("axpy", copy_project(tmp_path / "project"), tmp_path)
    assert search_gpu.measure_truth(project, [Point(block=32, per_thread=1)]) == {}
    assert capsys.readouterr().err == "axpy: side by side, 1 of 1 have no time: stopped after 900 s\n"


def test_a_search_on_the_gpu_that_fails_has_found_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Project, "sweep", lambda *_: Answer(7.0, fault="exit code 2: error: no device"))
    row = search_gpu.search_live(Project("axpy", tmp_path, tmp_path), 3, 100.0)
    assert (row["search"], row["configuration"], row["share"], row["budget"]) == ("on the GPU 3", None, 0.07, 0.07)
    assert capsys.readouterr().err == "axpy, on the GPU 3: exit code 2: error: no device\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--whole", "absent"], "error: --whole has no table of axpy: "),
        (["--whole", "other"], "other/axpy.csv has other tunables than block, per_thread"),
        (["--keep", "kept"], "of another run already; name another folder"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_is_measured(
    given: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(search_gpu, "require_gpu", lambda: pytest.fail("the GPU was asked for"))
    (tmp_path / "kept/axpy").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/axpy.csv").write_text(TABLE)
    assert start(lambda: search_gpu.main(["axpy", *given])) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_a_table_that_exists_is_taken_with_its_wall_time(tmp_path: Path) -> None:
    (tmp_path / "axpy.csv").write_text("block,per_thread,time_ms,cost_s\n32,1,0.5,1.25\n64,1,,2.75\n")
    recorded = search_gpu.read_table(tmp_path, "axpy")
    assert recorded.costs.sum() == 4
    assert recorded.configurations[0] == {"block": 32, "per_thread": 1}
