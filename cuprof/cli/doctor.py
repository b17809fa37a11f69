"""`cuprof doctor`: look for missing software here or on a node, and print the command that installs it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuprof import __version__
from cuprof.backends.cuda.presence import find_driver
from cuprof.cli.arguments import CommandParser
from cuprof.cli.diagnosis import GOOD, MISSING, OPTIONAL, WARNING, Diagnosis, Health, examine, examine_database
from cuprof.cli.output import Line, Table, emit, print_message
from cuprof.config.model import SweepConfig
from cuprof.core.project import MARKER, Project, find_project

MARKS = {GOOD: "ok", OPTIONAL: "absent", WARNING: "WARNING", MISSING: "MISSING"}
STYLES = {OPTIONAL: "dim", WARNING: "yellow", MISSING: "bold red"}
POLL_S = 0.5
CLOCK_S = 2.0
"""Clocks that differ by less are level: NTP keeps them within milliseconds, and starting a job takes longer."""
SHARE_FOLDER = "share the folder with the nodes; with Ray, launch.options.runtime_env.working_dir=. uploads it"

PARSER = CommandParser(
    "doctor",
    "Say what is installed, what is missing and the command that mends it; with launch=…, also what a node has\n"
    "that jobs of a sweep with the same settings would run on.",
    "  cuprof doctor\n  cuprof doctor --json\n  cuprof doctor launch=slurm launch.gpus=1 store=postgres",
    notes="Exit code: 0 all that every sweep needs is there, 1 something is missing.",
    store=True,
    json=True,
)
PARSER.set_defaults(store=None)
PARSER.add_argument("settings", metavar="SETTING=VALUE", nargs="*", help="of launch and store, as in cuprof sweep")
PARSER.add_argument("--node", action="store_true", help=argparse.SUPPRESS)


def main(argv: Sequence[str]) -> int:
    """Print the diagnoses; return 1 if something that every sweep needs is missing."""
    arguments = PARSER.parse_args(argv)
    project, url, found = find_project(), arguments.store, []
    if arguments.settings:
        from cuprof.config.composer import compose

        config = compose(arguments.settings, project)
        url = url or config.store.url
        if arguments.node:
            print(json.dumps(describe_node(url or project.database_url)))
            return 0
        if config.launch.name != "local":
            found = list(examine_node(config, argv, project))
    found = [*examine(project, url), *found]
    rows = [(MARKS[each.health], each.what, each.detail) for each in found]
    styles = [STYLES.get(each.health, "") for each in found]
    remedies = [Line(f"  {each.what}: {each.remedy}") for each in found if each.remedy]
    mending = [Line(""), Line("what to do:", "bold"), *remedies] if remedies else []
    emit(found, arguments.json, [Table(("state", "what", "found"), rows, styles=styles), *mending])
    return int(any(each.health is MISSING for each in found))


def describe_node(url: str) -> dict[str, Any]:
    """Return this process's folder, software, GPUs, database and clock, as plain data."""
    visible, driver = os.environ.get("CUDA_VISIBLE_DEVICES"), find_driver()
    gpus = [gpu.name for gpu in driver.gpus] if driver else []
    return {
        "host": platform.node(),
        "folder": str(Path.cwd()),
        "is_project": Path(MARKER).exists(),
        "python": platform.python_version(),
        "cuprof": __version__,
        "gpus": gpus if visible is None else gpus[: len(list(filter(None, visible.split(","))))],
        "database": vars(examine_database(url)),
        "time": time.time(),
    }


def examine_node(config: SweepConfig, settings: Sequence[str], project: Project) -> Iterator[Diagnosis]:
    """Run one job where the sweep's jobs would run, and yield a diagnosis of everything that it found."""
    from cuprof.cli.launching import make_work
    from cuprof.engine.launchers.launcher import open_launcher

    one = replace(config, launch=replace(config.launch, jobs=1))
    launcher = open_launcher(make_work("doctor", ["doctor", "--node", *settings], one, project))
    begun, told = time.time(), ""
    launcher.start()
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
        yield Diagnosis("node", MISSING, f"the job ended without an answer: {said}", SHARE_FOLDER)
        return
    url = config.store.url or project.database_url
    yield from compare_nodes(found, describe_node(url), config.launch.gpus, url, (begun, time.time()))


def compare_nodes(
    node: Mapping[str, Any], here: Mapping[str, Any], gpus: int, url: str, between: tuple[float, float]
) -> Iterator[Diagnosis]:
    """Judge what `describe_node` found on a node by what it finds here; a job asks for `gpus` and opens the `url`.

    The node looked at its clock `between` two times by the clock here.
    """
    from cuprof.store.connection import database_file, parse_url

    def judge(what: str, is_good: bool, detail: str, remedy: str, bad: Health = MISSING) -> Diagnosis:
        return Diagnosis(f"node's {what}", GOOD if is_good else bad, detail, "" if is_good else remedy)

    yield Diagnosis("node", GOOD, str(node["host"]))
    yield judge("folder", node["is_project"] or not here["is_project"], node["folder"], SHARE_FOLDER)
    same = node["python"].split(".")[:2] == here["python"].split(".")[:2]
    versions = {name: f"{node[name]}" + ("" if node[name] == here[name] else f", here {here[name]}") for name in node}
    yield judge("Python", same, versions["python"], "use the same environment on all nodes", WARNING)
    remedy = f"pip install cuprof=={here['cuprof']} on the nodes"
    yield judge("cuprof", node["cuprof"] == here["cuprof"], versions["cuprof"], remedy)
    if database_file(parse_url(url)) is not None and node["host"] != here["host"]:
        remedy = "store=postgres, with PGHOST, PGUSER and PGDATABASE"
        yield judge("database", False, "an SQLite file serves the processes of one host", remedy)
    else:
        found = node["database"]
        yield Diagnosis("node's database", Health(found["health"]), found["detail"], found["remedy"])
    detail = ", ".join(node["gpus"]) or "none"
    yield judge("GPUs", len(node["gpus"]) >= gpus, detail, f"launch.gpus={gpus} asks for more than a job gets")
    off_s = max(between[0] - node["time"], node["time"] - between[1], 0.0)
    detail = "as here" if off_s <= CLOCK_S else f"{off_s:.0f} s away from the clock here"
    yield judge("clock", off_s <= CLOCK_S, detail, "synchronize the clocks (NTP)", WARNING)
