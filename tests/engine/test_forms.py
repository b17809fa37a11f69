"""The family of all forms in one sweep: those of the host here, all of them where there is a GPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuprof.core.project import Project
from cuprof.families.toolchain import get_compiler

FORMS = Path(__file__).parents[1] / "data" / "families" / "forms"


@pytest.fixture
def sweep(project: Project, cli: Callable[..., Any]) -> Callable[..., dict[str, list[dict[str, Any]]]]:
    """Return a function that sweeps variants of the family and returns the trials of each."""
    shutil.copytree(FORMS, project.root / "kernels" / "forms")

    def run(*settings: str) -> dict[str, list[dict[str, Any]]]:
        found = cli("sweep", "family=forms", "problem.n=4096", "measure=quick", "output=json", "report=none", *settings)
        trials: dict[str, list[dict[str, Any]]] = {}
        for trial in json.loads(found.out)["trials"]:
            trials.setdefault(trial["variant"], []).append(trial)
        return trials

    return run


@pytest.mark.skipif(get_compiler("g++").path is None, reason="g++ is not installed")
def test_libraries_and_executables_of_the_host_are_built_checked_and_timed(sweep: Callable[..., Any]) -> None:
    trials = sweep("variants=[library,host_program]", "tune.factor=2,3", "measure.modes=[cold,total]")
    states = [(trial["tunables"], trial["state"]) for trial in trials["library"]]
    assert states == [({"factor": 2}, "ok"), ({"factor": 3}, "wrong_result")]
    (program,) = trials["host_program"]
    assert (program["state"], program["backend"]) == ("ok", "program")
    assert program["total_ns"] > 1e5
    assert program["cold_ns"] > 1e5


@pytest.mark.gpu
@pytest.mark.slow
def test_every_form_is_right_on_a_gpu(sweep: Callable[..., Any]) -> None:
    trials = [trial for each in sweep("variants=all", "measure.modes=[cold]").values() for trial in each]
    assert {trial["variant"]: trial["message"] for trial in trials if trial["state"] not in ("ok", "skipped")} == {}
    skipped = [trial["message"] for trial in trials if trial["state"] == "skipped"]
    assert all("not installed" in message for message in skipped)
    assert len(skipped) < len(trials) / 2
