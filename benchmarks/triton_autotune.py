"""The same configurations of a Triton kernel by `@triton.autotune` and by a cuprof sweep: wall time, and whose winner.

    python -m benchmarks.triton_autotune --out FOLDER

Both begin without anything compiled. The sweep checks every configuration besides; one of them does not fit the device.
What the autotuner chose and compiled it keeps on disk, from where the last sweep takes it: its winner is that very one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.process import ask, python_path
from benchmarks.space import copy_project
from benchmarks.table import make_parser, report, start

COLUMNS = ("tool", "wall_s", "configurations", "failed", "winner", "winner_us")
SHARE = 0.5
TUNABLES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
VERDICT_OF = "the sweep's winner beside the autotuner's, by cuprof compare"
QUICK = ("measure=quick", "measure.modes=[cold]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, compare the winners, print the table."""
    options = make_parser((__doc__ or "").partition("\n")[0]).parse_args(arguments)
    require_gpu()
    with tempfile.TemporaryDirectory() as folder:
        work, project = Path(folder), copy_project(Path(folder, "project"))
        kept = {"TRITON_CACHE_DIR": str(work / "autotune"), "TRITON_CACHE_AUTOTUNING": "1"}
        tuner = ask("benchmarks.tools.autotune_matmul", work, environment=kept)
        fresh = {
            "TRITON_CACHE_DIR": str(work / "triton"),
            "CUPROF_CACHE": str(work / "cubin"),
            "XDG_CACHE_HOME": folder,
        }
        started = time.perf_counter()
        every = sweep(project, fresh, "variants=every", *(f"tune.{name}=all" for name in TUNABLES))
        wall_s = time.perf_counter() - started
        chosen = sweep(project, fresh | kept, "variants=chosen,every", *best(every))
        compared = cuprof(project, fresh, "compare", "triton_matmul/chosen", "triton_matmul/every", "--json")
    rows = [
        {
            "tool": "@triton.autotune",
            "wall_s": tuner.wall_s,
            "configurations": tuner.found.get("configurations"),
            "winner": show(tuner.found.get("chosen", {})),
            "winner_us": time_us(chosen, "chosen"),
        },
        {
            "tool": "cuprof sweep",
            "wall_s": wall_s,
            "configurations": len(every),
            "failed": sum(trial["state"] != "ok" for trial in every),
            "winner": show(winner(every)["tunables"]),
            "winner_us": time_us(chosen, "every"),
        },
    ]
    verdicts = [row["verdict"] for row in compared["rows"]]
    print(f"{VERDICT_OF}: {', '.join(verdicts) or 'none'}")
    criteria: dict[str, bool | None] = {
        f"at most {SHARE:.0%} of @triton.autotune's wall time": wall_s <= SHARE * tuner.wall_s,
        "the same configurations": len(every) == tuner.found.get("configurations"),
        "the one that does not fit costs one trial": rows[1]["failed"] == 1,
        f"{VERDICT_OF}: an equal or better one": bool(verdicts) and "slower" not in verdicts,
    }
    return report("triton_autotune", COLUMNS, rows, options.out, criteria)


def sweep(project: Path, environment: dict[str, str], *settings: str) -> list[dict[str, Any]]:
    """Return the trials of a sweep of the family."""
    arguments = ("family=triton_matmul", *QUICK, *settings, "report=none", "output=json")
    trials: list[dict[str, Any]] = cuprof(project, environment, "sweep", *arguments)["trials"]
    return trials


def cuprof(project: Path, environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run a command of ours that writes JSON, and return that."""
    ended = subprocess.run(
        [sys.executable, "-m", "cuprof", *arguments],
        cwd=project,
        env={**os.environ, **environment, "PYTHONPATH": python_path()},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def winner(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fastest trial."""
    return min((trial for trial in trials if trial["state"] == "ok"), key=lambda trial: trial["cold_ns"])


def best(trials: list[dict[str, Any]]) -> list[str]:
    """Return the settings that choose the fastest trial alone."""
    return [f"tune.{name}={value}" for name, value in winner(trials)["tunables"].items()]


def time_us(trials: list[dict[str, Any]], variant: str) -> float | None:
    """Return a variant's cold time in microseconds."""
    return next((trial["cold_ns"] * 1e-3 for trial in trials if trial["variant"] == variant and trial["cold_ns"]), None)


def show(tunables: dict[str, Any]) -> str:
    """Return a configuration in a few characters."""
    return " ".join(f"{name}={value}" for name, value in tunables.items())


if __name__ == "__main__":
    sys.exit(start(main))
