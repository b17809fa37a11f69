"""Output that cannot be written ends no work, and is remembered."""

from __future__ import annotations

import errno
import io
import sys
from typing import TextIO, cast

import pytest
from rich.console import Console

from cuprof.cli.main import main
from cuprof.cli.output import print_error
from cuprof.cli.progress import LiveProgress, Progress
from cuprof.cli.stream import Output, guarded_output, styled
from cuprof.core.records import Outcome, State, Trial
from cuprof.families import Point

TRIAL = Trial("0" * 32, "f", "v", "cpu", "cpu", Point(n=1), Point(), "f/v · n=1")


class Failing(io.StringIO):
    """Take some writes, then fail as a pipe without a reader or a full disk does."""

    def __init__(self, code: int, good: int = 0) -> None:
        super().__init__()
        self.code, self.good, self.asked = code, good, 0

    def write(self, text: str) -> int:
        self.asked += 1
        if self.asked > self.good:
            raise OSError(self.code, "no")
        return super().write(text)


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_failure_is_remembered_and_the_rest_dropped(code: int) -> None:
    stream = Failing(code, good=1)
    output = Output(stream)
    for text in ("one", "two", "three"):
        assert output.write(text) == len(text)
    output.flush()
    assert (stream.getvalue(), stream.asked) == ("one", 2)
    assert isinstance(output.failure, OSError)
    assert output.failure.errno == code


def test_only_output_that_fails_is_called_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Failing(errno.EIO))
        assert main(["--version"]) == 2
    assert capfd.readouterr().err == "error: the output cannot be written: no\n"
    assert print_error(OSError(errno.EIO, "no", "mine.py")) == 2
    assert capfd.readouterr().err == "error: mine.py cannot be read or written: no\n"


def test_a_closed_stream_and_none_are_no_error() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        output = Output(stream)
        output.write("x")
        output.flush()
        assert not output.isatty()


def test_both_streams_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    before = sys.stdout, sys.stderr
    with guarded_output() as output:
        assert sys.stdout is cast(TextIO, output)
        print("x")  # noqa: T201
        with guarded_output() as inner:
            assert inner is output
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("good", [0, 1, 3])
def test_progress_goes_on_without_a_reader(good: int) -> None:
    for observer in (
        Progress(cast(TextIO, Output(Failing(errno.EPIPE, good)))),
        LiveProgress(Console(file=styled(cast(TextIO, Output(Failing(errno.EPIPE, good)))), force_terminal=True)),
    ):
        with observer:
            observer.started(2, ())
            observer.trial_started(TRIAL, "time")
            observer.trial_finished(TRIAL, Outcome(TRIAL.identity, State.CRASHED, "gone"))
            observer.note("note")
            observer.finished(1)
        assert observer.done == 1
