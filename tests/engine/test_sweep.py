"""Sweeps as a whole: expectations, what makes a trial new, dry runs, bad input, interrupts."""

from __future__ import annotations

import gc
import os
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from cuprof.config.model import LimitsConfig, SearchConfig
from cuprof.core.errors import SelectionError, StoreError, UnknownNameError, UsageError
from cuprof.core.records import Calibration, DeviceFacts, Measure, State, Timing, Unavailable
from cuprof.engine.calibration import Calibrator
from cuprof.engine.devices import find_devices
from cuprof.engine.executor import Executor
from cuprof.engine.observer import Observer
from cuprof.engine.planning import prepare
from cuprof.engine.preview import preview
from cuprof.engine.running import run_sweep
from cuprof.engine.worker_process import START_LIMIT_S, WorkerDiedError, WorkerProcess
from cuprof.worker.messages import Calibrate, Describe, WorkerSettings
from tests.living import command_of

CALIBRATE = Calibrator.calibrate  # before the tests' benches take a shortcut


def test_an_expected_wrong_result_is_no_failure(bench: Any) -> None:
    result, heard = bench.sweep("sound_first", "known_wrong")
    assert heard.of("known_wrong").state is State.WRONG_RESULT
    assert (result.exit_code, result.failed, result.surprises) == (0, (), ())
    assert bench.sweep("sound_first", "known_wrong")[0].exit_code == 0


def test_a_right_result_that_was_expected_wrong_is_reported(bench: Any) -> None:
    for first in ([bench.place], []):
        result, heard = bench.sweep("sound_first", "healed")
        assert result.exit_code == 1
        assert [trial.variant for trial in result.surprises] == ["healed"]
        assert heard.notes == [*first, "faulty/healed · n=128 is expected to be wrong and was found right"]


def test_a_crash_of_what_is_expected_wrong_is_a_failure(bench: Any) -> None:
    text = bench.family_file.read_text()
    mended = text.replace('@family.cpu("segfault")', '@family.cpu("segfault", expected="wrong")')
    bench.family_file.write_text(mended)
    assert bench.sweep("segfault")[0].exit_code == 1


def test_a_measure_that_the_back_end_does_not_take_is_refused(bench: Any) -> None:
    with pytest.raises(UsageError, match=r"the cpu back end has no total time; measure\.modes=\[cold\]"):
        bench.sweep("sound_first", measure=replace(bench.config().measure, modes=("total",)))
    _, heard = bench.sweep("sound_first", measure=replace(bench.config().measure, modes=("total", "cold")))
    assert [timing.measure for timing in heard.of("sound_first").timings] == [Measure.COLD]


def test_a_setting_that_no_back_end_heeds_is_named_and_nothing_is_timed_again_for_it(bench: Any) -> None:
    assert bench.sweep("sound_first")[1].notes == [bench.place]
    asked = replace(bench.config().measure, energy=True, graph=True, timer="cupti")
    _, heard = bench.sweep("sound_first", measure=asked)
    assert heard.notes == [f"measure.{name} has no effect on cpu variants" for name in ("graph", "energy", "timer")]
    assert (heard.outcomes, heard.reused) == ({}, 1)


def test_a_setting_that_one_of_the_back_ends_heeds_needs_no_word(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, DeviceFacts | Unavailable] = {
        "cuda": DeviceFacts("cuda", 0, "it"),
        "cpu": DeviceFacts("cpu", 0, "it"),
    }
    monkeypatch.setattr("cuprof.engine.devices.find_devices", lambda config, runner, backends: dict(found))
    config = bench.config("sound_first", "cuda_sound_first", measure=replace(bench.config().measure, energy=True))
    executors = [Executor(WorkerSettings(), config.limits)]
    assert prepare(config, bench.project, executors).plan.notes == ()
    found["cuda"] = Unavailable("no NVIDIA driver on this machine")
    notes = prepare(config, bench.project, executors).plan.notes
    assert notes == ("measure.energy has no effect on cpu variants",)
    assert prepare(config, bench.project, executors, timed=False).plan.notes == ()


