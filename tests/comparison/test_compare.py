from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from made import HOST, OTHER_GPU, Made, fill

from cuprof.comparison.compare import Comparison, Options, compare, judge_anew
from cuprof.comparison.sides import load_sides
from cuprof.comparison.trials import each, ending_of
from cuprof.core.errors import SelectionError, UnknownNameError, UsageError
from cuprof.core.records import Measure, State
from cuprof.statistics.verdict import Rule, Verdict
from cuprof.store.store import Store

OLD, NEW = "a" * 40, "ab" + "c" * 38


def made_family(change: float = 1.0, count: int = 3) -> list[Made]:
    return [Made(time=50.0 * change, n=2**power, source=f"{change}") for power in range(20, 20 + count)]


def run(url: str, base: str = "1", new: str = "2", options: Options | None = None, experiment: str = "") -> Comparison:
    return compare(*load_sides(base, new, url, experiment), options)


def test_sweeps_are_matched_by_what_they_time_whatever_the_source(store: Store, url: str) -> None:
    fill(store, made_family())
    fill(store, [*made_family(1.05), Made("second", n=7)], seed=2)
    found = run(url, "latest~1", "latest")
    assert found.rows["verdict"].tolist() == [Verdict.SLOWER] * 3
    assert all(row.low < 1.05 < row.high for row in each(found.rows))
    assert not any(row.paired or row.unchanged for row in each(found.rows))
    assert [entry.variant for entry in each(found.only_new)] == ["second"]
    assert found.exit_code == 1
    assert run(url, "2", "1").exit_code == 0


def test_variants_of_one_sweep_are_paired_by_round(store: Store, url: str) -> None:
    fill(store, [Made("first"), Made("second", 51.0), Made("third")])
    found = run(url, "invented/first", "invented/second")
    (row,) = each(found.rows)
    assert (row.verdict, found.noises) == (Verdict.SLOWER, {})
    assert row.base_rotation == row.new_rotation != ""
    assert run(url, "second", "first", experiment="study").rows.iloc[0].verdict == Verdict.FASTER


def test_rounds_are_shared_within_a_rotation_alone(store: Store, url: str) -> None:
    fill(store, [Made("v0"), Made("v1"), Made("v2", rotation="two")])

    def together(one: str, other: str, sweep: int) -> bool:
        sides = load_sides(f"invented/{one}", f"invented/{other}", url, sweep=sweep)
        marks = [side.trials["rotation"][0] for side in sides]
        return marks[0] == marks[1]

    assert together("v0", "v1", 1)
    assert not together("v1", "v2", 1)


def test_variants_stand_with_their_fastest_tunables_and_every_choice_counts(store: Store, url: str) -> None:
    blocks = ({"block": 64}, {"block": 128})
    fill(store, [Made(name, time, tune=tune) for name in "ab" for time, tune in zip((60.0, 50.0), blocks, strict=True)])
    found = run(url, "invented/a", "invented/b")
    (row,) = each(found.rows)
    assert (row.base_tunables["block"], row.choices) == (128, 4)
    assert row.error_rate == pytest.approx(0.05 / 4)
    assert any("fastest tunables" in text for text in found.warnings)
    assert len(run(url, "invented/a", "invented/b", Options(tunables="equal")).rows) == 2


def test_a_measurement_taken_over_or_copied_is_not_compared_with_itself(store: Store, url: str, tmp_path: Path) -> None:
    trials = made_family()
    fill(store, trials)
    file = Path(url.removeprefix("sqlite:///"))
    store.close()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(file, copy)
    found = run(url, "1", str(copy))
    assert (len(found.rows), len(found.one_run), found.exit_code) == (0, 3, 0)


def test_commits_take_every_sweep_of_theirs_the_newest_first(store: Store, url: str) -> None:
    fill(store, made_family(), commit=OLD)
    fill(store, made_family(2.0), commit=NEW, seed=2)
    fill(store, [replace(each, source="again") for each in made_family(1.0, 1)], commit=NEW, seed=3)
    fill(store, made_family(3.0), commit=NEW, dirty=True, seed=4)
    found = run(url, "git:aa", "git:abcc")
    assert sorted(found.rows["verdict"]) == [Verdict.SAME, Verdict.SLOWER, Verdict.SLOWER]
    assert found.new.sweeps == (2, 3)
    with pytest.raises(UsageError, match=r"'abcc' is a variant .* a commit \(git:abc123"):
        run(url, "git:aa", "abcc")
    with pytest.raises(UsageError, match="'git:a' fits aaaaaaaaaa, abcccccccc"):
        run(url, "git:a", "2")


