"""The progress that the command which launched jobs shows for all of them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cuprof.cli.launching import Launch, make_work
from cuprof.cli.progress import Progress
from cuprof.config.composer import compose
from cuprof.core.errors import UnreachableStoreError
from cuprof.core.project import Project
from cuprof.engine.launchers.launcher import JobState
from cuprof.results.progress import Progress as SweepProgress
from cuprof.results.progress import StationRow

JOBS = [JobState("running"), JobState("running"), JobState("waiting", reason="Resources"), JobState("lost")]


def at_work(job: int, doing: str) -> StationRow:
    return StationRow(f"a1b2c3/{job} cuda:0 (H200)", f"node{job}", 7, doing, 3, 1.0, "working")


def make_launch() -> Launch:
    launch = Launch("a1b2c3", 1, "postgresql://db.example/cuprof")
    stations = (at_work(0, "time: one"), at_work(1, ""))
    launch.sweeps = [SweepProgress(4, "study", "running", False, 96, 48, 0, 0, 0, 0, 9.0, None, stations, ())]
    return launch


def test_it_says_how_many_jobs_run_and_what_each_does() -> None:
    assert list(make_launch().describe(JOBS)) == [
        "jobs: 2 running, 1 waiting, 1 lost (Resources)",
        "job 0 on node0: time: one",
        "job 1 on node1: working",
    ]


def test_it_says_since_when_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    launch, notes = make_launch(), []

    class Noted(Progress):
        def note(self, text: str) -> None:
            notes.append(text)

    def be_away() -> None:
        raise UnreachableStoreError("database db.example cannot be reached")

    monkeypatch.setattr(launch, "read", be_away)
    for _ in range(2):
        launch.look(Noted(io.StringIO()))
    assert len(notes) == 1
    assert notes[0].startswith("database db.example cannot be reached; since ")
    assert list(launch.describe(JOBS))[1].startswith("the database is away since ")
    monkeypatch.setattr(launch, "read", lambda: launch.sweeps)
    launch.look(Noted(io.StringIO()))
    assert notes[1] == "the database answers again"


def test_a_job_runs_the_command_without_the_words_on_launching(project: Project) -> None:
    config = compose(["launch=slurm", "launch.jobs=4", "launch.options.mem=8G"], project)
    assert config.launch.options == {"mem": "8G"}
    words = [
        "sweep",
        "experiment=reduction",
        "launch=slurm",
        "launch.jobs=4",
        "+launch.options.mem=8G",
        "tune.block=64",
    ]
    work = make_work("a1b2c3", words, config, project)
    assert work.folder == Path.cwd()
    given = work.words_of(3)
    assert given[:5] == ["-m", "cuprof", "sweep", "experiment=reduction", "tune.block=64"]
    assert {"launch=local", "launch.job=a1b2c3/3", "exit=done"} <= set(given)
