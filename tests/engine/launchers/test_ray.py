"""`launch=ray` on a cluster that runs: three nodes on this host, as `ray start` begins them, in another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.engine.launchers.conftest import Launch
from tests.engine.launchers.test_slurm import find_port

pytest.importorskip("ray", reason="Ray is missing: pip install 'cuprof[ray]'")
SMALL = ["--num-cpus=1", "--object-store-memory=80000000", "--block", "--disable-usage-stats"]


class Cluster:
    """Ray's processes, each node in a session of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray"))  # a socket's path may not be longer than 107 bytes
        self.address = f"127.0.0.1:{find_port()}"
        head = ["--head", f"--port={self.address.partition(':')[2]}", "--include-dashboard=false"]
        self.nodes = [self._start(*head, f"--temp-dir={self.folder}")]

    def add_node(self) -> None:
        self.nodes.append(self._start(f"--address={self.address}"))

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("ray")), "start", *options, *SMALL]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)

    def wait_until_ready(self) -> None:
        """Wait for what `ray start` writes once a node has joined."""
        give_up = time.monotonic() + 60
        while (self.folder / "log").read_text().count("Ray runtime started.") < len(self.nodes):
            assert time.monotonic() < give_up, (self.folder / "log").read_text()
            assert self.nodes[-1].poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)

    @staticmethod
    def kill(node: subprocess.Popen[bytes]) -> None:
        """Kill the processes of a node."""
        for process in [*psutil.Process(node.pid).children(recursive=True), psutil.Process(node.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        node.wait()

    def end(self) -> None:
        for node in reversed(self.nodes):
            if node.poll() is None:
                self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    found = Cluster()
    try:
        found.wait_until_ready()
        found.add_node()
        found.wait_until_ready()
        yield found
    finally:
        found.end()
        del os.environ["RAY_AUTH_MODE"]


def test_jobs_start_in_the_project_on_the_cluster_that_runs(cluster: Cluster, launch: Launch) -> None:
    command = launch.start("launch=ray", "launch.jobs=2", f"launch.address={cluster.address}")
    assert command.wait(80) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)], launch.log()


def test_what_the_cluster_lacks_is_bad_input(cluster: Cluster, launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    assert launch.start("launch=ray", "launch.gpus=4").wait(60) == 2
    assert "error: no node of the Ray cluster has what a job takes (1 CPU, 4 GPU); see ray status" in launch.log()


@pytest.mark.slow
def test_a_worker_and_a_node_may_be_lost(cluster: Cluster, launch: Launch) -> None:
    words = ["launch=ray", "launch.jobs=2", f"launch.address={cluster.address}", "launch.options.max_retries=0"]
    command = launch.start(*words, settle_s=1.0)
    launch.wait_until(lambda: launch.runs() > 0)
    cluster.kill(cluster.nodes[1])
    assert command.wait(120) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)], launch.log()
    assert "complete; 1 of 2 jobs was lost" in launch.log()


def end_jobs(launch: Launch, command: subprocess.Popen[bytes]) -> None:
    """Kill the jobs that have outlived Ray's worker; they would finish the sweep."""
    for process in psutil.process_iter(["cwd", "ppid"]):
        if process.info["cwd"] == str(launch.root) and command.pid not in (process.pid, process.info["ppid"]):
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.mark.slow
def test_without_its_head_the_command_ends_and_the_next_one_goes_on(launch: Launch) -> None:
    """The head has a node of its own here, so that the jobs end with it."""
    lonely = Cluster()
    try:
        lonely.wait_until_ready()
        command = launch.start("launch=ray", f"launch.address={lonely.address}", settle_s=1.0)
        launch.wait_until(lambda: launch.runs() > 0)
        lonely.kill(lonely.nodes[0])
        end_jobs(launch, command)
        assert command.wait(150) == 1, launch.log()
    finally:
        lonely.end()
    assert "the same command goes on where they stopped" in launch.log(), launch.log()
    assert launch.start(settle_s=1.0).wait(60) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)], launch.log()