def test_a_trial_that_was_right_and_fails_now_is_broken(store: Store, url: str) -> None:
    fill(store, made_family(count=2))
    bad = Made(n=2**20, state=State.WRONG_RESULT, message="sum[0] = 3, expected 4", source="x")
    fill(store, [bad, replace(made_family(count=2)[1], source="y")], seed=2)
    found = run(url)
    assert [broken.problem["n"] for broken in each(found.broken)] == [2**20]
    assert (len(found.rows), found.exit_code) == (1, 1)
    back = run(url, "2", "1")
    assert (len(back.broken), back.exit_code) == (0, 0)
    assert "wrong_result in BASE" in back.incomparable[0]


WRONG = Made("wrong", state=State.WRONG_RESULT, message="y[671] = 3, expected 4")


def test_a_variant_that_was_right_nowhere_stands_with_its_failure(store: Store, url: str) -> None:
    fill(store, [Made("right"), WRONG])
    fill(store, [Made("right", source="x", n=7)], seed=2)
    found = run(url, "invented/right", "invented/wrong")
    assert [ending_of(broken) for broken in each(found.broken)] == [
        "invented/wrong · n=2^20 · block=64: wrong_result: y[671] = 3, expected 4"
    ]
    assert (len(found.rows), found.exit_code) == (0, 1)
    with pytest.raises(UsageError, match=r"BASE that is not right: invented/wrong .*: wrong_result: y\[671\] = 3"):
        run(url, "invented/wrong", "invented/right")


def test_a_failure_counts_from_a_sweep_that_timed_nothing(store: Store, url: str) -> None:
    fill(store, [Made("right")])
    fill(store, [WRONG], seed=2)
    found = run(url, "invented/right", "invented/wrong")
    assert (found.new.sweeps, found.exit_code) == ((2,), 1)


def test_what_was_right_once_and_fails_in_the_newest_sweep_is_broken(store: Store, url: str) -> None:
    fill(store, [Made("right"), Made("wrong", 60.0)])
    fill(store, [Made("right", source="x"), replace(WRONG, source="x")], seed=2)
    found = run(url, "invented/right", "invented/wrong")
    assert (found.new.sweeps, len(found.broken), found.exit_code) == ((2,), 1, 1)


def test_a_narrower_sweep_later_takes_no_problem_away(store: Store, url: str) -> None:
    fill(store, [Made(name, time, n=n) for n in (7, 8) for name, time in (("first", 50.0), ("second", 60.0))])
    fill(store, [Made(name, source="x", n=8) for name in ("first", "second")], seed=2)
    fill(store, [Made("first", source="y", n=7)], seed=3)
    found = run(url, "invented/first", "invented/second")
    assert {row.base_problem["n"]: row.verdict for row in each(found.rows)} == {7: Verdict.SLOWER, 8: Verdict.SAME}
    assert (found.base.sweeps, found.exit_code) == ((2, 1), 1)
    of_one = compare(*load_sides("invented/first", "invented/second", url, sweep=2))
    assert [row.base_problem["n"] for row in each(of_one.rows)] == [8]
    with pytest.raises(UsageError, match="--sweep 1 chooses the sweep of two variants, and '1' is not a variant"):
        load_sides("1", "2", url, sweep=1)


def test_what_was_measured_anew_and_cannot_be_judged_is_no_pass(store: Store, url: str) -> None:
    made = [Made(), Made(n=7)]
    fill(store, made)
    fill(store, [replace(made[0], time=99.0, source="x"), made[1]], seed=2)
    with pytest.raises(SelectionError, match=r"no matched trial can be compared: .* do not both have hot time"):
        run(url, options=Options(measures=(Measure.HOT,)))


def test_a_variant_kept_as_known_wrong_is_never_ranked(store: Store, url: str) -> None:
    fill(store, [Made("right"), replace(WRONG, expected="wrong")])
    for words in (("invented/right", "invented/wrong"), ("invented/wrong", "invented/right")):
        with pytest.raises(UsageError, match="invented/wrong is kept as known wrong and is never ranked"):
            run(url, *words)


def test_commits_are_found_by_the_names_that_git_knows(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "cuprof.toml").touch()
    monkeypatch.chdir(repository)

    def git(*words: str) -> str:
        name = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *name, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "Main")
    commits = []
    for message in ("one", "two", "three"):
        git("commit", "-q", "--allow-empty", "-m", message)
        commits.append(git("rev-parse", "HEAD"))
    for seed, commit in enumerate(commits[:2], 1):
        fill(store, [Made(source=commit)], commit=commit, seed=seed)
    git("branch", "Feature/x", "HEAD~1")
    found = run(url, "git:HEAD~2", "git:Feature/x")
    assert (found.base.sweeps, found.new.sweeps) == ((1,), (2,))
    with pytest.raises(UsageError, match=f"'git:HEAD' is commit {commits[2][:10]}, at which no stored sweep"):
        run(url, "git:HEAD", "git:HEAD~1")
    with pytest.raises(UsageError, match="fits no stored sweep's commit"):
        run(url, "git:--all", "git:HEAD~1")