def test_what_is_stored_is_not_measured_again(bench: Any) -> None:
    first, heard = bench.sweep("sound_*")
    assert len(heard.outcomes) == 3
    second, heard = bench.sweep("sound_*")
    assert (heard.outcomes, heard.reused, second.exit_code) == ({}, 3, 0)
    assert second.sweep_id != first.sweep_id
    assert bench.query("SELECT COUNT(*) FROM run") == [(3,)]
    _, heard = bench.sweep("sound_*", problem={"n": (128, 256)})
    assert {outcome.state for outcome in heard.outcomes.values()} == {State.OK}
    assert (len(heard.outcomes), heard.reused) == (3, 3)


def test_editing_a_variant_makes_its_trials_new_and_others_not(bench: Any) -> None:
    bench.sweep("sound_first", "prints")
    text = bench.family_file.read_text()
    bench.family_file.write_text(text.replace("nonsense", "rubbish"))
    _, heard = bench.sweep("sound_first", "prints")
    assert {*heard.outcomes} == {"faulty/prints · n=128", "faulty/sound_first · n=128"}, "the stored best goes along"


def test_beside_new_trials_the_stored_best_and_the_baseline_are_timed_again(bench: Any) -> None:
    bench.sweep("sound_*")
    with closing(sqlite3.connect(bench.database)) as connection, connection:  # no two are equal
        connection.execute("UPDATE timing SET median_ns = median_ns + 1e-3 * id")
    stored = dict(bench.query("SELECT variant, median_us FROM timings"))
    best = min(stored, key=stored.get)
    _, heard = bench.sweep("sound_*", "prints", baseline="sound_first")
    again = {"sound_first", best}
    assert {each.split(" · ")[0] for each in heard.outcomes} == {f"faulty/{each}" for each in {"prints", *again}}
    assert heard.reused == 3 - len(again)
    told = [each for each in heard.notes if "stored times still hold" in each or "times of sweep 1 " in each]
    assert len(told) == 2
    assert re.match(r"times of sweep 1 (still hold|do not hold today): \d trials? timed again differs? by", told[1])
    _, heard = bench.sweep("sound_*", "prints", baseline="sound_first")
    assert (heard.outcomes, heard.reused) == ({}, 4)


def test_noisy_trials_are_timed_again_on_request(bench: Any) -> None:
    bench.sweep("sound_*")
    with closing(sqlite3.connect(bench.database)) as connection, connection:  # however busy the machine is
        connection.execute("UPDATE timing SET low_ns = 0.9 * median_ns, high_ns = 1.1 * median_ns")
    _, heard = bench.sweep("sound_*", retry="noisy", retry_above=0.2)
    assert (heard.outcomes, heard.reused) == ({}, 3)
    _, heard = bench.sweep("sound_*", retry="noisy", retry_above=1e-9)
    assert len(heard.outcomes) == 3
    assert "3 stored trials wider than ±1e-07 % are timed again" in heard.notes
    _, heard = bench.sweep("sound_first", retry="noisy", retry_above=1e-9)
    assert "1 stored trial wider than ±1e-07 % is timed again" in heard.notes


def test_editing_the_tolerance_makes_all_trials_new(bench: Any) -> None:
    bench.sweep("sound_first", "prints")
    text = bench.family_file.read_text()
    bench.family_file.write_text(text.replace("return Tolerance()", "return Tolerance(absolute=1e-9)"))
    assert len(bench.sweep("sound_first", "prints")[1].outcomes) == 2


def test_moving_code_to_a_file_of_another_name_does_not(bench: Any) -> None:
    family = bench.family_file
    text = family.read_text()
    function = 'def double(inputs, outputs):\n    np.multiply(inputs["x"], 2, out=outputs["y"])\n'
    assert function in text
    body = f"import numpy as np\n\n\n{function}"
    (family.parent / "work.py").write_text(body)
    family.write_text(text.replace(function, "from .work import double\n"))
    assert len(bench.sweep("sound_first")[1].outcomes) == 1
    (family.parent / "work.py").rename(family.parent / "labour.py")
    family.write_text(family.read_text().replace("from .work import", "from .labour import"))
    _, heard = bench.sweep("sound_first")
    assert (heard.outcomes, heard.reused) == ({}, 1)


