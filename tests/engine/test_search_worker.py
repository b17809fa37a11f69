"""Searches through a real worker: what is stored, what goes on, and what is put off while a compiler works."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuprof.cli import best
from cuprof.cli.output import to_text
from cuprof.cli.status import status_parts
from cuprof.config.model import MeasureConfig, SearchConfig, SweepConfig
from cuprof.core.errors import StoreError
from cuprof.core.project import find_project
from cuprof.core.records import Outcome, Trial
from cuprof.engine.executor import Executor
from cuprof.engine.running import run_sweep
from cuprof.report.load import load_study
from cuprof.results.progress import list_progress
from cuprof.results.queries import query
from cuprof.store.store import Store
from cuprof.worker.messages import Job
from tests.engine.conftest import FAMILIES, Listener
from tests.engine.search_bench import FOLDER


def test_a_search_through_a_worker_stores_what_it_tried_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "cuprof.toml").write_text("")
    shutil.copytree(FOLDER, tmp_path / "kernels" / "searchable")
    config = SweepConfig(
        experiment="",
        family="searchable",
        measure=MeasureConfig(modes=("cold",), max_seconds=0.01, max_samples=20, settle_seconds=0.0, flush="none"),
        search=SearchConfig(name="surrogate", trials=6, seed=1),
    )
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    config = replace(config, store=replace(config.store, url=url), composed={"search": {"name": "surrogate"}})
    project, broken = find_project(tmp_path), _Repeats(most=3)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(config, project, broken)
    again = _Repeats()
    result = run_sweep(config, project, again)
    assert result.exit_code == 0
    assert "search: 3 of 96 configurations are stored already" in again.notes
    frame = query(url, f"SELECT COUNT(*) AS tried FROM sweep_trial WHERE sweep_id = {result.sweep_id}")
    assert int(frame["tried"][0]) == 6
    latest = "SELECT MAX(run.id) FROM run WHERE run.trial_id = sweep_trial.trial_id"
    frame = query(url, f"SELECT COUNT(run_id) AS runs, SUM(run_id = ({latest})) AS latest FROM sweep_trial")
    assert (int(frame["runs"][0]), int(frame["latest"][0])) == (6, 6), "the sweep goes by the last look at each"
    frame = query(url, "SELECT COUNT(*) AS looks FROM run")
    assert int(frame["looks"][0]) > 6
    assert again.before == 3
    with Store.open(url) as store, store.snapshot() as connection:
        (found,) = list_progress(connection)
    looks = query(url, "SELECT COUNT(*) AS looks FROM run GROUP BY trial_id")["looks"]
    assert (found.is_search, found.done, found.looked_again) == (True, 6, sum(looks > 1))
    told = f"6 tried, {found.looked_again} timed again"
    assert f"finished, {told}, " in to_text(status_parts([found]), 200)
    with Store.open(url) as store:
        assert load_study(store, sweep_id=result.sweep_id).size == told
    sweeps = query(url, "SELECT COUNT(*) AS sweeps, MAX(state) AS state FROM sweep")
    assert (int(sweeps["sweeps"][0]), sweeps["state"][0]) == (1, "finished"), "the interrupted one went on"

    header = tmp_path / "choose.h"
    assert not best.main_portfolio(["searchable", "--store", url, "--header", str(header)])
    assert re.search(r"1 configuration keeps 1 problem on .* within 5%\n", capsys.readouterr().out)
    if shutil.which("cc"):
        main = f'#include "{header.name}"\nint main(void) {{ return searchable_pick(64)->width != BEST; }}\n'
        (tmp_path / "it.c").write_text(main)
        widest = int(re.findall(r'"waiting", (\d+)', header.read_text())[0])
        subprocess.run(["cc", "-Wall", "-Werror", f"-DBEST={widest}", "it.c", "-lm"], cwd=tmp_path, check=True)
        assert subprocess.run([tmp_path / "a.out"], check=False).returncode == 0
    with pytest.raises(StoreError, match=r"no/folder/choose\.h cannot be written"):
        best.main_portfolio(["searchable", "--store", url, "--header", "/no/folder/choose.h"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_what_a_compiler_works_on_for_long_is_rated_later_and_nothing_of_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUPROF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("cuprof.engine.executor.is_host", lambda device: False)  # as if the programs ran on a GPU
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    building: list[int] = []
    measure = Executor.measure

    def watch(executor: Executor, job: Job) -> Iterator[Outcome]:
        if job.measure.max_samples == 5:
            assert all(trial.identity in executor.built for trial in job.trials), "only what is built is rated"
            building.append(len(executor.building))
        return measure(executor, job)

    monkeypatch.setattr(Executor, "measure", watch)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "cuprof.toml").write_text("")
    shutil.copytree(FAMILIES / "slow_builds", tmp_path / "kernels" / "slow_builds")
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    config = SweepConfig(
        experiment="",
        family="slow_builds",
        measure=MeasureConfig(modes=("cold",), max_seconds=0.01, max_samples=20, settle_seconds=0.0, flush="none"),
        search=SearchConfig(name="surrogate", seed=1, trials=10),
    )
    config = replace(config, store=replace(config.store, url=url), composed={"search": {"name": "surrogate"}})
    assert run_sweep(config, find_project(tmp_path), _Repeats()).exit_code == 0
    frame = query(url, "SELECT m.run_id, r.state FROM sweep_trial AS m LEFT JOIN run AS r ON r.id = m.run_id")
    assert ({*frame["state"]}, len(frame)) == ({"ok"}, 10)
    assert len(query(url, "trials")) == len(frame)
    assert any(building), "some were compiled while others were timed"
    assert query(url, "SELECT job, trial_id FROM run GROUP BY job, trial_id HAVING COUNT(*) > 1").empty


class _Repeats(Listener):
    """A search looks at a trial more than once; it may be interrupted after some."""

    def __init__(self, most: int = 10**6) -> None:
        super().__init__()
        self.most, self.before, self.looked = most, 0, 0

    def started(self, planned: int | None, stored: Collection[str]) -> None:
        assert planned is None
        self.before = len(stored)

    def trial_finished(self, trial: Trial, outcome: Outcome) -> None:
        self.outcomes[trial.label] = outcome
        self.looked += 1
        if len(self.outcomes) == self.most:
            raise KeyboardInterrupt
