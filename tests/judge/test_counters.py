"""Counters of what was compared, from a stand-in for ncu that plays recorded runs; what is not counted is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.cli.judge import report_parts
from cuprof.cli.output import to_text
from cuprof.config.model import NcuConfig, SweepConfig
from cuprof.core.errors import ProfilerError
from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import Conditions, Measure
from cuprof.engine.observer import Observer
from cuprof.families.candidate import Extension
from cuprof.families.origin import Folder
from cuprof.judge.ahead import Ahead
from cuprof.judge.contenders import Contender
from cuprof.judge.counters import Counting
from cuprof.judge.legs import Course
from cuprof.judge.report import Candidate, Counter, Report, Row, Ruling, as_data
from cuprof.statistics.verdict import Judgement, Verdict
from tests.ncu.conftest import FakeNcu, MemoryStore

BASE, NEW, OTHER = "2" * 32, "d" * 32, "1" * 32
"""The first two are in the recorded runs."""
THROUGH = {"all": ["preparing", "launching", "done"]}
SLOWER = Judgement(Verdict.SLOWER, 2.0, 1.9, 2.1, True, 0.05)


class Bench:
    """Candidates that have been judged, and their counting."""

    def __init__(self, ncu: FakeNcu, store: MemoryStore, folder: Path, make: Any) -> None:
        self.ncu, self.folder, self.make, self.notes = ncu, folder, make, list[str]()
        asked = NcuConfig(path=str(ncu.path), metrics=("launch__grid_size", "gpu__time_duration.sum"))
        config = SweepConfig(experiment="", family="scale", ncu=asked)
        any_family: Any = None
        none: Any = None
        ahead = Ahead(config, any_family, {}, none, none, [])
        self.course = Course(ahead, Project(folder / "project"), store, none, Observer())  # type: ignore[arg-type]

    def judged(self, name: str, identity: str = NEW, **changes: Any) -> tuple[Contender, Candidate]:
        file = self.folder / name
        trial = self.make(identity, variant=file.stem, **{k: v for k, v in changes.items() if k == "backend"})
        contender = Contender(
            file.stem, trial.backend, Folder(self.folder / "copy"), (trial,),
            changes.get("runs_on_host", file.suffix == ".py"), Extension(name, self.folder, "v1"), file,
        )  # fmt: skip
        rows = tuple(Row(trial.problem, each, 1.0, 2.0, SLOWER, (BASE, identity)) for each in Measure)
        return contender, Candidate(str(file), file.stem, trial.backend, "v1", "", Ruling.NOT_FASTER, rows)

    def count(self, *judged: tuple[Contender, Candidate], may_run_host_code: bool = False) -> list[Candidate]:
        counting = Counting(self.course, self.folder / "artifacts", may_run_host_code, self.notes)
        trials = self.make(OTHER), self.make(BASE)
        bases = {
            (name, on_host): Contender("v2", name, Folder(self.folder / "family"), trials, on_host)
            for name in ("cuda", "opencl")
            for on_host in (False, True)
        }
        return counting.count(judged, bases)


@pytest.fixture
def bench(fake_ncu: FakeNcu, memory_store: MemoryStore, tmp_path: Path, make_trial: Any) -> Bench:
    """Return a bench on which nothing has been counted."""
    return Bench(fake_ncu, memory_store, tmp_path, make_trial)


def test_baseline_and_candidate_stand_beside_each_other(bench: Bench) -> None:
    bench.ncu.plays(
        {"console": "", "report": "instructions", "progress": THROUGH},
        {"console": "", "report": "memory_cold", "progress": THROUGH},
    )
    (counted,) = bench.count(bench.judged("mine.cu"))
    assert bench.notes == []
    assert counted.ruling is Ruling.NOT_FASTER
    assert counted.counters == (
        Counter(Point(n=1024), "launch__grid_size", "", 256.0, 1056.0),
        Counter(Point(n=1024), "gpu__time_duration.sum", "ns", 5472.0, 6432.0),
    )
    base, new = bench.ncu.tasks
    assert [each["identity"] for each in (*base["trials"], *new["trials"])] == [
        BASE,
        NEW,
    ]  # the baseline's other one is not compared
    assert (base["origin"], base["extension"]) == ({"type": "Folder", "path": str(bench.folder / "family")}, None)
    extension = {"file": "mine.cu", "beside": str(bench.folder), "like": "v1", "only": ""}
    assert (new["origin"]["path"], new["extension"]) == (str(bench.folder / "copy"), extension)
    kept = [profile.artifact.path for profile in bench.course.store.profiles]  # type: ignore[attr-defined]
    assert sorted(kept) == sorted(path.name for path in (bench.folder / "artifacts").iterdir())
    assert not (bench.folder / "project").exists()
    shown = to_text(report_parts(Report("scale", (counted,), "", conditions=Conditions("cold"))), 120).splitlines()
    assert any(line.split() == ["gpu__time_duration.sum", "n=1024", "5,472", "6,432", "ns"] for line in shown)
    assert "counters with cold caches" in shown
    data = as_data(Report("scale", (counted,), "", conditions=Conditions("cold", "none", "kernel")))
    assert data["counters"] == {"cache_mode": "cold", "clock_control": "none", "replay": "kernel"}
    assert data["candidates"][0]["counters"][0] == {
        "problem": {"n": 1024}, "metric": "launch__grid_size", "unit": "", "base": 256.0, "new": 1056.0,
    }  # fmt: skip


def test_one_baseline_is_profiled_once_and_a_candidate_that_fails_leaves_the_others_theirs(bench: Bench) -> None:
    failing = {"all": ["preparing", "failed:no kernel named scale"]}
    bench.ncu.plays(
        {"console": "", "report": "instructions", "progress": THROUGH},
        {"console": "", "progress": failing, "exit": 0},
        {"console": "", "report": "memory_cold", "progress": THROUGH},
    )
    broken, whole = bench.count(bench.judged("broken.cu", "e" * 32), bench.judged("mine.cu"))
    assert (broken.counters, broken.ruling) == ((), Ruling.NOT_FASTER)
    assert whole.counters[0].new == 1056.0
    (note,) = bench.notes
    assert "no counters of " in note
    assert "no kernel named scale" in note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "its own code would run under Nsight Compute, outside the sandbox; --sandbox=off allows it"),
        ({"backend": "opencl"}, "opencl variants have no hardware counters"),
    ],
)
def test_what_is_not_counted_is_said_in_one_line(bench: Bench, changes: dict[str, Any], reason: str) -> None:
    (counted,) = bench.count(bench.judged("mine.py", **changes))
    assert counted == replace(counted, counters=())
    assert bench.ncu.calls == []
    (note,) = bench.notes
    assert "mine.py (mine): " in note
    assert reason in note


def test_a_source_with_host_code_is_treated_as_a_python_file(bench: Bench) -> None:
    (counted,) = bench.count(bench.judged("mine.cu", runs_on_host=True))
    assert not counted.counters
    assert "--sandbox=off allows it" in bench.notes[0]


def test_without_a_sandbox_a_python_file_is_counted(bench: Bench) -> None:
    bench.ncu.plays(
        {"console": "", "report": "instructions", "progress": THROUGH},
        {"console": "", "report": "memory_cold", "progress": THROUGH},
    )
    (counted,) = bench.count(bench.judged("mine.py"), may_run_host_code=True)
    assert counted.counters
    assert bench.notes == []


def test_an_ncu_that_fails_costs_the_counters_alone(bench: Bench) -> None:
    failing = {"recording": "other_profiler"}
    bench.ncu.plays(failing, failing)
    (counted,) = bench.count(bench.judged("mine.cu"))
    assert (counted.ruling, counted.counters) == (Ruling.NOT_FASTER, ())
    assert all(note.startswith("no counters of ") and "\n" not in note for note in bench.notes)
    assert len(bench.notes) == 2


def test_an_ncu_that_is_not_there_is_said_before_anything_is_timed(court: Any) -> None:
    file, kept = court.write("mine.py", ""), court.folder / "kept.sqlite"
    ncu = NcuConfig(path="/nowhere", metrics=("launch__grid_size",))
    with pytest.raises(ProfilerError, match=r"ncu\.path=/nowhere is not a program"):
        court.judge(file, ncu=ncu, counters=True, database=kept)
    assert not kept.exists()
