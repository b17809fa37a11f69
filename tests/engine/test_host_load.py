from __future__ import annotations

import os
from typing import Any

import pytest

from cuprof.engine.host_load import describe_load


@pytest.mark.parametrize(
    ("load", "cores", "says"),
    [
        (1.0, 2, ""),
        (1.26, 2, "the host is busy (load 1.3 on 2 cores): CPU times will scatter"),
        (0.6, 1, "the host is busy (load 0.6 on 1 core): CPU times will scatter"),
    ],
)
def test_a_busy_host_is_one_with_more_than_half_a_load_a_core(
    monkeypatch: pytest.MonkeyPatch, load: float, cores: int, says: str
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert describe_load() == says


def test_a_sweep_that_times_cpu_variants_says_once_that_the_host_is_busy(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    _, heard = bench.sweep("sound_first", "sound_last", problem={"n": (1, 2)})
    place, *busy = heard.notes
    assert (place, [note[:25] for note in busy]) == (bench.place, ["the host is busy (load 99"])
    _, heard = bench.sweep("sound_first", problem={"n": (1, 2)})
    assert heard.notes == [], "nothing was left to be timed"
    assert bench.check("sound_first").notes == []
