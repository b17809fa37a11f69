"""One computation in every form in which a kernel is written: is it right, its time, and by CUPTI's records.

    python -m benchmarks.forms --out FOLDER

The forms are those of tests/data/families/forms. A sweep checks and times them; then a process executes those that
launch on the GPU by themselves under CUPTI's records, and reads events of the same executions: CUPTI instruments
kernels, and slows some. Executables are asked for nothing but to run: their kernels' time is CUPTI's.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.agreement import BOUNDS, agrees
from benchmarks.gpu import require_gpu
from benchmarks.process import ROOT, ask
from benchmarks.table import make_parser, report, start
from benchmarks.triton_autotune import cuprof

FORMS = ROOT / "tests" / "data" / "families" / "forms"
COLUMNS = ("form", "backend", "state", "cuprof", "beside CUPTI", "CUPTI", "-CUPTI", "CUPTI ok", "total_us", "message")
UNRECORDED = ("nested",)
"""CUPTI records no kernels that kernels launch (from compute capability 7.0)."""
N = 2**22
LACKING = "'row_stack'"
"""Numba's CUDA target asks NumPy for this, which newer NumPy has no more: the form is left out there."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep twice, print the table."""
    options = make_parser((__doc__ or "").partition("\n")[0]).parse_args(arguments)
    require_gpu()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copytree(FORMS, project / "kernels" / "forms")
        (project / "cuprof.toml").touch()
        trials = sweep(project, "measure.modes=[cold,total]")
        lacking = [trial for trial in trials if LACKING in trial["message"]]
        for trial in lacking:
            print(f"{form(trial)} is left out: {trial['message']}")
            trials.remove(trial)
        asked = ("--family", str(project / "kernels" / "forms"), "--n", str(N))
        asked += tuple(word for trial in lacking for word in ("--without", trial["variant"]))
        clocks = ask("benchmarks.tools.form_clocks", project / "work", *asked)
    print(clocks.fault or "clocks read")
    rows = [make_row(trial, clocks.found.get("median_ns", {}).get(trial["variant"], {})) for trial in trials]
    absolute, relative = BOUNDS["CUPTI"]
    launching = [row for trial, row in zip(trials, rows, strict=True) if is_recorded(trial)]
    told = [row["CUPTI ok"] for row in launching]
    criteria: dict[str, bool | None] = {
        f"all {len(rows)} forms are right": all(row["state"] == "ok" for row in rows),
        f"within {absolute} µs + {relative:.0%} of CUPTI for all {len(launching)} that launch on their own": (
            None if None in told else all(told)
        ),
    }
    return report("forms", COLUMNS, rows, options.out, criteria)


def make_row(trial: dict[str, Any], clocks: dict[str, float]) -> dict[str, Any]:
    """Return the row of one form."""
    row = {
        "form": form(trial),
        "backend": trial["backend"],
        "state": trial["state"],
        "message": trial["message"][:60],
        "cuprof": scaled(trial["cold_ns"]),
        "beside CUPTI": scaled(clocks.get("events")),
        "CUPTI": scaled(clocks.get("cupti")) if is_recorded(trial) else None,
        "total_us": scaled(trial["total_ns"]),
        "CUPTI ok": None,
    }
    theirs, apart = row["CUPTI"], scaled(clocks.get("apart"))
    if theirs is not None and apart is not None:
        row |= {"-CUPTI": apart, "CUPTI ok": agrees(theirs + apart, theirs, "CUPTI")}
    return row


def is_recorded(trial: dict[str, Any]) -> bool:
    """Return whether CUPTI's records are another clock for the same kernels."""
    return trial["backend"] == "cuda" and trial["variant"] not in UNRECORDED


def form(trial: dict[str, Any]) -> str:
    """Return a trial's variant and tunables."""
    return " ".join([trial["variant"], *(f"{name}={value}" for name, value in trial["tunables"].items())])


def scaled(nanoseconds: float | None) -> float | None:
    """Return microseconds."""
    return None if nanoseconds is None else nanoseconds * 1e-3


def sweep(project: Path, *settings: str) -> list[dict[str, Any]]:
    """Return the trials of all forms."""
    arguments = (
        "family=forms",
        "variants=all",
        f"problem.n={N}",
        "measure.max_seconds=0.5",
        "report=none",
        "output=json",
        *settings,
    )
    trials: list[dict[str, Any]] = cuprof(project, {}, "sweep", *arguments)["trials"]
    return trials


if __name__ == "__main__":
    sys.exit(start(main))
