from __future__ import annotations

import os
from typing import Any

import pytest


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
