"""Energy from a counter that steps, on a clock that goes on with the work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cuprof.worker import energy
from cuprof.worker.energy import EnergyUnavailableError, Idle, measure_energy, measure_idle

STEP_S = 0.1
IDLE_W, BUSY_W = 120.0, 300.0
EXECUTION_S = 0.0002
IDLE = Idle(IDLE_W, STEP_S)
DETAILS = ("energy_executions", "energy_seconds", "energy_uncertainty")


class Board:
    """A device that draws `IDLE_W` while it rests and `BUSY_W` while it works; its counter moves every `STEP_S`."""

    def __init__(self, moves: bool = True) -> None:
        self.now_s, self.drawn_j, self.shown_mj, self.shown_until = 0.0, 0.0, 0, STEP_S
        self.moves, self.busy_w, self.read_s = moves, BUSY_W, 1e-5

    def _go_on(self, seconds: float, watts: float) -> None:
        while seconds > 0:
            part = min(seconds, self.shown_until - self.now_s)
            self.now_s += part
            self.drawn_j += part * watts
            seconds -= part
            if self.shown_until - self.now_s < 1e-12:
                self.shown_mj, self.shown_until = round(self.drawn_j * 1000), self.shown_until + STEP_S

    def sleep(self, seconds: float) -> None:
        self._go_on(seconds, IDLE_W)

    def perf_counter(self) -> float:
        return self.now_s

    def read_mj(self) -> int:
        self._go_on(self.read_s, IDLE_W)
        return self.shown_mj if self.moves else 7

    def execute(self, seconds: float) -> int:
        count = max(1, int(seconds / EXECUTION_S))
        self._go_on(count * EXECUTION_S, self.busy_w)
        return count


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    made = Board()
    monkeypatch.setattr(energy, "time", SimpleNamespace(sleep=made.sleep, perf_counter=made.perf_counter))
    return made


def test_idle_power(board: Board) -> None:
    found = measure_idle(board.read_mj)
    assert (found.watts, found.step_s) == (pytest.approx(IDLE_W, rel=0.002), pytest.approx(STEP_S, rel=0.01))


@pytest.mark.parametrize("loop_s", [0.3, 1.0])
def test_energy_of_an_execution_is_power_times_its_time(board: Board, loop_s: float) -> None:
    board.sleep(0.037)  # anywhere between two steps
    found, details, _ = measure_energy(board.execute, board.read_mj, IDLE, loop_s)
    executions, seconds, unknown = (details[name] for name in DETAILS)
    assert 0 < unknown < 0.002 / loop_s
    assert found.energy_j == pytest.approx(BUSY_W * EXECUTION_S, rel=unknown + 0.005)
    assert found.mean_w == pytest.approx(BUSY_W, rel=0.02)  # it rests while the counter is read
    assert found.idle_w == IDLE_W
    assert loop_s <= seconds <= loop_s + 2 * STEP_S
    assert executions == pytest.approx(seconds / EXECUTION_S, rel=0.05)


@pytest.mark.parametrize(("target", "steps"), [(0.02, 1), (0.003, 2), (0.0, 4)])
def test_the_loop_ends_with_the_step_at_which_enough_is_known(board: Board, target: float, steps: int) -> None:
    board.sleep(0.041)
    found, details, _ = measure_energy(board.execute, board.read_mj, IDLE, 0.45, target)
    _, seconds, unknown = (details[name] for name in DETAILS)
    assert seconds == pytest.approx(steps * STEP_S, rel=0.01)
    assert unknown <= max(target, 0.003)
    assert found.energy_j == pytest.approx(BUSY_W * EXECUTION_S, rel=unknown + 0.005)


@pytest.mark.parametrize("read_s", [1e-5, 3e-3])
def test_loops_that_follow_one_another_share_a_step(board: Board, read_s: float) -> None:
    board.read_s = read_s
    board.sleep(0.041)
    last, begun = None, []
    for watts in (BUSY_W, 2 * BUSY_W, BUSY_W):
        board.busy_w = watts
        found, details, last = measure_energy(board.execute, board.read_mj, IDLE, 0.1, last=last)
        _, seconds, unknown = (details[name] for name in DETAILS)
        near = unknown + 0.01 + 20 * read_s  # the board rests while the counter is read
        assert found.energy_j == pytest.approx(watts * EXECUTION_S, rel=near)
        begun.append(last.at_s - seconds)
    assert begun[1:] == pytest.approx([begun[0] + STEP_S, begun[0] + 2 * STEP_S], abs=1e-3 + read_s)
    board.sleep(0.041)  # something else was done, so the loop is to begin with a step of its own
    _, details, _ = measure_energy(board.execute, board.read_mj, IDLE, 0.1, last=last)
    assert details["energy_executions"] < 1.05 * STEP_S / EXECUTION_S
    assert board.now_s > begun[2] + 2.9 * STEP_S


def test_a_step_that_comes_early_makes_the_loop_longer(board: Board) -> None:
    late = Idle(IDLE_W, 1.3 * STEP_S)  # so that the step falls among the longer executions
    _, details, _ = measure_energy(board.execute, board.read_mj, late, 1.0, 0.02)
    assert details["energy_seconds"] > 2.5 * STEP_S
    assert details["energy_uncertainty"] <= 0.02


def test_a_counter_that_does_not_move_tells_nothing(board: Board) -> None:
    board.moves = False
    with pytest.raises(EnergyUnavailableError, match="does not move"):
        measure_idle(board.read_mj)
    with pytest.raises(EnergyUnavailableError, match="does not move"):
        measure_energy(board.execute, board.read_mj, IDLE, 0.3)


@pytest.mark.parametrize("every", [2, 3, 7])
def test_a_reading_that_failed_is_no_step_of_the_counter(board: Board, every: int) -> None:
    count = 0

    def read_mj() -> int | None:
        nonlocal count
        count += 1
        return None if count % every == 0 else board.read_mj()

    found, _, _ = measure_energy(board.execute, read_mj, IDLE, 1.0)
    assert found.mean_w == pytest.approx(BUSY_W, rel=0.03)
    assert found.energy_j == pytest.approx(BUSY_W * EXECUTION_S, rel=0.03)


def test_a_counter_that_was_set_back_tells_nothing(board: Board) -> None:
    begun = board.shown_mj

    def read_mj() -> int:
        found = board.read_mj()
        return found if board.now_s < 0.6 else found - begun - 10**9

    with pytest.raises(EnergyUnavailableError, match="went backwards"):
        measure_energy(board.execute, read_mj, IDLE, 1.0)
