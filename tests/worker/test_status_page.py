"""The status page: written in one process, read in another, also after the writer's death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuprof.worker import status_page
from cuprof.worker.status_page import NO_TRIAL, Phase, Status, StatusPage

WRITER = """
import sys
from pathlib import Path
from cuprof.worker.status_page import Phase, StatusPage
page = StatusPage(Path(sys.argv[1]))
page.enter(7, Phase.CHECK)
print("written", flush=True)
sys.stdin.read()
"""


def test_a_new_page_says_that_the_worker_starts(tmp_path: Path) -> None:
    page = StatusPage(tmp_path / "status", create=True)
    status = page.read()
    assert (status.index, status.phase) == (NO_TRIAL, Phase.START)
    assert 0 <= status.age_s < 60
    page.close()


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_read_as_written_and_has_words(tmp_path: Path, phase: Phase) -> None:
    written = StatusPage(tmp_path / "status", create=True)
    read = StatusPage(tmp_path / "status")
    before = time.monotonic_ns()
    written.enter(3, phase)
    status = read.read()
    assert (status.index, status.phase) == (3, phase)
    assert before <= status.since_ns <= time.monotonic_ns()
    assert phase.endswith("ing") or " " in phase
    written.close()
    read.close()


def test_the_second_trial_that_begins_has_company(tmp_path: Path) -> None:
    page = StatusPage(tmp_path / "status", create=True)
    found = []
    for index in range(3):
        page.begin()
        page.enter(index, Phase.CHECK)
        found.append(page.read().has_company)
    assert found == [False, True, True]
    page.close()


def test_what_was_said_outlives_the_writer(tmp_path: Path) -> None:
    page = StatusPage(tmp_path / "status", create=True)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "status")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        assert page.read().index == 7
        os.kill(writer.pid, signal.SIGKILL)
    status = page.read()
    assert (status.index, status.phase) == (7, Phase.CHECK)
    assert 0 <= status.age_s < 60
    page.close()


def test_age_counts_from_the_beginning_of_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_page, "time", SimpleNamespace(monotonic_ns=lambda: 9_000_000_000))
    assert Status(0, Phase.TIME, 7_000_000_000).age_s == pytest.approx(2.0)