def test_another_timing_method_times_again_under_the_same_identity(bench: Any) -> None:
    from dataclasses import replace

    bench.sweep("sound_first")
    config = bench.config("sound_first")
    _, heard = bench.sweep("sound_first", measure=replace(config.measure, target=0.4))
    assert len(heard.outcomes) == 1
    assert bench.query("SELECT COUNT(*) FROM trial") == [(1,)]
    assert bench.query("SELECT COUNT(DISTINCT method) FROM timing") == [(2,)]


def test_skipped_trials_are_looked_at_again_and_have_one_run_each(bench: Any) -> None:
    for _ in range(2):
        result, heard = bench.sweep("sound_first", "lacks_a_module")
        assert heard.of("lacks_a_module").state is State.SKIPPED
        assert result.exit_code == 0
    assert bench.query("SELECT COUNT(*) FROM run") == [(2,)]
    assert bench.query("SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NOT NULL") == [(4,)]


def test_a_dry_run_stores_nothing_and_knows_what_is_stored(bench: Any) -> None:
    config = bench.config("sound_first", "raises", "lacks_a_module")
    rows = {row.label.partition("/")[2].split()[0]: row for row in preview(config, bench.project).rows}
    assert {name: row.state for name, row in rows.items()} == {
        "sound_first": "missing", "raises": "missing", "lacks_a_module": "unavailable",
    }  # fmt: skip
    assert "module_that_does_not_exist" in rows["lacks_a_module"].reason
    assert not bench.database.exists()
    bench.sweep("sound_first", "raises", "lacks_a_module")
    before = bench.database.read_bytes()
    found = [(row.state, row.reason) for row in preview(config, bench.project).rows]
    assert found[:2] == [("stored", ""), ("stored", "launch_error")]
    assert bench.database.read_bytes() == before
    retried = bench.config("sound_first", "raises", retry="failed")
    assert [row.state for row in preview(retried, bench.project).rows] == ["stored", "missing"]


@pytest.mark.parametrize(
    ("variants", "changes", "error"),
    [
        (("sound_frist",), {}, UnknownNameError),
        (("sound_first",), {"family": "faluty"}, UnknownNameError),
        (("sound_first",), {"baseline": "nobody"}, UnknownNameError),
        (("sound_first",), {"problem": {"m": (1,)}}, UnknownNameError),
        (("sound_first",), {"problem": {"n": (0,)}}, SelectionError),
        (("sound_first",), {"tune": {"block": (7,)}}, UnknownNameError),
        (("lacks_a_module",), {}, SelectionError),
        (("cpu",), {"device": "cuda only"}, SelectionError),
    ],
)
def test_bad_input_leaves_no_database_behind(
    bench: Any, variants: tuple[str, ...], changes: dict[str, Any], error: type[UsageError]
) -> None:
    from cuprof.config.model import DeviceConfig

    if "device" in changes:
        changes = {"device": DeviceConfig(backends=("cuda",))}
    with pytest.raises(error) as raised:
        bench.sweep(*variants, **changes)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    assert not bench.database.parent.exists()


def test_a_family_that_raises_leaves_no_database_behind(bench: Any) -> None:
    bench.family_file.write_text("raise RuntimeError('broken')\n")
    with pytest.raises(UsageError, match="broken"):
        bench.sweep("sound_first")
    assert not bench.database.parent.exists()


def test_a_gpu_only_selection_without_a_gpu_says_why_and_stores_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Unavailable("no NVIDIA driver on this machine")
    monkeypatch.setattr(
        "cuprof.engine.devices.find_devices", lambda config, runner, backends: dict.fromkeys(backends, none)
    )
    with pytest.raises(UsageError, match="no NVIDIA driver on this machine"):
        bench.sweep("cuda_sound_first", "cuda_trap")
    assert not bench.database.parent.exists()


