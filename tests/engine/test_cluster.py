"""Several processes do one sweep, in one database; some of them are killed at random moments.

`pytest -m slow tests/engine/test_cluster.py` kills a hundred, also of nodes that launchers start, on PostgreSQL;
CUPROF_SEED chooses other moments, CUPROF_KILLS how many, CUPROF_SIZES how many problems.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from tests.conftest import Result

FAMILIES = Path(__file__).parents[1] / "data" / "families"
SEED = int(os.environ.get("CUPROF_SEED", "1"))
VARIANTS = 2
POSTGRES = Path(__file__).parents[1] / "store"


class Cluster:
    """A project, a database, and the processes that sweep into it."""

    def __init__(self, root: Path, url: str, sizes: int) -> None:
        self.root, self.url, self.sizes = root, url, sizes
        (root / "tmp").mkdir(parents=True)
        (root / "cuprof.toml").touch()
        shutil.copytree(FAMILIES / "restless", root / "kernels" / "restless")
        self.short = tempfile.mkdtemp(prefix="ray")  # Ray makes sockets below, whose paths have at most 107 bytes
        own = {"TMPDIR": str(root / "tmp"), "CUPROF_LOCKS": str(root / "locks"), "RAY_TMPDIR": self.short}
        self.environment = {**os.environ, **own}
        self.engine = sa.create_engine(url)
        self.begun: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, settle_s: float = 0.05) -> subprocess.Popen[bytes]:
        """Start the one sweep in a process more."""
        command = [
            *(sys.executable, "-m", "cuprof", "sweep", "family=restless", f"store.url='{self.url}'"),
            *(
                f"problem.n={','.join(map(str, range(1, self.sizes + 1)))}",
                "measure.modes=[cold]",
                "measure.flush=none",
            ),
            *("measure.target=0.5", "measure.min_samples=3", "measure.max_samples=6"),
            *(f"measure.settle_seconds={settle_s}", *words),
        ]
        with (self.root / "log").open("a") as log:
            self.begun.append(
                subprocess.Popen(
                    command, cwd=self.root, env=self.environment, stdout=log, stderr=log, start_new_session=True
                )
            )
        return self.begun[-1]

    def alive(self) -> list[subprocess.Popen[bytes]]:
        """Return the processes that have not ended."""
        return [process for process in self.begun if process.poll() is None]

    def read(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a query; none where there are no tables yet."""
        with contextlib.suppress(sa.exc.DatabaseError), self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(sql))]
        return []

    def runs(self) -> int:
        """Return how many runs are stored."""
        return int(str((self.read("SELECT COUNT(*) FROM run") or [(0,)])[0][0]))

    def assert_is_whole(self) -> None:
        """One sweep, each trial once and right, and one page."""
        trials = VARIANTS * self.sizes
        measured = "SELECT COUNT(DISTINCT sweep_id) FROM run"  # who comes late finds nothing left to do
        assert self.read(measured) == [(1,)], self.log()
        assert self.read("SELECT DISTINCT state FROM sweep") == [("finished",)]
        assert self.read("SELECT trial_id FROM run GROUP BY 1 HAVING COUNT(*) > 1") == []
        assert self.read("SELECT state, COUNT(*) FROM run GROUP BY 1") == [("ok", trials)], self.log()
        assert self.read("SELECT COUNT(*) FROM sweep_trial WHERE run_id IS NULL") == [(0,)]
        assert len(list((self.root / "reports" / "out").glob("*.html"))) == 1

    def log(self) -> str:
        """Return the end of what all processes wrote."""
        return (self.root / "log").read_text()[-4000:]

    def end(self) -> None:
        """Leave nothing behind."""
        for process in self.alive():
            os.killpg(process.pid, signal.SIGKILL)
        self.engine.dispose()
        shutil.rmtree(self.short, ignore_errors=True)


@pytest.fixture
def postgres_url() -> Iterator[str]:
    sys.path.insert(0, str(POSTGRES))
    from throwaway_postgres import Server, find_binaries

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) on this machine")
    server = Server(binaries)
    try:
        server.start()
        yield server.make_database("cluster")
    finally:
        server.stop()


