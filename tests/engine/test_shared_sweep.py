"""One sweep on several stations, and by several processes, with real workers on the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event
from typing import Any

import psutil
import pytest

from cuprof.config.model import DeviceConfig
from cuprof.core.project import bundled
from cuprof.core.records import DeviceFacts, State, Trial
from cuprof.engine.device_lock import DeviceLocks
from cuprof.store.store import Store

SIZES = tuple(range(1, 9))


@pytest.fixture
def cards(make_cards: Callable[..., None]) -> None:
    make_cards(2)


def bundled_query(name: str) -> str:
    return (bundled("db") / "queries" / f"{name}.sql").read_text().rstrip().rstrip(";")


def by_card(bench: Any) -> dict[int, int]:
    return Counter(card for (card,) in bench.query("SELECT d.ordinal FROM run r JOIN device d ON d.id = r.device_id"))


def test_two_stations_share_the_problems_of_a_sweep(bench: Any, cards: None) -> None:
    result, heard = bench.sweep("sound_first", "sound_last", problem={"n": SIZES})
    assert result.exit_code == 0
    assert len(heard.outcomes) == 2 * len(SIZES)
    shares = by_card(bench)
    assert sum(shares.values()) == 2 * len(SIZES)
    assert set(shares) == {0, 1}
    apart = (
        "SELECT m.problem_id FROM trial m JOIN run r ON r.trial_id = m.id GROUP BY 1 HAVING COUNT(DISTINCT r.job) > 1"
    )
    assert bench.query(apart) == []


def test_a_worker_killed_from_outside_costs_no_trial(bench: Any, cards: None, make_listener: Any) -> None:
    killed: list[int] = []

    def kill(trial: Trial) -> None:
        workers: list[psutil.Process] = []
        for guardian in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):  # it may end while it is looked at
                workers += [worker for worker in guardian.children() if worker.pid not in killed]
        if len(killed) < 3 and workers:
            with suppress(psutil.NoSuchProcess):
                workers[-1].kill()
                killed.append(workers[-1].pid)

    heard = make_listener(on_finished=kill)
    bench.sweep("sound_first", "sound_last", problem={"n": SIZES}, listener=heard)
    assert len(killed) == 3
    assert {outcome.state for outcome in heard.outcomes.values()} == {State.OK}
    assert len(heard.outcomes) == 2 * len(SIZES)
    assert bench.query("SELECT trial_id FROM run GROUP BY trial_id HAVING COUNT(*) > 1") == []


def test_a_large_problem_is_cut_in_blocks_that_share_a_reference(
    bench: Any, cards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuprof.engine.grid.LEAST_CUT", 1)
    _, heard = bench.sweep("sound_first", "sound_between", "sound_last", "takes_its_time")
    assert len(heard.outcomes) == 4
    jobs = dict(
        bench.query("SELECT t.label, COUNT(DISTINCT r.job) FROM run r JOIN trial t ON t.id = r.trial_id GROUP BY 1")
    )
    reference = next(label for label in jobs if "sound_first" in label)
    assert jobs.pop(reference) >= 2
    assert set(jobs.values()) == {1}
    assert bench.query("SELECT COUNT(*), COUNT(run_id) FROM sweep_trial") == [(4, 4)]


def test_each_card_measures_everything_and_the_sweep_goes_by_the_first(bench: Any, cards: None) -> None:
    _, heard = bench.sweep("sound_first", "sound_last", problem={"n": SIZES[:2]}, device=DeviceConfig(cuda=("each",)))
    assert len(heard.outcomes) == 4
    assert by_card(bench) == {0: 4, 1: 4}
    went_by = "SELECT r.device_id FROM sweep_trial m JOIN run r ON r.id = m.run_id"
    went_by = f"SELECT DISTINCT ordinal FROM device WHERE id IN ({went_by})"
    assert bench.query(went_by) == [(0,)]
    found = bench.query("SELECT card, trials, ratio FROM (" + bundled_query("cards") + ")")
    assert sorted((card, trials) for card, trials, _ in found) == [(0, 4), (1, 4)]
    assert sum(ratio for *_, ratio in found) == pytest.approx(2.0)


def test_a_station_that_waits_for_its_turn_says_so_to_those_who_ask(
    bench: Any, make_listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    heard, goes_on = Event(), Event()

    def beat(store: Store, doing: Mapping[int, str]) -> None:
        told.extend(doing.values())
        if any("waiting for its turn" in text for text in doing.values()):
            heard.set()
        elif heard.is_set():
            goes_on.set()

    @contextmanager
    def hold(locks: DeviceLocks, device: DeviceFacts) -> Iterator[None]:
        assert heard.wait(60)
        yield

    monkeypatch.setattr("cuprof.engine.running.BEAT_S", 0.001)
    monkeypatch.setattr(Store, "beat", beat)
    monkeypatch.setattr(DeviceLocks, "hold", hold)
    result, _ = bench.sweep("sound_first", listener=make_listener(on_finished=lambda _: goes_on.wait(60)))
    assert result.exit_code == 0
    assert "waiting" not in told[-1]