def test_a_back_end_that_takes_the_worker_down_costs_itself_alone(bench: Any) -> None:
    asked = []

    class Runner:
        replaced, settings = 0, WorkerSettings()

        @property
        def worker(self) -> Any:
            return self

        def ask(self, question: Describe, *kinds: type) -> DeviceFacts:
            asked.append(question.backend)
            if question.backend == "opencl":
                raise WorkerDiedError("SIGSEGV", None, "")  # type: ignore[arg-type]
            return DeviceFacts(question.backend, 0, "it")

        def drop_worker(self) -> None:
            self.replaced += 1

    runner = Runner()
    found = find_devices(bench.config(), runner, ("cuda", "opencl", "cpu"))  # type: ignore[arg-type]
    assert asked == ["cuda", "opencl", "cpu"]
    assert isinstance(found["cuda"], DeviceFacts)
    assert isinstance(found["cpu"], DeviceFacts)
    assert "SIGSEGV" in str(found["opencl"])
    assert runner.replaced == 1


def test_a_command_asks_for_its_devices_once(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(worker: WorkerProcess, question: Any, *kinds: type, **limits: Any) -> Any:
        asked.append(question)
        return ask_worker(worker, question, *kinds, **limits)

    ask_worker = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    for n in (64, 128):
        assert bench.sweep("sound_first", problem={"n": (n,)})[1].of("sound_first").state is State.OK
    assert [question.backend for question in asked if isinstance(question, Describe)] == ["cpu"]


def workers_of_this_process() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "cuprof.worker" in command_of(child)]


@pytest.mark.own_workers  # which are children of this process
def test_a_worker_that_dies_between_jobs_costs_no_trial(bench: Any, make_listener: Callable[..., Any]) -> None:
    killed: list[int] = []

    def kill_the_worker(trial: Any) -> None:
        for worker in workers_of_this_process():
            worker.kill()
            killed.append(worker.pid)

    heard = make_listener(on_finished=kill_the_worker)
    result, _ = bench.sweep("sound_first", problem={"n": (1, 2, 3)}, listener=heard)
    assert [outcome.state for outcome in heard.outcomes.values()] == [State.OK] * 3
    assert result.exit_code == 0
    assert len(killed) >= 2


@pytest.mark.own_workers
def test_ctrl_c_marks_the_sweep_and_the_same_command_goes_on(bench: Any, make_listener: Callable[..., Any]) -> None:
    def interrupt(trial: Any) -> None:
        if trial.problem.n == 2:
            os.kill(os.getpid(), signal.SIGINT)

    sizes = {"n": (1, 2, 3, 4)}
    heard = make_listener(on_finished=interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.sweep("sound_first", problem=sizes, listener=heard)
    assert bench.query("SELECT state FROM sweep") == [("interrupted",)]
    assert heard.ended is None
    assert not workers_of_this_process()
    result, heard = bench.sweep("sound_first", problem=sizes)
    assert (heard.reused, len(heard.outcomes), result.exit_code) == (2, 2, 0)
    assert bench.query("SELECT id, state FROM sweep") == [(result.sweep_id, "finished")]
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(4, 4)]


