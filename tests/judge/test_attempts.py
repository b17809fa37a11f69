"""What strangers try: none is called good, and none outlives its limit."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.judge.report import Candidate, Ruling
from tests.judge.conftest import QUICK, even_host, take_each

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
MEASURE = replace(QUICK, min_samples=12, max_samples=12, max_seconds=60.0, patience_seconds=60.0)
"""As many samples as it takes to call one of a batch good."""
BASELINE_NS, HONEST_NS = 20_000, 1_000
"""What an execution of the baseline and of the honest one takes: who computes nothing seems as fast as that one."""
SLOW_RIGHT = """
def right(inputs, outputs):
    for _ in range(40):  # takes longer than the baseline
        np.multiply(inputs['x'], 2, out=outputs['y'])
"""


@pytest.fixture(scope="module", params=range(BATCHES))
def judged(request: pytest.FixtureRequest, make_court: Any) -> dict[tuple[str, str], Candidate]:
    """Return file and variant → what came of it; a batch of files is judged together, beside an honest one."""
    court = make_court()
    files = [court.write(file.name, SLOW_RIGHT + file.read_text()) for file in FILES[request.param :: BATCHES]]
    honest = court.write("honest.py", HONEST)
    started = time.monotonic()
    attempts = {file.name for file in files}
    given_ns = {"": BASELINE_NS, honest.name: HONEST_NS}
    with even_host(
        lambda file: None if file in attempts else take_each(given_ns[file]),
        lambda file, ask: file in attempts,  # others may need longer, where a host is busy
    ):
        report = court.judge(*files, honest, time_limit_s=LIMIT_S, memory_bytes=MEMORY_BYTES, measure=MEASURE)
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
def test_no_attempt_is_good_and_an_honest_one_is(judged: dict[tuple[str, str], Candidate]) -> None:
    assert len(ATTEMPTS) >= 130
    files = {file for file, _ in judged}
    missing = [
        (file, variant)
        for file, variant in ATTEMPTS
        if file in files and (file, variant) not in judged and (file, "") not in judged and variant
    ]
    assert not missing  # none may take another's ruling away
    assert [key for key, each in judged.items() if each.ruling is Ruling.GOOD] == [("honest.py", "honest")]
