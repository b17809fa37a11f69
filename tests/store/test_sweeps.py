"""Which sweep a command goes on with."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from store_samples import FACTS

from cuprof.core.errors import UsageError
from cuprof.results.queries import query
from cuprof.store.processes import HOSTS_OWN, Process, this_host, this_process
from cuprof.store.store import Store


@pytest.fixture
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def hand_over(store: Store, sweep: int, host: str, pid: int, started: float) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE sweep SET process_host = '{host}', process_id = {pid}, process_started = {started} "
            f"WHERE id = {sweep}"
        )


def test_an_unfinished_sweep_of_this_process_is_taken_up_again(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    assert store.begin_sweep(replace(FACTS, command_line="again")) == sweep
    row = query(store.url, "SELECT * FROM sweep")
    assert row["invocations"].tolist() == [2]
    assert row["command_line"].tolist() == ["again"]
    assert row["state"].tolist() == ["running"]
    assert not row["resumed_at"].isna().any()


def test_a_finished_sweep_is_not_taken_up_and_an_interrupted_one_is(store: Store) -> None:
    first = store.begin_sweep(FACTS)
    store.finish_sweep(first, "finished")
    second = store.begin_sweep(FACTS)
    store.finish_sweep(second, "interrupted")
    assert first != second
    assert query(store.url, "sweeps")["state"].tolist() == ["interrupted", "finished"]
    assert store.begin_sweep(FACTS) == second
    assert query(store.url, f"SELECT finished_at FROM sweep WHERE id = {second}")["finished_at"].isna().all()


def test_a_job_joins_the_sweep_that_others_finished_while_it_started(store: Store) -> None:
    began = time.time()
    first, (station,) = store.join_sweep(FACTS, ["host"])
    store.leave([station])
    store.finish_sweep(first, "finished")
    assert store.join_sweep(FACTS, ["host"], began)[0] == first
    assert store.join_sweep(FACTS, ["host"], time.time() + 60)[0] != first, "that one is of an earlier command"
    other = store.join_sweep(FACTS, ["host"])[0]
    assert other != first, "without a launcher a sweep with nothing to do is one of its own"


def test_another_plan_is_another_sweep(store: Store) -> None:
    assert store.begin_sweep(FACTS) != store.begin_sweep(replace(FACTS, plan_hash="other"))


def test_everything_known_of_a_sweep_is_stored(store: Store) -> None:
    before = time.time()
    sweep = store.begin_sweep(FACTS)
    row = query(store.url, "SELECT * FROM sweep").iloc[0]
    assert row["id"] == sweep
    for name in ("name", "experiment", "family", "baseline", "plan_hash", "purpose", "command_line", "host"):
        assert row[name] == getattr(FACTS, name)
    import json

    for name in ("configuration", "git", "software"):
        assert json.loads(row[name]) == getattr(FACTS, name)
    assert before - 1 <= row["started_at"].timestamp() <= time.time() + 1
    assert row["process_id"] == os.getpid()


def test_a_sweep_whose_process_lives_is_not_taken_over(store: Store, other_process: subprocess.Popen[bytes]) -> None:
    sweep = store.begin_sweep(FACTS)
    hand_over(store, sweep, this_host(), other_process.pid, psutil.Process(other_process.pid).create_time())
    with pytest.raises(UsageError, match=rf"the same sweep is running \(pid {other_process.pid}, sweep {sweep}\)"):
        store.begin_sweep(FACTS)
    other_process.kill()
    other_process.wait()
    assert store.begin_sweep(FACTS) == sweep


def test_a_pid_used_again_by_another_program_is_not_the_sweep(
    store: Store, other_process: subprocess.Popen[bytes]
) -> None:
    sweep = store.begin_sweep(FACTS)
    hand_over(store, sweep, this_host(), other_process.pid, psutil.Process(other_process.pid).create_time() - 3600)
    assert store.begin_sweep(FACTS) == sweep


def test_a_sweep_that_runs_on_another_host_is_left_alone(store: Store) -> None:
    sweep = store.begin_sweep(FACTS)
    hand_over(store, sweep, "elsewhere", 1, 0.0)
    assert store.begin_sweep(FACTS) == sweep + 1


def test_a_process_that_has_ended_but_was_not_waited_for_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        started = psutil.Process(process.pid).create_time()
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert not Process(this_host(), process.pid, started).is_alive()
    assert this_process().is_alive()


def test_a_pid_of_another_container_says_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = this_process()
    monkeypatch.setattr(Path, "readlink", lambda path: Path("pid:[4026532178]"))
    assert this_host() == f"{platform.node()}-4026532178"
    assert this_process() != mine
    assert not mine.is_alive(), "nobody knows, here"
    monkeypatch.setattr(Path, "readlink", lambda path: Path(HOSTS_OWN))
    assert this_host() == platform.node()


def test_another_users_process_that_proc_hides_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def hide(pid: int) -> psutil.Process:
        raise psutil.NoSuchProcess(pid)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    mine = this_process()
    monkeypatch.setattr("psutil.Process", hide)
    assert not mine.is_alive()
    monkeypatch.setattr("os.kill", refuse)
    assert mine.is_alive()
