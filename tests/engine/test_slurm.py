"""What Slurm is handed by `hydra/launcher=submitit_slurm`, held against Slurm itself: a cluster of this one host.

`pytest -m slow tests/engine/test_slurm.py` wants Debian's packages slurmctld, slurmd, slurm-client and munge, no daemon
that runs already and no accounting.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuprof.results.queries import query

FAMILIES = Path(__file__).parents[1] / "data" / "families"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "srun")
CONFIGURATION = """
ClusterName=cuprof
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
TaskPlugin=task/none
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES State=UP
"""
TESTED = """#!/bin/sh
for last; do :; done
cp "$last" {folder}/script
{sbatch} --test-only "$@" > {folder}/verdict 2>&1
echo "exit code $?" >> {folder}/verdict
exec {sbatch} "$@"
"""
"""Stands in for sbatch: what it is handed is tested, kept and then submitted."""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a cluster of one host, with two GPUs that nobody opens."""
    os.environ["PATH"] += ":/usr/sbin"
    found = {program: shutil.which(program) for program in PROGRAMS}
    if None in found.values():
        pytest.skip(f"not installed: {', '.join(name for name, place in found.items() if place is None)}")
    folder = Path(tempfile.mkdtemp(prefix="slurm"))  # a socket's path may not be longer than 107 bytes
    munge, host = folder / "munge", socket.gethostname().partition(".")[0]
    munge.mkdir(0o700)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    ports = (find_port(), find_port())
    text = CONFIGURATION.format(folder=folder, host=host, user=getpass.getuser(), ports=ports)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "sbatch").write_text(TESTED.format(folder=folder, sbatch=found["sbatch"]))
    (folder / "bin" / "sbatch").chmod(0o755)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    files = (f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed"))
    call = {"check": True, "capture_output": True, "timeout": 30}
    daemons = {"munged": munge / "pid", "slurmctld": folder / "slurmctld.pid", "slurmd": folder / "slurmd.pid"}
    try:
        subprocess.run(["munged", "--force", f"--socket={munge / 'socket'}", *files], **call)
        for daemon in ("slurmctld", "slurmd"):
            subprocess.run([daemon], **call)
        give_up = time.monotonic() + 30
        while b"State=IDLE" not in subprocess.run(["scontrol", "show", "node"], **call).stdout:
            assert time.monotonic() < give_up, subprocess.run(["scontrol", "show", "node"], **call).stdout.decode()
            time.sleep(0.2)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        yield folder
    finally:
        for file in reversed(daemons.values()):
            if file.exists():
                subprocess.run(["kill", file.read_text().strip()], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_slurm_takes_the_script_that_it_is_handed_and_its_jobs_share_one_sweep(tmp_path: Path, slurm: Path) -> None:
    pytest.importorskip(
        "hydra_plugins.hydra_submitit_launcher", reason="the launcher is missing: pip install cuprof[slurm]"
    )
    (tmp_path / "cuprof.toml").touch()
    shutil.copytree(FAMILIES / "restless", tmp_path / "kernels" / "restless")
    options = {"partition": "gpu", "gpus_per_node": 1, "cpus_per_task": 2, "timeout_min": 120}
    command = [
        *(sys.executable, "-m", "cuprof", "sweep", "family=restless", "variants=plain", "problem.n=1,2,3,4,5,6"),
        *("node=0,1", "hydra/launcher=submitit_slurm", "measure.modes=[cold]", "measure.flush=none", "measure=quick"),
        *(f"hydra.launcher.{name}={value}" for name, value in options.items()),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=80)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict, script = (slurm / "verdict").read_text(), (slurm / "script").read_text()
    assert re.search(r"Job \d+ to start at", verdict), verdict
    assert "exit code 0" in verdict
    asked = set(re.findall(r"^#SBATCH (\S+)", script, re.M))
    assert {"--partition=gpu", "--gpus-per-node=1", "--cpus-per-task=2", "--time=120", "--array=0-1%2"} <= asked
    url = f"sqlite:///{tmp_path / 'db' / 'cuprof.sqlite'}"
    (row,) = query(url, "SELECT COUNT(*), COUNT(DISTINCT sweep_id), COUNT(DISTINCT trial_id) FROM run").to_numpy()
    assert tuple(row) == (6, 1, 6)
