"""A search strategy, a launcher and a back end of an installed package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Result

Cli = Callable[..., Result]
SWEEP = ("sweep", "family=steps", "measure=quick", "measure.modes=[cold]", "report=none")


def test_a_strategy_is_chosen_by_its_name_and_asked(cuprof: Cli) -> None:
    words = ("variants=host", "tune.step=all", "search=backwards", "search.trials=2", "search.finalists=2")
    done = cuprof(*SWEEP, *words)
    assert done.exit_code == 0, done.err
    tried = cuprof("query", "--format=csv", "SELECT t.tunables FROM run AS r JOIN trial AS t ON t.id = r.trial_id").out
    assert {int(step) for step in re.findall(r"step\W+(\d)", tried)} == {7, 8}


def test_a_launcher_starts_the_jobs_and_later_ones_find_the_sweep_complete(cuprof: Cli, tmp_path: Path) -> None:
    done = cuprof(*SWEEP, "variants=host", "launch=queue", "launch.jobs=2")
    assert done.exit_code == 0, done.err
    assert "2 jobs started by queue" in done.err
    first, later = sorted(tmp_path.glob("db/jobs/*/*"))
    assert "sweep 1 is complete already" not in first.read_text()
    assert "sweep 1 is complete already" in later.read_text()
    assert cuprof("query", "--format=csv", "SELECT COUNT(*) AS n FROM sweep").out.split() == ["n", "1"]


@pytest.mark.own_workers
def test_variants_of_a_back_end_are_checked_timed_and_listed(cuprof: Cli) -> None:
    assert "abacus" in cuprof("list", "devices").out
    done = cuprof(*SWEEP, "variants=beads", "device.backends=[abacus]", "measure.timer=cupti")
    assert done.exit_code == 0, done.err
    assert "measure.timer has no effect on abacus variants" in done.err
    query = "SELECT v.backend, r.state FROM run AS r JOIN trial AS t ON t.id = r.trial_id "
    found = cuprof("query", "--format=csv", query + "JOIN variant AS v ON v.id = t.variant_id")
    assert "abacus,ok" in found.out, (found, done)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("launch=queu", "unknown launch 'queu': did you mean queue?"),
        ("search=backward", "unknown search 'backward': did you mean backwards?"),
    ],
)
def test_a_name_is_among_the_nearest(cuprof: Cli, word: str, message: str) -> None:
    assert cuprof("sweep", "experiment=reduction", word) == Result(2, "", f"error: {message}\n")


def test_a_strategys_configuration_is_shown_like_any_other(cuprof: Cli) -> None:
    done = cuprof("sweep", "experiment=reduction", "search=backwards", "--cfg", "job", "-p", "search")
    assert done.out.startswith("# @package search\nname: backwards\nbudget: ''\n")


@pytest.mark.parametrize(("typed", "completed"), [("search=back", "search=backwards"), ("launch=q", "launch=queue")])
def test_a_name_is_completed(cuprof: Cli, monkeypatch: pytest.MonkeyPatch, typed: str, completed: str) -> None:
    monkeypatch.setenv("COMP_LINE", f"cuprof sweep {typed}")
    assert cuprof("-sc", "query=bash") == Result(0, f"{completed}\n", "")
