"""What strangers try: none is called good, and none outlives its limit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cuprof.judge.report import Ruling

ATTEMPTS = sorted((Path(__file__).parent / "attempts").glob("*.py"))
LIMIT_S = 2.0
MOST_S = 20.0
"""What one attempt may take in all, with the baseline's two turns."""


@pytest.mark.parametrize("file", ATTEMPTS, ids=lambda file: file.stem)
def test_no_attempt_is_good(make_court: Any, file: Path) -> None:
    court = make_court()
    started = time.monotonic()
    report = court.judge(court.write(file.name, file.read_text()), time_limit_s=LIMIT_S, memory_bytes=1 << 29)
    assert {each.ruling for each in report.candidates}.isdisjoint({Ruling.GOOD}), report.candidates
    assert time.monotonic() - started < MOST_S
