from __future__ import annotations

from dataclasses import replace

from study_data import CPU, GPU, NO_CUDA, STEPS, Made, fill, reduction

from cuprof.core.records import State
from cuprof.report.summary import conclude, failure_groups

SKIPPED = {"state": State.SKIPPED, "message": str(NO_CUDA), "device": None, "unavailable": NO_CUDA}


def test_the_fastest_is_compared_with_baseline_library_and_cpu(make_study) -> None:
    said = conclude(
        make_study(
            [
                Made("base", 30.0),
                Made("fast", 10.0, tune={"block": 64}),
                Made("lib", 12.0, kind="library"),
                Made("host", 500.0, kind="cpu", device=CPU),
            ]
        )
    )
    assert said["headline"].startswith(
        "fast (block=64) is the fastest right variant at n=2^20 on Test GPU 9000: 10.0\u00a0µs, 42\u00a0%"
    )
    assert said["sentences"][0].startswith("fast is 3.00 times as fast as the baseline base, 30.0\u00a0µs [")
    assert "[" in said["sentences"][0].partition("(interval ")[0]
    assert said["sentences"][1].startswith("fast is 1.20 times as fast as the best library, lib")
    assert said["sentences"][2].startswith("The best CPU variant, host, takes")
    assert [number["value"] for number in said["numbers"]] == ["10.0\u00a0µs", "42\u00a0%", "3.00×", "1.20×"]
    assert "those of cuprof compare" in said["method"]


def test_a_time_of_too_few_samples_has_no_brackets(make_study) -> None:
    said = conclude(make_study([Made("base", 30.0, samples=3, stopped_by="time"), Made("fast", 10.0, samples=1)]))
    assert said["sentences"][0] == (
        "fast is not told apart from the baseline base: 3.00× (too few samples for an interval)."
    )
    assert said["numbers"][0]["note"] == "fast, 1 sample"
    assert any("1 of them has too few samples for an interval" in caution for caution in said["cautions"])


def test_the_level_of_the_intervals_is_the_one_asked_for(make_study) -> None:
    said = conclude(make_study([Made("base", 30.0), Made("fast")], configuration={"measure": {"confidence": 0.99}}))
    assert said["method"].startswith("Brackets after a time hold the 99\u00a0% interval")


def test_a_library_that_wins_is_said_to_win(make_study) -> None:
    said = conclude(make_study([Made("base", 30.0), Made("lib", 12.0, kind="library")]))
    assert said["headline"].startswith("lib is the fastest right variant")
    assert said["sentences"][1].startswith("The fastest hand-written kernel, base (")
    assert "2.50 times as long as the best library, lib" in said["sentences"][1]


def test_two_that_cannot_be_told_apart_are_about_equal(make_study) -> None:
    said = conclude(make_study([Made("base", 10.05, spread=0.2), Made("new", 10.0, spread=0.2)]))
    assert said["sentences"][0].startswith("new is not told apart from the baseline base: 0.996× (interval 0.9")


def test_what_is_not_told_apart_is_not_called_faster(make_study) -> None:
    """Here no verdict tells the best, a CPU variant, from the kernels, of which the third is clearly slower."""
    trials = [Made("host", 10.0, kind="cpu", spread=0.2, device=CPU)]
    trials += [Made(name, time, spread=0.2, device=CPU) for name, time in (("a", 10.05), ("b", 10.1), ("c", 90.0))]
    said = conclude(make_study(trials))
    assert said["headline"].startswith("host has the shortest median of the right variants at ")
    assert said["sentences"][0] == "That is the baseline itself; a and b are not shown to be slower."
    (sentence,) = [each for each in said["sentences"] if "CPU variant" in each]
    assert sentence.startswith("The best CPU variant, host (10.00\u00a0µs [")
    assert "is not told apart from the best of the others, a: 0.98" in sentence


def test_a_cpu_variant_is_called_faster_where_the_verdict_says_so(make_study) -> None:
    def say(device):
        trials = [Made("a", 20.0, device=device), Made("host", 10.0, kind="cpu", device=CPU)]
        said = conclude(make_study(trials, name=device.name))["sentences"]
        return next(each for each in said if "CPU variant" in each)

    assert say(CPU).startswith("The best CPU variant, host, is faster here than the best of the others, a: 10.0")
    assert say(GPU).startswith("The best CPU variant, host, has a shorter median here than the best of the others, a")


def test_one_unclear_rival_is_enough_for_no_clear_winner(make_study) -> None:
    said = conclude(make_study([Made("base", 10.0), Made("near", 10.5), Made("noisy", 10.6, spread=0.9)]))
    assert said["headline"].startswith("base has the shortest median")
    assert said["sentences"][0] == "That is the baseline itself; noisy is not shown to be slower."
    alone = conclude(make_study([Made("base", 10.0), Made("far", 30.0)], name="clear"))
    assert alone["sentences"][0] == "That is the baseline itself: nothing else that ran is faster."


