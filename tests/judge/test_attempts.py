"""What strangers try: none is called good, and none outlives its limit."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from cuprof.judge.report import Candidate, Ruling

FOLDER = Path(__file__).parent / "attempts"
FILES = sorted(FOLDER.glob("*.py"))
ATTEMPTS = [
    (file.name, name)
    for file in FILES
    for name in re.findall(r'^@family\.cpu\("(\w+)"\)', file.read_text(), re.MULTILINE) or [""]
]
LIMIT_S, MEMORY_BYTES = 2.0, 1 << 30
MOST_S = 30.0
"""What one attempt may take in all: reading it, preparing, the check and the timing, each within `LIMIT_S`."""


@pytest.fixture(scope="module")
def judged(make_court: Any) -> dict[tuple[str, str], Candidate]:
    """Return file and variant → what came of it; all are judged together, beside an honest one."""
    court = make_court()
    files = [court.write(file.name, file.read_text()) for file in FILES]
    honest = court.write("honest.py", HONEST)
    started = time.monotonic()
    report = court.judge(*files, honest, time_limit_s=LIMIT_S, memory_bytes=MEMORY_BYTES)
    assert time.monotonic() - started < MOST_S * (len(ATTEMPTS) + 1)
    return {(Path(each.file).name, each.variant): each for each in report.candidates}


HONEST = """
@family.cpu("honest")
def honest(problem, tune, inputs, outputs):
    return lambda: right(inputs, outputs)
"""


def test_there_are_many() -> None:
    assert len(ATTEMPTS) >= 60


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("file", "variant"), ATTEMPTS)
def test_no_attempt_is_good(judged: dict[tuple[str, str], Candidate], file: str, variant: str) -> None:
    found = [each for (name, one), each in judged.items() if name == file and variant in ("", one)]
    assert found or any(name == file and not one for name, one in judged)  # refused as a whole
    assert all(each.ruling is not Ruling.GOOD for each in found), found


def test_an_honest_one_beside_them_is_accused_of_nothing(judged: dict[tuple[str, str], Candidate]) -> None:
    assert judged["honest.py", "honest"].ruling in (Ruling.GOOD, Ruling.NOT_FASTER), judged["honest.py", "honest"]
