"""Which trial answers for a lost worker: conversations with a worker that says what a test tells it to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuprof.config.model import LimitsConfig
from cuprof.core.records import Outcome, State
from cuprof.engine import worker_process
from cuprof.engine.executor import Executor
from cuprof.engine.worker_process import MOST_KILLS, WorkerDiedError
from cuprof.families import Point
from cuprof.families.origin import Folder
from cuprof.worker.messages import Finished, Job, JobDone, JobTrial, WorkerSettings
from cuprof.worker.status_page import NO_TRIAL, Phase, Status

LIMITS = LimitsConfig(build_s=10, check_s=20, trial_s=30)
OK = "ok"
NOW_NS = 10**15
"""The clock of all phases stands still: a busy host makes none of them older."""


def at(index: int, phase: Phase, age_s: float = 0.0, begun: int = 1) -> Status:
    return Status(index, phase, NOW_NS - int(age_s * 1e9), begun)


def died(index: int, phase: Phase, cause: str = "SIGSEGV", begun: int = 1) -> WorkerDiedError:
    return WorkerDiedError(cause, at(index, phase, begun=begun), "the log")


def refused(index: int, name: str, *, has_company: bool, phase: str = "check", starved: bool = False) -> Finished:
    outcome = Outcome(f"id {name}", State.LAUNCH_ERROR, "no", phase=phase)
    return Finished(index, outcome, has_company=has_company, starved=starved)


def doubted(index: int, name: str) -> Finished:
    return Finished(index, Outcome(f"id {name}", State.IMPLAUSIBLE, "too short"), has_company=True)


class Worker:
    """Play a script: a status changes the page, an int finishes that trial, an error is raised, the rest is said."""

    def __init__(self, script: list[Any]) -> None:
        self.script = iter(script)
        self.given: list[Job] = []
        self.jobs: list[list[str]] = []
        self.ended: list[str] = []
        self.page = self
        self.status = at(NO_TRIAL, Phase.IDLE)

    def read(self) -> Status:
        return self.status

    def send(self, job: Job) -> None:
        self.given.append(job)
        self.jobs.append([trial.variant for trial in job.trials])

    def messages(self) -> Iterator[Any]:
        for entry in self.script:
            if isinstance(entry, Status):
                self.status = entry
                yield None
            elif isinstance(entry, int):
                yield Finished(entry, Outcome(f"id {self.jobs[-1][entry]}", State.OK))
            elif isinstance(entry, BaseException):
                raise entry
            else:
                yield entry

    def kill(self) -> None:
        self.ended.append("killed")

    def discard(self) -> None:
        self.ended.append("closed")


class Stage:
    """An executor whose workers follow scripts, one after another."""

    def __init__(self, *scripts: list[Any]) -> None:
        self.workers = [Worker(script) for script in scripts]
        self.begun = iter(self.workers)
        self.watched: list[tuple[str, Phase]] = []

    def run(self, *jobs: str, backend: str = "cpu") -> list[tuple[str, str, str]]:
        with Executor(WorkerSettings(), LIMITS) as one:
            one.watch = lambda trial, phase: self.watched.append((trial.variant, phase))
            return [
                (outcome.identity.removeprefix("id "), outcome.state.value, outcome.message)
                for variants in jobs
                for outcome in one.measure(make_job(variants, backend))
            ]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("cuprof.worker.status_page.time", SimpleNamespace(monotonic_ns=lambda: NOW_NS))

    def make(*scripts: list[Any]) -> Stage:
        made = Stage(*scripts)
        monkeypatch.setattr(worker_process, "WorkerProcess", lambda *_: next(made.begun))
        return made

    return make


def make_job(variants: str, backend: str = "cpu") -> Job:
    trials = tuple(JobTrial(f"id {name}", name, Point(), "") for name in variants)
    return Job(Folder(Path()), backend, Point(), trials, 0)


def test_a_job_without_trouble(stage: Any) -> None:
    played = stage([at(0, Phase.CHECK), 0, at(1, Phase.TIME), 1, JobDone()])
    assert played.run("ab") == [("a", OK, ""), ("b", OK, "")]
    assert played.watched == [("a", Phase.CHECK), ("b", Phase.TIME)]


def test_the_trial_at_which_the_worker_died_is_blamed_and_the_others_go_on(stage: Any) -> None:
    played = stage([died(0, Phase.CHECK)], [0, 1, JobDone()])
    assert played.run("abc") == [("a", "crashed", "SIGSEGV while checking"), ("b", OK, ""), ("c", OK, "")]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["b", "c"]]]


@pytest.mark.parametrize("phase", [Phase.CHECK, Phase.TIME])
def test_where_others_ran_before_it_a_trial_is_blamed_for_what_it_does_alone(stage: Any, phase: Phase) -> None:
    played = stage([0, died(1, phase, begun=2)], [died(0, phase)], [0, JobDone()])
    outcomes = played.run("abc")
    assert [outcome[:2] for outcome in outcomes] == [("a", OK), ("b", "crashed"), ("c", OK)]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["b"]], [["c"]]]


def test_a_trial_that_another_one_took_along_is_not_blamed(stage: Any) -> None:
    """c leaves a thread behind that crashes while a and then b are sampled beside it."""
    both = [died(0, Phase.TIME, begun=3)], [died(0, Phase.TIME, begun=2)]
    played = stage(both[0], [0, JobDone()], both[1], [0, JobDone()], [died(0, Phase.TIME)])
    assert played.run("abc") == [("a", OK, ""), ("b", OK, ""), ("c", "crashed", "SIGSEGV while timing")]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["a"]], [["b", "c"]], [["b"]], [["c"]]]
    assert all("closed" in worker.ended for worker in played.workers)


@pytest.mark.parametrize("phase", [Phase.BUILD, Phase.CHECK, Phase.TIME])
def test_a_cpu_trial_that_hung_in_company_is_run_alone(stage: Any, phase: Phase) -> None:
    late = at(1, phase, 21, begun=2)
    played = stage([0, late], [0, JobDone()], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("abc")] == [("a", OK), ("b", OK), ("c", OK)]
    played = stage([0, late], [at(0, phase, 21)], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("abc")] == [("a", OK), ("b", "timed_out"), ("c", OK)]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["b"]], [["c"]]]


@pytest.mark.parametrize("phase", ["build", "check", "time"])
def test_a_cpu_trial_that_raised_in_company_is_run_alone(stage: Any, phase: str) -> None:
    raised = refused(1, "b", has_company=True, phase=phase)
    played = stage([0, raised, 2, JobDone()], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("abc")] == [("a", OK), ("c", OK), ("b", OK)]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["b"]]]


def test_a_cpu_trial_that_raised_by_itself_is_answered_at_once(stage: Any) -> None:
    played = stage([refused(0, "a", has_company=False), 1, JobDone()])
    assert [outcome[:2] for outcome in played.run("ab")] == [("a", "launch_error"), ("b", OK)]


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_trial_whose_time_cannot_be_believed_is_timed_alone_where_others_ran_before_it(
    stage: Any, backend: str
) -> None:
    """Somebody may have changed the clock of all; who did is implausible by himself, too."""
    played = stage([0, doubted(1, "b")], [0, JobDone()], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("abc", backend=backend)] == [("a", OK), ("b", OK), ("c", OK)]
    assert [worker.jobs for worker in played.workers] == [[["a", "b", "c"]], [["b"]], [["c"]]]


def test_where_a_time_is_no_better_alone_the_others_need_no_second_look(stage: Any) -> None:
    """A family that states more work than there is costs one worker more, and not one for each of its trials."""
    played = stage([0, doubted(1, "b")], [doubted(0, "b"), JobDone()], [doubted(0, "c"), doubted(1, "d"), JobDone()])
    states = [outcome[:2] for outcome in played.run("abcd", backend="cuda")]
    assert states == [("a", OK), *((name, "implausible") for name in "bcd")]
    assert len(played.workers) == 3


def test_a_device_is_asked_once(stage: Any) -> None:
    """A refusal is what the launch asks for, and an endless kernel would cost its limit twice."""
    played = stage([0, refused(1, "b", has_company=True), at(2, Phase.CHECK, 21, begun=3)])
    outcomes = played.run("abc", backend="cuda")
    assert [outcome[:2] for outcome in outcomes] == [("a", OK), ("b", "launch_error"), ("c", "timed_out")]


def test_memory_that_others_may_be_holding_is_asked_for_again_without_them(stage: Any) -> None:
    starved = refused(1, "b", has_company=True, starved=True)
    played = stage([0, starved, JobDone()], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("ab", backend="cuda")] == [("a", OK), ("b", OK)]
    assert [worker.jobs for worker in played.workers] == [[["a", "b"]], [["b"]]]


def test_several_suspects_of_one_job_are_each_run_alone_and_answered_once(stage: Any) -> None:
    """b and c raise, d hangs and, alone, dies; e was not reached."""
    raised = [refused(index, name, has_company=True) for index, name in ((1, "b"), (2, "c"))]
    first = [0, *raised, at(3, Phase.CHECK, 21, begun=4)]
    alone = [[refused(0, "b", has_company=False), JobDone()], [0, JobDone()], [died(0, Phase.CHECK)]]
    played = stage(first, *alone, [0, JobDone()])
    outcomes = played.run("abcde")
    assert [outcome[:2] for outcome in outcomes] == [
        ("a", OK), ("b", "launch_error"), ("c", OK), ("d", "crashed"), ("e", OK),
    ]  # fmt: skip
    assert [worker.jobs for worker in played.workers] == [
        [["a", "b", "c", "d", "e"]],
        [["b"]],
        [["c"]],
        [["d"]],
        [["e"]],
    ]
    assert all("closed" in worker.ended for worker in played.workers)


def test_what_is_said_of_a_trial_that_runs_alone_is_believed(stage: Any) -> None:
    """Whatever a worker claims, no trial becomes a suspect twice."""
    again = [refused(0, "b", has_company=True), JobDone()]
    played = stage([0, refused(1, "b", has_company=True), JobDone()], again)
    assert [outcome[:2] for outcome in played.run("ab")] == [("a", OK), ("b", "launch_error")]
    played = stage([0, at(1, Phase.TIME, 21, begun=2)], [at(0, Phase.TIME, 21, begun=2)])
    assert [outcome[:2] for outcome in played.run("ab")] == [("a", OK), ("b", "timed_out")]


def test_inputs_that_fail_after_an_earlier_job_are_made_once_more_by_a_new_worker(stage: Any) -> None:
    fault = JobDone("FloatingPointError: overflow", "trace")
    played = stage([0, JobDone(), fault], [0, JobDone()])
    assert [outcome[:2] for outcome in played.run("a", "b")] == [("a", OK), ("b", OK)]
    played = stage([0, JobDone(), fault], [fault])
    assert [outcome[:2] for outcome in played.run("a", "b")] == [("a", OK), ("b", "crashed")]


def test_a_fault_of_the_family_is_no_trials(stage: Any) -> None:
    fault = JobDone(
        "the family's reference() at n=8 raised ValueError: x (family.py, line 3, in reference)", "", of_family=True
    )
    played = stage([fault])
    assert played.run("ab") == [("a", "skipped", fault.fault), ("b", "skipped", fault.fault)]


def test_an_earlier_job_is_company_too(stage: Any) -> None:
    played = stage([0, JobDone(), died(0, Phase.CHECK, begun=2)], [0, JobDone()])
    assert played.run("a", "b") == [("a", OK, ""), ("b", OK, "")]


def test_a_death_before_anything_is_blamed_on_all(stage: Any) -> None:
    played = stage([died(NO_TRIAL, Phase.INPUTS)])
    message = "SIGSEGV while making inputs and reference"
    assert played.run("ab") == [("a", "crashed", message), ("b", "crashed", message)]


def test_a_worker_killed_before_anything_is_replaced_a_few_times_before_that_is_blamed_on_all(stage: Any) -> None:
    """Somebody else ended it, until that has come too often."""
    killed = [died(NO_TRIAL, Phase.INPUTS, "SIGKILL")]
    assert stage(killed, [0, 1, JobDone()]).run("ab") == [("a", OK, ""), ("b", OK, "")]
    played = stage(*[killed] * (MOST_KILLS + 2))  # the last two run one trial each
    message = "SIGKILL while making inputs and reference"
    assert sorted(played.run("ab")) == [("a", "crashed", message), ("b", "crashed", message)]
    assert all("closed" in worker.ended for worker in played.workers)


def test_who_dies_again_and_again_without_a_name_is_found_by_itself(stage: Any) -> None:
    nameless = [died(NO_TRIAL, Phase.TIME)]
    played = stage(nameless, nameless, [0, JobDone()], nameless)
    found = played.run("ab")
    assert found == [("a", OK, ""), ("b", "crashed", "SIGSEGV while timing")]


def test_a_death_after_the_trial_was_answered_is_not_blamed_on_it(stage: Any) -> None:
    played = stage([at(0, Phase.CHECK), 0, died(0, Phase.CHECK)], [0, JobDone()])
    assert played.run("ab") == [("a", OK, ""), ("b", OK, "")]


def test_a_death_between_jobs_is_blamed_on_nobody_at_first(stage: Any) -> None:
    late = died(NO_TRIAL, Phase.IDLE)
    played = stage([0, JobDone(), late], [0, JobDone()])
    assert played.run("a", "b") == [("a", OK, ""), ("b", OK, "")]


def test_a_death_in_the_inputs_of_a_new_worker_is_blamed(stage: Any) -> None:
    played = stage([0, JobDone(), died(NO_TRIAL, Phase.INPUTS)], [died(NO_TRIAL, Phase.INPUTS)])
    assert [row[:2] for row in played.run("a", "bc")] == [("a", OK), ("b", "crashed"), ("c", "crashed")]


def test_a_death_after_some_were_answered_leaves_them_answered(stage: Any) -> None:
    played = stage([1, died(NO_TRIAL, Phase.INPUTS)], [died(NO_TRIAL, Phase.INPUTS)])
    assert [row[:2] for row in played.run("ab")] == [("b", OK), ("a", "crashed")]


@pytest.mark.parametrize(
    ("phase", "age_s", "stopped"),
    [
        (Phase.BUILD, 9, ""), (Phase.BUILD, 11, "stopped after 10 s (limits.build_s) while building"),
        (Phase.CHECK, 19, ""), (Phase.CHECK, 21, "stopped after 20 s (limits.check_s) while checking"),
        (Phase.TIME, 19, ""), (Phase.TIME, 21, "stopped after 20 s (limits.check_s) while timing"),
    ],
)  # fmt: skip
def test_each_phase_has_its_limit(stage: Any, phase: Phase, age_s: float, stopped: str) -> None:
    script = [at(0, phase, age_s), 0, 1, JobDone()]
    played = stage(script, [0, JobDone()])
    state = "timed_out" if stopped else OK
    assert played.run("ab", backend="cuda") == [("a", state, stopped), ("b", OK, "")]
    assert played.workers[0].ended == ["closed"]
    assert bool(played.workers[1].jobs) == bool(stopped)


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_endless_inputs_time_every_trial_out(stage: Any, backend: str) -> None:
    played = stage([at(NO_TRIAL, Phase.INPUTS, 31)])
    stopped = "stopped after 30 s (limits.trial_s) while making inputs and reference"
    assert [row[1:] for row in played.run("ab", backend=backend)] == [("timed_out", stopped)] * 2


def test_what_was_said_before_counts_before_a_limit_does(stage: Any) -> None:
    """An engine that was stopped for a while finds old news first."""
    played = stage([0, at(1, Phase.IDLE), 1, JobDone()])
    played.workers[0].status = at(0, Phase.CHECK, 1000)
    assert played.run("ab") == [("a", OK, ""), ("b", OK, "")]


def test_the_time_before_the_job_counts_for_no_limit(stage: Any) -> None:
    """The engine waited for the device's turn, and the worker with it."""
    assert stage([at(NO_TRIAL, Phase.IDLE, 1000), 0, JobDone()]).run("a") == [("a", OK, "")]


