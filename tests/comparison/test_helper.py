from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from operator import contains
from pathlib import Path

import pytest
from made import Made, fill

from cuprof.comparison import helper, load_sides, sides
from cuprof.comparison.compare import compare
from cuprof.comparison.helper import Helper, count_helpful
from cuprof.core.errors import UsageError
from cuprof.core.records import Measure
from cuprof.store import Store


def make() -> list[int]:
    return [os.getpid()]


@pytest.mark.parametrize("read", [False, True])
def test_a_process_whose_asker_was_killed_ends_without_a_word(read: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """Its end of the connection goes with it: before anything is read, or with an answer that nobody has read."""
    given = Helper(make, list)
    if read:
        given.answer()
        given.ask(contains, 1)
        while not given._connection.poll():
            time.sleep(0.01)
    given._connection.close()
    given._process.join(timeout=30)
    assert given._process.exitcode == 0
    given.close()
    assert capfd.readouterr().err == ""


def test_what_is_asked_is_answered_by_the_process_while_it_is_there() -> None:
    with closing(Helper(make, list)) as given:
        (number,) = given.answer()
        assert number == given._process.pid != os.getpid()
        given.ask(contains, number)
        assert given.answer()
        os.kill(number, signal.SIGKILL)
        given._process.join()
        given.ask(list)
        assert given.answer() == [os.getpid()]  # made here


@pytest.mark.parametrize("told", [list, lambda made: threading.Lock()])
def test_what_fails_or_cannot_be_sent_is_done_here(told: Callable[[list[int]], object]) -> None:
    def broken() -> list[int]:
        if told is list:
            raise UsageError("a message of this process's own")
        return make()

    with closing(Helper(broken, told)) as given:
        if told is list:
            with pytest.raises(UsageError, match="of this process's own"):
                given.answer()
        else:
            assert isinstance(given.answer(), type(threading.Lock()))


def test_a_process_with_threads_has_no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert count_helpful() == helper.count_cores()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert count_helpful() == 1


@pytest.fixture
def helpful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two sides read side by side, whatever threads the test's runner has."""
    monkeypatch.setattr(sides, "count_helpful", lambda: 2)


def filled(store: Store) -> None:
    for seed, change in enumerate((1.0, 1.02)):
        fill(store, [Made(time=50.0 * change, n=2**power, source=f"{change}") for power in range(14, 24)], seed=seed)


def test_sides_are_the_same_whether_they_are_read_side_by_side_or_one_after_another(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    found = []
    for processes in (1, 2):
        monkeypatch.setattr(sides, "count_helpful", lambda processes=processes: processes)
        both = load_sides("1", "2", url)
        compared = compare(*both)
        found.append(
            [
                *([entry._replace(series={}) for entry in side.entries] for side in both),
                *((side.description, side.sweeps, side.notes, side.url) for side in both),
                *([*entry.series[Measure.COLD].durations] for side in both for entry in side.entries),
                *((row.label, *row[2:]) for row in compared.rows),
            ]
        )
    assert found[0] == found[1]
    assert len(found[0][0]) == 10


def test_what_is_wrong_with_base_is_said_first(store: Store, url: str, helpful: None) -> None:
    filled(store)
    for base, new, said in (("7", "8", "sweep 7"), ("1", "8", "sweep 8"), ("7", "1", "sweep 7")):
        with pytest.raises(UsageError, match=f"no {said} with timings"):
            load_sides(base, new, url)


def test_sides_of_two_databases(store: Store, url: str, tmp_path: Path, helpful: None) -> None:
    filled(store)
    with Store.open(f"sqlite:///{tmp_path / 'other.sqlite'}") as other:
        filled(other)
    base, new = load_sides("1", f"{tmp_path / 'other.sqlite'}:2", url)
    assert [row.judgement.ratio for row in compare(base, new).rows] == pytest.approx([1.02] * 10, rel=0.01)
    assert base.url != new.url