@pytest.mark.slow
def test_processes_share_a_sweep_and_take_over_what_a_killed_one_had_claimed(
    tmp_path: Path, cli: Callable[..., Result]
) -> None:
    (tmp_path / "db").mkdir()
    cluster = Cluster(tmp_path, f"sqlite:///{tmp_path / 'db' / 'cuprof.sqlite'}", sizes=12)
    try:
        first = cluster.start()
        others = [cluster.start() for _ in range(2)]
        give_up = time.monotonic() + 120
        while cluster.runs() < 4 and time.monotonic() < give_up:
            time.sleep(0.05)
        (told,) = json.loads(cli("status", "--store", cluster.url, "--json").out)
        assert (told["state"], told["planned"]) == ("running", 2 * cluster.sizes)
        working = {station["process_id"]: station for station in told["stations"] if station["state"] == "working"}
        assert first.pid in working
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        (told,) = json.loads(cli("status", "--store", cluster.url, "--json").out)
        (killed,) = (station for station in told["stations"] if station["process_id"] == first.pid)
        assert killed["state"] in ("gone", "left")
        assert [process.wait(120) for process in others] == [0, 0], cluster.log()
        cluster.assert_is_whole()
        assert "finished, 24 of 24 trials" in cli("status", "--store", cluster.url).out
    finally:
        cluster.end()


LAUNCHERS = {
    "processes": (),
    "joblib": ("launch=joblib", "launch.jobs=4"),
    "ray": ("launch=ray", "launch.jobs=4", "launch.options.num_cpus=0.25"),
}


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_hundred_kills_lose_no_trial_and_measure_none_twice(
    tmp_path: Path, postgres_url: str, launcher: str, record_property: Callable[[str, object], None]
) -> None:
    if launcher != "processes":
        pytest.importorskip(launcher, reason=f"{launcher} is missing: pip install 'cuprof[{launcher}]'")
    chance = random.Random(SEED)
    cluster = Cluster(tmp_path, postgres_url, sizes=int(os.environ.get("CUPROF_SIZES", "600")))
    kills: dict[str, int] = dict.fromkeys(("worker", "node", "connection"), 0)
    try:
        while sum(kills.values()) < int(os.environ.get("CUPROF_KILLS", "100")):
            while len(cluster.alive()) < (1 if LAUNCHERS[launcher] else 4):
                cluster.start(*LAUNCHERS[launcher], settle_s=0.3)
            before, patience = cluster.runs(), time.monotonic() + chance.uniform(1.0, 10.0)
            assert before < VARIANTS * cluster.sizes, f"all was done after {kills}: set CUPROF_SIZES higher"
            while cluster.runs() == before and time.monotonic() < patience:  # most are killed while they measure
                time.sleep(chance.uniform(0.2, 1.0))
            what = chance.choice([*kills])
            kills[what] += kill(cluster, what, chance)
        finish = cluster.start(settle_s=0.3)  # other settings would be another sweep
        for process in cluster.alive():
            process.wait(1200)
        assert finish.returncode == 0, cluster.log()
        cluster.assert_is_whole()
        record_property("kills", kills)  # --junitxml shows it
        assert min(kills.values()) >= sum(kills.values()) // 20, kills
    finally:
        cluster.end()


def kill(cluster: Cluster, what: str, chance: random.Random) -> bool:
    """Kill a worker, a node's process or a connection of the database's server; return whether there was one."""
    if what == "connection":
        ended = cluster.read(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
        )
        return bool(ended)
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        with contextlib.suppress(psutil.Error):
            mine = (process.info["environ"] or {}).get("TMPDIR") == str(cluster.root / "tmp")
            if mine and is_a(process, what):
                found.append(process)
    if not found:
        return False
    with contextlib.suppress(psutil.Error):
        chance.choice(found).kill()
        return True
    return False


def is_a(process: psutil.Process, what: str) -> bool:
    """Return whether a process is a worker, or the process of a node: the parent of a worker's guardian."""
    if "cuprof.worker" in process.cmdline():
        parent = process.parent()
        return what == "worker" and parent is not None and "cuprof.worker" in parent.cmdline()
    return what == "node" and any("cuprof.worker" in child.cmdline() for child in process.children())
