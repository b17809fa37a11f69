"""Kernel Tuner's strategies at their defaults, on recorded spaces, without its start-up for each repetition."""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import warnings
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.recorded_spaces import RecordedSpace

LEFT_OUT = {
    "brute_force": "no search",
    "skopt": "its library is not kept any more",
    "nsga2": "for several objectives",
    "nsga3": "for several objectives",
    "pyatf_strategies": "of pyATF, a tuner of its own",
}
SLOWEST = ("bayes_opt",)
"""Tried after all others: it factors a matrix anew for each proposal."""
MOST_IDLE_CALLS = 20_000
"""A strategy that has asked so often for what it knows already has come to its end."""


class BudgetSpentError(Exception):
    """The budget of one repetition is spent."""


def list_strategies() -> list[str]:
    """Return the names of the strategies that are installed and search for one best; none without Kernel Tuner."""
    try:
        from kernel_tuner.interface import strategy_map
    except ImportError:
        return []
    there = [name for name in strategy_map if name not in LEFT_OUT and _is_there(name)]
    return sorted(there, key=lambda name: name in SLOWEST)


def _is_there(name: str) -> bool:
    from kernel_tuner.interface import _STRATEGY_IMPORTS

    try:
        module = importlib.import_module(_STRATEGY_IMPORTS[name])
    except ImportError:
        return False
    return (
        getattr(module, f"{name}_present", True) is True
    )  # bayes_opt is imported without its libraries, and fails later


class Tuner:
    """Run Kernel Tuner's strategies on one recorded space."""

    def __init__(self, recorded: RecordedSpace) -> None:
        from kernel_tuner.searchspace import Searchspace

        self.recorded = recorded
        names = list(dict.fromkeys(name for each in recorded.configurations for name in each))
        self.parameters = {
            name: sorted({each[name] for each in recorded.configurations}, key=lambda value: (str(type(value)), value))
            for name in names
        }
        self.indices = {tuple(each[name] for name in names): i for i, each in enumerate(recorded.configurations)}
        self.searchspace = Searchspace(self.parameters, self._allows, 1 << 30)

    def _allows(self, configuration: Any) -> bool:
        return tuple(configuration[name] for name in self.parameters) in self.indices

    def search(self, strategy: str, seed: int) -> list[int]:
        """Return the configurations that a strategy tries within the budget, in order."""
        from kernel_tuner.interface import Options, strategy_map

        random.seed(seed)
        np.random.seed(seed)
        runner = _Runner(self)
        options = Options(
            strategy=strategy,
            strategy_options=Options(max_fevals=len(self.indices)),
            max_fevals=len(self.indices),
            objective=["time"],
            objective_higher_is_better=[False],
            tune_params=self.parameters,
            restrictions=self._allows,
            restrictions_unmodified=self._allows,
            verbose=False,
            simulation_mode=True,
            cache={},
            seed=seed,
            budget=runner,
        )
        with warnings.catch_warnings(), Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            while not runner.is_spent:
                before = len(runner.asked)
                with contextlib.suppress(BudgetSpentError):
                    strategy_map[strategy].tune(self.searchspace, runner, options)
                if len(runner.asked) == before:
                    break  # a strategy that ends early is begun again, as the methodology does, while it finds more
        return runner.asked


class _Runner:
    """Stand in for Kernel Tuner's runner and its budget: answer from the record, and count the seconds."""

    def __init__(self, tuner: Tuner) -> None:
        self.tuner, self.asked, self.spent_s, self.idle = tuner, [], 0.0, 0
        self._known: set[int] = set()
        self.asked: list[int]
        self.dev = SimpleNamespace(max_threads=1 << 30)
        self.accumulated_strategy_time = 0.0

    @property
    def is_spent(self) -> bool:
        return self.spent_s >= self.tuner.recorded.budget_s or len(self._known) == len(self.tuner.indices)

    def run(self, configurations: Sequence[Sequence[Any]], _options: object) -> list[dict[str, Any]]:
        """Answer configurations, as Kernel Tuner's own simulation does."""
        from kernel_tuner.util import RuntimeFailedConfig

        answers = []
        for configuration in configurations:
            self.raise_exception_if_done()
            index = self.tuner.indices[tuple(configuration)]
            if index in self._known:
                self.idle += 1
            else:
                self._known.add(index)
                self.asked.append(index)
                self.spent_s += float(self.tuner.recorded.costs[index])
                self.idle = 0
            time = float(self.tuner.recorded.times[index])
            answer = dict(zip(self.tuner.parameters, configuration, strict=True))
            failed = np.isnan(time)
            answers.append({**answer, "time": RuntimeFailedConfig() if failed else time})
            if failed:
                answers[-1]["__error__"] = RuntimeFailedConfig()
        return answers

    def add_strategy_time(self, _seconds: float) -> None:
        """Take no account of the strategy's own time, for none of those compared."""

    def raise_exception_if_done(self) -> None:
        """End the repetition where its budget is spent."""
        if self.is_spent or self.idle > MOST_IDLE_CALLS:
            raise BudgetSpentError

    def is_done(self) -> bool:
        return self.is_spent

    def get_fraction_consumed(self) -> float:
        return min(1.0, self.spent_s / self.tuner.recorded.budget_s)

    def get_time_spent(self) -> timedelta:
        return timedelta(seconds=self.spent_s)

    def get_time_remaining(self) -> timedelta:
        return timedelta(seconds=max(0.0, self.tuner.recorded.budget_s - self.spent_s))

    def get_evaluations_spent(self) -> int:
        return len(self.asked)

    def get_evaluations_remaining(self) -> int:
        return len(self.tuner.indices) - len(self.asked)