def test_steps_in_the_published_order_and_out_of_it(make_study) -> None:
    steps = f"steps: [{', '.join(STEPS)}]"
    trials = [Made(name, time) for name, time in zip(STEPS, (50, 40, 30, 20, 10), strict=True)]
    assert conclude(make_study(trials, steps, name="a"))["sentences"][-1] == (
        "The 5 steps are in the published order: each is faster than the one before."
    )
    trials = [Made(name, time) for name, time in zip(STEPS, (50, 55, 30, 20, 22), strict=True)]
    broken = conclude(make_study(trials, steps, name="b"))["sentences"][-1]
    assert broken.startswith(
        "The published order of the steps does not hold everywhere: "
        "interleaved_compacted takes 1.10 times as long as interleaved_divergent"
    )
    assert "last_warp takes 1.10 times as long as first_add" in broken
    trials = [Made(name, time) for name, time in zip(STEPS, (50, 49.9, 49.8, 25, 24.9), strict=True)]
    assert conclude(make_study(trials, steps, name="d"))["sentences"][-1] == (
        "No step is slower than the one before, but only first_add (1.99×) is faster; interleaved_compacted (1.001×), "
        "sequential (1.003×), last_warp (1.004×) are as fast as the step before."
    )
    trials = [
        Made("sequential", 30),
        Made("first_add", 20),
        Made("last_warp", state=State.CRASHED, message="it crashed"),
    ]
    gap = conclude(make_study(trials, steps, name="c"))["sentences"][-1]
    assert gap.endswith("(interleaved_divergent, interleaved_compacted, last_warp have no right, timed result here.)")


def test_without_a_gpu_the_cpu_is_compared_and_the_skips_are_explained(make_study) -> None:
    said = conclude(make_study(reduction(gpu=False), experiment="other", baseline=STEPS[0]))
    assert said["headline"].startswith("cpu_numpy is the fastest right variant")
    assert said["sentences"][0] == (
        "The baseline interleaved_divergent has no right, timed result here, so cpu_serial stands in for it."
    )
    assert said["sentences"][1].startswith("cpu_numpy is 3.60 times as fast as cpu_serial")
    (skipped,) = [caution for caution in said["cautions"] if caution.startswith("Skipped")]
    assert "and 2 more (no CUDA device was found; install the NVIDIA driver" in skipped


def test_nothing_right_is_nothing_ranked(make_study) -> None:
    said = conclude(make_study([Made("a", state=State.WRONG_RESULT, message="x"), Made("b", **SKIPPED)]))
    assert said["headline"] == (
        "No variant has a right, timed result, so there is nothing to rank (1 wrong result, 1 skipped)."
    )
    assert said["sentences"] == []


def test_over_several_problems_the_winners_are_counted_and_two_steps_meet_everywhere(make_study) -> None:
    times = {1: (10.0, 5.0, 4.0), 2: (10.0, 8.0, 9.0), 3: (10.0, 20.0, 30.0)}
    trials = [
        Made(name, time, {"n": n}, kind="library" if name == "lib" else "kernel")
        for n, row in times.items()
        for name, time in zip(("split", "fused", "lib"), row, strict=True)
    ]
    said = conclude(make_study(trials, "steps: [split, fused]\nreference_problem: {n: 1}"))["sentences"]
    assert "The 2 steps are in the published order at n=1: each is faster than the one before." in said
    assert said[-2:] == [
        "Over the 3 problems measured, the fastest is lib at 1 (n=1); fused at 1 (n=2); split at 1 (n=3).",
        "fused is faster than split at 2 of 3 problems (1.25 to 2.00 times as fast), and slower at n=3 (2.00 times as "
        "long).",
    ]


def test_those_level_with_the_fastest_are_named_with_it(make_study) -> None:
    times = {1: (10.0, 10.0, 30.0), 2: (10.0, 10.01, 9.99), 3: (10.0, 20.0, 30.0), 4: (10.02, 10.0, 12.0)}
    trials = [
        Made(name, time, {"n": n, "m": 2}, spread=0.0)
        for n, row in times.items()
        for name, time in zip(("a", "b", "c"), row, strict=True)
    ]
    assert conclude(make_study(trials))["sentences"][-1] == (
        "Over the 4 problems measured, the fastest is a level with b at 2 (n=1, m=2; n=4, m=2); "
        "a level with b and c at 1 (n=2, m=2); a at 1 (n=3, m=2)."
    )


def test_many_that_are_level_are_counted(make_study) -> None:
    trials = [Made(name, 10.0, {"n": n}, spread=0.0) for n in (1, 2) for name in "abcdefg"]
    assert conclude(make_study(trials))["sentences"][-1] == (
        "Over the 2 problems measured, the fastest is a level with b, c, d, e and 2 more at all of them."
    )


