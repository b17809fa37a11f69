"""A sweep of broken variants: each costs its own trial, and the sound ones around it are measured."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from cuprof.core.records import FAILED, State
from cuprof.engine.running import SweepResult
from tests.engine.conftest import short_limits

SOUND = ("sound_first", "sound_between", "prints", "sound_last")
SKIPPED = ("lacks_a_module", "imports")
PLACE = r" \(family\.py, line \d+, in \w+(; \w+\.py, line \d+, in \w+)*\)"
FAULTS: dict[str, tuple[State, str, str]] = {
    "segfault": (State.CRASHED, "check", r"SIGSEGV while checking"),
    "aborts": (State.CRASHED, "check", r"SIGABRT while checking"),
    "exits": (State.CRASHED, "check", r"exit code 3 while checking"),
    "exits_at_once": (State.CRASHED, "build", r"exit code 0 while building"),
    "killed": (State.CRASHED, "check", r"SIGKILL while checking"),
    "hangs": (State.TIMED_OUT, "check", r"stopped after 2 s \(limits\.check_s\) while checking"),
    "builds_for_ever": (State.TIMED_OUT, "build", r"stopped after 2 s \(limits\.build_s\) while building"),
    "hangs_while_timed": (State.TIMED_OUT, "time", r"stopped after 2 s \(limits\.check_s\) while timing"),
    "raises": (State.LAUNCH_ERROR, "check", r"ValueError: n is not to my liking and here is more" + PLACE),
    "complains_at_length": (State.LAUNCH_ERROR, "check", r"ValueError: begin x{180,200}…" + PLACE),
    "raises_in_make": (State.LAUNCH_ERROR, "build", r"KeyError: 'no such key'" + PLACE),
    "raises_while_timed": (State.LAUNCH_ERROR, "time", r"RuntimeError: tired" + PLACE),
    "allocates": (State.LAUNCH_ERROR, "check", r"MemoryError: Unable to allocate 1\.00 PiB .*"),
    "rebinds": (State.LAUNCH_ERROR, "check", r"TypeError: y is replaced by another array; .*"),
    "returns_nothing": (State.LAUNCH_ERROR, "check", r"TypeError: 'NoneType' object is not callable"),
    "closes_everything": (State.CRASHED, "check", r"exit code 0 while checking"),
    "writes_to_sockets": (State.CRASHED, "check", r"nonsense in the worker's pipe while checking"),
    "leaves_a_child": (State.CRASHED, "check", r"exit code 9 while checking"),
    "wrong": (State.WRONG_RESULT, "check", r"y\[\d+\] = .*; 128 of 128 elements are wrong"),
    "overwrites_input": (State.WRONG_RESULT, "check", r"it overwrites its input x; the variants after it .*"),
    "overwrites_while_timed": (State.WRONG_RESULT, "time", r"it overwrites its input x while it is timed"),
    "writes_outside": (State.WRONG_RESULT, "check", r"it writes outside its output y; the variants after it .*"),
    "meddles": (State.LAUNCH_ERROR, "check", r"ValueError: \\x1b\[31mI am \\x07 red" + PLACE),
    "nan": (State.WRONG_RESULT, "check", r"y\[127\] = nan, .*; 1 of 128 elements are wrong"),
    "unwritten": (State.WRONG_RESULT, "check", r"y\[64\] = nan, .*; 64 of 128 elements are wrong"),
    "right_at_first": (State.WRONG_RESULT, "recheck", r"right before timing, wrong after it: y\[\d+\] = .*"),
}
ALL = (
    "sound_first", "segfault", "aborts", "exits", "exits_at_once", "killed", "sound_between", "hangs",
    "builds_for_ever", "hangs_while_timed", "raises", "complains_at_length", "raises_in_make", "raises_while_timed",
    "allocates", "rebinds",
    "returns_nothing", "closes_everything", "writes_to_sockets", "leaves_a_child", "prints", "wrong",
    "overwrites_input", "overwrites_while_timed", "writes_outside", "meddles", "nan", "unwritten", "right_at_first",
    "lacks_a_module", "imports", "sound_last",
)  # fmt: skip


@pytest.fixture(scope="module")
def swept(shared_bench: Any) -> tuple[SweepResult, Any]:
    endless = {(variant, phase) for variant, (state, phase, _) in FAULTS.items() if state is State.TIMED_OUT}
    with short_limits(lambda trial, phase, alone: (trial.variant, phase.name.lower()) in endless):
        found: tuple[SweepResult, Any] = shared_bench.sweep(*ALL)
    return found


def test_every_cpu_fault_is_in_this_table(shared_bench: Any) -> None:
    assert {*SOUND, *SKIPPED, *FAULTS} == set(ALL)


@pytest.mark.parametrize("variant", FAULTS)
def test_a_fault_is_a_typed_row_with_its_message(swept: Any, shared_bench: Any, variant: str) -> None:
    state, phase, message = FAULTS[variant]
    outcome = swept[1].of(variant)
    assert (outcome.state, outcome.phase) == (state, phase), outcome.message
    assert re.fullmatch(message, outcome.message)
    rows = shared_bench.query(f"SELECT state, message FROM trials WHERE variant = '{variant}' AND family = 'faulty'")
    assert [tuple(map(str, row)) for row in rows] == [(state.value, outcome.message)]


@pytest.mark.parametrize("variant", SOUND)
def test_sound_trials_around_the_faults_are_measured(swept: Any, variant: str) -> None:
    outcome = swept[1].of(variant)
    assert (outcome.state, outcome.message) == (State.OK, "")
    (timing,) = outcome.timings
    assert 3 <= timing.summary.count <= 6
    assert outcome.check is not None
    assert outcome.check.passed


@pytest.mark.parametrize("variant", SKIPPED)
def test_a_missing_module_is_no_failure(swept: Any, variant: str) -> None:
    outcome = swept[1].of(variant)
    assert outcome.state is State.SKIPPED
    assert "module_that_does_not_exist" in outcome.message


def test_the_sweep_ends_finished_with_exit_code_1_and_names_the_failed(swept: Any, shared_bench: Any) -> None:
    result, heard = swept
    assert result.exit_code == 1
    assert {trial.variant for trial, _ in result.failed} == set(FAULTS)
    assert all(outcome.state in FAILED and outcome.message for _, outcome in result.failed)
    assert result.surprises == ()
    assert (heard.planned, heard.reused, heard.ended) == (len(ALL), 0, result.sweep_id)
    assert shared_bench.query("SELECT state FROM sweep") == [("finished",)]


def test_every_trial_has_one_run(swept: Any, shared_bench: Any) -> None:
    assert shared_bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(len(ALL), len(ALL))]
    assert shared_bench.query("SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NULL") == [(0,)]


def test_failed_trials_have_no_timings(swept: Any, shared_bench: Any) -> None:
    ranked = shared_bench.query("SELECT DISTINCT variant FROM best")
    assert {row[0] for row in ranked} <= set(SOUND)


def test_what_takes_long_is_told_while_it_goes_on(swept: Any) -> None:
    assert {("hangs", "check"), ("builds_for_ever", "build"), ("hangs_while_timed", "time")} <= set(swept[1].begun)


def test_logs_say_where_a_crash_came_from(swept: Any) -> None:
    assert "Fatal Python error: Segmentation fault" in swept[1].of("segfault").log
    assert "in run" in swept[1].of("raises").log
    assert "and here is more" in swept[1].of("raises").log


def test_logs_are_cut_in_the_middle(swept: Any) -> None:
    log = swept[1].of("complains_at_length").log
    assert len(log) < 10_000
    assert log.startswith("Traceback")
    assert re.search(r"x … \[\d{8} characters left out\] … x", log)
    assert log.rstrip().endswith("x end")


def test_what_failed_is_remembered_and_named_again_but_not_tried_again(swept: Any, shared_bench: Any) -> None:
    result, heard = shared_bench.sweep(*ALL)
    assert set(heard.outcomes) == {f"faulty/{variant} · n=128" for variant in SKIPPED}
    assert heard.reused == len(ALL) - len(SKIPPED)
    assert result.exit_code == 1
    assert {trial.variant: outcome.message for trial, outcome in result.failed} == {
        trial.variant: outcome.message for trial, outcome in swept[0].failed
    }


def test_retry_tries_failed_trials_again_and_no_others(swept: Any, shared_bench: Any) -> None:
    result, heard = shared_bench.sweep("sound_first", "raises", "wrong", retry="failed")
    assert {label.split()[0] for label in heard.outcomes} == {"faulty/raises", "faulty/wrong"}
    assert (heard.planned, heard.reused, result.exit_code) == (3, 1, 1)
    _, heard = shared_bench.sweep("sound_first", "raises", retry="all")
    assert len(heard.outcomes) == 2


def test_a_mended_variant_is_a_new_trial(bench: Any) -> None:
    assert bench.sweep("raises")[0].exit_code == 1
    text = bench.family_file.read_text()
    bench.family_file.write_text(text.replace('raise ValueError("n is not', 'double(inputs, outputs); str("n is not'))
    result, heard = bench.sweep("raises")
    assert heard.of("raises").state is State.OK
    assert result.exit_code == 0


def test_a_crash_is_that_of_the_trial_which_crashes_alone(bench: Any) -> None:
    """A thread that one variant left behind kills the worker while others are sampled beside it."""
    sound = ("sound_first", "sound_between", "sound_last")
    measure = replace(bench.config().measure, settle_seconds=0.3)
    _, heard = bench.sweep(*sound, "crashes_later", measure=measure)
    assert {variant: heard.of(variant).state for variant in sound} == dict.fromkeys(sound, State.OK)
    outcome = heard.of("crashes_later")
    assert outcome.state is State.CRASHED
    assert outcome.message.startswith("SIGSEGV while ")


LEFT_BEHIND = (
    "leave_error_mode", "leave_warning_filter", "leave_folder", "leave_environment", "leave_handler", "leave_timer",
    "leave_closed_descriptors", "leave_closed_stream",
)  # fmt: skip


def test_what_variants_leave_behind_is_nobody_elses(bench: Any) -> None:
    _, heard = bench.sweep("looks_around", *LEFT_BEHIND, "arranges_itself", "sound_last")
    assert {label: outcome.message for label, outcome in heard.outcomes.items() if outcome.state is not State.OK} == {}
    assert len(heard.outcomes) == len(LEFT_BEHIND) + 3


def test_a_hang_is_that_of_the_trial_which_hangs_alone(bench: Any) -> None:
    """A thread that one variant left behind holds the interpreter while the next one runs."""
    measure = replace(bench.config().measure, interleave=False)
    with short_limits(lambda trial, phase, alone: trial.variant == "takes_its_time" and not alone):
        _, heard = bench.sweep("holds_the_interpreter_later", "takes_its_time", "sound_last", measure=measure)
    assert heard.of("takes_its_time").state is State.OK
    assert heard.of("sound_last").state is State.OK
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(3, 3)]


def test_an_exception_is_that_of_the_trial_which_raises_alone(bench: Any) -> None:
    """One variant breaks what the others call; another one raises whoever else is there."""
    sound = ("sound_first", "sound_between", "sound_last")
    _, heard = bench.sweep("patches_numpy", *sound, "raises")
    assert {variant: heard.of(variant).state for variant in sound} == dict.fromkeys(sound, State.OK)
    assert heard.of("raises").state is State.LAUNCH_ERROR
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(5, 5)]


def test_a_wrong_result_is_that_of_the_trial_which_is_wrong_alone(bench: Any) -> None:
    """A thread that one variant left behind goes on writing into the outputs of all."""
    _, heard = bench.sweep("scribbles_later", "sound_between", "sound_last", "wrong")
    assert [heard.of(variant).state for variant in ("sound_between", "sound_last")] == [State.OK] * 2
    assert heard.of("wrong").state is State.WRONG_RESULT
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(4, 4)]


def test_inputs_are_not_blamed_on_what_an_earlier_job_left_behind(bench: Any) -> None:
    """The reference of the second problem calls the function that the variant broke at the first."""
    text = bench.family_file.read_text()
    bench.family_file.write_text(
        text.replace(
            '{"y": 2.0 * inputs["x"].astype(np.float64)}', ('{"y": np.multiply(2.0, inputs["x"].astype(np.float64))}')
        )
    )
    result, heard = bench.sweep("patches_numpy", problem={"n": (16, 32)})
    assert len(heard.outcomes) == 2
    assert {(outcome.state, outcome.message) for outcome in heard.outcomes.values()} == {(State.OK, "")}
    assert result.exit_code == 0
