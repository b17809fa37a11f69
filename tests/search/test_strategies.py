"""One contract for every strategy, and what the default one is better at."""

from __future__ import annotations

import math
import re
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cuprof.backends.spec import UsualBlock
from cuprof.core.errors import UnknownNameError
from cuprof.core.project import bundled
from cuprof.search.registry import DEFAULT, STRATEGIES, make_strategy
from cuprof.search.space import Space
from cuprof.search.strategy import Strategy
from cuprof.search.surrogate import START

ROOT = Path(__file__).parents[2]
AXES = {"x": [1, 2, 4, 8, 16, 32], "y": list(range(6)), "kind": ["a", "b", "c"], "z": [0, 1]}
POINTS = [dict(zip(AXES, values, strict=True)) for values in product(*AXES.values())]
absent = pytest.mark.skipif(find_spec("optuna") is None, reason="Optuna is not installed")
NAMES = [pytest.param(name, marks=absent if name == "optuna" else ()) for name in STRATEGIES]


def landscape(groups: int = 1) -> tuple[Space, np.ndarray]:
    """Return a space and its times: products of effects, one interaction, a cliff, and a corner that fails."""
    times = []
    for group in range(groups):
        for point in POINTS:
            x, y = math.log2(point["x"]), point["y"]
            log = (
                0.5 * abs(x - 3 + group) + 0.2 * abs(y - 2) + 0.3 * (point["kind"] != "b") + 0.2 * point["z"] * (x > 3)
            )
            times.append(math.nan if x == 5 and y == 5 else 1e3 * math.exp(log) * (3 if x + y > 8 else 1))
    points = [{**point, "n": group} for group in range(groups) for point in POINTS]
    return Space(points, [point["n"] for point in points]), np.array(times)


def run(strategy: Strategy, times: np.ndarray, count: int, at_once: int = 1) -> list[int]:
    asked: list[int] = []
    while len(asked) < count and (found := strategy.ask(at_once)):
        asked += found
        for index in found:
            strategy.tell(index, float(times[index]), 1.0)
    return asked


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_is_asked_for_once_and_then_none(name: str) -> None:
    space = Space(POINTS[:40])
    asked = run(make_strategy(name, space, 1), np.linspace(1, 2, 40), 1000, at_once=3)
    assert sorted(asked) == list(range(40))


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_and_the_same_answers_give_the_same_questions(name: str) -> None:
    space, times = landscape()
    first, again, other = (run(make_strategy(name, space, seed), times, 40) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_already_is_not_asked_for_and_failures_do_no_harm(name: str) -> None:
    space, times = landscape()
    strategy = make_strategy(name, space, 3)
    for index in range(100):
        strategy.tell(index, math.nan if index % 3 else float(np.nan_to_num(times[index], nan=1e4)), 1.0)
    assert not set(run(strategy, times, 30)) & set(range(100))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("replaced", "every"), [(math.nan, 1), (1.0, 60)])
def test_a_later_result_replaces_an_earlier_one(name: str, replaced: float, every: int) -> None:
    """A first one that is the best of all and one that fails: what is learned of either is forgotten."""
    space, times = landscape()
    results = {index: math.nan if replaced == 1.0 and not index else float(times[index]) for index in range(60)}
    once, twice = make_strategy(name, space, 3), make_strategy(name, space, 3)
    for index, value in results.items():
        if index % every == 0:
            twice.tell(index, replaced, 5.0)
        for strategy in (once, twice):
            strategy.tell(index, value, 1.0)
    assert (twice.values, twice.costs) == (once.values, once.costs)
    assert run(twice, times, 20) == run(once, times, 20)


@pytest.mark.parametrize("name", NAMES)
def test_stored_results_come_in_any_order(name: str) -> None:
    space, times = landscape()
    known = np.random.default_rng(1).permutation(space.size)[:160].tolist()
    strategy = make_strategy(name, space, 3)
    for index in known:
        strategy.tell(index, float(times[index]), 1.0)
    asked = run(strategy, times, space.size)
    assert sorted([*known, *asked]) == list(range(space.size))


def test_the_defaults_model_holds_no_time_of_what_failed_later() -> None:
    space, times = landscape()
    strategy = make_strategy(DEFAULT, space, 1)
    asked = run(strategy, times, 30)
    left = []
    for value in (1.0, math.nan):
        strategy.tell(asked[-1], value, 1.0)
        left.append(strategy.likely_left() or 0.0)
    assert left[1] < 1e-3 < left[0]


