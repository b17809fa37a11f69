"""A portfolio of a family: which few configurations serve all of its stored problems, as rows and as a C header."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from cuprof.core.errors import SelectionError
from cuprof.core.point import Point
from cuprof.core.records import State
from cuprof.report.templates import render_text
from cuprof.report.trials import grouped
from cuprof.results.earlier import EarlierRun
from cuprof.statistics.median import is_mere_range, sure_time

TAKEN = re.compile(
    "align(as|of)|and(_eq)?|asm|auto|bit(and|or)|bool|break|case|catch|char(8_t|16_t|32_t)?|class|compl|concept|const|"
    "const(eval|expr|init|_cast)|continue|co_(await|return|yield)|decltype|default|delete|do|double|dynamic_cast|else|"
    "enum|explicit|export|extern|false|float|for|friend|goto|if|inline|int|long|mutable|namespace|new|noexcept|"
    "not(_eq)?|nullptr|operator|or(_eq)?|private|protected|public|register|reinterpret_cast|requires|restrict|return|"
    "short|signed|sizeof|static(_assert|_cast)?|struct|switch|template|this|thread_local|throw|true|try|type(def|id|name|of)|"
    "union|unsigned|using|virtual|void|volatile|wchar_t|while|xor(_eq)?|"
    "number|variant|fabs|log|strcmp|linux|unix|NULL|NAN|INFINITY|HUGE_VAL[FL]?|(M|FP)_[A-Z0-9_]+|.*_"
)
"""What nothing in the header can be called: words of C and C++, its own fields and variables, what it calls, and what
compilers and `math.h` define."""
PLAIN = {*string.digits, *string.ascii_letters, *" !#$%&'()*+,-./:;<=>@[]^_`{|}~"}
"""What stands for itself in a text; no quote, no backslash, and no ?, which begins trigraphs."""
Configuration = tuple[str, Point]
"""A variant and its tunables."""


@dataclass(frozen=True)
class Pick:
    """What one problem takes: a configuration's number, and its time.

    Args:
        ratio: of the times that count, its over the problem's best.
        samples: that its time is known by.
        is_few: they are too few for an interval, so that the longest of them counts.
    """

    problem: Point
    number: int
    ratio: float
    median_ns: float
    samples: int
    is_few: bool


@dataclass(frozen=True)
class Portfolio:
    """The fewest configurations, and what each problem takes of them.

    Args:
        elsewhere: other devices with times, where none was asked for → at how many of these problems they are faster.
    """

    family: str
    device: str
    within: float
    configurations: tuple[Configuration, ...]
    picks: tuple[Pick, ...]
    elsewhere: Mapping[str, int]


def make_portfolio(family: str, runs: Sequence[EarlierRun], within: float, device: str = "") -> Portfolio:
    """Return the portfolio of all problems that have a right time on a device.

    A time of few samples, such as a search's first look, counts by the longest of them; see `sure_time`.

    Args:
        runs: in the order in which they were stored.
        device: empty takes that of the newest run.

    Raises:
        SelectionError: there is no right run, or none on that device; or `within` is not a share.
    """
    if not 0 <= within < 10:
        raise SelectionError(f"configurations within {within:g} of the best time are asked for; give 5% or 0.05")
    right = [run for run in runs if _is_right(run)]
    if not right:
        raise SelectionError(f"no right time of family {family} is stored; run cuprof sweep family={family} first")
    others = set() if device else {run.device for run in right}
    device = device or right[-1].device
    here = _choose_looks(run for run in runs if run.device == device)
    if not here:
        known = ", ".join(sorted({run.device for run in right}))
        raise SelectionError(f"no time of family {family} on {device!r} is stored; there are times on {known}")
    problems = {problem: row for row, problem in enumerate(dict.fromkeys(run.problem for run in here))}
    columns = {each: column for column, each in enumerate(dict.fromkeys((run.variant, run.tunables) for run in here))}
    cells = {(problems[run.problem], columns[run.variant, run.tunables]): run for run in here}
    times = np.full((len(problems), len(columns)), np.nan)
    for cell, run in cells.items():
        times[cell] = _sure_ns(run)
    chosen, ratios = find_portfolio(times, within), times / np.nanmin(times, axis=1, keepdims=True)
    configurations = list(columns)
    picks = []
    for problem, row in problems.items():
        number = int(np.nanargmin(times[row, chosen]))
        run, ratio = cells[row, chosen[number]], float(ratios[row, chosen[number]])
        picks.append(Pick(problem, number, ratio, run.median_ns or 0.0, run.samples, _is_few(run)))
    best_ns = dict(zip(problems, np.nanmin(times, axis=1), strict=True))
    elsewhere = {}
    for other in sorted(others - {device}):
        looks = _choose_looks(run for run in runs if run.device == other)
        elsewhere[other] = len({run.problem for run in looks if _sure_ns(run) < best_ns.get(run.problem, 0.0)})
    return Portfolio(family, device, within, tuple(configurations[each] for each in chosen), tuple(picks), elsewhere)


def _choose_looks(runs: Iterable[EarlierRun]) -> list[EarlierRun]:
    """Return the run that counts of each configuration and problem, where the newest version was last found right.

    It is of the newest sweep that took enough samples for an interval, the one with the most samples there.
    """
    chosen = []
    for group in grouped(runs, lambda run: (run.variant, run.tunables, run.problem)).values():
        newest = group[-1]
        looks = [run for run in reversed(group) if run.identity == newest.identity and _is_right(run)]
        if looks and newest.state is State.OK:
            chosen.append(max(looks, key=lambda run: (not _is_few(run), run.sweep_id, run.samples)))
    return chosen


def _sure_ns(run: EarlierRun) -> float:
    return sure_time(run.median_ns or math.nan, run.high_ns or math.nan, run.samples, run.confidence)


def _is_right(run: EarlierRun) -> bool:
    return run.state is State.OK and not run.is_expected_wrong and bool(run.median_ns)


def _is_few(run: EarlierRun) -> bool:
    return is_mere_range(run.samples, run.confidence)


def to_header(portfolio: Portfolio, command: str = "portfolio") -> str:
    """Return a C header with the configurations and a function that picks one.

    A problem that was not measured takes what the nearest one does: by the logarithms of its numbers, other coordinates
    being equal where they can be. Names end with _ where an axis or a tunable could have them otherwise.

    Args:
        command: the command of cuprof that the header names as its writer.
    """
    axes = _find_numeric([pick.problem for pick in portfolio.picks])
    tunables = _find_numeric([point for _, point in portfolio.configurations])
    return render_text(
        "portfolio.h",
        portfolio=portfolio,
        command=command,
        stem=re.sub(r"\W|^(?=\d)", "_", portfolio.family),
        family=portfolio.family.replace("*/", "* /"),
        device=portfolio.device.replace("*/", "* /"),
        few=sum(pick.is_few for pick in portfolio.picks),
        fields={_identifier(name): is_number for name, is_number in tunables.items()},
        axes={_identifier(name): is_number for name, is_number in axes.items()},
        rows=[[_to_literal(variant), *_literals(point, tunables)] for variant, point in portfolio.configurations],
        known=[[*_literals(pick.problem, axes), str(pick.number)] for pick in portfolio.picks],
    )


def _find_numeric(points: Sequence[Point]) -> dict[str, bool]:
    """Return every coordinate's name, and whether all its values are numbers."""
    names = dict.fromkeys(name for point in points for name in point)
    return {name: all(isinstance(point.get(name, 0), int | float) for point in points) for name in names}


