"""Sweeps in which nothing has changed, on the medians that eight real ones came to."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.repeated_sweeps import CONTROLS, false_differences, recorded_medians
from cuprof.comparison.compare import Options
from cuprof.comparison.sides import Side
from cuprof.core.point import Point
from cuprof.core.records import Measure
from tests.comparison.entries import made_side, record, series

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "comparison" / "eight_sweeps_on_an_h200.json").read_text(encoding="utf-8")
)
SWEEPS = 8
COMPARED = (0, 1, 4, 6)
"""Of these every two are compared: half of the noise that is assumed would call three of their reductions different."""
SPREAD = 0.005 * np.array([-3.0, -2, -1, 0, 1, 2, 3] * 6)
"""Relative samples around a recorded median: as many, and as wide, as the sampler leaves of a quiet kernel."""


@cache
def sweeps(experiment: str, without: str = "cudnn") -> list[Side]:
    """Return the repetitions of one experiment, with invented samples around the recorded medians."""
    return [
        made_side(
            "sweep",
            [
                record(
                    experiment,
                    label,
                    Point(),
                    Point(),
                    {Measure.COLD: series(trial["cold_ns"][sweep] * np.exp(SPREAD))},
                    backend=trial["backend"],
                    device="NVIDIA H200",
                    batch=8 if trial["several_launches"] else 1,
                    identity=label,
                )
                for label, trial in RECORDED[experiment].items()
                if not (without and without in label)
            ],
        )
        for sweep in range(SWEEPS)
    ]


def wrong(experiment: str, controls: str, options: Options | None = None, without: str = "cudnn") -> int:
    """Return how many pairs of sweeps have a difference."""
    made = sweeps(experiment, without)
    found = false_differences([made[number] for number in COMPARED], CONTROLS[controls], options)
    assert len(found) == math.comb(len(COMPARED), 2)
    return sum(map(bool, found))


@pytest.mark.parametrize("controls", ["none", "half"])
@pytest.mark.parametrize("experiment", RECORDED)
def test_sweeps_in_which_nothing_changed_are_seldom_called_different(experiment: str, controls: str) -> None:
    assert wrong(experiment, controls) <= 1  # of 6


@pytest.mark.parametrize("experiment", ["reduction", "cnn_layer"])
def test_a_plain_share_of_every_time_would_call_most_of_them_different(experiment: str) -> None:
    assert wrong(experiment, "none", Options(noise=0.002)) >= 5  # of 6


def test_a_library_that_chooses_another_algorithm_is_not_covered() -> None:
    assert wrong("cuconv", "none", without="") >= 4  # of 6


def test_the_recorded_medians_are_what_the_script_writes() -> None:
    repetitions = {"reduction": sweeps("reduction")}
    again = recorded_medians(repetitions)["reduction"]
    assert len(again) == len(RECORDED["reduction"])
    assert [trial["cold_ns"] for trial in again.values()] == [
        trial["cold_ns"] for trial in RECORDED["reduction"].values()
    ]