def test_variants_meant_to_be_wrong_and_excluded_samples_do_not_count(store: Store, url: str) -> None:
    fill(store, [Made(excluded=20), Made("bad", state=State.WRONG_RESULT, expected="wrong")])
    fill(store, [Made(source="x"), Made("bad", source="x", expected="wrong")], seed=2)
    found = run(url)
    assert found.rows["verdict"].tolist() == [Verdict.SAME]
    assert found.base.source.read(found.base.trials.query("measure != ''")).counts.tolist() == [40]


def test_different_methods_are_not_compared_and_different_stopping_is_said(store: Store, url: str) -> None:
    fill(store, [Made()])
    fill(store, [Made(method="m2", source="x")], seed=2, measuring={"flush": "dirty"})
    fill(store, [Made(method="m3", source="y")], seed=3)
    with pytest.raises(SelectionError, match=r"measure\.flush clean and dirty"):
        run(url)
    found = run(url, "1", "3")
    assert found.rows.iloc[0].verdict == Verdict.SAME
    assert any("different bounds" in text for text in found.warnings)


def test_settings_that_the_back_end_ignores_are_no_different_method(store: Store, url: str) -> None:
    """The methods differ, as by the target: what is ignored is in neither."""
    ignored = {"timer": "cupti", "graph": True, "energy": True, "energy_seconds": 2.0}
    fill(store, [Made(device=HOST)])
    fill(store, [Made(device=HOST, method="m2", source="x")], seed=2, measuring=ignored)
    fill(store, [Made(device=HOST, method="m3", source="y")], seed=3, measuring={**ignored, "flush": "dirty"})
    found = run(url, "1", "2")
    assert (len(found.rows), found.incomparable) == (1, ())
    assert any("different bounds" in text for text in found.warnings)
    with pytest.raises(SelectionError, match=r"timed by different methods: measure\.flush clean and dirty$"):
        run(url, "1", "3")


def test_versions_of_the_method_are_not_compared_though_the_settings_are_equal(store: Store, url: str) -> None:
    fill(store, [Made()])
    fill(store, [Made(method="m2", version="2.2", source="x")], seed=2)
    fill(store, [Made(method="m3", version="2.2", source="y")], seed=3)
    with pytest.raises(SelectionError, match=r"timed by versions 1\.1 and 2\.2 of the method; time BASE again"):
        run(url)
    assert run(url, "2", "3").rows.iloc[0].verdict == Verdict.SAME


def test_devices_that_differ_are_said_and_equal_ones_meet_first(store: Store, url: str) -> None:
    fill(store, [Made(device=OTHER_GPU), Made()])
    fill(store, [Made(source="x")], seed=2)
    found = run(url)
    assert [row.base_device for row in each(found.rows)] == ["Test GPU 9000"]
    assert not any("across devices" in text for text in found.warnings)
    fill(store, [Made(device=OTHER_GPU, source="y")], seed=3)
    assert any("Test GPU 9000 and Test GPU 8000" in text for text in run(url, "2", "3").warnings)


def test_measures_default_to_kernel_times(store: Store, url: str) -> None:
    every = tuple(Measure)
    fill(store, [Made(measures=every)])
    fill(store, [Made(measures=every, source="x")], seed=2)
    fill(store, [Made(measures=(Measure.TOTAL,), source="y")], seed=3)
    assert {row.measure for row in each(run(url).rows)} == {Measure.COLD, Measure.HOT}
    assert [row.measure for row in each(run(url, "1", "3").rows)] == [Measure.TOTAL]
    assert run(url, options=Options(measures=(Measure.TOTAL,))).rows["measure"].tolist() == [Measure.TOTAL]
    with pytest.raises(SelectionError, match="do not both have hot time"):
        run(url, "1", "3", Options(measures=(Measure.HOT,)))


def test_sweeps_in_which_nothing_changed_pass_however_their_times_fell_out(store: Store, url: str) -> None:
    fill(store, [Made(n=number) for number in (1, 2)])
    fill(store, [Made(n=number, samples=70) for number in (1, 2)], seed=2)
    fill(store, [Made(n=1, time=50.0), Made(n=2, time=60.0)], seed=3)
    found = run(url, "1", "3", Options(noise=0.001))
    assert (found.nothing_changed, found.exit_code) == (True, 0)
    assert sorted(found.rows["verdict"]) == [Verdict.SAME, Verdict.SLOWER]
    assert found.warnings == ()


