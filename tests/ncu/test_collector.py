"""Collecting: batches, attribution of crashes and hangs, interruption, and every way in which ncu can fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.core.errors import ProfilerError
from cuprof.core.records import DeviceFacts, Outcome, State, StoredProfile, Trial, Unavailable
from cuprof.engine.observer import Observer
from cuprof.engine.profiling import CollectResult, Profiling
from cuprof.ncu.collector import Collector
from cuprof.ncu.executable import NcuExecutable
from cuprof.ncu.setting import Setting

ONE, TWO, CRASH, HANG = "1" * 32, "2" * 32, "c" * 32, "f" * 32
THROUGH = ["preparing", "launching", "done"]


def hold(_: DeviceFacts) -> AbstractContextManager[None]:
    return nullcontext()


class Listener(Observer):
    """Note what a collection tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        """Note it."""
        self.lines.append(f"{planned} planned, {len(stored)} reused")

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Note it."""
        self.lines.append(f"{phase} {trial.variant}")

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Note it."""
        self.lines.append(f"{trial.variant} {outcome.state.value}")

    def note(self, text: str) -> None:
        """Note it."""
        self.lines.append(text)


@pytest.fixture
def listener() -> Listener:
    """Return a listener with nothing heard."""
    return Listener()


@pytest.fixture
def run(make_setting, make_trial, right, memory_store, listener) -> Callable[..., CollectResult]:
    """Return a function that collects for identities with the stand-in."""

    def collect_all(*identities: str, setting: Setting | None = None, retry: str = "") -> CollectResult:
        trials = [make_trial(identity) for identity in identities]
        collector = Collector(setting or make_setting())
        return Profiling(collector, memory_store, 3, listener, hold).collect(trials, right(trials), retry)

    return collect_all


def test_counters_are_joined_by_identity_whatever_the_order(fake_ncu, run, memory_store, tmp_path: Path) -> None:
    """The recorded process ran 1 and then c; here c is asked for first, and each still gets its own."""
    fake_ncu.plays({"console": "", "report": "crash", "progress": {CRASH: THROUGH, ONE: THROUGH}})
    result = run(CRASH, ONE)
    assert [profile.identity for profile in result.profiles] == [CRASH, ONE]
    one = memory_store.by_identity()[ONE]
    assert [launch.kernel for launch in one.launches] == ["strided_sum"]
    assert {counter.metric: counter.value for counter in one.rolled}["launch__grid_dim_z"] == 9.0
    assert [launch.kernel for launch in memory_store.by_identity()[CRASH].launches] == ["fall"]
    assert (one.conditions.cache_mode, one.metric_set, one.state, one.name) == (
        "cold",
        "study",
        State.OK,
        "scale/v1 · n=2^10 · block=256",
    )


