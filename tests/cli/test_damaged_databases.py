"""Damaged databases: whatever is wrong with them, a command says it in one line, or does its work."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cuprof.core.project import Project
from cuprof.store.schema import REVISION
from tests.cli.damage import damage
from tests.conftest import Result

WHOLE = Path(__file__).parents[1] / "data" / "db" / f"{REVISION}.sqlite"
COMMANDS = (
    ["query", "best"],
    ["query", "SELECT * FROM sweep, trial, run", "--format", "json"],
    ["compare", "reduction/interleaved", "reduction/last_warp", "--json"],
    ["compare", "latest", "latest"],
    ["report", "experiment=reduction"],
    ["doctor", "--json"],
    ["backup", "copy.sqlite", "--force"],
)


def run_all(cli: Callable[..., Result], project: Project, seeds: range) -> None:
    file = project.root / "db" / "cuprof.sqlite"
    file.parent.mkdir()
    faults = []
    for seed in seeds:
        gc.collect()  # a connection that an error holds would take part in what becomes of the file
        shutil.copy(WHOLE, file)
        how = damage(file, seed)
        for command in COMMANDS:
            kept = file.read_bytes()
            try:
                result = cli(*command)
            except Exception as error:  # what would be a traceback
                faults.append(f"{how}: {command}: {type(error).__name__}: {error}"[:400])
                continue
            finally:
                for left in file.parent.glob("cuprof.sqlite-*"):
                    left.unlink()
                file.write_bytes(kept)
            lines = [line for line in result.err.splitlines() if not line.startswith("warning: ")]
            if result.exit_code not in (0, 1, 2) or len(lines) > 1 or (result.exit_code == 2 and not lines):
                faults.append(f"{how}: {command}: exit code {result.exit_code}: {result.err[-300:]}")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)


@pytest.mark.parametrize("seed", [8])
def test_a_few(cli: Callable[..., Result], project: Project, seed: int) -> None:
    run_all(cli, project, range(seed, seed + 8))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 740, 64))
def test_many(cli: Callable[..., Result], project: Project, seed: int) -> None:
    run_all(cli, project, range(seed, seed + 64))
