"""Recorded reports, a stand-in for ncu that plays them, and trials that carry the recorded identities."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from cuprof.config.model import NcuConfig
from cuprof.core.point import Point
from cuprof.core.records import Conditions, DeviceFacts, Outcome, Profile, State, StoredProfile, Trial
from cuprof.families.origin import Folder
from cuprof.ncu.executable import NcuExecutable
from cuprof.ncu.metrics import companions
from cuprof.ncu.setting import Setting, make_request, settle

RECORDED = Path(__file__).parent.parent / "data" / "ncu" / "recorded"
STUDY = (
    "launch__grid_dim_z",
    "gpu__dram_throughput.sum.pct_of_peak_sustained_elapsed",
    "launch__shared_mem_per_block_dynamic",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
)
QUESTIONS = """case "$1" in
--version) exec cat "$FAKE_NCU/version.txt" ;;
--query-metrics) exec cat "$FAKE_NCU/query_metrics.txt" ;;
esac
"""
"""What a shell answers: a Python for each question takes ten times as long."""


@pytest.fixture
def recorded() -> Path:
    """Return the folder of recorded reports and console output."""
    return RECORDED


@pytest.fixture
def console() -> Callable[[str], str]:
    """Return what the real ncu printed in a recorded run."""
    return lambda name: (RECORDED / f"{name}.stdout").read_text(encoding="utf-8")


@dataclass
class FakeNcu:
    """Hold the stand-in: where it is, what it will play, and how it was called."""

    folder: Path
    path: Path

    def plays(self, *runs: dict[str, Any]) -> None:
        """Set what the profiling runs do, in turn; `console` and `report` may name recordings."""
        script = []
        for run in runs:
            play = dict(run)
            if "recording" in play:
                name = play.pop("recording")
                play.setdefault("console", (RECORDED / f"{name}.stdout").read_text(encoding="utf-8"))
                play.setdefault("exit", int((RECORDED / f"{name}.exit").read_text()))
            if "report" in play:
                play["report"] = str(RECORDED / f"{play['report']}.ncu-rep")
            script.append(play)
        (self.folder / "script.json").write_text(json.dumps(script))

    @property
    def calls(self) -> list[list[str]]:
        """Return the arguments of each profiling run."""
        return self._read("calls")

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """Return the task of each profiling run."""
        return self._read("tasks")

    def _read(self, name: str) -> list[Any]:
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNcu:
    """Return an executable stand-in in a folder with a hostile name."""
    folder = tmp_path / "it's a “fake” ncu"
    folder.mkdir()
    script = Path(__file__).with_name("fake_ncu.py")
    program = folder / "ncu"
    python = shlex.join([sys.executable, "-I", "-S", str(script)])  # without what a site adds, it starts at once
    program.write_text(f'#!/bin/sh\n{QUESTIONS}exec {python} "$@"\n')
    program.chmod(0o755)
    for name in ("version.txt", "query_metrics.txt"):
        (folder / name).write_bytes((RECORDED / name).read_bytes())
    monkeypatch.setenv("FAKE_NCU", str(folder))
    return FakeNcu(folder, program)


@pytest.fixture
def make_setting(fake_ncu: FakeNcu, tmp_path: Path) -> Callable[..., Setting]:
    """Return a maker of settings that drive the stand-in."""

    def make(metrics: Sequence[str] = STUDY, **changes: Any) -> Setting:
        names = {each.name for each in fields(NcuConfig)} & changes.keys()
        chosen = {"time_limit_s": 60.0, "replay": "kernel", **{name: changes.pop(name) for name in names}}
        asked = settle(NcuConfig(**chosen, metrics=tuple(metrics)))
        given: dict[str, Any] = {
            "executable": NcuExecutable(fake_ncu.path),
            "request": make_request(asked),
            "collection": replace(asked, metrics=(*asked.metrics, *companions(asked.metrics))),
            "find_origin": lambda family: Folder(Path("/families") / family),
            "artifacts": tmp_path / "artifacts",
        }
        return Setting(**{**given, **changes})

    return make


@pytest.fixture
def make_trial() -> Callable[..., Trial]:
    """Return a maker of CUDA trials by identity."""

    def make(identity: str, **changes: Any) -> Trial:
        given: dict[str, Any] = {
            "identity": identity,
            "family": "scale",
            "variant": f"v{identity[0]}",
            "backend": "cuda",
            "kind": "kernel",
            "problem": Point(n=1024),
            "tunables": Point(block=256),
            "label": f"scale/v{identity[0]} · n=2^10 · block=256",
            "device": DeviceFacts("cuda", 0, "NVIDIA H200"),
        }
        return Trial(**{**given, **changes})

    return make


@pytest.fixture
def right() -> Callable[[Sequence[Trial]], dict[str, Outcome]]:
    """Return a maker of outcomes that say that every trial is right."""
    return lambda trials: {trial.identity: Outcome(trial.identity, State.OK) for trial in trials}


@dataclass
class MemoryStore:
    """Keep profiles in memory, by the rules of the store."""

    profiles: list[Profile] = field(default_factory=list)
    stored_before_failure: int = 0

    def profiled(
        self, identities: Sequence[str], conditions: Conditions, metrics: Collection[str]
    ) -> dict[str, StoredProfile]:
        """Return what is stored of the trials that were profiled for these metrics."""
        found: dict[str, StoredProfile] = {}
        for profile in self.profiles:
            identity = profile.identity
            if identity not in identities or profile.conditions != conditions or not set(metrics) <= {*profile.metrics}:
                continue
            if profile.state is State.OK or identity not in found or found[identity].state is not State.OK:
                missing = {name: why for name, why in profile.missing.items() if name in metrics}
                found[identity] = StoredProfile(profile.state, profile.message, missing)
        return found

    def record_profile(self, sweep_id: int | None, profile: Profile) -> int:
        """Keep a profile."""
        self.profiles.append(profile)
        return len(self.profiles)

    def by_identity(self) -> dict[str | None, Profile]:
        """Return the newest profile of each trial."""
        return {profile.identity: profile for profile in self.profiles}


@pytest.fixture
def memory_store() -> MemoryStore:
    """Return an empty store in memory."""
    return MemoryStore()