def test_an_unfinished_sweep_names_the_finished_one_before_it(store, make_study) -> None:
    trials = [Made("base"), Made("later", state=State.PLANNED)]
    alone = make_study(trials, finish="interrupted", experiment="other", family="other", name="0")
    finished = [make_study(trials, name=name).sweep.id for name in ("1", "2")][-1]
    fill(store, trials, name="counters", purpose="profiling")
    hides = make_study(trials, finish="interrupted", name="3")
    says = [
        next(text for text in conclude(study)["cautions"] if "not finished" in text).partition("it stopped.")[2]
        for study in (alone, hides)
    ]
    assert says == ["", f" The page of an earlier finished sweep: report.sweep={finished}."]


def test_wrong_on_purpose_is_said_without_blame(make_study) -> None:
    said = conclude(make_study([Made("base"), Made("racy", state=State.WRONG_RESULT, expected="wrong")]))
    assert said["cautions"] == [
        "racy: wrong on purpose, and the check caught it in every one of 1 trial; not ranked, and no failure.",
    ]


def test_far_from_the_roof_the_arithmetic_rate_stands_in_for_the_share(make_study) -> None:
    said = conclude(make_study([Made("a", 1000.0), Made("b", 500.0)]))
    assert said["headline"] == "b is the fastest right variant at n=2^20 on Test GPU 9000: 500\u00a0µs."
    assert [(number["name"], number["value"]) for number in said["numbers"]][1] == (
        "Arithmetic rate",
        "2.10\u00a0GFLOP/s",
    )


def test_a_single_trial_needs_no_comparison(make_study) -> None:
    said = conclude(make_study([Made("only", 4.0)]))
    assert said["headline"].startswith(
        "only is the only variant with a right, timed result at n=2^20 on Test GPU 9000: 4.00"
    )
    assert said["sentences"] == []
    assert said["method"] == ""


def test_wrong_unexpected_and_unfinished_are_cautions(make_study) -> None:
    said = conclude(
        make_study(
            [
                Made("base"),
                Made("bad", state=State.WRONG_RESULT, message="sum[0] = 1"),
                Made("racy", state=State.WRONG_RESULT, expected="wrong"),
                Made("lucky", expected="wrong"),
                Made("later", state=State.PLANNED),
            ],
            finish="interrupted",
        )
    )
    text = "\n".join(said["cautions"])
    assert "not finished (interrupted); 1 of 5 trials have not run" in text
    assert "bad: wrong result (1 trial); not ranked." in text
    assert "racy: wrong, as expected; not ranked." in text  # not of all, as another one passed
    assert "lucky is kept because it is known to be wrong, yet its check passed here." in text


def test_failures_are_grouped_by_what_happened(make_study) -> None:
    trials = [Made("base")]
    trials += [
        Made("bad", 1, {"n": n}, state=State.WRONG_RESULT, message=f"sum[0] = {n}.5, expected 0") for n in (16, 32, 64)
    ]
    trials += [Made(name, **SKIPPED) for name in ("s1", "s2")]
    trials += [Made("c", state=State.COMPILE_ERROR, message="error: x", log="y" * 9000)]
    groups = failure_groups(make_study(trials))
    assert [(group["state"], group["variants"], group["trials"]) for group in groups] == [
        ("wrong_result", ["bad"], 3),
        ("compile_error", ["c"], 1),
        ("skipped", ["s1", "s2"], 2),
    ]
    assert (groups[0]["message"], groups[0]["others"], groups[0]["problems"]) == (
        "sum[0] = 16.5, expected 0",
        2,
        "n=16; n=32; n=64",
    )
    assert groups[1]["log"].endswith("… (5000 more characters are in the database)")


def test_every_accelerator_has_its_own_fastest(make_study) -> None:
    other = replace(GPU, name="Test GPU 2", uuid="u2", identity={"name": "Test GPU 2"})
    here = [Made("a", 20.0), Made("b", 5.0)]
    trials = [*here, *(replace(each, time=2 * each.time, device=other) for each in here)]
    said = conclude(make_study(trials))
    assert said["headline"].startswith("b is the fastest right variant at n=2^20 on Test GPU 9000: 5.00")
    (sentence,) = [each for each in said["sentences"] if each.startswith("On Test GPU 2")]
    assert sentence.startswith("On Test GPU 2 the fastest is b, 10.0")
    assert "3.99 times as fast as a there (interval" in sentence


def test_wrong_as_expected_is_counted_apart_from_failures(make_study) -> None:
    wrong = {"state": State.WRONG_RESULT, "message": "sum[0] = 1"}
    study = make_study([Made("racy", expected="wrong", **wrong), Made("bad", **wrong)])
    assert [group["words"] for group in failure_groups(study)] == ["wrong, as expected", "wrong result"]
    assert "(1 wrong, as expected, 1 wrong result)" in conclude(study)["headline"]
