"""The request to judge: candidates, rule and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cuprof.config.model import SweepConfig
from cuprof.interop.origins import AnyOrigin
from cuprof.statistics.verdict import Rule


@dataclass(frozen=True)
class Request:
    """The candidates to judge, and how.

    Args:
        config: the family, the problems and how they are timed; its variants, database and report are ignored.
        origin: of the family.
        candidates: sources (.cu, .cl), Python files and solutions in JSON, as `check_file` returns them.
        like: the variant that sources replace; empty takes the baseline, or the one variant of their language.
        rounds: how often each candidate is timed, between two timings of the baseline.
        noise: relative standard deviation of a time from one process to another; None as `compare` takes it.
        as_root: judge although this process is root's; code in a sandbox can then read what root alone may read.
        time_limit_s: how long one step of a candidate may take; 0 leaves the configuration's limits.
        database: file to keep the results in; None keeps them until the end.
        counters: read hardware counters too, as the configuration's `ncu` says.
    """

    config: SweepConfig
    origin: AnyOrigin
    candidates: tuple[Path, ...]
    baseline: str = ""
    like: str = ""
    rounds: int = 3
    rule: Rule = field(default_factory=Rule)
    noise: float | None = None
    as_root: bool = False
    time_limit_s: float = 0.0
    database: Path | None = None
    counters: bool = False
