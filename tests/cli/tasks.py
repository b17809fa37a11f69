"""Tasks for the tests of the Hydra plumbing: each leaves what a test looks at."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cuprof.config.model import SweepConfig
from cuprof.core.errors import SelectionError
from cuprof.core.project import Project


def note(config: SweepConfig, project: Project) -> int:
    """Leave what was composed in a file of the job's own."""
    facts = {
        "experiment": config.experiment,
        "variants": config.variants,
        "problem": dict(config.problem),
        "tune": dict(config.tune),
        "target": config.measure.target,
        "command_line": config.command_line,
        "project": str(project.root),
        "composed": config.composed["family"],
        "url": config.store.url,
        "process": os.getpid(),
    }
    (project.root / f"noted-{config.measure.target}.json").write_text(json.dumps(facts))
    return 0


def name_experiment(config: SweepConfig, project: Project) -> int:
    """Add the experiment's name to a file."""
    with (project.root / "experiments.txt").open("a", encoding="utf-8") as file:
        print(config.experiment, file=file)
    return 0


def fail_at_convlab(config: SweepConfig, project: Project) -> int:
    """End with 1 for one experiment, else with 0."""
    return name_experiment(config, project) or int(config.experiment == "convlab")


def fail_when_quick(config: SweepConfig, project: Project) -> int:
    """End with 1 for measure=quick, else with 0."""
    note(config, project)
    return int(config.measure.target == 0.02)


def refuse_when_quick(config: SweepConfig, project: Project) -> int:
    """Raise a usage error for measure=quick."""
    if config.measure.target == 0.02:
        raise SelectionError("not quick")
    return note(config, project)


def break_down(config: SweepConfig, project: Project) -> int:
    """Raise what nobody expects."""
    raise ZeroDivisionError("broken")


def open_nothing(config: SweepConfig, project: Project) -> int:
    """Raise as a task does that looks for a file in the wrong place."""
    (project.root / "nowhere").read_text(encoding="utf-8")
    return 0


def interrupt(config: SweepConfig, project: Project) -> int:
    """Act as Ctrl-C does."""
    raise KeyboardInterrupt


def noted(folder: Path) -> list[dict[str, object]]:
    """Return what jobs left, ordered by file name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("noted-*.json"))]
