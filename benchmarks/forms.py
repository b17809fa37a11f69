"""One computation in every form in which a kernel is written: is it right, its time, and by CUPTI's records.

    python -m benchmarks.forms --out FOLDER

The forms are those of tests/families/forms. Two sweeps time all of them, one by events and one by CUPTI's records.
Executables are asked for nothing but to run: their kernels' time is CUPTI's in both.
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
from benchmarks.process import ROOT
from benchmarks.table import make_parser, report, start
from benchmarks.triton_autotune import cuprof

FORMS = ROOT / "tests" / "families" / "forms"
COLUMNS = ("form", "backend", "state", "cuprof", "CUPTI", "-CUPTI", "CUPTI ok", "total_us", "message")
OF_ANOTHER_CLOCK = ("program", "opencl", "cpu")
"""Back ends whose kernels CUPTI does not time in the sweep, or times in any case."""
UNRECORDED = ("nested",)
"""CUPTI records no kernels that kernels launch (from compute capability 7.0)."""
N = 2**22


def main(arguments: Sequence[str] | None = None) -> int:
    """Sweep twice, print the table."""
    options = make_parser(__doc__ or "").parse_args(arguments)
    require_gpu()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copytree(FORMS, project / "kernels" / "forms")
        (project / "cuprof.toml").touch()
        by_events = sweep(project, "measure.modes=[cold,total]")
        recorded = ("measure.modes=[cold]", "measure.timer=cupti", "device.backends=[cuda]")
        by_cupti = {form(trial): trial for trial in sweep(project, *recorded)}
    rows = [make_row(trial, by_cupti.get(form(trial), {})) for trial in by_events]
    absolute, relative = BOUNDS["CUPTI"]
    launching = [row for trial, row in zip(by_events, rows, strict=True) if is_recorded(trial)]
    told = [row["CUPTI ok"] for row in launching]
    criteria: dict[str, bool | None] = {
        f"all {len(rows)} forms are right": all(row["state"] == "ok" for row in rows),
        f"within {absolute} µs + {relative:.0%} of CUPTI for all {len(launching)} that launch on their own": (
            None if None in told else all(told)
        ),
    }
    return report("forms", COLUMNS, rows, options.out, criteria)


def make_row(trial: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one form."""
    row = {
        "form": form(trial),
        "backend": trial["backend"],
        "state": trial["state"],
        "message": trial["message"][:60],
        "cuprof": scaled(trial["cold_ns"]),
        "CUPTI": scaled(other.get("cold_ns")) if is_recorded(trial) else None,
        "total_us": scaled(trial["total_ns"]),
        "CUPTI ok": None,
    }
    if row["cuprof"] is not None and row["CUPTI"] is not None:
        row |= {"-CUPTI": row["cuprof"] - row["CUPTI"], "CUPTI ok": agrees(row["cuprof"], row["CUPTI"], "CUPTI")}
    return row


def is_recorded(trial: dict[str, Any]) -> bool:
    """Return whether CUPTI's records in the sweep are another clock for the same kernels."""
    return trial["backend"] not in OF_ANOTHER_CLOCK and trial["variant"] not in UNRECORDED


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
