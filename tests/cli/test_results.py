"""The table at the end of a sweep. Every number here is invented."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.cli.compare import OF_PAIRS
from cuprof.cli.labels import FAILED_STYLE
from cuprof.cli.output import Line, to_text
from cuprof.cli.results import MOST_ROWS, TOP, print_results, result_parts
from cuprof.core.records import State
from cuprof.report.load import load_study
from cuprof.report.study import Pair, Study
from cuprof.statistics.verdict import Judgement, Verdict
from tests.report.study_data import CPU, NO_CUDA, Made, fill, open_store

TRIALS = (
    Made("interleaved", 60.0, tune={"block": 64}, total=900.0, useful_bytes=4 * 2**20),
    Made("sequential", 20.0, tune={"block": 64}, total=860.0, useful_bytes=4 * 2**20),
    Made("vectorised_by_four", 5.125, tune={"block": 256, "items": 16}, total=845.0, useful_bytes=4 * 2**20),
    Made("broken", tune={"block": 64}, state=State.WRONG_RESULT, message="sum[0] = 1.5, expected 2.25 ± 0.01"),
    Made("opencl_tree", device=None, state=State.SKIPPED, message=str(NO_CUDA), unavailable=NO_CUDA),
    Made("cpu_serial", 4210.0, kind="cpu", device=CPU, useful_bytes=4 * 2**20),
)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    with open_store(tmp_path) as store:
        return load_study(store, sweep_id=fill(store, TRIALS))


def many(tmp_path: Path) -> Study:
    trials = [Made(name, 10.0 + i, tune={"block": i}) for name in ("a", "b") for i in range(MOST_ROWS)]
    with open_store(tmp_path) as store:
        return load_study(store, sweep_id=fill(store, trials))


def test_at_eighty_columns(study: Study) -> None:
    lines = to_text(result_parts(study), 80).splitlines()
    assert lines == GOLDEN.splitlines()
    assert max(map(len, lines[1:-3])) <= 80


def test_a_wrong_result_has_no_time_and_no_speedup(study: Study) -> None:
    line = next(line for line in to_text(result_parts(study), 200).splitlines() if line.startswith("broken"))
    assert line.split() == ["broken", "block=64", "WRONG"]


def test_numbers_are_whole_at_any_width(study: Study) -> None:
    def numbers(width: int) -> list[str]:
        words = to_text(result_parts(study), width).split()
        return [word for word in words if word.rstrip("×").replace(".", "").isdigit()]

    assert numbers(20) == numbers(200)


BOUNDED = (
    Made("narrow", 60.0),
    Made("bounded", 20.0, stopped_by="time"),
    Made("slow", 900.0, samples=3, stopped_by="time"),
    Made("once", 30.0, samples=1, stopped_by="samples"),
)


def test_too_few_samples_stand_in_place_of_an_interval_and_a_bound_is_named(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        lines = to_text(result_parts(load_study(store, sweep_id=fill(store, BOUNDED))), 100).splitlines()
    assert lines[1:-3] == FEW.splitlines()


def test_json_has_no_interval_of_too_few_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_store(tmp_path) as store:
        print_results(load_study(store, sweep_id=fill(store, BOUNDED)), "json")
    trials = {trial["variant"]: trial for trial in json.loads(capsys.readouterr().out)["trials"]}
    for name, count in (("slow", 3), ("once", 1)):
        assert trials[name]["cold_ns"] > 0
        assert (trials[name]["cold_low_ns"], trials[name]["cold_high_ns"]) == (None, None)
        assert trials[name]["cold_count"] == count
    assert trials["bounded"]["cold_low_ns"] < trials["bounded"]["cold_ns"]
    assert (trials["bounded"]["cold_stopped_by"], trials["narrow"]["cold_stopped_by"]) == ("time", "interval")


@pytest.mark.parametrize(("confidence", "few"), [(0.6, False), (0.95, True), (0.99, True)])
def test_how_many_samples_are_few_follows_from_the_level_asked_for(
    tmp_path: Path, confidence: float, few: bool
) -> None:
    asked = {"measure": {"confidence": confidence}}
    made = Made("v", 60.0, samples=3, spread=0.001, confidence=confidence)
    with open_store(tmp_path) as store:
        study = load_study(store, sweep_id=fill(store, [made], configuration=asked))
    line = next(line for line in to_text(result_parts(study), 100).splitlines() if line.startswith("v "))
    assert ("3 samples" in line) is few, line


def test_many_tunables_come_down_to_the_fastest(tmp_path: Path) -> None:
    lines = to_text(result_parts(many(tmp_path)), 100).splitlines()
    assert [f"block={i // 2} " in line for i, line in enumerate(lines[3:23])] == [True] * 2 * TOP
    assert sorted(line.split()[0] for line in lines[3:23]) == ["a"] * TOP + ["b"] * TOP
    assert lines[23] == f"the fastest tunables of each variant; {2 * (MOST_ROWS - TOP)} more: cuprof query timings"


def test_of_many_tunables_that_all_failed_the_others_are_among_the_failures(tmp_path: Path) -> None:
    lines = shown(tmp_path, *(Made("a", tune={"block": i}, state=State.COMPILE_ERROR) for i in range(MOST_ROWS + 5)))
    assert f"some tunables of each variant; {MOST_ROWS + 5 - TOP} more: cuprof query failures" in lines


def test_what_is_impossible_is_counted_by_reason(tmp_path: Path) -> None:
    asked = ["shared memory a block 52 KiB > 48 KiB", "shared memory a block 64 KiB > 48 KiB", "threads a block 9 > 8"]
    beyond = [Made("a", tune={"block": i}, state=State.IMPOSSIBLE, message=asked[i % 3]) for i in range(6)]
    with open_store(tmp_path) as store:
        lines = to_text(
            result_parts(load_study(store, sweep_id=fill(store, [*beyond, Made("b", 1.0)]))), 90
        ).splitlines()
    device = beyond[0].device.name
    assert not any(line.startswith("a ") for line in lines)
    assert lines[-3:-1] == [
        f"4 impossible on {device}: shared memory a block 52 KiB > 48 KiB, and 1 other size",
        f"2 impossible on {device}: threads a block 9 > 8",
    ]


def test_json_has_plain_numbers(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    print_results(study, "json", Path("page.html"))
    shown = json.loads(capsys.readouterr().out)
    assert (shown["baseline"], shown["report"]) == ("interleaved", "page.html")
    trials = {trial["variant"]: trial for trial in shown["trials"]}
    assert trials["vectorised_by_four"]["tunables"] == {"block": 256, "items": 16}
    assert trials["vectorised_by_four"]["cold_ns"] == pytest.approx(5125, rel=0.02)
    assert trials["broken"]["state"] == "wrong_result"
    assert trials["broken"]["speedup"] is None


def test_the_page_is_named_below_the_tables(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    print_results(study, "table", Path("/tmp/page.html"))
    assert capsys.readouterr().out.endswith("report: /tmp/page.html\n")


GOLDEN = """\
invented · n=2^20 · cold kernel time · Test GPU 9000 (reads 1.00 TB/s) · Test CPU 5 (reads 20.0 GB/s)
variant             tunables      time µs   ±%   GB/s  % peak  speedup  total µs
────────────────────────────────────────────────────────────────────────────────
vectorised_by_four  block=256,       5.12  0.2  818.4    81.8   11.71×       845
                    items=16
