"""The settings of a search."""

from __future__ import annotations

from typing import Any

import pytest

from cuprof.config.model import SearchConfig
from cuprof.core.errors import ConfigError


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5min", 300), ("1.5h", 5400), ("2 min", 120)])
def test_a_budget_is_a_time(text: str, seconds: float) -> None:
    assert SearchConfig(name="random", budget=text).budget_s == seconds


@pytest.mark.parametrize("text", ["5", "min", "0s", "-1s", "5 days"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="give a time such as 90s, 5min or 1h"):
        SearchConfig(name="random", budget=text)


@pytest.mark.parametrize(("key", "value"), [("trials", 10), ("objective", "energy"), ("seed", 0)])
def test_a_setting_of_a_search_without_one_is_a_mistake(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"search\.{key} is about a search and none is chosen; add search=surrogate"):
        SearchConfig(**{key: value})


def test_the_smallest_bound_counts_and_a_tenth_without_any() -> None:
    assert SearchConfig(name="random").most_trials(4000) == 400
    assert SearchConfig(name="random", trials=100, fraction=0.5).most_trials(4000) == 100
    assert SearchConfig(name="random", budget="5min").most_trials(4000) == 4000
    assert SearchConfig(name="random", fraction=0.001).most_trials(100) == 1


def test_an_objective_is_a_product_of_times_energies_and_counters() -> None:
    assert SearchConfig(name="random", objective="time * dram__bytes_read.sum*energy").counters == (
        "dram__bytes_read.sum",
    )


@pytest.mark.parametrize("text", ["", "time*", "*", "time+energy", "a b", "-time"])
def test_what_is_no_objective_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"give time, energy, a counter .*, or a product of some"):
        SearchConfig(name="random", objective=text)