@pytest.mark.parametrize("name", NAMES)
def test_where_everything_fails_the_rest_is_tried_all_the_same(name: str) -> None:
    space, times = landscape()
    assert len(set(run(make_strategy(name, space, 1), np.full_like(times, math.nan), 30))) == 30


@pytest.mark.parametrize("name", NAMES)
def test_several_problems_share_a_budget_and_none_is_forgotten(name: str) -> None:
    space, times = landscape(groups=3)
    strategy = make_strategy(name, space, 1)
    run(strategy, times, 60, at_once=4)
    assert {int(space.groups[index]) for index, value in strategy.values.items() if value > 0} == {0, 1, 2}


def test_the_default_comes_near_the_best_of_several_problems_in_a_tenth_of_all() -> None:
    space, times = landscape(groups=2)
    strategy = make_strategy(DEFAULT, space, 1)
    run(strategy, times, space.size // 10, at_once=2)
    for group in range(2):
        found = [value for index, value in strategy.values.items() if space.groups[index] == group and value > 0]
        assert min(found) <= 1.02 * np.nanmin(times[space.groups == group])


def test_the_default_prefers_what_costs_less() -> None:
    space = Space([{"x": x, "y": y} for x, y in product(range(20), range(10))])
    dear = space.codes[:, 0] >= 10
    strategy = make_strategy(DEFAULT, space, 1)
    asked = []
    for _ in range(40):
        (index,) = strategy.ask()
        asked.append(index)
        strategy.tell(index, 1e3 + index % 7, 20.0 if dear[index] else 1.0)
    assert np.mean(dear[asked]) < 0.3


def test_the_default_avoids_where_others_failed() -> None:
    space = Space([{"x": x, "y": y} for x, y in product(range(20), range(10))])
    failing = space.codes[:, 0] >= 10
    strategy = make_strategy(DEFAULT, space, 1)
    asked = run(strategy, np.where(failing, math.nan, 1e3 + np.arange(200) % 11), 60)
    assert np.mean(failing[asked]) < 0.35 < np.mean(failing)


USUAL = UsualBlock(128, 512, multiple=32)
SIZES = [{"block": block, "y": y} for block, y in product((32, 64, 128, 256, 512, 768, 1024), range(12))]


def tried_threads(threads: list[int | None], times: np.ndarray, seed: int) -> np.ndarray:
    """Return by which factor of two the blocks tried are beyond 128 to 512 threads, in order."""
    asked = run(make_strategy(DEFAULT, Space(SIZES, supposed=list(map(USUAL.suppose, threads))), seed), times, 20)
    blocks = np.array([SIZES[index]["block"] for index in asked])
    return np.maximum(np.maximum(np.log2(128 / blocks), np.log2(blocks / 512)), 0)


def test_blocks_of_typical_numbers_of_threads_are_tried_first_and_unknown_ones_alike() -> None:
    times = 1e3 * np.exp([0.3 * abs(each["y"] - 5) for each in SIZES])
    known, unknown = (
        np.array([tried_threads(threads, times, seed) for seed in range(6)])
        for threads in ([each["block"] for each in SIZES], [None] * len(SIZES))
    )
    assert not known[:, :START].any()
    assert unknown[:, :START].any()
    assert known.mean() < 0.8 * unknown.mean()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_asked_for_together_before_anything_is_known_is_usual(seed: int) -> None:
    supposed = np.array([USUAL.suppose(each["block"]) for each in SIZES])
    together = make_strategy(DEFAULT, Space(SIZES, supposed=list(supposed)), seed).ask(3 * START)
    assert not supposed[together].any()


def test_where_all_that_is_usual_fails_the_others_are_tried_soon() -> None:
    supposed = np.array([USUAL.suppose(each["block"]) for each in SIZES])
    times = np.where(supposed == 0, math.nan, 1e3)
    asked = run(make_strategy(DEFAULT, Space(SIZES, supposed=list(supposed)), 1), times, 20)
    assert not supposed[asked[:START]].any()
    assert np.isfinite(times[asked[START:]]).sum() > 3


def test_a_supposition_that_is_wrong_costs_little() -> None:
    blocks = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
    points = [{"block": block, "y": y, "z": z} for block, y, z in product(blocks, range(8), range(8))]
    supposed = [USUAL.suppose(each["block"]) for each in points]
    logs = [
        0.5 * abs(math.log2(each["block"] / 64)) + 0.1 * abs(each["y"] - 2) + 0.1 * abs(each["z"] - 5)
        for each in points
    ]
    wanted = int(np.argmin(logs))
    needed = [
        [run(make_strategy(DEFAULT, space, seed), np.exp(logs), 60).index(wanted) for seed in range(4)]
        for space in (Space(points, supposed=supposed), Space(points))
    ]
    assert np.mean(needed[0]) <= 1.5 * np.mean(needed[1])


def test_of_a_supposition_that_times_contradict_nothing_is_left() -> None:
    times = 1e3 * np.exp([-USUAL.suppose(each["block"]) + 0.1 * abs(each["y"] - 5) for each in SIZES])
    told = np.random.default_rng(1).choice(len(SIZES), 20, replace=False)
    asked = []
    for supposed in (None, [USUAL.suppose(each["block"]) for each in SIZES]):
        strategy = make_strategy(DEFAULT, Space(SIZES, supposed=supposed), 1)
        for index in map(int, told):
            strategy.tell(index, float(times[index]), 1.0)
        asked.append(run(strategy, times, 10))
    assert asked[0] == asked[1]


def test_of_one_time_each_nothing_is_learned_against_what_is_supposed() -> None:
    """Of several problems the first answers differ by the problems alone: they are no evidence."""
    groups = [each["y"] for each in SIZES]
    space = Space(SIZES, groups, [USUAL.suppose(each["block"]) for each in SIZES])
    strategy = make_strategy(DEFAULT, space, 1)
    blocks = np.array([SIZES[index]["block"] for index in run(strategy, 1e3 * np.exp(groups), 24)])
    assert np.mean((blocks[12:] >= 128) & (blocks[12:] <= 512)) > 0.8


def test_hints_are_tried_first() -> None:
    space, times = landscape()
    hints = {index: math.log(time) for index, time in enumerate(times) if not math.isnan(time)}
    strategy = make_strategy(DEFAULT, space, 1, hints)
    assert strategy.ask() == [int(np.nanargmin(times))]


def tried_until_good(strategy: Strategy, times: np.ndarray) -> int:
    asked: list[int] = []
    while not asked or times[asked[-1]] > 1.01 * np.nanmin(times):
        asked += run(strategy, times, 1)
    return len(asked)


def test_what_is_known_elsewhere_enters_the_model_and_misleads_not_for_long() -> None:
    random = np.random.default_rng(1)
    space = Space([{"a": a, "b": b, "c": c} for a, b, c in product(range(9), range(9), range(5))])
    a, b, c = space.codes.T
    here = 0.1 * (a - 5) ** 2 + 0.6 * np.abs(np.sin(2 * b + c)) + 0.3 * (c != 3)
    there = here + 0.1 * random.standard_normal(space.size) + 0.4 * (here < 0.1)  # the best there is another one
    some = [int(index) for index in random.permutation(space.size)[:150]]
    count = {
        name: np.mean([tried_until_good(make_strategy(DEFAULT, space, seed, hints), np.exp(here)) for seed in range(3)])
        for name, hints in {
            "none": {},
            "there": {index: float(there[index]) for index in some},
            "against": {index: -float(there[index]) for index in some},
        }.items()
    }
    assert count["there"] < 0.6 * count["none"]
    assert count["against"] < 2 * count["none"] + 10


def test_a_long_tail_of_bad_ones_does_not_hide_what_tells_the_good_ones_apart() -> None:
    space = Space([{"a": a, "b": b, "c": c, "d": d} for a, b, c, d in product(range(9), range(9), range(5), range(2))])
    a, b, c, d = space.codes.T
    good = 0.03 * (a - 6) ** 2 + 0.2 * np.abs(np.sin(2 * b + c)) + 0.1 * (c != 3)
    bad = ((a < 3) | (b > 6) | ((c < 1) & (d > 0))) * (4 + 4 * np.sin(5 * a + 3 * b + c) ** 2)
    counts = [tried_until_good(make_strategy(DEFAULT, space, seed), np.exp(good + bad)) for seed in range(3)]
    assert np.mean(counts) < 80


def test_what_is_likely_left_shrinks_to_nothing() -> None:
    space, times = landscape()
    strategy = make_strategy(DEFAULT, space, 1)
    run(strategy, times, 20)
    early = strategy.likely_left()
    run(strategy, times, 100)
    late = strategy.likely_left()
    assert early is not None
    assert late is not None
    assert 0 <= late < early < 1


def test_every_strategy_has_its_file_and_its_word_in_the_table() -> None:
    files = {file.stem for file in (bundled("conf") / "search").glob("*.yaml")}
    (row,) = re.findall(
        r"^\| `search=\w+` \|(.*);", (ROOT / "docs/search.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(STRATEGIES) == files - {"none"} == {*re.findall("`([a-z]+)`", row)}


def test_a_strategy_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown search strategy 'surogate'.*surrogate"):
        make_strategy("surogate", Space(POINTS), 1)