sequential          block=64        20.00  0.2  209.7    21.0    3.00×       860
interleaved (base)  block=64        60.00  0.2   69.9     7.0    1.00×       900
cpu_serial                           4210  0.2    1.0     5.0    0.01×
broken              block=64        WRONG

1 skipped (opencl_tree): no CUDA device was found; install the NVIDIA driver, then: pip install 'cuprof[cuda13]'
WRONG broken: sum[0] = 1.5, expected 2.25 ± 0.01
best: vectorised_by_four with block=256, items=16, 11.71 ± 0.03 × as fast as interleaved with block=64
"""


FEW = """\
variant        time µs         ±%   GB/s  % peak  speedup  stopped by
───────────────────────────────────────────────────────────────────────────
bounded           20.0        0.2  209.7    21.0    3.00×  time, 40 samples
once              30.0   1 sample  139.8    14.0   2.00×!  samples
narrow (base)     60.0        0.2   69.9     7.0    1.00×
slow             900.0  3 samples    4.7     0.5    0.07×  time
"""


def shown(tmp_path: Path, *made: Made, width: int = 100, **facts: object) -> list[str]:
    with open_store(tmp_path) as store:
        study = load_study(store, sweep_id=fill(store, made, **facts))
    return to_text(result_parts(study), width).splitlines()


def test_the_fastest_comes_first_and_many_tunables_are_cut_by_their_times(tmp_path: Path) -> None:
    """A search's first looks have few samples, and the longest of them counts only for what is called best."""
    made = [Made("a", 10.0 + i, tune={"block": i}, samples=1 if i < 4 else 40) for i in range(MOST_ROWS + 1)]
    lines = shown(tmp_path, *reversed(made))
    assert re.findall(r"block=\d+", "".join(lines[3:13])) == [f"block={i}" for i in range(TOP)]


