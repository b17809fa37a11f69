"""Spaces whose every configuration was measured once, and the score of a search that replays them.

The score is that of the methodology of the autotuning community (Willemsen, Schoonhoven, Filipovič, Tørring, van
Nieuwpoort, van Werkhoven: "A methodology for comparing optimization algorithms for auto-tuning", Future Generation
Computer Systems 159, 2024), whose reference code is the package autotuning-methodology: how far the best time found so
far lies on the way from what random search has by then to the optimum, at 50 points of a budget, averaged.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cuprof.backends.registry import get_spec
from cuprof.backends.spec import UsualBlock
from cuprof.core.point import Coordinate

POINTS = 50
"""The best time is read after each of this many equal parts of the budget, as the methodology says."""
CUTOFF = 0.95
"""The budget is the time that random search is expected to need for this part of the way from median to optimum."""
KERNEL_TUNER_COSTS = ("compile_time", "verification_time", "benchmark_time")
T4_COSTS = ("compilation", "compilation_time", "validation", "benchmark")
BLOCK = re.compile("(thread_)?block(_size)?_[xyz]|work_group_size(_[xyz])?|[mn]dimc", re.IGNORECASE)
"""Names of a block's dimensions: Kernel Tuner's and ours, KTT's, and those of CLBlast's matrix product."""
NVIDIA = re.compile(
    r"nvidia|geforce|tesla|quadro|titan|jetson|[gr]tx\w*|k[248]0|[pv]100|a([134]0|[18]00|[2456][05]00)|l40?s?|g?h[12]00|g?b[23]00"
)
"""Words in the names of NVIDIA's GPUs. T4 is left out, since it is a format's name too."""
AMD = re.compile(r"amd|radeon|instinct|firepro|vega\d*|rx|rx\d{3,4}\w*|w[5679]\d00|mi\d{1,3}[ax]?|gfx\d\w+")
"""Words in the names of AMD's GPUs."""
HOST = re.compile(r"cpu|epyc|ryzen|threadripper|opteron|athlon")
"""Words in the names of AMD's processors, which are no GPUs."""
RESULTS = ("time_ms", "cost_s")
"""Columns of a table that are results; all others are tunables."""
NOT_A_SPACE = (
    LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError, EOFError, zlib.error, csv.Error
)  # fmt: skip
"""Errors that a file which is no space may raise when it is read."""
SUFFIXES = (".csv", ".csv.gz", ".json", ".json.gz")


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    """One recorded space.

    Args:
        configurations: the tunables of each.
        times: what a search minimises, (n,), NaN where the configuration failed.
        costs: seconds that measuring it took, (n,).
        limit_s: the budget, where it is not the methodology's.
        device: the name of the device that was recorded: what a cache of Kernel Tuner says, or else the file's name,
            which the community's collections take from the device.
    """

    name: str
    configurations: Sequence[Mapping[str, Coordinate]]
    times: np.ndarray
    costs: np.ndarray
    limit_s: float | None = None
    device: str = ""

    @property
    def backend(self) -> str | None:
        """Return the back end that drives the recorded device, if its name tells; else None."""
        words = re.split(r"[\W_]+", self.device.lower())
        known = {"cuda": NVIDIA} | ({} if any(map(HOST.fullmatch, words)) else {"opencl": AMD})
        return next((backend for backend, names in known.items() if any(map(names.fullmatch, words))), None)

    def suppose(self, backend: str | None) -> list[float]:
        """Return the log time, relative to the usual, that a search expects of each configuration at its start, (n,).

        It goes by the threads of a block, known by the usual names of a block's dimensions.
        """
        usual = get_spec(backend).usual_block if backend else UsualBlock()
        blocks = [[value for name, value in each.items() if BLOCK.fullmatch(name)] for each in self.configurations]
        known = [bool(sizes) and all(isinstance(size, int) for size in sizes) for sizes in blocks]
        return [
            usual.suppose(math.prod(sizes) if is_known else None) for sizes, is_known in zip(blocks, known, strict=True)
        ]

    @cached_property
    def ascending(self) -> np.ndarray:
        """Return the times of the configurations that work, best first."""
        return np.sort(self.times[~np.isnan(self.times)])

    @property
    def optimum(self) -> float:
        """Return the best time."""
        return float(self.ascending[0])

    def expected_best(self, draws: int) -> float:
        """Return the expected best time of `draws` different configurations, drawn at random among those that work."""
        times = self.ascending
        count = times.size
        if draws >= count:
            return self.optimum
        # the chance that all draws miss the i best is C(count - i, draws) / C(count, draws), built up by ratios
        missed = np.cumprod(1 - draws / (count - np.arange(count - draws)))
        return float(times[0] + np.diff(times[: count - draws + 1]) @ missed)

    @cached_property
    def draws(self) -> int:
        """Return how many configurations random search is expected to try before it has gone `CUTOFF` of the way."""
        target = self.optimum + (1 - CUTOFF) * (float(np.median(self.ascending)) - self.optimum)
        low, high = 1, self.ascending.size
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.expected_best(middle) <= target else (middle + 1, high)
        return low

    @property
    def budget_s(self) -> float:
        """Return the given limit in seconds, else what the draws take at the mean cost of a configuration."""
        return self.limit_s or self.draws * float(self.costs.mean())

    @cached_property
    def instants_s(self) -> np.ndarray:
        """Return the times in seconds at which the best so far is read, (`POINTS`,)."""
        return np.linspace(self.budget_s / POINTS, self.budget_s, POINTS)

    @cached_property
    def random_curve(self) -> np.ndarray:
        """Return the best time that random search is expected to have at each instant, (`POINTS`,)."""
        draws = np.maximum(np.round(self.instants_s / self.costs.mean()), 1).astype(int)
        by_draws = {count: self.expected_best(int(count)) for count in np.unique(draws)}
        return np.array([by_draws[count] for count in draws])

    def score_curve(self, asked: Sequence[int]) -> np.ndarray:
        """Return the score at each instant, (`POINTS`,): 0 is random search, 1 the optimum, below 0 worse than random.

        Where nothing has been found yet it is 0.

        Args:
            asked: the configurations in the order in which they were tried.
        """
        indices = np.asarray(asked, int)
        ends = np.cumsum(self.costs[indices])
        best = np.fmin.accumulate(np.append(np.inf, np.nan_to_num(self.times[indices], nan=np.inf)))
        found = best[np.searchsorted(ends, self.instants_s, side="right")]
        found = np.where(np.isinf(found), self.random_curve, found)
        to_go = self.random_curve - self.optimum
        return np.where(to_go > 0, (self.random_curve - found) / np.where(to_go > 0, to_go, 1.0), 0.0)