def test_an_unchanged_trial_fails_nothing_and_casts_doubt_on_the_rest(store: Store, url: str) -> None:
    fill(store, [Made(n=1), Made(n=2)])
    fill(store, [Made(n=1, time=60.0), Made(n=2, source="x")], seed=2)
    fill(store, [Made(n=1, time=60.0), Made(n=2, time=60.0, source="y")], seed=3)
    known = Options(noise=0.001)
    found = run(url, options=known)
    assert (found.counts[Verdict.SLOWER], found.nothing_changed, found.exit_code) == (1, False, 0)
    assert "1 called slower or faster although nothing has changed in it" in found.warnings[0]
    assert run(url, "1", "3", known).exit_code == 1


def test_a_trial_that_crashes_now_fails_though_nothing_changed(store: Store, url: str) -> None:
    fill(store, [Made(n=1), Made(n=2)])
    fill(store, [Made(n=1), Made(n=2, state=State.CRASHED)], seed=2)
    found = run(url)
    assert (found.nothing_changed, found.exit_code) == (True, 1)


def test_unfinished_sweeps_are_said(store: Store, url: str) -> None:
    fill(store, [Made()], finish="interrupted")
    fill(store, [Made(source="x")], seed=2)
    assert run(url).warnings == ("sweep 1 is not finished (interrupted)",)


UNKNOWN = [
    ("9", "1", "no sweep 9 with timings"),
    ("latest~5", "1", "goes back 5"),
    ("git:ffff", "1", "fits no stored sweep's commit"),
    ("gone.sqlite", "1", "no file gone.sqlite"),
    ("gone.json", "1", "no file gone.json"),
    ("first", "second", "'first' is unknown; did you mean invented/first?"),
    ("frist", "invented/second", "'frist' is unknown; did you mean invented/first?"),
    ("nonsense", "second", "'nonsense' is unknown; a side is a sweep"),
    ("invented/first", "1", "is compared with another variant"),
    ("other/first", "other/second", "no sweep of family 'other'"),
    ("", "1", "is not a side of a comparison"),
    (__file__, "1", "is not a side of a comparison"),
]


def test_an_unknown_side_says_what_is_allowed_and_an_unknown_variant_which_is_near(store: Store, url: str) -> None:
    fill(store, [Made(), Made("second")])
    for base, new, says in UNKNOWN:
        with pytest.raises(UsageError, match=says) as caught:
            load_sides(base, new, url)
        text = str(caught.value)
        assert "\n" not in text
        is_meant = "did you mean" in text
        assert is_meant or all(form in text for form in ("latest~1", "git:", "runs.sqlite:3", "out.json"))
    with pytest.raises(UnknownNameError, match="did you mean second"):
        load_sides("invented/first", "invented/secnd", url)


def test_sides_without_a_common_trial(store: Store, url: str) -> None:
    fill(store, [Made()])
    fill(store, [Made("second")], seed=2)
    with pytest.raises(SelectionError, match=r"has a counterpart .*first.*second"):
        run(url)


def test_variants_of_two_families_are_refused(store: Store, url: str) -> None:
    fill(store, [Made()])
    fill(store, [Made()], family="else", seed=2)
    with pytest.raises(UsageError, match="two families"):
        load_sides("invented/first", "else/first", url)


def test_an_effect_of_zero_calls_every_established_difference(store: Store, url: str) -> None:
    fill(store, [Made(noise=0.001), Made("second", 50.1, noise=0.001)])
    assert run(url, "invented/first", "invented/second").rows.iloc[0].verdict == Verdict.SAME
    strict = run(url, "invented/first", "invented/second", Options(Rule(0.0)))
    assert strict.rows.iloc[0].verdict == Verdict.SLOWER


def test_what_could_run_on_neither_side_is_no_measurement(store: Store, url: str) -> None:
    trials = [Made("first"), Made("second", state=State.SKIPPED, message="no GPU")]
    for seed in (1, 2):
        fill(store, trials, seed=seed)
    found = run(url, "1", "2")
    assert (len(found.one_run), len(found.skipped), found.incomparable) == (0, 1, ())