def test_a_hang_after_the_trial_was_answered_is_not_blamed_on_it(stage: Any) -> None:
    played = stage([0, at(0, Phase.CHECK, 21)], [0, JobDone()])
    assert played.run("ab") == [("a", OK, ""), ("b", OK, "")]


def test_a_fault_of_the_job_is_that_of_every_trial_left(stage: Any) -> None:
    played = stage([0, JobDone("OSError: no", "trace")])
    assert played.run("abc") == [("a", OK, ""), ("b", "crashed", "OSError: no"), ("c", "crashed", "OSError: no")]


def test_a_worker_that_answers_nothing_is_no_endless_loop(stage: Any) -> None:
    assert stage([JobDone()]).run("a") == [("a", "crashed", "the worker gave no answer")]


def test_a_lost_device_means_a_new_worker_for_the_rest(stage: Any) -> None:
    lost = Finished(0, Outcome("id a", State.LAUNCH_ERROR, "illegal address"), lost=True)
    played = stage([lost], [0, JobDone()])
    assert played.run("ab") == [("a", "launch_error", "illegal address"), ("b", OK, "")]
    assert played.workers[0].ended == ["closed"]


def test_an_interrupt_ends_the_worker(stage: Any) -> None:
    played = stage([at(0, Phase.CHECK), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        played.run("a")
    assert played.workers[0].ended == ["closed"]


@pytest.mark.parametrize("said", [(0, "id b"), (7, "id a"), (0, "nobody")])
def test_an_answer_to_no_question_is_no_answer(stage: Any, said: tuple[int, str]) -> None:
    """A variant can write into the pipe, and name trials of others."""
    index, identity = said
    forged = Finished(index, Outcome(identity, State.OK))
    played = stage([at(0, Phase.CHECK), forged], [0, JobDone()])
    assert played.run("ab") == [("a", "crashed", "an answer without a question while checking"), ("b", OK, "")]
    assert "killed" in played.workers[0].ended