class NoSpaceError(ValueError):
    """A file that holds no space that can be searched."""


def find_spaces(place: Path) -> list[Path]:
    """Return the files of a folder, at any depth, that may hold a space; of a file, itself."""
    paths = [place] if place.is_file() else place.rglob("*")
    return sorted(path for path in paths if path.is_file() and path.name.endswith(SUFFIXES))


def name_space(path: Path) -> str:
    """Return the name of a file's space: the file's, without its endings."""
    return path.name.removesuffix(".gz").rsplit(".", 1)[0]


def read_space(path: Path) -> RecordedSpace:
    """Read a table (tunables, then `time_ms` and `cost_s`), a cache file of Kernel Tuner, or a file in format T4.

    Raises:
        NoSpaceError: it is none of these, or no configuration in it works.
    """
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
        data = {} if ".csv" in path.name else _whole(text)
        rows = _table_rows(text) if ".csv" in path.name else _json_rows(data)
    except NOT_A_SPACE as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise NoSpaceError(f"{path}: neither a table, a Kernel Tuner cache nor T4: {reason}") from error
    configurations, times, costs = zip(*rows, strict=True) if rows else ((), (), ())
    if any(isinstance(value, int) and abs(value) >= 2**64 for each in configurations for value in each.values()):
        raise NoSpaceError(f"{path}: a tunable has a number of more than 64 bits")
    name = name_space(path)
    device = str(data.get("device_name") or name)
    space = RecordedSpace(name, configurations, np.array(times, float), np.array(costs, float), device=device)
    if not space.ascending.size:
        raise NoSpaceError(f"{path}: none of its {space.times.size} configurations has a time above 0")
    if not np.all(space.costs >= 0) or not 0 < space.costs.sum() < math.inf:
        where = f"cost_s, or {', '.join(KERNEL_TUNER_COSTS)} in ms, or T4's times, are to say"
        raise NoSpaceError(f"{path}: what trying its configurations costs is not known; {where}")
    return space


Row = tuple[Mapping[str, Coordinate], float, float]


def _table_rows(text: str) -> list[Row]:
    rows = csv.DictReader(text.splitlines(), restval="", restkey="")
    columns = rows.fieldnames or ()
    if lacking := [name for name in RESULTS if name not in columns]:
        raise ValueError(f"no column {' nor '.join(lacking)}; there are {', '.join(columns) or 'none'}")
    names = [name for name in columns if name not in RESULTS]
    return [
        ({name: _coordinate(row[name]) for name in names}, _number(row["time_ms"]), float(row["cost_s"] or "nan"))
        for row in rows
    ]


def _coordinate(text: str) -> Coordinate:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _whole(text: str) -> Any:
    """Return what a JSON file holds; Kernel Tuner leaves the end off a cache that it may go on with."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.rstrip().rstrip(",") + "}}")


def _json_rows(data: Mapping[str, Any]) -> list[Row]:
    if "cache" in data:
        names = data["tune_params_keys"]
        objective = data.get("objective", "time")
        objective = objective if isinstance(objective, str) else objective[0]
        return [
            (
                {name: _plain(each[name]) for name in names},
                _small(objective, _number(each.get(objective))),
                _seconds(each, KERNEL_TUNER_COSTS),
            )
            for each in data["cache"].values()
        ]
    return [
        (
            {name: _plain(value) for name, value in each["configuration"].items()},
            _t4_time(each),
            _seconds(each.get("times"), T4_COSTS),
        )
        for each in data["results"]
    ]


def _plain(value: Any) -> Coordinate:
    """Return a tunable's value; a list, or what else is no plain value, by its text."""
    return value if isinstance(value, int | float | str) else str(value)


def _small(objective: str, value: float) -> float:
    """Return the number to minimise for an objective's value: the reciprocal of a rate, such as GFLOP/s or GFLOPS/W."""
    return 1 / value if "/" in objective else value


def _t4_time(result: Mapping[str, Any]) -> float:
    if result.get("invalidity", "correct") != "correct":
        return float("nan")
    wanted = (result.get("objectives") or ["time"])[0]
    values = (_number(each["value"]) for each in result.get("measurements") or () if each["name"] == wanted)
    return _small(wanted, next(values, float("nan")))


def _number(value: object) -> float:
    """Return a number, which may stand as a text; an error's name stands where there is none."""
    value = _untexted(value)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e20
    return float(value) if usable else float("nan")  # type: ignore[arg-type]


def _untexted(value: object) -> object:
    """Return what a text says, a number if it is one; anything else as it is."""
    return _coordinate(value) if isinstance(value, str) else value


def _seconds(times_ms: Mapping[str, Any] | None, keys: Sequence[str]) -> float:
    known = (_untexted((times_ms or {}).get(key)) for key in keys)
    return sum(float(value) for value in known if isinstance(value, int | float)) / 1e3