def test_the_report_is_kept_with_its_hash_and_command(fake_ncu, run, memory_store, tmp_path: Path) -> None:
    fake_ncu.plays({"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}})
    result = run(ONE)
    artifact = memory_store.profiles[0].artifact
    kept = tmp_path / "artifacts" / artifact.path
    assert kept.stat().st_size == artifact.size_bytes
    assert artifact.sha256[:12] in artifact.path
    assert artifact.tool_version == "2025.3.1"
    assert artifact.command[0] == str(fake_ncu.path)
    assert artifact.command[1:-4] == tuple(fake_ncu.calls[0][:-4])
    assert result.exit_code == 0


def test_unequal_numbers_of_launches_stay_with_their_trial(fake_ncu, run, memory_store) -> None:
    fake_ncu.plays({"console": "", "report": "instructions", "progress": {TWO: THROUGH}})
    run(TWO)
    launches = memory_store.profiles[0].launches
    assert [(launch.ordinal, launch.grid[0]) for launch in launches] == [(0, 256), (1, 1)]


def test_a_crash_costs_its_own_trial_and_the_rest_runs_again(fake_ncu, run, memory_store, listener) -> None:
    fake_ncu.plays(
        {"recording": "crash", "report": "crash", "progress": {ONE: THROUGH, CRASH: THROUGH[:2]}},
        {"console": "", "report": "instructions", "progress": {"all": THROUGH}},
    )
    result = run(ONE, CRASH, TWO)
    states = {profile.identity: profile.state for profile in memory_store.profiles}
    assert states == {ONE: State.OK, CRASH: State.CRASHED, TWO: State.OK}
    crashed = memory_store.by_identity()[CRASH]
    assert crashed.message == "under Nsight Compute: the process died while launching: LaunchFailed"
    assert "==ERROR== LaunchFailed" in crashed.log
    assert (crashed.launches, crashed.artifact) == ((), None)
    assert len(fake_ncu.calls) == 2
    assert result.exit_code == 1
    assert "vc crashed" in listener.lines


def test_a_hang_is_stopped_laid_to_its_trial_and_the_rest_runs_again(fake_ncu, run, make_setting, memory_store) -> None:
    hang = {"report": "hang_interrupted", "progress": {ONE: THROUGH, HANG: THROUGH[:2]}, "sleep_s": 600}
    fake_ncu.plays(
        {"recording": "hang_interrupted", **hang},
        {"console": "", "report": "instructions", "progress": {"all": THROUGH}},
    )
    began = time.monotonic()
    run(ONE, HANG, TWO, setting=make_setting(time_limit_s=10.0))  # which the second process has for its end
    assert time.monotonic() - began < 150
    states = {profile.identity: profile.state for profile in memory_store.profiles}
    assert states == {ONE: State.OK, HANG: State.TIMED_OUT, TWO: State.OK}
    assert "launching took longer than 10 s (ncu.time_limit_s)" in memory_store.by_identity()[HANG].message


def test_an_ncu_that_does_not_stop_is_killed(fake_ncu, run, make_setting, memory_store, monkeypatch) -> None:
    monkeypatch.setattr("cuprof.ncu.process.GRACE_S", 0.3)
    fake_ncu.plays({"progress": {HANG: THROUGH[:2]}, "sleep_s": 600, "ignore_interrupt": True})
    run(HANG, setting=make_setting(time_limit_s=1.0))
    assert memory_store.profiles[0].state is State.TIMED_OUT


def test_an_ncu_that_is_killed_is_named(fake_ncu, run, memory_store) -> None:
    fake_ncu.plays(
        {"progress": {ONE: THROUGH[:2]}, "kill": int(signal.SIGKILL)},
        {"console": "", "report": "instructions", "progress": {"all": THROUGH}},
    )
    run(ONE, TWO)
    assert memory_store.by_identity()[ONE].state is State.CRASHED
    assert "Nsight Compute was killed (SIGKILL) while launching" in memory_store.by_identity()[ONE].message
    assert memory_store.by_identity()[TWO].state is State.OK


def test_an_ncu_that_is_killed_before_any_trial_ends_the_collection(
    fake_ncu, run, memory_store, tmp_path: Path
) -> None:
    fake_ncu.plays({"console": "half a line", "kill": int(signal.SIGKILL)})
    with pytest.raises(ProfilerError, match=r"was killed \(SIGKILL\).*half a line; its output is in ") as raised:
        run(ONE)
    log = Path(str(raised.value).rpartition(" ")[2])
    assert log.parent == tmp_path / "artifacts"
    assert "--cache-control all" in log.read_text()
    assert memory_store.profiles == []


def test_an_error_the_process_lived_through_is_the_trial_s_own(fake_ncu, run, memory_store) -> None:
    progress = {CRASH: ["preparing", "failed:no kernel named scale"], ONE: THROUGH}
    fake_ncu.plays({"recording": "study_alone", "report": "study_alone", "progress": progress})
    run(CRASH, ONE)
    failed = memory_store.by_identity()[CRASH]
    assert (failed.state, failed.message) == (State.LAUNCH_ERROR, "under Nsight Compute: no kernel named scale")
    assert memory_store.by_identity()[ONE].state is State.OK


def test_a_lost_context_is_a_crash_of_the_trial_that_lost_it(fake_ncu, run, memory_store) -> None:
    """The profiled process notices, says so and gives up; ncu passes its exit code on."""
    fake_ncu.plays(
        {"report": "crash", "progress": {ONE: THROUGH, CRASH: [*THROUGH[:2], "failed:illegal address"]}, "exit": 1},
        {"report": "instructions", "progress": {"all": THROUGH}},
    )
    run(ONE, CRASH, TWO)
    states = {profile.identity: profile.state for profile in memory_store.profiles}
    assert states == {ONE: State.OK, CRASH: State.CRASHED, TWO: State.OK}


@pytest.mark.parametrize("others", [(), (ONE,)])
def test_no_kernel_in_the_range_is_said_of_the_trial(fake_ncu, run, memory_store, others: tuple[str, ...]) -> None:
    play = {"recording": "study_alone", "report": "study_alone"} if others else {"recording": "outside"}
    fake_ncu.plays({**play, "progress": {"all": THROUGH}})
    result = run(TWO, *others)
    empty = memory_store.by_identity()[TWO]
    assert empty.state is State.LAUNCH_ERROR
    assert "no kernel was launched" in empty.message
    assert all(memory_store.by_identity()[identity].state is State.OK for identity in others)
    assert result.exit_code == 1


def test_a_metric_the_chip_does_not_have_is_named_and_the_others_are_collected(
    fake_ncu, run, make_setting, memory_store, listener
) -> None:
    """The recorded ncu leaves out what it does not know, without a word."""
    metrics = ("launch__grid_dim_z", "dram__bytes_raed.sum")
    fake_ncu.plays({"recording": "unknown_metric", "report": "unknown_metric", "progress": {"all": THROUGH}})
    result = run(ONE, setting=make_setting(metrics))
    (profile,) = memory_store.profiles
    assert profile.state is State.OK
    assert [counter.metric for counter in profile.rolled] == ["launch__grid_dim_z"]
    assert "did you mean dram__bytes_read.sum" in profile.missing["dram__bytes_raed.sum"]
    assert profile.metrics == metrics
    assert (list(result.missing), result.exit_code) == (["dram__bytes_raed.sum"], 1)
    assert any("dram__bytes_raed.sum does not exist" in line for line in listener.lines)


def test_a_metric_that_ncu_refuses_is_left_out_in_a_second_run(fake_ncu, run, make_setting, memory_store) -> None:
    """As releases before 2025 do."""
    fake_ncu.plays(
        {"console": "==ERROR== Failed to find metric dram__bytes_raed.sum\n", "exit": 1, "progress": {}},
        {"console": "", "report": "study_alone", "progress": {"all": THROUGH}},
    )
    run(ONE, setting=make_setting(("launch__grid_dim_z", "dram__bytes_raed.sum")))
    first, second = (call[call.index("--metrics") + 1] for call in fake_ncu.calls)
    assert (first, second) == ("launch__grid_dim_z,dram__bytes_raed.sum", "launch__grid_dim_z")
    assert list(memory_store.profiles[0].missing) == ["dram__bytes_raed.sum"]


def test_where_ncu_refuses_every_metric_nothing_is_stored(fake_ncu, run, make_setting, memory_store) -> None:
    fake_ncu.plays({"console": "==ERROR== Failed to find metric no__such.sum\n", "exit": 1, "progress": {}})
    with pytest.raises(ProfilerError, match=r"nothing is left to collect: metric no__such\.sum does not exist"):
        run(ONE, setting=make_setting(("no__such.sum",)))
    assert memory_store.profiles == []


def test_a_metric_that_the_chip_has_is_not_said_to_be_absent(fake_ncu, run, make_setting) -> None:
    fake_ncu.plays({"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}})
    result = run(ONE, setting=make_setting(("launch__grid_dim_z", "smsp__inst_executed.sum")))
    assert (
        "smsp__inst_executed.sum was not collected, though this chip has" in result.missing["smsp__inst_executed.sum"]
    )


def test_launches_of_a_report_that_was_not_saved_to_its_end_are_not_stored(fake_ncu, run, memory_store) -> None:
    console = "==ERROR== Failed to save the report to file /tmp/report.ncu-rep\n"
    fake_ncu.plays({"console": console, "exit": 1, "report": "instructions", "progress": {"all": THROUGH}})
    with pytest.raises(ProfilerError, match="could not save its report"):
        run(TWO)
    assert memory_store.profiles == []


def test_what_failed_or_is_missing_is_so_the_second_time_too(fake_ncu, run, make_setting) -> None:
    metrics = make_setting(("launch__grid_dim_z", "dram__bytes_raed.sum"))
    fake_ncu.plays(
        {"recording": "crash", "report": "crash", "progress": {CRASH: THROUGH[:2]}},
        {"recording": "unknown_metric", "report": "unknown_metric", "progress": {"all": THROUGH}},
        {"recording": "study_alone", "report": "study_alone", "progress": {"all": THROUGH}},
    )
    ((trial, first),) = run(CRASH).failures
    again = run(CRASH)
    assert (again.failures, again.exit_code) == (((trial, StoredProfile(first.state, first.message)),), 1)
    missing = run(ONE, setting=metrics).missing
    assert missing
    again = run(ONE, setting=metrics)
    assert (again.missing, again.profiles, again.exit_code) == (missing, (), 1)
    assert len(fake_ncu.calls) == 2
    run(CRASH, setting=make_setting(("launch__block_size",)))  # that it failed under other metrics decides nothing
    assert len(fake_ncu.calls) == 3


@pytest.mark.parametrize(
    ("play", "message"),
    [
        ({"recording": "disk_full", "progress": {"all": THROUGH}}, "could not save its report"),
        ({"recording": "unwritable"}, "could not save its report"),
        ({"recording": "unknown_section"}, "refused its arguments"),
        ({"recording": "target_fails"}, "ended with exit code 3 before any trial was profiled"),
        ({"recording": "missing_target"}, "does not exist or is not an executable"),
        (
            {"console": "==ERROR== ERR_NVGPUCTRPERM - The user does not …", "progress": {"all": THROUGH}},
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ({"console": "==ERROR== Another tool is already attached.", "exit": 1}, "another profiler holds"),
        ({"console": "", "report": "truncated", "progress": {"all": THROUGH}}, "is cut short"),
    ],
)  # fmt: skip
def test_what_is_no_trial_s_fault_ends_the_collection(fake_ncu, run, memory_store, play: dict, message: str) -> None:
    fake_ncu.plays(play)
    with pytest.raises(ProfilerError, match=message) as raised:
        run(ONE, TWO)
    assert raised.value.exit_code == 2
    assert memory_store.profiles == []


def test_what_the_profiled_process_said_last_is_in_the_message(fake_ncu, run) -> None:
    console = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'cupy'\n"
    fake_ncu.plays({"console": console + "==ERROR== The application returned an error code (1).", "exit": 1})
    with pytest.raises(ProfilerError, match="ModuleNotFoundError: No module named 'cupy'; its output is in"):
        run(ONE)


def test_what_is_stored_is_not_profiled_again(fake_ncu, run, make_setting, memory_store, listener) -> None:
    fake_ncu.plays(*[{"console": "", "report": "study_alone", "progress": {"all": THROUGH}}] * 4)
    run(ONE)
    assert run(ONE).profiles == ()
    assert len(fake_ncu.calls) == 1
    assert listener.lines[-1] == "1 planned, 1 reused"
    run(ONE, setting=make_setting(cache_control="none"))  # hot counters are others
    assert memory_store.profiles[-1].conditions.cache_mode == "hot"
    run(ONE, setting=make_setting(("launch__grid_dim_z", "launch__block_size")))  # a further metric
    run(ONE, retry="all")
    assert len(fake_ncu.calls) == 4


def test_failed_trials_are_tried_again_only_when_asked(fake_ncu, run, memory_store) -> None:
    fake_ncu.plays(
        {"recording": "crash", "report": "crash", "progress": {CRASH: THROUGH[:2]}},
        {"console": "", "report": "crash", "progress": {CRASH: THROUGH}},
    )
    run(CRASH)
    assert run(CRASH).profiles == ()
    assert run(CRASH, retry="failed").profiles[0].state is State.OK


def test_batches_devices_and_tasks(fake_ncu, make_setting, make_trial, right, memory_store) -> None:
    """One process for each batch of one device's trials; it names the device, its task folder and points."""
    second = DeviceFacts("cuda", 1, "NVIDIA H200")
    trials = [make_trial(ONE), make_trial(TWO, device=second), make_trial(CRASH), make_trial(HANG)]
    through = {"console": "", "progress": {"all": THROUGH}}
    fake_ncu.plays(
        {**through, "report": "crash"}, {**through, "report": "hang_interrupted"}, {**through, "report": "instructions"}
    )
    collector = Collector(make_setting(batch=2))
    result = Profiling(collector, memory_store, None, Observer(), hold).collect(trials, right(trials))
    tasks = fake_ncu.tasks
    assert [[trial["identity"] for trial in task["trials"]] for task in tasks] == [[ONE, CRASH], [HANG], [TWO]]
    assert [call[-3:-1] for call in fake_ncu.calls] == [["cuda", "0"], ["cuda", "0"], ["cuda", "1"]]
    named = {"identity": ONE, "variant": "v1", "problem": {"n": 1024}, "tunables": {"block": 256}}
    first = tasks[0]["trials"][0]
    assert {name: first[name] for name in named} == named
    assert all((task["origin"]["path"], task["extension"]) == ("/families/scale", None) for task in tasks)
    assert [profile.identity for profile in result.profiles] == [ONE, CRASH, HANG, TWO]


def test_only_right_cuda_trials_are_profiled(fake_ncu, make_setting, make_trial, memory_store) -> None:
    trials = [
        make_trial(ONE),
        make_trial(TWO, backend="cpu", kind="cpu"),
        make_trial(CRASH, unavailable=Unavailable("no GPU", "plug one in")),
        make_trial(HANG),
        make_trial("0" * 32),
    ]
    outcomes = {ONE: Outcome(ONE, State.OK), HANG: Outcome(HANG, State.WRONG_RESULT, "sum[0] = 3, expected 4")}
    fake_ncu.plays({"console": "", "report": "study_alone", "progress": {"all": THROUGH}})
    collector = Collector(make_setting())
    result = Profiling(collector, memory_store, None, Observer(), hold).collect(trials, outcomes)
    assert [profile.identity for profile in result.profiles] == [ONE]
    assert "no hardware counters" in result.skipped[TWO]
    assert result.skipped[CRASH] == "no GPU; plug one in"
    assert "wrong_result: sum[0] = 3, expected 4" in result.skipped[HANG]
    assert result.skipped["0" * 32] == "it has not been checked"


def test_an_interruption_stores_what_was_through_and_goes_on_later(fake_ncu, run, memory_store) -> None:
    hang = {"report": "hang_interrupted", "progress": {ONE: THROUGH, HANG: THROUGH[:2]}, "sleep_s": 600}
    fake_ncu.plays(
        {"recording": "hang_interrupted", **hang},
        {"console": "", "report": "instructions", "progress": {"all": THROUGH}},
    )
    _interrupt_when((fake_ncu.folder / "played").exists)
    with pytest.raises(KeyboardInterrupt):
        run(ONE, HANG, TWO)
    assert [(profile.identity, profile.state) for profile in memory_store.profiles] == [(ONE, State.OK)]
    assert [profile.identity for profile in run(ONE, TWO).profiles] == [TWO]
    assert memory_store.by_identity()[TWO].state is State.OK


def test_progress_is_shown_while_the_process_runs(fake_ncu, run, listener, tmp_path: Path, monkeypatch) -> None:
    shown, show = tmp_path / "shown", listener.trial_started
    monkeypatch.setattr(listener, "trial_started", lambda *told: (show(*told), shown.touch()))
    fake_ncu.plays(
        {"console": "", "report": "hang_interrupted", "progress": {HANG: THROUGH[:2]}, "until": str(shown)},
    )
    run(HANG)
    assert listener.lines == ["1 planned, 0 reused", "profile vf", "vf crashed"]


def test_nothing_is_left_behind(fake_ncu, run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    fake_ncu.plays({"console": "", "report": "study_alone", "progress": {"all": THROUGH}})
    run(ONE)
    assert list(temporary.iterdir()) == []


def test_artifacts_that_cannot_be_written_are_reported(fake_ncu, run, make_setting, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    fake_ncu.plays({"console": "", "report": "study_alone", "progress": {"all": THROUGH}})
    with pytest.raises(ProfilerError, match="cannot be kept in"):
        run(ONE, setting=replace(make_setting(), artifacts=tmp_path / "file" / "artifacts"))


def test_an_ncu_that_cannot_be_started_is_reported(fake_ncu, run, make_setting, tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(fake_ncu.path)
    gone = NcuExecutable(tmp_path / "gone")
    assert gone.version
    (tmp_path / "gone").unlink()
    with pytest.raises(ProfilerError, match=r"gone could not be started .* check ncu\.path"):
        run(ONE, setting=replace(make_setting(), executable=gone))


def _interrupt_when(ready: Callable[[], bool]) -> None:
    """Send SIGINT to this process, as Ctrl-C does, once `ready` holds."""

    def wait() -> None:
        deadline = time.monotonic() + 120
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()
