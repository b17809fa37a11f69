"""Interrupts at random instructions of a write: the row is whole or absent, and the store goes on at once."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from store_samples import FACTS, make_outcome, make_timing, make_trial

from cuprof.core.interrupts import heard
from cuprof.store.connection import BUSY_SECONDS
from cuprof.store.store import Store
from tests.interrupter import Interrupter, signalled_soon

SEED = int(os.environ.get("CUPROF_SEED", "1"))
SAMPLES = 20


def interrupt_writes(path: Path, count: int, hear: bool) -> None:
    chance = random.Random(SEED)
    with Store.open(f"sqlite:///{path}") as store:
        trials = [make_trial(n=n) for n in range(1, count + 3)]
        sweep = store.begin_sweep(FACTS)
        store.enlist(sweep, trials)
        for trial in trials[:2]:  # the first one prepares statements
            with Interrupter() as counter:
                store.record(sweep, make_outcome(trial, make_timing(SAMPLES, samples=SAMPLES)))
        interrupted = absent = 0
        for trial in trials[2:]:
            before = _count(path, "run")
            outcome = make_outcome(trial, make_timing(SAMPLES, samples=SAMPLES))
            with heard() if hear else nullcontext():
                try:
                    with Interrupter(chance.randint(1, counter.count)):
                        store.record(sweep, outcome)
                except KeyboardInterrupt:
                    interrupted += 1
                started = time.monotonic()
                store.finish_sweep(sweep, "interrupted")
                assert time.monotonic() - started < BUSY_SECONDS, "a write was left open, which is waited for"
            added = _count(path, "run") - before
            absent += not added
            assert added in (0, 1)
            assert _count(path, "sample") == SAMPLES * _count(path, "run")
        assert interrupted >= count * 0.9
        assert absent < count * 0.2, "interrupts wait for the write's end"


def _count(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.parametrize("hear", [True, False])
def test_interrupts_at_some_instructions_of_a_write(tmp_path: Path, hear: bool) -> None:
    interrupt_writes(tmp_path / "a.sqlite", 20, hear)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("hear", [True, False])
def test_interrupts_at_many_instructions_of_a_write(tmp_path: Path, hear: bool) -> None:
    interrupt_writes(tmp_path / "a.sqlite", 600, hear)


def test_a_reader_of_rows_without_end_can_be_stopped(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with Store.open(f"sqlite:///{tmp_path / 'a.sqlite'}"):
        pass
    store = Store.open(f"sqlite:///{tmp_path / 'a.sqlite'}", read_only=True, create=False)
    with (
        store,
        pytest.raises(KeyboardInterrupt),
        heard(),
        signalled_soon(signal.SIGTERM),
        store.snapshot() as connection,
    ):
        connection.exec_driver_sql(endless)


def test_a_writer_that_waits_for_another_one_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuprof.store.connection.BUSY_SECONDS", 120.0)
    path = tmp_path / "a.sqlite"
    with Store.open(f"sqlite:///{path}") as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt), heard(), signalled_soon(signal.SIGTERM):
            store.begin_sweep(FACTS)
        assert time.monotonic() - started < 60.0
        other.execute("ROLLBACK")
        other.close()
        assert store.begin_sweep(FACTS) == 1