def test_rows_that_were_judged_anew_keep_to_their_own_tunables(store: Store, url: str) -> None:
    def made(times: dict[int, float]) -> list[Made]:
        return [
            Made(variant, 50.0 * (times[block] if variant == "second" else 1), tune={"block": block})
            for block in times
            for variant in ("first", "second")
        ]

    def judged(times: dict[int, float], samples: int) -> Comparison:
        fill(store, [replace(one, samples=samples) for one in made(times)], seed=samples)
        return run(url, "invented/first", "invented/second", Options(tunables="equal"))

    first = judged({64: 1.01, 128: 1.01}, 5)
    later = judged({64: 1.2, 128: 1.0}, 60)
    undecided = first.rows.assign(verdict=Verdict.UNDECIDED.value)
    rows = judge_anew(replace(first, rows=undecided), later).rows
    assert [(row.base_tunables["block"], row.verdict) for row in each(rows)] == [
        (64, Verdict.SLOWER),
        (128, Verdict.SAME),
    ]


def test_cold_times_of_a_host_vary_with_their_preparation_even_in_one_sweep(store: Store, url: str) -> None:
    fill(store, [Made(name, time, device=HOST) for name, time in (("first", 30.0), ("second", 30.45))])
    fill(store, [Made(name, time, device=HOST, n=7) for name, time in (("third", 3000.0), ("fourth", 3045.0))], seed=2)
    short = run(url, "invented/first", "invented/second")
    assert short.rows["verdict"].tolist() == [Verdict.UNDECIDED]
    assert short.noise_within == "500 ns of a time (CPU, cold, within one sweep)"
    assert run(url, "invented/third", "invented/fourth").rows.iloc[0].verdict == Verdict.SLOWER
    fill(store, [Made(name, time, n=9) for name, time in (("fifth", 30.0), ("sixth", 30.45))], seed=3)
    on_gpu = run(url, "invented/fifth", "invented/sixth")
    assert (on_gpu.rows.iloc[0].verdict, on_gpu.noise_within) == (Verdict.SLOWER, "")


def test_a_sweep_in_which_everything_failed_is_the_newest_all_the_same(store: Store, url: str, tmp_path: Path) -> None:
    fill(store, [Made()], commit=OLD)
    fill(store, [Made(state=State.WRONG_RESULT, message="y[0] = 3", source="x")], seed=2, commit=NEW)
    for base, new in (("latest~1", "latest"), ("1", "2"), (f"git:{OLD[:10]}", f"git:{NEW[:10]}")):
        found = run(url, base, new)
        assert [ending_of(broken).rpartition(": ")[2] for broken in each(found.broken)] == ["y[0] = 3"]
        assert found.exit_code == 1
    with pytest.raises(SelectionError, match="wrong_result in BASE"):
        run(url, "latest", "latest~1")


def test_timing_two_variants_again_is_no_new_sweep_of_the_experiment(store: Store, url: str) -> None:
    fill(store, made_family())
    fill(store, made_family(1.05), seed=2)
    fill(store, [Made()], seed=3, purpose="follow-up")
    fill(store, [Made()], seed=4, purpose="profiling")
    found = run(url, "latest~1", "latest")
    assert (found.base.sweeps, found.new.sweeps) == ((1,), (2,))
    assert run(url, "1", "3").new.sweeps == (3,)
    with pytest.raises(UsageError, match="there is no sweep 4 with timings"):
        run(url, "1", "4")


CODE = f"{'a' * 40}-{'b' * 23}"


@pytest.mark.parametrize(("code", "is_same"), [(CODE, True), (f"{'a' * 40}-{'c' * 23}", False), ("a" * 64, False)])
def test_equal_code_and_launches_have_no_verdict_but_that_they_are_the_same(
    store: Store, url: str, code: str, is_same: bool
) -> None:
    of_first = CODE if "-" in code else code  # a hash of the code alone says nothing of grid, block and arguments
    fill(store, [Made("first", code=of_first), Made("second", 60.0, code=code)])
    found = run(url, "invented/first", "invented/second")
    (row,) = each(found.rows)
    assert (row.verdict, row.unchanged) == ((Verdict.SAME_CODE, True) if is_same else (Verdict.SLOWER, False))
    assert found.exit_code == int(not is_same)


def test_the_times_of_equal_code_are_nulls_of_the_noise(store: Store, url: str) -> None:
    for seed, source in enumerate(("old", "new")):
        made = [Made(n=2**power, source=source, code=CODE, time=50.0 * 1.001**seed) for power in range(10, 20)]
        fill(store, [*made, Made("other", 60.0 + seed, source=source, code=f"{seed}{CODE[1:]}")], seed=seed + 1)
    found = run(url, "1", "2")
    (noise,) = found.noises.values()
    assert (noise.source, noise.trials) == ("estimated", 10)
    assert found.counts[Verdict.SAME_CODE] == 10