@pytest.mark.parametrize(("retry", "variant"), [("all", "sound_first"), ("failed", "wrong")])
def test_trying_again_goes_on_where_it_was_interrupted(
    bench: Any, make_listener: Callable[..., Any], retry: str, variant: str
) -> None:
    def interrupt(trial: Any) -> None:
        if trial.problem.n == 1:
            os.kill(os.getpid(), signal.SIGINT)

    sizes = {"n": (1, 2)}
    bench.sweep(variant, problem=sizes)
    with pytest.raises(KeyboardInterrupt):
        bench.sweep(variant, problem=sizes, retry=retry, listener=make_listener(on_finished=interrupt))
    _, heard = bench.sweep(variant, problem=sizes, retry=retry)
    assert (heard.reused, len(heard.outcomes)) == (1, 1)
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT trial_id) FROM run") == [(4, 2)]
    _, heard = bench.sweep(variant, problem=sizes, retry=retry)
    assert (heard.reused, len(heard.outcomes)) == (0, 2)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_database_that_is_removed_meanwhile_is_reported(
    bench: Any, make_listener: Callable[..., Any], is_replaced: bool
) -> None:
    def remove(trial: Any) -> None:
        for file in bench.database.parent.iterdir():
            file.rename(bench.project.root / file.name)
        if is_replaced:
            bench.database.touch()

    heard = make_listener(on_finished=remove)
    with pytest.raises(StoreError, match="was removed or replaced while the sweep ran, and the results are lost"):
        bench.sweep("sound_first", listener=heard)
    assert heard.ended is None


