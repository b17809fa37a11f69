"""`launch=slurm` on a real Slurm: a cluster of this one host, without accounting.

It needs Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.launchers.conftest import Launch

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
SelectTypeParameters=CR_CPU
TaskPlugin=task/none
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:2 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=gpu Nodes=ALL Default=YES State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 State=UP
"""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a cluster of one host, with two GPUs that nobody opens."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
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


def test_jobs_share_one_sweep_and_take_what_was_asked_for(slurm: Path, launch: Launch) -> None:
    options = ["launch.partition=gpu", "launch.gpus=1", "launch.time=120", "launch.options.cpus_per_task=2"]
    command = launch.start("launch=slurm", "launch.jobs=2", *options, settle_s=0.2)
    launch.wait_until(lambda: launch.runs() > 0)
    shown = subprocess.run(["scontrol", "show", "job"], capture_output=True, text=True, check=True).stdout
    assert command.wait(60) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)], launch.log()
    assert {"Partition=gpu", "TimeLimit=02:00:00", "CPUs/Task=2", f"WorkDir={launch.root}"} <= set(shown.split())
    assert "gpu:1" in shown
    assert len(list(launch.root.glob("reports/out/*.html"))) == 1


def test_what_slurm_refuses_is_bad_input(slurm: Path, launch: Launch) -> None:
    assert launch.start("launch=slurm", "launch.jobs=2", "launch.partition=nowhere").wait(60) == 2
    last = launch.log().splitlines()[-1]
    assert last.startswith("error: Slurm refuses the jobs: sbatch: error: invalid partition specified: nowhere")


@pytest.mark.parametrize(
    "how", ["cancelled", *(pytest.param(how, marks=pytest.mark.slow) for how in ("requeued", "preempted", "timed out"))]
)
def test_the_command_ends_when_the_sweep_is_complete(slurm: Path, launch: Launch, how: str) -> None:
    command = launch.start("launch=slurm", "launch.jobs=2", "launch.partition=gpu", settle_s=0.5)
    launch.wait_until(lambda: launch.runs() > 0)
    task = list_tasks()[0]
    if how == "cancelled":
        subprocess.run(["scancel", "--signal=KILL", task], check=True)
    elif how == "requeued":
        subprocess.run(["scontrol", "requeue", task], check=True)
    elif how == "preempted":  # of the eight CPUs two are taken
        urgent = ["sbatch", "--partition=urgent", "--cpus-per-task=7", "--wrap=true", "--output=/dev/null"]
        subprocess.run(urgent, check=True)
    else:
        subprocess.run(["scontrol", "update", f"JobId={task}", "EndTime=now+1"], check=True)
    assert command.wait(90) == 0, launch.log()
    assert launch.sweeps() == [("finished", launch.trials, launch.trials)], launch.log()
    assert ("complete; 1 of 2 jobs was lost" in launch.log()) == (how != "requeued"), launch.log()
    reason = {"preempted": "PREEMPTED", "timed out": "TIMEOUT"}.get(how, "")
    assert reason in launch.log(), launch.log()


@pytest.mark.slow
def test_the_command_ends_when_no_job_is_left(slurm: Path, launch: Launch) -> None:
    command = launch.start("launch=slurm", "launch.jobs=2", "launch.partition=gpu", settle_s=2.0)
    launch.wait_until(lambda: launch.runs() > 0 and len(list_tasks()) == 2)
    subprocess.run(["scancel", *list_tasks()], check=True)
    assert command.wait(60) == 1, launch.log()
    assert "left; 2 of 2 jobs were lost (CANCELLED); the jobs' output is in " in launch.log()


def list_tasks() -> list[str]:
    """Return the tasks of the array that run."""
    call = ["squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i"]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