def _identifier(name: str) -> str:
    return f"{name}_" if TAKEN.fullmatch(name) else re.sub(r"\W", "_", name)


def _literals(point: Mapping[str, Any], are_numbers: Mapping[str, bool]) -> list[str]:
    return [
        repr(point.get(name, 0) + 0) if is_number else _to_literal(str(point.get(name, "")))
        for name, is_number in are_numbers.items()
    ]


def _to_literal(value: str) -> str:
    """Return a literal of ASCII alone, by the bytes of UTF-8; three octal digits end where they should."""
    return '"' + "".join(chr(byte) if chr(byte) in PLAIN else f"\\{byte:03o}" for byte in value.encode()) + '"'


def find_portfolio(times: np.ndarray, within: float) -> list[int]:
    """Return the fewest columns that have, for each row, a time within a share of the row's best.

    This is the set cover problem, solved exactly; among covers of the same size it takes the one with smaller times.

    Args:
        times: (problems, configurations), NaN where there is none; each problem has one.
        within: share of the best time, 0.05 for 5 %.
    """
    ratios = times / np.nanmin(times, axis=1, keepdims=True)
    good = np.nan_to_num(ratios, nan=np.inf) <= 1 + within
    excess = np.where(good, ratios - 1, within).mean(axis=0)
    share = 0.5 / (good.shape[1] * max(within, 1e-9))  # all together count less than one configuration
    found = milp(
        c=1 + share * excess,
        integrality=np.ones(good.shape[1]),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(good.astype(float), lb=1),
    )
    return [int(each) for each in np.flatnonzero(found.x > 0.5)]
