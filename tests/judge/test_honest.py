"""What honest authors write, in the ways in which people call libraries: none of them is accused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuprof.judge.clock import TOO_BUSY
from cuprof.judge.referee import LINGERS
from cuprof.judge.report import Ruling
from tests.judge.conftest import QUICK, even_host

FOLDER = Path(__file__).parent / "honest"
OFTEN = replace(QUICK, min_samples=30, max_samples=40)
"""An accusation may come of any execution, so there are at least as many as where people judge."""


def list_variants(file: Path) -> list[str]:
    return re.findall(r'^@family\.\w+\("(\w+)"', file.read_text(), re.MULTILINE)


def list_undecided(report: Any, file: Path) -> list[str]:
    """Require that nobody is accused; return those of whom the judge could not tell, where others are at work."""
    found = {each.variant: (each.ruling, each.message) for each in report.candidates}
    judged = {name: each for name, each in found.items() if TOO_BUSY not in each[1] and LINGERS not in each[1]}
    accused = {name: each for name, each in judged.items() if each[0] not in (Ruling.GOOD, Ruling.NOT_FASTER)}
    assert accused == {}
    assert sorted(found) == sorted(list_variants(file))
    return sorted(found.keys() - judged.keys())


def require_unaccused(report: Any, file: Path) -> None:
    assert len(list_undecided(report, file)) < len(report.candidates) / 2


@pytest.mark.timeout(900)
def test_on_the_host(court: Any) -> None:
    file = FOLDER / "host_calls.py"
    if list_undecided(court.judge(file, n=2**13, measure=OFTEN), file):
        with even_host():  # all but their times
            assert list_undecided(court.judge(file, n=2**13, measure=OFTEN), file) == []


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["cupy_calls", "torch_calls", "triton_calls", "numba_calls"])
def test_on_a_gpu(court: Any, name: str) -> None:
    if name == "numba_calls" and not hasattr(np, "row_stack"):
        pytest.skip("this Numba asks NumPy for row_stack, which it no longer has")
    file = FOLDER / f"{name}.py"
    require_unaccused(court.judge(file, family="scale", baseline="plain", n=2**20, measure=OFTEN), file)


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_sums_on_a_gpu(court: Any) -> None:
    file = FOLDER / "sums.py"
    require_unaccused(court.judge(file, family="reduction", n=2**20, measure=OFTEN), file)
