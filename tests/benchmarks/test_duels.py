"""Duels whose outcome is known: how they are rated, and a few of them on the host."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import duels
from cuprof.config.model import LimitsConfig, MeasureConfig, SearchConfig, SweepConfig
from cuprof.core.point import Point
from cuprof.core.project import Project
from cuprof.core.records import Trial
from cuprof.engine.executor import Executor
from cuprof.search.standing import Standing
from cuprof.statistics.verdict import Judgement, Verdict
from cuprof.worker.messages import WorkerSettings
from tests.benchmarks.test_aa_ab import FAMILY, SteadyExecutor


@pytest.fixture
def trials(tmp_path: Path) -> list[Trial]:
    with Executor(WorkerSettings(), LimitsConfig()) as runner:
        return list(make_ring(tmp_path, runner).prepare([0, 300_000]).plan.trials)


def make_ring(folder: Path, runner: Executor) -> duels.Ring:
    (folder / "kernels" / "pair").mkdir(parents=True)
    text = FAMILY.replace("(0, 500_000)", "tuple(range(0, 1_000_001, 100_000))")
    (folder / "kernels" / "pair" / "family.py").write_text(text)
    bounds = {"max_samples": 40, "max_seconds": 600.0, "patience_seconds": 600.0}
    settings = MeasureConfig(modes=("cold",), settle_seconds=0.0, flush="none", **bounds)
    config = SweepConfig(
        experiment="",
        family="pair",
        variants=("other",),
        measure=settings,
        search=SearchConfig(name="random", effect=0.05),
    )
    return duels.Ring(runner, config, Project(folder))


def end(best: Trial | None, other: Trial, verdict: str) -> Any:
    judgement = Judgement(Verdict(verdict), 1.0, 0.99, 1.01, True, 0.05)
    standing = Standing(best.identity if best else "", {other.identity: judgement})
    return SimpleNamespace(best=best, standing=standing)


@pytest.mark.parametrize(
    ("verdict", "counts"), [("same", "level with it"), ("undecided", "undecided"), ("slower", "wrong")]
)
def test_a_winner_that_is_not_the_best_is_right_if_it_is_level_with_it(
    trials: list[Trial], verdict: str, counts: str
) -> None:
    best, other = trials
    assert duels.rate(best.identity, end(best, other, verdict)) == "best wins"
    assert duels.rate(best.identity, end(other, best, verdict)) == counts
    assert duels.rate(best.identity, end(None, other, "same")) == "wrong"


def test_a_duel_on_the_host_finds_the_one_that_waits_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duels, "SLOWER", (0.0, 1.0, 3.0))
    with SteadyExecutor(WorkerSettings(), LimitsConfig()) as runner:
        ring = make_ring(tmp_path, runner)
        trials = list(ring.prepare([0, 200_000, 600_000]).plan.trials)
        fought = [ring.fight(ring.prepare([0, 200_000, 600_000]), trials[::-1], 10_000.0) for _ in range(2)]
    row = duels.make_row(trials, 0.05, fought)
    assert (row["best wins"], row["wrong"], row["slow ones beaten %"]) == (2, 0, 100)
    assert [ratio > 1 for ratio in map(float, row["as measured"].split())] == [False, True, True]
    assert trials[0].tunables == Point(spin_ns=0)


def test_the_script_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        duels.main(["--help"])
    assert "--effects" in capsys.readouterr().out
