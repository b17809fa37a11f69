"""`launch=…`: start the jobs of a sweep, show one progress for all of them, and end with what the rows say."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cuprof.cli.output import print_message
from cuprof.cli.progress import Progress, make_observer
from cuprof.config.model import SweepConfig
from cuprof.core.errors import StoreError, UnreachableStoreError, UsageError
from cuprof.core.project import Project
from cuprof.core.text import count
from cuprof.engine.launchers.launcher import NUMBER, JobState, Launcher, Work, open_launcher
from cuprof.results.progress import Progress as SweepProgress
from cuprof.results.progress import find_exit_code, list_launched, list_progress
from cuprof.store.store import Store, wait_for

POLL_S = 1.0
LOOK_SHARE = 0.05
"""The most of the time that looking into the database may take: that of a million trials takes seconds to count."""
LEAVE_S = 20.0
"""How long jobs may take to end by themselves after their sweep is complete."""
TAIL = 15
"""Lines of a job's output that are shown where no job has begun a sweep."""


def launch_sweep(configs: Sequence[SweepConfig], argv: Sequence[str], project: Project) -> int:
    """Start jobs that share the sweeps of these configurations, and wait for the sweeps' end; return the exit code.

    Raises:
        UsageError: the jobs cannot be started as asked for.
    """
    config = configs[0]
    for each in configs:
        what = "a search" if each.search.name else "device.cuda=each" if each.device.cuda == ("each",) else ""
        if what and each.launch.jobs > 1:
            raise UsageError(f"{what} is done by one process; leave launch.jobs out")
        if each.ncu.enabled:
            raise UsageError("ncu.enabled=true needs launch=local; collect counters afterwards by cuprof ncu-collect")
    name = secrets.token_hex(3)
    launch = Launch(name, len(configs), config.store.url or project.database_url)
    launcher = open_launcher(make_work(name, ["sweep", *argv], config, project))
    launcher.start()
    print_message(
        f"{count(config.launch.jobs, 'job')} started by {config.launch.name}; files are in {launcher.work.files}"
    )
    try:
        with make_observer() as observer:
            observer.doing = ""
            jobs = launch.wait(launcher, observer)
    finally:
        launcher.stop()
    from cuprof.cli.results import show_results

    for sweep in launch.sweeps:
        show_results(config, project, launch.url, sweep.sweep_id)
    return launch.conclude(jobs, launcher, config.exit)


def make_work(name: str, words: Sequence[str], config: SweepConfig, project: Project) -> Work:
    """Return the command of each job: the words without those on launching."""
    kept = [word for word in words if not word.lstrip("+").startswith(("launch=", "launch.", "exit="))]
    own = ["launch=local", f"launch.job={name}/{NUMBER}", f"launch.since={time.time():.3f}", "exit=done", "report=none"]
    files = project.jobs / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{name}"
    files.mkdir(mode=0o700, parents=True)
    return Work(("-m", "cuprof", *kept, *own), Path.cwd(), files, config.launch)


@dataclass
class Launch:
    """The sweeps, `expected` many, that jobs whose names begin with `name` take part in, as the database shows them."""

    name: str
    expected: int
    url: str
    sweeps: list[SweepProgress] = field(default_factory=list)
    _away_since: datetime | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether every sweep is finished."""
        return len(self.sweeps) >= self.expected and all(each.state == "finished" for each in self.sweeps)

    def wait(self, launcher: Launcher, observer: Progress) -> list[JobState]:
        """Show the progress until the sweeps are complete or no job is left; return how each job ended."""
        complete_at: float | None = None
        look_at = 0.0
        while True:
            jobs = launcher.poll()
            if (began := time.monotonic()) >= look_at:
                self.look(observer)
                look_at = began + (time.monotonic() - began) / LOOK_SHARE
            observer.shared(*self._sum_up(), list(self.describe(jobs)))
            if self.is_complete:
                complete_at = complete_at or time.monotonic()
                if time.monotonic() - complete_at > LEAVE_S or all(each.state != "running" for each in jobs):
                    return jobs
            elif all(each.state in ("ended", "lost") for each in jobs):
                self.sweeps = wait_for(self.read)
                return jobs
            time.sleep(POLL_S)

    def conclude(self, jobs: Sequence[JobState], launcher: Launcher, exit_says: str) -> int:
        """Say what became of the jobs; return the exit code that the rows give."""
        files = launcher.work.files
        if not self.sweeps:  # no job got that far: show what the first one that failed has printed
            number = next((number for number, each in enumerate(jobs) if each.exit_code), 0)
            for line in launcher.read_output(number).splitlines()[-TAIL:]:
                print_message(f"job {number}: {line}")
            print_message(f"error: no job has begun the sweep{_reasons(jobs)}; see {files}")
            return max((each.exit_code or 0 for each in jobs), default=1) or 1
        done, planned = self._sum_up()
        said = ["complete" if self.is_complete else f"not complete: {planned - done} of {count(planned, 'trial')} left"]
        if lost := [each for each in jobs if each.state == "lost"]:
            was = "was" if len(lost) == 1 else "were"
            said.append(f"{len(lost)} of {count(len(jobs), 'job')} {was} lost{_reasons(lost)}")
        if not self.is_complete:
            said.append(f"the jobs' output is in {files}; the same command goes on where they stopped")
        if lost or not self.is_complete:
            print_message("; ".join(said))
        if not self.is_complete or exit_says == "done":
            return int(not self.is_complete)
        return wait_for(self._find_exit_code)

    def look(self, observer: Progress) -> None:
        """Read how far the sweeps are; note that the database is away, and that it is back."""
        try:
            self.sweeps = self.read()
            if self._away_since:
                observer.note("the database answers again")
            self._away_since = None
        except UnreachableStoreError as error:
            if self._away_since is None:
                self._away_since = datetime.now()
                observer.note(f"{error}; since {self._away_since:%H:%M:%S}")

    def read(self) -> list[SweepProgress]:
        """Return the sweeps that the jobs take part in; none before the first job has made the database."""
        try:
            with Store.reading(self.url) as connection:
                found = list_launched(connection, self.name)
                return [each for number in found for each in list_progress(connection, number)]
        except StoreError as error:
            if self.sweeps or isinstance(error, UnreachableStoreError):
                raise
            return []

    def _find_exit_code(self) -> int:
        with Store.reading(self.url) as connection:
            return max(find_exit_code(connection, each.sweep_id) for each in self.sweeps)

    def _sum_up(self) -> tuple[int, int]:
        return sum(each.done for each in self.sweeps), sum(each.planned for each in self.sweeps)

    def describe(self, jobs: Sequence[JobState]) -> Iterator[str]:
        """Yield how many jobs run, since when the database is away, and what each station does."""
        states = [each.state for each in jobs]
        counted = [f"{states.count(state)} {state}" for state in ("running", "waiting", "lost") if state in states]
        reasons = _reasons([each for each in jobs if each.state == "waiting"])
        yield f"jobs: {', '.join(counted) or 'all ended'}{reasons}"
        if self._away_since:
            yield f"the database is away since {self._away_since:%H:%M:%S}"
            return
        for station in (each for sweep in self.sweeps for each in sweep.stations if each.state != "left"):
            job = station.name.partition(" ")[0].rpartition("/")[2]
            yield f"job {job} on {station.host}: {station.doing or station.state}"


def _reasons(jobs: Sequence[JobState]) -> str:
    reasons = dict.fromkeys(each.reason for each in jobs if each.reason not in ("", "None"))
    return f" ({', '.join(reasons)})" if reasons else ""