def test_a_database_on_a_network_is_told_of_once(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.store.connection.find_filesystem", lambda file: "nfs4")
    _, heard = bench.sweep("sound_first", "sound_last")
    assert sum("network file system (nfs4)" in note for note in heard.notes) == 1


def test_a_password_is_not_put_on_record(bench: Any) -> None:
    url = "postgresql+psycopg://me:hunter2@host/base"
    command = f"cuprof sweep store.url={url}"
    bench.sweep("sound_first", command_line=command, composed={"store": {"url": url, "echo": False}})
    ((typed, configuration),) = bench.query("SELECT command_line, configuration FROM sweep")
    assert "hunter2" not in typed + configuration
    assert "me:***@host/base" in typed
    assert "me:***@host/base" in configuration


def test_a_worker_ends_when_its_engine_does_and_leaves_no_files(tmp_path: Path, bench: Any) -> None:
    config = bench.config()
    with Executor(WorkerSettings(), config.limits) as executor:
        executor.worker.ask(Describe("cpu"), DeviceFacts)
        process, folder = psutil.Process(executor.worker.process.pid), Path(executor.worker.folder.path)
        assert process.is_running()
        assert folder.exists()
    assert not process.is_running()
    assert not folder.exists()


def test_what_fails_when_a_search_looks_again_is_not_taken_for_a_change_of_what_is_stored(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_later(self: Executor, job: Any) -> Any:
        for outcome in measure(self, job):
            is_first = job.measure.max_samples == 5
            yield outcome if is_first else replace(outcome, state=State.CRASHED, message="it is so", timings=())

    measure = Executor.measure
    monkeypatch.setattr(Executor, "measure", fail_later)
    run_sweep(bench.config(search=SearchConfig(name="random", trials=1, seed=1)), bench.project, Observer())
    assert bench.query("SELECT DISTINCT state FROM run ORDER BY id") == [("ok",), ("crashed",)]


@pytest.mark.slow
def test_samples_of_what_is_stored_are_not_kept(bench: Any) -> None:
    class Counter(Observer):
        alive: ClassVar[list[int]] = []

        def trial_finished(self, trial: Any, outcome: Any) -> None:
            gc.collect()
            self.alive.append(sum(type(each) is Timing for each in gc.get_objects()) - before)

    before = sum(type(each) is Timing for each in gc.get_objects())
    sizes = {"n": tuple(range(1, 5))}
    run_sweep(bench.config("sound_first", "sound_between", problem=sizes), bench.project, Counter())
    assert len(Counter.alive) == 8
    assert max(Counter.alive) <= 1


def test_a_limit_that_was_measured_beside_other_work_is_measured_again_before_it_rules_out_a_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked, ask = [], WorkerProcess.ask

    def answer(self: WorkerProcess, question: Any, *kinds: type, limit_s: float = START_LIMIT_S) -> Any:
        if not isinstance(question, Calibrate):
            return ask(self, question, *kinds, limit_s=limit_s)
        asked.append(question)
        return Calibration(question.backend, 1e9, details={"cache_bandwidth": 1.0 if len(asked) < 2 else 1e12})

    monkeypatch.setattr(WorkerProcess, "ask", answer)
    monkeypatch.setattr(Calibrator, "calibrate", CALIBRATE)
    _, heard = bench.sweep("sound_first", "sound_last")
    assert {outcome.state for outcome in heard.outcomes.values()} == {State.OK}
    assert len(asked) == 2
    assert bench.query("SELECT details LIKE '%1000000000000%' FROM calibration") == [(1,)]


def test_the_hosts_figures_are_measured_once_and_bound_the_times_of_later_sweeps_too(
    bench: Any, monkeypatch: pytest.MonkeyPatch, make_listener: Callable[..., Any], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    heard, asked = make_listener(), []
    speeds = iter((1.0, 1.0, 1.0, 1e12))

    ask = WorkerProcess.ask

    def answer(self: WorkerProcess, question: Any, *kinds: type, limit_s: float = START_LIMIT_S) -> Any:
        if not isinstance(question, Calibrate):
            return ask(self, question, *kinds, limit_s=limit_s)
        asked.append(len(heard.outcomes))
        return Calibration(question.backend, 1e9, details={"cache_bandwidth": next(speeds)})

    monkeypatch.setattr(WorkerProcess, "ask", answer)
    monkeypatch.setattr(Calibrator, "calibrate", CALIBRATE)
    for n in (1, 2):  # 8 bytes take seconds at 1.5 times a byte a second
        _, heard = bench.sweep("sound_first", problem={"n": (n,)}, listener=heard)
        assert heard.of("sound_first").state is State.IMPLAUSIBLE
        heard = make_listener()
    assert asked == [0, 0, 0], "a time is impossible only by limits that were measured twice"
    bench.sweep("sound_first", problem={"n": (2, 3)}, retry="all", listener=heard)
    assert asked == [0, 0, 0, 0]
    assert {outcome.state for outcome in heard.outcomes.values()} == {State.OK}
    assert bench.query("SELECT COUNT(*), COUNT(DISTINCT measured_at) FROM calibration") == [(3, 3)]


def test_what_runs_its_own_code_in_the_worker_can_be_given_a_process_of_its_own(bench):
    limits = LimitsConfig(build_s=20, check_s=20, trial_s=60, isolate=True)
    result, heard = bench.sweep("sound_first", "sound_last", "leaves_a_child", limits=limits)
    timings = [heard.of(variant).timings[0] for variant in ("sound_first", "sound_last")]
    assert timings[0].rotation != timings[1].rotation
    assert [outcome.state for _, outcome in result.failed] == [State.CRASHED]


def test_what_was_skipped_for_one_reason_is_tried_once_and_everywhere_when_that_is_gone(bench: Any) -> None:
    tried, installed = bench.project.root / "tried", bench.project.root / "installed"
    with bench.family_file.open("a") as text:
        text.write(f'''

@family.cpu("needs_much")
def needs_much(problem, tune, inputs, outputs):
    """Finds out late that something is not installed; at one problem it is something else."""
    from pathlib import Path
    with open({str(tried)!r}, "a") as log:
        log.write(f"{{problem.n}} ")
    if not Path({str(installed)!r}).exists():
        raise ImportError("another one is missing" if problem.n == 512 else "one is missing")
    return lambda: np.multiply(inputs["x"], 2, out=outputs["y"])
''')

    def sweep() -> tuple[list[str], set[tuple[State, str]]]:
        tried.write_text("")
        heard = bench.sweep("needs_much", problem={"n": (128, 256, 512, 1024)})[1]
        return tried.read_text().split(), {(each.state, each.message) for each in heard.outcomes.values()}

    missing = {(State.SKIPPED, "one is missing"), (State.SKIPPED, "another one is missing")}
    assert sweep() == (["128", "256", "512", "1024"], missing)
    assert sweep() == (["128", "512"], missing)
    installed.touch()
    tries, outcomes = sweep()
    assert ({*tries}, outcomes) == ({"128", "256", "512", "1024"}, {(State.OK, "")})
