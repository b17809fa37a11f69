"""Progress on the standard error: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, TextIO

from cuprof.cli.labels import format_duration, format_time, mark_of
from cuprof.cli.stream import styled
from cuprof.core.records import FAILED, NOT_RUN, Measure, Outcome, State, Trial
from cuprof.core.text import count, describe_tried, visible
from cuprof.engine.observer import Observer
from cuprof.statistics.median import is_mere_range

if TYPE_CHECKING:
    from rich.console import Console

PHASES = {
    "start": "starting",
    "inputs": "making inputs for",
    "build": "building",
    "check": "checking",
    "time": "timing",
    "calibrate": "measuring the device before",
    "profile": "profiling",
}
PACE_S = 3.0
"""Tell no time left before this much measuring: the pace of the first moments is that of warming up."""
SHARED_S = 5.0
"""Write how far all processes of a shared sweep are this often where lines cannot be replaced."""
Clock = Callable[[], float]
"""Gives seconds."""


def make_observer(stream: TextIO | None = None) -> Progress:
    """Return the observer that fits the stream (default: standard error), to be used as a context manager."""
    stream = stream or sys.stderr
    if stream and stream.isatty():
        from rich.console import Console

        console = Console(file=styled(stream))
        if not console.is_dumb_terminal:
            return LiveProgress(console)
    return Progress(stream)


class Progress(Observer, AbstractContextManager["Progress"]):
    """Count trials (a search's once each) and estimate the time left.

    Write a line a finished trial, and one for all that were skipped together; a subclass shows both in another way.
    """

    def __init__(self, stream: IO[str], clock: Clock = time.monotonic) -> None:
        self._stream, self._clock, self._begun = stream, clock, clock()
        self._paced_from: float | None = None
        self.planned: int | None = 0
        self.doing, self.others = "planning", ""
        self._known, self._again, self._at_work = set[str](), set[str](), set[str]()
        self.reused = self.done = self.elsewhere = self.everywhere = 0
        self.endings, self._skipped = Counter[str](), Counter[str]()
        self._shared, self._shared_at = (0, ""), -SHARED_S

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the stream as it was."""

    def note(self, text: str) -> None:
        """Write one line."""
        print(visible(text, keep=""), file=self._stream, flush=True)

    def _write(self, text: str, remark: str) -> None:
        """Write one line after the place among all, "7/40", or alone where the end is unknown."""
        so_far = f"{self.place:{len(str(self.planned))}}/{self.planned}" if self.planned else str(self.place)
        self.note(f"[{so_far}] {text}" + (f"  [{remark}]" if remark else ""))

    def _begin(self) -> None:
        """Say how much there is to do."""
        if self.planned:
            self.note(count(self.planned, "trial") + (f", {self.reused} of them stored already" if self.reused else ""))

    def _show(self) -> None:
        """Write a line now and then on what all processes do, if that has changed."""
        shared = self.everywhere, self.others
        if shared != self._shared and self._clock() - self._shared_at >= SHARED_S:
            self._shared, self._shared_at = shared, self._clock()
            self._write(self.others, self.left)

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        """Count from the beginning: a profiled trial was checked before, and counted then."""
        self.planned, self.reused, self._begun, self._known = planned, len(stored), self._clock(), set(stored)
        self.done = self.elsewhere = self.everywhere = 0
        self._shared = 0, self.others
        self.endings.clear()
        self._begin()

    def trial_started(self, trial: Trial, phase: str) -> None:
        """Show what runs now."""
        if phase != "start":
            self._paced_from = self._clock() if self._paced_from is None else self._paced_from
        if phase == "time":
            self._at_work.add(trial.identity)
        self.doing = f"{PHASES.get(phase, phase)} {trial.label}"
        self._show()

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        """Count the trial, or that a search timed it again, and tell how it ended."""
        self._at_work.discard(outcome.identity)
        is_again = self.planned is None and outcome.identity in self._known
        if is_again:
            self._again.add(outcome.identity)
        else:
            self.done += 1
            self._known.add(outcome.identity)
        is_expected = outcome.state is State.WRONG_RESULT and trial.expected == "wrong"
        ending = "wrong as expected" if is_expected else "failed" if outcome.state in FAILED else "measured"
        self.endings[outcome.state.value if outcome.state in NOT_RUN else ending] += 1
        self._tell(trial, outcome, "timed again" if is_again else self.left)
        self._show()

    def _tell(self, trial: Trial, outcome: Outcome, remark: str) -> None:
        """Write the trial's line: place, state, label, time or message, time left or that a search looked again."""
        if outcome.state is State.SKIPPED:
            self._skipped[outcome.message] += 1
        else:
            self._tell_skipped()
            self._write(_line(trial, outcome), remark)

    def _tell_skipped(self) -> None:
        for reason, number in self._skipped.items():
            self.note(f"skipped {count(number, 'trial')}: {reason}")
        self._skipped.clear()

    def finished(self, sweep_id: int) -> None:
        """Write a summary of the sweep, in place of a live line."""
        self.close()
        self._tell_skipped()
        is_search = self.planned is None
        parts = [describe_tried(self.done, len(self._again)) if is_search else f"{self.endings['measured']} measured"]
        others = {"stored before": self.reused, "by other processes": self.elsewhere}
        others |= {what: self.endings[what] for what in ("wrong as expected", "failed", "impossible", "skipped")}
        parts += [f"{number} {what}" for what, number in others.items() if number]
        self.note(f"sweep {sweep_id}: {', '.join(parts)}, {format_duration(self._clock() - self._begun)}")

    def done_elsewhere(self, count: int) -> None:
        """Count what other processes that share the sweep have done."""
        self.elsewhere += count

    def shared(self, done: int, planned: int, at_work: Sequence[str]) -> None:
        """Count what all processes that share the sweep have done, and show what they do."""
        self.everywhere, self.planned = done, planned
        self.others = "; ".join(at_work)
        self._show()

    @property
    def place(self) -> int:
        """Return how many trials are done, by this process or another."""
        return max(self.reused + self.done + self.elsewhere, self.everywhere)

    @property
    def left(self) -> str:
        """Return the time left at the pace of the trials that ran, empty while that says little, and at the end.

        Trials of one job are timed in turns and end together, so the ones at work count as done.
        """
        measured, at_work = self.place - self.reused - self.endings["skipped"], len(self._at_work)
        left = (self.planned or 0) - self.place - at_work
        paced_s = self._clock() - (self._begun if self._paced_from is None else self._paced_from)  # None: others' work
        if measured <= 0 or left <= 0 or paced_s < PACE_S:
            return ""
        return f"{format_duration(paced_s / (measured + at_work) * left)} left"


class LiveProgress(Progress):
    """Keep one line with what runs now, how many are done and the time left; failures and notes scroll above it."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        from rich import progress
        from rich.table import Column
        from rich.text import Text

        class Doing(progress.ProgressColumn):
            """Gives way on a narrow terminal, with the bar, as columns that may wrap do; this one is cut instead."""

            def render(self, task: progress.Task) -> Text:
                return Text(task.description, no_wrap=True, overflow="ellipsis")

        super().__init__(console.file, clock)
        self._console = console
        self._bar = progress.Progress(
            progress.MofNCompleteColumn(table_column=Column(no_wrap=True)),
            progress.BarColumn(bar_width=16),
            progress.TextColumn("{task.fields[left]}"),
            Doing(),
            console=console,
            transient=True,
            redirect_stdout=False,  # what others print is escaped, which styled text is not
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(self.doing, left="", visible=False)

    def _begin(self) -> None:
        self._show()
        self._bar.start()

    def close(self) -> None:
        """Take the live line away."""
        self._bar.stop()

    def note(self, text: str) -> None:
        """Write one line above the live one."""
        self._console.print(visible(text, keep=""), markup=False, highlight=False, soft_wrap=True)

    def _tell(self, trial: Trial, outcome: Outcome, remark: str) -> None:
        if outcome.state in FAILED:
            self.note(_line(trial, outcome))

    def _show(self) -> None:
        doing = visible(" | ".join(filter(None, [self.doing, self.others])), keep="")
        total = self.planned or None
        self._bar.update(self._task, description=doing, visible=True, total=total, completed=self.place, left=self.left)


def _line(trial: Trial, outcome: Outcome) -> str:
    """Return a message; or a time with half the width of its interval, or how many samples where they are few."""
    name = f"{mark_of(outcome.state, trial.expected)[0]} {trial.label}"
    timed = next(filter(None, map(outcome.find_timing, (Measure.COLD, Measure.HOT, Measure.TOTAL))), None)
    if outcome.state is not State.OK:
        return f"{name}: {outcome.message or outcome.state.value}"
    if timed is None:
        return f"{name}: ok"
    found = timed.summary
    half = (found.high_ns - found.low_ns) / 2 / found.median_ns if found.median_ns else 0.0
    few = is_mere_range(found.count, found.confidence)
    sureness = f"({count(found.count, 'sample')})" if few else f"±{half:.1%}"
    return f"{name}: {format_time(found.median_ns)} {sureness} {timed.measure}"