def test_of_many_tunables_of_the_baseline_its_fastest_alone_is_the_base(tmp_path: Path) -> None:
    text = to_text(result_parts(many(tmp_path)), 200)
    assert text.count("(base)") == 1


def test_a_noisy_time_and_what_is_compared_with_it_are_marked(tmp_path: Path) -> None:
    lines = shown(tmp_path, Made("base", 60.0), Made("noisy", 20.0, spread=2.0), Made("quiet", 30.0))
    rows = {line.split()[0]: line for line in lines[3:6]}
    assert "!" in rows["noisy"].split()[2]
    assert rows["noisy"].split()[5].endswith("×!")
    assert "!" not in rows["quiet"] + rows["base"]
    assert "! an interval wider than ±20%: time it again before you rank by it (retry=noisy)" in lines


def test_a_speedup_with_a_wide_interval_is_marked_beside_two_narrow_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, speedup = {"narrow": (0.45, 0.55), "wide": (0.0036, 0.592), "open": (0.0, 1e300)}, re.compile(r"[\d.]+×!?")
    found = []
    for name, (low, high) in ends.items():
        judgement = Judgement(Verdict.FASTER, 0.5, low, high, True, 0.05)
        monkeypatch.setattr(Pair, "compared", property(lambda pair, found=judgement: found if pair.key else None))
        (folder := tmp_path / name).mkdir()
        found.append(speedup.findall("".join(shown(folder, Made("base", 20.0), Made("fast", 10.0))[3:5]))[0][-1])
    assert found == ["×", "!", "!"]


def test_messages_that_differ_in_a_type_are_two_reasons(tmp_path: Path) -> None:
    messages = ("float64 of shape (999,)", "float32 of shape (1000,)", "float64 of shape (998,)")
    made = (Made(f"v{i}", state=State.WRONG_RESULT, message=message) for i, message in enumerate(messages))
    lines = shown(tmp_path, Made("base", 60.0), *made)
    assert [line for line in lines if line.startswith("WRONG")] == [
        f"WRONG v0, v2: {messages[0]}",
        f"WRONG v1: {messages[1]}",
    ]


def test_each_exit_code_is_a_reason_of_its_own(tmp_path: Path) -> None:
    ends = ("exit code {} while checking", "prog 4096 ended with {}: no licence", "prog 4096 ended by signal {}")
    made = (Made(f"v{n}", state=State.CRASHED, message=end.format(9 + n % 2)) for n, end in enumerate(3 * ends))
    lines = [line for line in shown(tmp_path, Made("base", 60.0), *made) if line.startswith("CRASHED")]
    assert lines[0] == "CRASHED v0, v6: exit code 9 while checking"
    assert len(lines) == 6


