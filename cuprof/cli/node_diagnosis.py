"""`cuprof doctor launch=…`: whether a node that jobs will run on has what the sweep needs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuprof import __version__
from cuprof.backends.cuda.presence import find_driver
from cuprof.cli.host_diagnosis import Diagnosis, Health, examine_database
from cuprof.cli.launching import make_work
from cuprof.cli.output import print_message
from cuprof.config import SweepConfig
from cuprof.core.project import MARKER, Project
from cuprof.engine.launchers.launcher import open_launcher
from cuprof.store.connection import database_file, parse_url

POLL_S = 0.5
CLOCK_S = 2.0
"""Clocks that differ by less are level: NTP keeps them within milliseconds, and starting a job takes longer."""
SHARE_FOLDER = "share the folder with the nodes; with Ray, launch.options.runtime_env.working_dir=. uploads it"


def describe_node(url: str) -> dict[str, Any]:
    """Return this process's folder, software, GPUs, database and clock, as plain data."""
    visible, driver = os.environ.get("CUDA_VISIBLE_DEVICES"), find_driver()
    gpus = [gpu.name for gpu in driver.gpus] if driver else []
    database = examine_database(url)
    return {
        "host": platform.node(),
        "folder": str(Path.cwd()),
        "is_project": Path(MARKER).exists(),
        "python": platform.python_version(),
        "cuprof": __version__,
        "gpus": gpus if visible is None else gpus[: len(list(filter(None, visible.split(","))))],
        "database": {"health": database.health.value, "detail": database.detail, "remedy": database.remedy},
        "time": time.time(),
    }


def examine_node(config: SweepConfig, settings: Sequence[str], project: Project) -> Iterator[Diagnosis]:
    """Run one job where the sweep's jobs would run, and yield a diagnosis of everything that it found."""
    from dataclasses import replace

    one = replace(config, launch=replace(config.launch, jobs=1))
    launcher = open_launcher(make_work("doctor", ["doctor", "--node", *settings], one, project))
    begun = time.time()
    launcher.start()
    told = ""
    try:
        while (job := launcher.poll()[0]).state in ("waiting", "running"):
            if job.state == "waiting" and job.reason not in ("", "None", told):
                told = job.reason
                print_message(f"the job waits for a node ({told})")
            time.sleep(POLL_S)
        lines = launcher.read_output(0).splitlines()
    finally:
        launcher.stop()
    found = next((json.loads(line) for line in reversed(lines) if line.startswith('{"host"')), None)
    if found is None:
        said = "; ".join(filter(None, [job.reason, *lines[-2:]])) or "it printed nothing that can be read here"
        yield Diagnosis("node", Health.MISSING, f"the job ended without an answer: {said}", SHARE_FOLDER)
        return
    url = config.store.url or project.database_url
    yield from compare_nodes(found, describe_node(url), config.launch.gpus, url, (begun, time.time()))


def compare_nodes(
    node: Mapping[str, Any], here: Mapping[str, Any], gpus: int, url: str, between: tuple[float, float]
) -> Iterator[Diagnosis]:
    """Judge what `describe_node` found on a node by what it finds here.

    Args:
        gpus: how many a job asks for.
        url: of the database.
        between: the times, by the clock here, between which the node looked at its own.
    """

    def judge(what: str, is_good: bool, detail: str, remedy: str, bad: Health = Health.MISSING) -> Diagnosis:
        return Diagnosis(what, Health.GOOD if is_good else bad, detail, "" if is_good else remedy)

    yield Diagnosis("node", Health.GOOD, str(node["host"]))
    yield judge("node's folder", node["is_project"] or not here["is_project"], node["folder"], SHARE_FOLDER)
    same = node["python"].split(".")[:2] == here["python"].split(".")[:2]
    versions = {name: f"{node[name]}" + ("" if node[name] == here[name] else f", here {here[name]}") for name in node}
    yield judge("node's Python", same, versions["python"], "use the same environment on all nodes", Health.WARNING)
    remedy = f"pip install cuprof=={here['cuprof']} on the nodes"
    yield judge("node's cuprof", node["cuprof"] == here["cuprof"], versions["cuprof"], remedy)
    if database_file(parse_url(url)) is not None and node["host"] != here["host"]:
        detail = "an SQLite file serves the processes of one host"
        yield Diagnosis("node's database", Health.MISSING, detail, "store=postgres, with PGHOST, PGUSER and PGDATABASE")
    else:
        found = node["database"]
        yield Diagnosis("node's database", Health(found["health"]), found["detail"], found["remedy"])
    detail = ", ".join(node["gpus"]) or "none"
    yield judge("node's GPUs", len(node["gpus"]) >= gpus, detail, f"launch.gpus={gpus} asks for more than a job gets")
    off_s = max(between[0] - node["time"], node["time"] - between[1], 0.0)
    detail = "as here" if off_s <= CLOCK_S else f"{off_s:.0f} s away from the clock here"
    yield judge("node's clock", off_s <= CLOCK_S, detail, "synchronize the clocks (NTP)", Health.WARNING)
