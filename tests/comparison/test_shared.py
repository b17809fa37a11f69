from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from made import Made, fill

from cuprof.comparison import compare, load_sides, shared
from cuprof.comparison.shared import SharedContrasts, contrasts_of
from cuprof.statistics.contrast import Contrasts, Pair, contrast_all
from cuprof.statistics.series import Series
from cuprof.store import Store

COUNT, SHARERS = 11, 3


def make(start: int, end: int) -> Contrasts:
    """Return contrasts of pairs that differ by more and more."""
    random = np.random.default_rng(1)
    samples = (
        1000.0 + random.normal(size=(2, COUNT, 30)) + np.array([[0.0], [1.0]])[:, :, None] * np.arange(COUNT)[:, None]
    )
    pairs = [Pair(Series(base), Series(new)) for base, new in zip(*samples, strict=True)]
    return Contrasts(contrast_all(pairs[start:end]))


@pytest.fixture
def spread() -> Iterator[SharedContrasts]:
    with closing(SharedContrasts(make, COUNT, SHARERS)) as contrasts:
        yield contrasts


def is_like_one(contrasts: SharedContrasts) -> bool:
    """Return whether the parts say together what one process says, to the last digit."""
    whole, every = make(0, COUNT), np.arange(COUNT)
    asked = [(rate, places) for rate in (0.05, 1e-6) for places in (every, every[::2], every[:1], every[:0])]
    return (
        np.array_equal(contrasts.log_ratios, whole.log_ratios)
        and contrasts.paired == whole.paired
        and all(np.array_equal(contrasts.find_differing(*each), whole.find_differing(*each)) for each in asked)
        and all(np.array_equal(contrasts.log_bounds(*each), whole.log_bounds(*each)) for each in asked)
        and np.array_equal(contrasts.log_bounds(0.05), whole.log_bounds(0.05))
    )


def test_parts_say_what_one_process_says(spread: SharedContrasts) -> None:
    assert 0 < spread.find_differing(0.05, np.arange(COUNT)).size < COUNT
    assert is_like_one(spread)


@pytest.mark.parametrize("which", [0, 1])
def test_what_a_killed_process_held_is_made_here(spread: SharedContrasts, which: int) -> None:
    helper = spread._helpers[which]._process
    assert helper.pid is not None
    os.kill(helper.pid, signal.SIGKILL)
    helper.join()
    assert is_like_one(spread)


@pytest.mark.parametrize("allowed", [0, 1])
def test_what_no_process_may_be_started_for_is_made_here(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fork, started = os.fork, []

    def refuse() -> int:
        if len(started) == allowed:
            raise BlockingIOError("Resource temporarily unavailable")
        started.append(True)
        return fork()

    monkeypatch.setattr(os, "fork", refuse)
    with closing(SharedContrasts(make, COUNT, SHARERS)) as contrasts:
        assert len(multiprocessing.active_children()) == allowed
        assert is_like_one(contrasts)


def test_an_error_of_a_part_is_raised_here() -> None:
    def broken(start: int, end: int) -> Contrasts:
        if end == COUNT:
            raise ValueError("a damaged row")
        return make(start, end)

    with pytest.raises(ValueError, match="a damaged row"):
        SharedContrasts(broken, COUNT, SHARERS)
    assert not multiprocessing.active_children()


def test_processes_end_with_the_contrasts(spread: SharedContrasts) -> None:
    spread.close()
    assert not any(helper._process.is_alive() for helper in spread._helpers)


def test_few_pairs_are_not_worth_a_process() -> None:
    with contrasts_of(make, COUNT) as contrasts:
        assert type(contrasts) is Contrasts


def test_stored_sweeps_compare_alike_however_many_processes_share_them(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, change in enumerate((1.0, 1.02)):
        fill(store, [Made(time=50.0 * change, n=2**power, source=f"{change}") for power in range(14, 24)], seed=seed)
    alone = compare(*load_sides("1", "2", url)).rows
    monkeypatch.setattr(shared, "_sharers", lambda count: SHARERS)
    together = compare(*load_sides("1", "2", url)).rows
    assert [(row.label, *row[2:]) for row in together] == [(row.label, *row[2:]) for row in alone]
    assert len(alone) == 10