def test_a_stored_failure_says_how_to_try_it_again(tmp_path: Path) -> None:
    failed = {"state": State.TIMED_OUT, "message": "stopped after 1 s"}
    wrong = Made("bad", state=State.WRONG_RESULT, message="off", expected="wrong")
    with open_store(tmp_path) as store:
        fill(store, [Made("old", **failed), wrong])
        again = [Made("old", state=State.PLANNED), replace(wrong, state=State.PLANNED), Made("new", **failed)]
        lines = to_text(result_parts(load_study(store, sweep_id=fill(store, again, name="second"))), 100).splitlines()
    assert "TIMEOUT old: stopped after 1 s (stored; retry=failed tries it again)" in lines
    assert "TIMEOUT new: stopped after 1 s" in lines
    assert any(line.endswith("bad: off") for line in lines)


def test_reused_times_have_their_age(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        old = fill(store, [Made("base", 60.0)])
        new = fill(store, [Made("base", state=State.PLANNED), Made("mine", 20.0)], name="second")
        assert new != old
        study = load_study(store, sweep_id=new)
    begun = study.sweep.started_at or 0.0
    study = replace(study, frame=study.frame.assign(started_at=begun - 1080))
    lines = to_text(result_parts(study), 100).splitlines()
    rows = {line.split()[0]: line for line in lines[3:5]}
    assert rows["base"].endswith("18 min before")
    assert "before" not in rows["mine"]
    assert "measured before this sweep: a speed-up stands there only where both agree; retry=all times it anew" in lines


def test_what_caches_serve_has_no_share_of_the_peak(tmp_path: Path) -> None:
    lines = shown(tmp_path, Made("base", 1.0, useful_bytes=4 * 2**20), Made("mine", 60.0, useful_bytes=4 * 2**20))
    rows = {line.split()[0]: line.split() for line in lines[3:5]}
    assert rows["base"][5] == "cached"
    assert float(rows["mine"][4]) < 100
    assert "cached faster than the memory reads: caches served it" in lines


def test_at_several_problems_each_has_its_best_and_verdicts_are_counted(tmp_path: Path) -> None:
    times = {"base": (10.0, 10.0, 10.0), "mine": (5.0, 20.0, 20.0), "also": (5.0, 20.0, 20.0)}
    made = [Made(name, time, {"n": 2**n}) for name, each in times.items() for n, time in enumerate(each, 10)]
    lines = shown(tmp_path, *made)
    assert [line for line in lines if line.startswith("best: base")] == ["best: base, 10.00 µs, the baseline"] * 2
    assert re.match(
        r"best: (mine|also), [\d.]+ ± 0\.\d+ × as fast as base$", next(filter(re.compile("best: [ma]").match, lines))
    )
    assert lines[-2:] == ["against base, at 3 problems:", "  mine, also: 1 faster, 2 slower"]


def test_failures_that_differ_in_numbers_are_one_line_and_their_log_is_named(tmp_path: Path) -> None:
    sizes = (4096, 2**20)
    message = "ValueError: cannot reshape array of size {} into shape (3,newaxis) (my.py, line 8, in mine)"
    failed = [
        Made("mine", problem={"n": n}, state=State.LAUNCH_ERROR, message=message.format(n), log="Traceback")
        for n in sizes
    ]
    lines = shown(tmp_path, *failed, *(Made("base", problem={"n": n}) for n in sizes))
    place = lines.index(f"FAILED mine: {message.format(4096)} (and at 1 other problem)")
    assert lines[place + 1] == "the whole log: cuprof status --log mine"


def test_wrong_as_expected_is_no_failure(tmp_path: Path) -> None:
    wrong = {"state": State.WRONG_RESULT, "message": "sum[0] = 1"}
    trials = [Made("base"), Made("racy", expected="wrong", **wrong), Made("bad", **wrong)]
    with open_store(tmp_path) as store:
        parts = list(result_parts(load_study(store, sweep_id=fill(store, trials))))
    rows = [(*row[:2], style) for row, style in zip(parts[1].rows, parts[1].styles, strict=True)]
    assert rows[1:] == [("racy", "wrong, as expected", "dim"), ("bad", "WRONG", FAILED_STYLE)]
    assert [part for part in parts if isinstance(part, Line) and "wrong" in part.text.lower()] == [
        Line("wrong, as expected racy: sum[0] = 1", "dim"),
        Line("WRONG bad: sum[0] = 1", FAILED_STYLE),
    ]


def test_a_pass_of_what_is_known_to_be_wrong_is_no_result(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sweep = fill(store, [Made("base"), Made("racy", 1.0, expected="wrong")])
        _, table, *_ = result_parts(load_study(store, sweep_id=sweep))
    styles = {tuple(row[:2]): style for row, style in zip(table.rows, table.styles, strict=True)}
    assert styles["racy", "PASSED, known wrong"] == FAILED_STYLE


def test_names_are_no_marks(tmp_path: Path) -> None:
    lines = shown(tmp_path, Made("cached", tune={"when": "before"}), Made("wow", 20.0, tune={"when": "now"}))
    assert not any(line.startswith(("cached faster", "measured before", "! ")) for line in lines)


def test_a_speed_up_beside_the_quotient_of_the_times_is_explained(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OF_PAIRS not in to_text(result_parts(study), 200)
    monkeypatch.setattr(Pair, "ratio", property(lambda _: 1 / 1.37))
    assert OF_PAIRS in to_text(result_parts(study), 200)


def test_without_a_right_baseline_the_fastest_stands_in_and_is_named(tmp_path: Path) -> None:
    skipped = Made("base", state=State.SKIPPED, message=str(NO_CUDA), unavailable=NO_CUDA)
    lines = shown(tmp_path, skipped, Made("slow", 20.0, kind="cpu"), Made("fast", 10.0, kind="cpu"))
    assert any(line.startswith("slow (base)") and " 1.00×" in line for line in lines)
    assert any(line.startswith("fast ") and re.search(r" (1\.9|2\.0)\d× ", f"{line} ") for line in lines)
    assert "the baseline base has no right, timed result here: slow stands in for it" in lines
    assert re.match(r"best: fast, [12]\.\d+ ± 0\.\d+ × as fast as slow$", lines[-1])


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.45, 0.5, 0.55), "best: fast, 2.00 ± 0.20 × as fast as base (undecided)"),
        ((0.1, 0.5, 0.55), "best: fast, from 1.82 to 10.00 × as fast as base (undecided)"),
        ((1e-7, 0.5, 1e4), "best: fast, 10.00 µs; how many times as fast as base cannot be told (undecided)"),
        ((0.0, 0.5, 0.6), "best: fast, 10.00 µs; how many times as fast as base cannot be told (undecided)"),
    ],
)
def test_a_lopsided_interval_is_shown_by_its_ends(
    ends: tuple[float, float, float], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = Judgement(Verdict.UNDECIDED, ends[1], ends[0], ends[2], True, 0.05)
    monkeypatch.setattr(Pair, "compared", judgement)
    assert shown(tmp_path, Made("base", 20.0), Made("fast", 10.0))[-1] == said


def test_the_best_of_one_variants_configurations_says_why_it_has_no_ratio(tmp_path: Path) -> None:
    lines = shown(tmp_path, *(Made("v", 10.0 * width, tune={"width": width}) for width in (1, 2, 3)))
    assert lines[-1] == (
        "best: v with width=1, 10.00 µs (no baseline: one variant; its median configuration takes 2.00 × as long)"
    )
    assert not any("(base)" in line for line in lines)


def test_one_right_variant_beside_failed_ones_is_the_baseline(tmp_path: Path) -> None:
    failed = Made("w", state=State.CRASHED, message="SIGSEGV")
    lines = shown(tmp_path, *(Made("v", 10.0 * width, tune={"width": width}) for width in (1, 2, 3)), failed)
    assert lines[3].startswith("v (base)")
    assert lines[-1] == "best: v with width=1, 10.00 µs (its median configuration takes 2.00 × as long)"
