"""What commands print and return over recorded databases, pinned: exit codes and every value of their JSON.

The databases were measured on one H200: forty names for one kernel at four sizes, in two sweeps. A change here is a
change of what scripts read. Make it on purpose, in a commit of its own that says so:

    python -m tests.golden.test_commands
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cuprof.cli.main import main

RECORDED = Path(__file__).parents[1] / "data" / "equal_kernels"
GOLDEN = Path(__file__).with_name("commands.json")
VIEWS = (
    "trials",
    "sweep_trials",
    "timings",
    "sweep_timings",
    "sweep_fastest",
    "best",
    "before_after",
    "speedups",
    "counters",
    "search_progress",
    "portfolio_ratios",
    "sample",
    "devices",
    "failures",
    "noisiest",
    "skipped",
    "slowest",
    "sweeps",
    "tunables",
)
COMMANDS = {
    **{f"query {view}": ["query", view, "--format", "json"] for view in VIEWS},
    "query SQL": ["query", "SELECT variant, median_us FROM timings ORDER BY median_us LIMIT 5", "--format", "json"],
    "query as CSV": ["query", "SELECT variant, measure, median_us FROM timings LIMIT 3", "--format", "csv"],
    "query of nothing": ["query", "SELECT 1 AS one WHERE 1 = 0", "--format", "json"],
    "query of a wrong name": ["query", "tymings"],
    "query of wrong SQL": ["query", "SELECT nothing FROM timings"],
    "query that writes": ["query", "DELETE FROM timing"],
    "compare two databases": ["compare", "quick1.sqlite", "quick2.sqlite", "--json", "--all"],
    "compare hot times": ["compare", "quick1.sqlite", "quick2.sqlite", "--json", "--measure", "hot"],
    "compare a sweep with itself": ["compare", "1", "latest", "--json"],
    "compare with a sweep that is not there": ["compare", "1", "77", "--json"],
    "compare with a missing file": ["compare", "1", "nothing.sqlite"],
    "status": ["status", "--sweep", "1", "--json"],
    "status of no such sweep": ["status", "--sweep", "77"],
    "portfolio of no such family": ["portfolio", "nothing"],
    "list metrics": ["list", "metrics", "--json"],
    "merge": ["merge", "quick2.sqlite", "--store", "sqlite:///merged.sqlite", "--json"],
    "no such command": ["swep"],
    "version": ["--version"],
    "sweep of no such family": ["sweep", "family=nothing"],
    "sweep with a wrong setting": ["sweep", "measure.nothing=1"],
    "report of no such study": ["report", "experiment=nothing"],
    "judge of no such file": ["judge", "nothing.py"],
}
CHANGING = {"silent_s", "path", "database", "host", "folder", "file"}
"""Fields that hold a path, an age or this host's name."""
SHOWN = 2
"""Rows of a long answer that stand as they are; all of them enter the digest."""


def make_project(folder: Path) -> None:
    """Lay out a project whose database is the first recorded sweep."""
    (folder / "db").mkdir()
    (folder / "cuprof.toml").write_text('database = "sqlite:///db/quick1.sqlite"\n')
    for name in ("quick1", "quick2"):
        content = gzip.decompress((RECORDED / f"{name}.sqlite.gz").read_bytes())
        (folder / "db" / f"{name}.sqlite").write_bytes(content)
        (folder / f"{name}.sqlite").write_bytes(content)


def run(arguments: list[str]) -> dict[str, Any]:
    """Return the exit code of a command and its answer, without what changes from run to run."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    text = out.getvalue()
    try:
        answer = stable(json.loads(text))
    except ValueError:
        answer = text
    return {"exit code": code, **summarize(answer)}


def stable(value: Any) -> Any:
    """Return JSON data with numbers at nine digits and without the fields in `CHANGING`."""
    if isinstance(value, dict):
        return {key: stable(each) for key, each in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [stable(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def summarize(answer: Any) -> dict[str, Any]:
    """Return a short answer whole, and of a long one its first rows, its length and its digest."""
    digest = hashlib.sha256(json.dumps(answer, sort_keys=True).encode()).hexdigest()[:16]
    if isinstance(answer, dict) and len(json.dumps(answer)) > 2000:
        return {"keys": {key: summarize(each) for key, each in answer.items()}}
    if isinstance(answer, list) and len(json.dumps(answer)) > 2000:
        return {"rows": len(answer), "first": answer[:SHOWN], "digest": digest}
    return {"answer": answer}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("recorded")
    make_project(folder)
    with contextlib.chdir(folder):
        yield folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_as_before(name, project):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert run(COMMANDS[name]) == golden[name]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        make_project(Path(temporary))
        GOLDEN.write_text(json.dumps({name: run(COMMANDS[name]) for name in COMMANDS}, indent=1) + "\n")
