"""What strangers try: none is called good, and none outlives its limit."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from cuprof.judge.report import Candidate, Ruling
from tests.judge.conftest import even_host, take_as_long

FOLDER = Path(__file__).parent / "attempts"
FILES = sorted(FOLDER.glob("*.py"))
ATTEMPTS = [
    (file.name, name)
    for file in FILES
    for name in re.findall(r'^@family\.cpu\("(\w+)"\)', file.read_text(), re.MULTILINE) or [""]
]
BATCHES = 4
"""As many parts can be judged at the same time, in several processes: many attempts wait until a limit ends them."""
LIMIT_S, MEMORY_BYTES = 2.0, 1 << 30
MOST_S = 30.0
"""What one attempt may take in all: reading it, preparing, the check and the timing, each within `LIMIT_S`."""


@pytest.fixture(scope="module", params=range(BATCHES))
def judged(request: pytest.FixtureRequest, make_court: Any) -> dict[tuple[str, str], Candidate]:
    """Return file and variant → what came of it; a batch of files is judged together, beside an honest one."""
    court = make_court()
    files = [court.write(file.name, file.read_text()) for file in FILES[request.param :: BATCHES]]
    honest = court.write("honest.py", HONEST)
    started = time.monotonic()
    attempts = {file.name for file in files}
    with even_host(
        lambda file: take_as_long if file == honest.name else None,
        lambda file, ask: file in attempts,  # others may need longer, where a host is busy
    ):
        report = court.judge(*files, honest, time_limit_s=LIMIT_S, memory_bytes=MEMORY_BYTES)
    assert time.monotonic() - started < MOST_S * (len(ATTEMPTS) + 1)
    found = {(Path(each.file).name, each.variant): each for each in report.candidates}
    assert {name for name, _ in found} == {file.name for file in (*files, honest)}
    return found


HONEST = """
@family.cpu("honest")
def honest(problem, tune, inputs, outputs):
    return lambda: right(inputs, outputs)
"""


@pytest.mark.timeout(900)
def test_no_attempt_is_good_and_an_honest_one_is_accused_of_nothing(judged: dict[tuple[str, str], Candidate]) -> None:
    assert len(ATTEMPTS) >= 130
    files = {file for file, _ in judged}
    missing = [
        (file, variant)
        for file, variant in ATTEMPTS
        if file in files and (file, variant) not in judged and (file, "") not in judged and variant
    ]
    assert not missing  # none may take another's ruling away
    assert [key for key, each in judged.items() if each.ruling is Ruling.GOOD and key[0] != "honest.py"] == []
    assert judged["honest.py", "honest"].ruling in (Ruling.GOOD, Ruling.NOT_FASTER), judged["honest.py", "honest"]
