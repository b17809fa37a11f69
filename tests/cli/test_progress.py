from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cuprof.cli.progress import LiveProgress, Progress, make_observer
from cuprof.core.records import Measure, Outcome, State, Summary, Timing, Trial
from cuprof.engine.observer import Observer
from cuprof.families import Point

TRIAL = Trial("0" * 32, "f", "v", "cpu", "cpu", Point(n=1), Point(), "f/v · n=1")
SUMMARY = Summary(20, 0, 12_345.0, 12_300.0, 12_400.0, 0.95, 12_345.0, 10.0, 12_000.0, 13_000.0, 12_200.0, 12_500.0)
GOOD = Outcome(TRIAL.identity, State.OK, timings=(Timing(Measure.COLD, "m", (), SUMMARY, "interval"),))
WRONG = Outcome(TRIAL.identity, State.WRONG_RESULT, "sum[0] = 1, expected 2")
SKIPPED = Outcome(TRIAL.identity, State.SKIPPED, "no GPU")


class Clock:
    """Stand still until told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def play(observer: Observer, clock: Clock) -> None:
    observer.started(5, ["stored"])
    for outcome in (SKIPPED, GOOD, WRONG):
        observer.trial_started(TRIAL, "time")
        clock.now += 0 if outcome is SKIPPED else 30
        observer.trial_finished(TRIAL, outcome)
    observer.note("mind the gap")
    observer.finished(7)


def test_plain_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(stream, clock) as observer:
        play(observer, clock)
    assert stream.getvalue().splitlines() == [
        "5 trials, 1 of them stored already",
        "skipped 1 trial: no GPU",
        "[3/5] ok f/v · n=1: 12.35 µs ±0.4% cold  [1:00 left]",
        "[4/5] WRONG f/v · n=1: sum[0] = 1, expected 2  [30 s left]",
        "mind the gap",
        "sweep 7: 1 measured, 1 stored before, 1 failed, 1 skipped, 1:00",
    ]


@pytest.mark.parametrize(("count", "confidence", "shown"), [(1, 0.0, "(1 sample)"), (3, 0.75, "(3 samples)")])
def test_samples_too_few_for_an_interval_are_counted_in_its_place(count: int, confidence: float, shown: str) -> None:
    stream = io.StringIO()
    few = replace(GOOD.timings[0], summary=replace(SUMMARY, count=count, confidence=confidence), stopped_by="time")
    with Progress(stream, Clock()) as observer:
        observer.started(1, ())
        observer.trial_finished(TRIAL, replace(GOOD, timings=(few,)))
    assert stream.getvalue().splitlines()[1] == f"[1/1] ok f/v · n=1: 12.35 µs {shown} cold"


def test_trials_that_are_checked_and_then_profiled_are_counted_anew() -> None:
    stream = io.StringIO()
    with Progress(stream, Clock()) as observer:
        for _ in ("checked", "profiled"):
            observer.started(1, ())
            observer.trial_finished(TRIAL, replace(GOOD, timings=()))
            observer.finished(7)
    assert stream.getvalue().splitlines() == 2 * ["1 trial", "[1/1] ok f/v · n=1: ok", "sweep 7: 1 measured, 0.0 s"]


def test_a_live_line_leaves_failures_notes_and_the_summary() -> None:
    stream, clock = io.StringIO(), Clock()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None, legacy_windows=False)
    with LiveProgress(console, clock) as observer:
        play(observer, clock)
    text = stream.getvalue()
    for line in (
        "WRONG f/v · n=1: sum[0] = 1, expected 2",
        "mind the gap",
        "sweep 7: 1 measured, 1 stored before, 1 failed, 1 skipped, 1:00",
    ):
        assert line in text
    assert "timing f/v · n=1" in text


def test_a_long_message_is_not_cut_off_on_a_narrow_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    console = Console(file=stream, force_terminal=True, width=30, color_system=None, legacy_windows=False)
    message = "expected " + "123456789" * 10
    with LiveProgress(console, clock) as observer:
        observer.started(1, ())
        observer.trial_finished(TRIAL, replace(WRONG, message=message))
    assert message in stream.getvalue()


@pytest.mark.parametrize("width", [46, 60])
def test_a_narrow_terminal_cuts_what_runs_and_not_how_much_is_done(width: int) -> None:
    stream, clock = io.StringIO(), Clock()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    with LiveProgress(console, clock) as observer:
        observer.started(20_000, ())
        observer.trial_started(TRIAL, "check")
        clock.now = 10
        observer.trial_finished(TRIAL, GOOD)
        observer.trial_started(replace(TRIAL, label="a family/with a variant of a long name · n=1"), "check")
    assert "    1/20000 " in stream.getvalue()
    assert "55:33:10 left" in stream.getvalue()
    assert "…" in stream.getvalue()


def test_markup_in_a_message_is_text() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, color_system=None, legacy_windows=False)
    with LiveProgress(console) as observer:
        observer.note("index [red] out of range [/]")
    assert "index [red] out of range [/]" in stream.getvalue()


def test_no_estimate_without_a_measured_trial() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), clock)
    progress.started(3, ())
    assert progress.left == ""
    progress.trial_started(TRIAL, "check")
    clock.now = 5
    progress.trial_finished(TRIAL, SKIPPED)
    assert progress.left == ""
    progress.trial_finished(TRIAL, GOOD)
    assert progress.left == "5.0 s left"


def test_trials_of_one_job_end_together_and_the_start_is_no_part_of_the_pace() -> None:
    clock = Clock()
    progress = Progress(io.StringIO(), clock)
    trials = [replace(TRIAL, identity=f"{number:032x}") for number in range(131)]
    progress.started(2 * len(trials), ())
    progress.trial_started(trials[0], "start")
    clock.now = 60
    for trial in trials:
        progress.trial_started(trial, "time")
    clock.now = 62
    progress.trial_finished(trials[0], replace(GOOD, identity=trials[0].identity))
    assert progress.left == ""  # too early to tell
    clock.now = 78
    for trial in trials[1:]:
        progress.trial_finished(trial, replace(GOOD, identity=trial.identity))
        assert progress.left == "18 s left"


def test_of_a_search_neither_an_end_nor_the_time_to_it_is_told() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    progress.started(None, ())
    clock.now = 5
    progress.trial_finished(TRIAL, GOOD)
    assert stream.getvalue().startswith("[1] ok ")
    assert "left" not in stream.getvalue()
    assert "trials" not in stream.getvalue()


def test_each_trial_of_a_search_is_counted_once_however_often_it_is_looked_at() -> None:
    stream, others = io.StringIO(), [str(place) * 32 for place in range(1, 4)]
    looks = [TRIAL.identity, others[0], TRIAL.identity, others[1], TRIAL.identity, others[2]]
    with Progress(stream, Clock()) as observer:
        observer.started(None, [others[2]])  # tried before the search was interrupted
        for identity in looks:
            outcome = WRONG if identity == others[1] else GOOD
            observer.trial_finished(replace(TRIAL, identity=identity), replace(outcome, identity=identity))
        observer.finished(7)
    *lines, summary = stream.getvalue().splitlines()
    assert [(line[:3], line.endswith("cold  [timed again]")) for line in lines] == [
        ("[2]", False), ("[3]", False), ("[3]", True), ("[4]", False), ("[4]", True), ("[4]", True),
    ]  # fmt: skip
    assert summary == "sweep 7: 3 tried, 2 timed again, 1 stored before, 1 failed, 0.0 s"


def test_a_collection_of_nothing_is_no_search() -> None:
    stream = io.StringIO()
    progress = Progress(stream, Clock())
    progress.started(0, ())
    progress.finished(7)
    assert stream.getvalue() == "sweep 7: 0 measured, 0.0 s\n"


def test_a_file_gets_plain_lines() -> None:
    assert type(make_observer(io.StringIO())) is Progress


def test_a_terminal_gets_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_observer(Terminal()), LiveProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert type(make_observer(Terminal())) is Progress


def test_wrong_as_expected_is_counted_apart_from_failures() -> None:
    stream, clock = io.StringIO(), Clock()
    racy = replace(TRIAL, expected="wrong")
    with Progress(stream, clock) as observer:
        observer.started(4, ())
        for trial, outcome in (
            (TRIAL, GOOD),
            (racy, WRONG),
            (TRIAL, WRONG),
            (racy, Outcome(TRIAL.identity, State.CRASHED, "died")),
        ):
            observer.trial_finished(trial, outcome)
        observer.finished(7)
    assert stream.getvalue().splitlines()[2:] == [
        "[2/4] wrong, as expected f/v · n=1: sum[0] = 1, expected 2",
        "[3/4] WRONG f/v · n=1: sum[0] = 1, expected 2",
        "[4/4] CRASHED f/v · n=1: died",
        "sweep 7: 1 measured, 1 wrong as expected, 2 failed, 0.0 s",
    ]


def test_a_live_line_says_wrong_as_expected() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None, legacy_windows=False)
    with LiveProgress(console, Clock()) as observer:
        observer.started(1, ())
        observer.trial_finished(replace(TRIAL, expected="wrong"), WRONG)
        observer.finished(7)
    assert "wrong, as expected f/v · n=1: sum[0] = 1, expected 2" in stream.getvalue()
    assert "sweep 7: 0 measured, 1 wrong as expected, 0.0 s" in stream.getvalue()
    assert "WRONG" not in stream.getvalue()


def test_everybody_s_trials_are_counted_and_lines_say_who_works_where_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, clock)
    progress.started(10, [])
    for second, done in ((2.0, 4), (3.0, 5), (10.0, 5)):
        clock.now = second
        progress.shared(done, 10, ["node7: time: one", f"node8: {second}"])
    progress.trial_finished(TRIAL, GOOD)
    assert stream.getvalue().splitlines()[1:-1] == [
        "[ 4/10] node7: time: one; node8: 2.0",
        "[ 5/10] node7: time: one; node8: 10.0  [10 s left]",
    ]
    assert stream.getvalue().splitlines()[-1].startswith("[ 5/10] ok f/v")
