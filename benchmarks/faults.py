"""A family of deliberately broken variants through one sweep: what state each ends in.

    python -m benchmarks.faults --out FOLDER

The family is the one of the tests (tests/data/families/faulty). Short time limits keep its endless ones short.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import require_gpu
from benchmarks.process import ROOT, run
from benchmarks.table import make_parser, report, start

FAMILY = ROOT / "tests" / "data" / "families" / "faulty"
LIMITS = ("limits.build_s=6", "limits.check_s=4", "limits.trial_s=20")
COLUMNS = ("trial", "state", "median µs", "message")
LONGEST_MESSAGE = 100
QUERY = """
SELECT s.ordinal, t.label AS trial, t.state, t.message, v.name AS variant,
       (SELECT g.median_ns FROM timing AS g WHERE g.run_id = s.run_id AND g.measure = 'cold') AS median_ns
FROM sweep_trial AS s JOIN trial AS t ON t.id = s.trial_id JOIN variant AS v ON v.id = t.variant_id
ORDER BY s.ordinal
"""


def make_project(folder: Path) -> Path:
    """Return a new project that holds the broken family and an experiment of all its variants."""
    shutil.copytree(FAMILY, folder / "kernels" / "faulty")
    (folder / "cuprof.toml").touch()
    experiments = folder / "conf" / "experiment"
    experiments.mkdir(parents=True)
    (experiments / "faulty.yaml").write_text("# @package _global_\nfamily: faulty\nvariants: [all]\n")
    return folder


def make_row(stored: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the table's row for one stored trial; the message is its first line, cut to the table's width."""
    median, lines = stored["median_ns"], str(stored["message"] or "").splitlines()
    message = lines[0] if lines else ""
    return {
        "trial": stored["trial"],
        "state": stored["state"],
        "median µs": None if median is None or median != median else median * 1e-3,
        "message": message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…",
    }


def make_criteria(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return what is asked of the rows, and whether it holds; the family's sound variants are named so."""
    sound = [row for row in rows if "sound" in row["trial"].partition(" ")[0]]
    failed = [row for row in rows if row["state"] != "ok"]
    return {
        "no trial is left without a state": bool(rows) and all(row["state"] != "planned" for row in rows),
        "every trial that failed says why": all(row["message"] for row in failed) if failed else None,
        f"all {len(sound)} sound trials, before, between and after, are measured": (
            all(row["state"] == "ok" and row["median µs"] for row in sound) if sound else None
        ),
        "the last trial is a sound one": bool(sound) and rows[-1] is sound[-1],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep, print and keep; return 0 where every trial ended in a typed row and the sound ones were measured."""
    arguments = make_parser("a family of broken variants through one sweep").parse_args(argv)
    require_gpu()
    if not (FAMILY / "family.py").is_file():
        print(f"there is no family in {FAMILY}")
        return 2
    from cuprof.results.queries import query
    from cuprof.store.store import Store

    with tempfile.TemporaryDirectory(prefix="cuprof-faults-") as folder:
        project = make_project(Path(folder) / "project")
        command = [sys.executable, "-m", "cuprof", "sweep", "experiment=faulty", "report=none"]
        command += ["measure.modes=[cold]", *LIMITS]
        ended = run(command, Path(folder), folder=project, limit_s=240, accept=(0, 1))
        if ended.fault:
            print(f"the sweep did not end as it should: {ended.fault}")
            return 1
        url = f"sqlite:///{project / 'db' / 'cuprof.sqlite'}"
        with Store.open(url, create=False, read_only=True) as store:
            rows = [make_row(stored) for stored in query(store.url, QUERY).to_dict("records")]
    print(f"the whole sweep: {ended.wall_s:.1f} s")
    if any(row["state"] == "planned" for row in rows):
        print(f"the sweep broke off; it printed last:\n{ended.printed}")
    return report("faults", COLUMNS, rows, arguments.out, make_criteria(rows))


if __name__ == "__main__":
    sys.exit(start(main))
